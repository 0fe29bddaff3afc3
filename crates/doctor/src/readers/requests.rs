//! Requests from the server's logs, and from a short sample of its traffic.
//!
//! Arguments may be secret, and keys may be personal data. Arguments never leave this module; keys
//! do only if the user asks for them.

use super::is_unknown;
use nagi_client::Protocol;
use nagi_findings::observation::{LargeRequest, Sample, SlowRequest};
use nagi_load::clock::{SECOND, now_ns};
use nagi_load::wire::{Answer, Wire};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

/// Maximum number of log entries that are read.
const SLOWEST: usize = 128;
/// How long requests are watched, in nanoseconds, and their maximum number.
const WATCHED_NS: u64 = SECOND / 5;
const MAX_LINES: u64 = 10_000;
/// Maximum number of distinct keys in a sample.
const MAX_KEYS: usize = 10_000;

/// Returns the number of the newest entry of the slow log; -1 if the log is empty.
///
/// # Errors
/// The server cannot be queried, or refuses; the error is one line.
pub(crate) fn slow_log_newest(wire: &mut Wire) -> Result<i64, String> {
    let entries = wire.run("SLOWLOG GET 1")?;
    Ok(entries_of(&entries).next().map_or(-1, |(number, _)| number))
}

/// Returns the entries of the slow log after entry number `after`.
///
/// # Errors
/// The server cannot be queried, or refuses; the error is one line.
pub(crate) fn slow_log(wire: &mut Wire, after: i64) -> Result<Vec<SlowRequest>, String> {
    let entries = wire.run(&format!("SLOWLOG GET {SLOWEST}"))?;
    let newer = entries_of(&entries).filter(|(number, _)| *number > after);
    let request = |(_, Entry { value, what })| SlowRequest { duration_us: value, what };
    Ok(newer.map(request).collect())
}

/// The numbers of the newest entries in the logs of large requests and of large replies; `None` if
/// the server has no such logs (COMMANDLOG of Valkey and nagi).
pub(crate) type LargeLogs = Option<[i64; 2]>;

const LARGE_LOGS: [&str; 2] = ["large-request", "large-reply"];

/// Returns the numbers of the newest entries in the logs of large requests and replies.
///
/// # Errors
/// The server cannot be queried, or refuses; the error is one line.
pub(crate) fn large_log_newest(wire: &mut Wire) -> Result<LargeLogs, String> {
    let mut newest = [-1; 2];
    for (log, number) in LARGE_LOGS.iter().zip(&mut newest) {
        match wire.run(&format!("COMMANDLOG GET 1 {log}")) {
            Ok(entries) => *number = entries_of(&entries).next().map_or(-1, |(number, _)| number),
            Err(why) if is_unknown(&why) => return Ok(None),
            Err(why) => return Err(why),
        }
    }
    Ok(Some(newest))
}

/// Returns the entries of both logs after the entries numbered `after`, except those that the
/// doctor's own values have caused.
///
/// # Errors
/// The server cannot be queried, or refuses; the error is one line.
pub(crate) fn large_log(wire: &mut Wire, after: [i64; 2]) -> Result<Vec<LargeRequest>, String> {
    let mut large = Vec::new();
    for (log, after) in LARGE_LOGS.iter().zip(after) {
        let entries = wire.run(&format!("COMMANDLOG GET {SLOWEST} {log}"))?;
        let newer = entries_of(&entries).filter(|(number, _)| *number > after);
        let foreign = newer.filter(|(_, entry)| !entry.what.starts_with("ECHO "));
        large.extend(foreign.map(|(_, entry)| LargeRequest {
            bytes: entry.value,
            what: format!("{log}: {}", entry.what),
        }));
    }
    Ok(large)
}

/// An entry of a log: its time in microseconds or its size in bytes, and the request without
/// possible secrets.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) value: u64,
    pub(super) what: String,
}

pub(super) fn entries_of(answer: &Answer) -> impl Iterator<Item = (i64, Entry)> {
    let entries = if let Answer::Array(entries) = answer { entries.as_slice() } else { &[] };
    entries.iter().filter_map(|entry| {
        let Answer::Array(fields) = entry else { return None };
        let [Answer::Integer(number), _, Answer::Integer(value), Answer::Array(words), ..] =
            fields.as_slice()
        else {
            return None;
        };
        let name = words.first().map_or(String::new(), Answer::text);
        let what = format!("{} with {} arguments", plain(&name), words.len().saturating_sub(1));
        Some((*number, Entry { value: u64::try_from(*value).unwrap_or(0), what }))
    })
}

/// Returns a command's name in upper case, limited to 32 characters and without any that names do
/// not contain.
fn plain(name: &str) -> String {
    let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "._-|".contains(*letter);
    name.chars().take(32).filter(is_plain).collect::<String>().to_uppercase()
}

/// The part of a line that is read: it has the key, and values may be long.
const LINE_BYTES: usize = 4096;

/// Watches requests for a short time, by MONITOR or memcached's `watch fetchers mutations`.
///
/// # Errors
/// The server refuses; the error is one line.
pub(crate) fn sample(wire: &mut Wire, show_keys: bool) -> Result<Sample, String> {
    let is_memcached = wire.protocol != Protocol::Resp;
    if is_memcached {
        let answer = wire.lines("watch fetchers mutations")?;
        if answer != ["OK"] {
            return Err(format!("watch: {}", answer.concat()));
        }
    } else {
        wire.run("MONITOR")?;
    }
    let (mut keys, mut requests) = (BTreeMap::new(), 0);
    // memcached writes its log up to a second late.
    let mut until_ns = now_ns() + if is_memcached { 6 * WATCHED_NS } else { WATCHED_NS };
    while now_ns() < until_ns && requests < MAX_LINES {
        wire.set_answer_timeout(until_ns.saturating_sub(now_ns()));
        // An error means that no request has arrived in time, which is not a fault.
        let Ok(line) = wire.line_start(LINE_BYTES) else { break };
        requests += 1;
        if requests == 1 {
            until_ns = now_ns() + WATCHED_NS;
        }
        let key = if is_memcached { watched_key(&line) } else { monitored_key(&line) };
        if let Some(key) = key
            && (keys.len() < MAX_KEYS || keys.contains_key(&key))
        {
            *keys.entry(key).or_insert(0) += 1;
        }
    }
    let shown = key_names(show_keys);
    Ok(Sample { requests, keys: keys.iter().map(|(key, count)| (shown(key), *count)).collect() })
}

/// Returns a function that represents keys in a report: by name if `show_keys`, otherwise by hash.
pub(super) fn key_names(show_keys: bool) -> impl Fn(&str) -> String {
    let hasher = RandomState::new();
    move |key: &str| match show_keys {
        true => key.escape_default().to_string(),
        false => format!("a key (shown as {:08x})", hasher.hash_one(key) as u32),
    }
}

/// Commands whose first argument is a key. Of most others it is none, and it may be a secret.
const KEYED: &str = "append bitcount bitfield bitfield_ro bitpos blmove blpop brpop brpoplpush \
    bzpopmax bzpopmin copy decr decrby del dump exists expire expireat expiretime geoadd geodist \
    geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch \
    geosearchstore get getbit getdel getex getrange getset hdel hexists hexpire hexpireat \
    hexpiretime hget hgetall hgetdel hgetex hincrby hincrbyfloat hkeys hlen hmget hmset hpersist \
    hpexpire hpexpireat hpexpiretime hpttl hrandfield hscan hset hsetex hsetnx hstrlen httl \
    hvals incr incrby incrbyfloat lcs lindex linsert llen lmove lpop lpos lpush lpushx lrange \
    lrem lset ltrim mget move mset msetnx persist pexpire pexpireat pexpiretime pfadd pfcount \
    pfmerge psetex pttl rename renamenx restore rpop rpoplpush rpush rpushx sadd scard sdiff \
    sdiffstore set setbit setex setnx setrange sinter sinterstore sismember smembers smismember \
    smove sort sort_ro spop srandmember srem sscan strlen substr sunion sunionstore touch ttl \
    type unlink watch xack xadd xautoclaim xclaim xdel xlen xpending xrange xrevrange xsetid \
    xtrim zadd zcard zcount zdiffstore zincrby zinterstore zlexcount zmscore zpopmax zpopmin \
    zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex \
    zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan \
    zscore zunionstore";

/// Returns the first key in a line of MONITOR, such as `1700000000.1 [0 1.2.3.4:5] "get" "key"`.
pub(super) fn monitored_key(line: &str) -> Option<String> {
    let words = line.split_once("] ")?.1;
    let mut quoted = words.split("\" \"");
    let command = quoted.next()?.trim_start_matches('"').to_ascii_lowercase();
    let key = match &*command {
        "xread" | "xreadgroup" => {
            quoted.find(|word| word.eq_ignore_ascii_case("streams"))?;
            quoted.next()
        }
        name if KEYED.split(' ').any(|keyed| keyed == name) => quoted.next(),
        _ => None,
    };
    Some(key?.trim_end_matches('"').to_owned())
}

/// Returns the key in a line such as `ts=1.2 gid=1 type=item_get key=a%3Ab status=found`.
pub(super) fn watched_key(line: &str) -> Option<String> {
    let encoded = line.split(' ').find_map(|field| field.strip_prefix("key="))?;
    let mut parts = encoded.split('%');
    let mut key = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        key.push(u8::from_str_radix(digits, 16).ok()?);
        key.extend_from_slice(rest.as_bytes());
    }
    Some(String::from_utf8_lossy(&key).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_keys_and_no_secrets() {
        let monitored = |rest: &str| monitored_key(&format!("1700000000.1 [0 1.2.3.4:5] {rest}"));
        assert_eq!(monitored(r#""get" "key""#).as_deref(), Some("key"));
        assert_eq!(monitored(r#""SET" "a b" "c""#).as_deref(), Some("a b"));
        assert_eq!(monitored(r#""AUTH" "secret""#), None);
        assert_eq!(monitored(r#""ping""#), None);
        assert_eq!(monitored(r#""select" "0""#), None);
        let group = r#""XREADGROUP" "GROUP" "g" "c" "STREAMS" "s1" ">""#;
        assert_eq!(monitored(group).as_deref(), Some("s1"));
        let line = "ts=1.2 gid=1 type=item_get key=a%3A%20b status=found";
        assert_eq!(watched_key(line).as_deref(), Some("a: b"));
        assert_eq!(watched_key("key=a%"), None);
    }

    #[test]
    fn slow_requests_have_names_and_no_arguments() {
        let word = |text: &str| Answer::Text(text.as_bytes().to_vec(), text.len() as u64);
        let entry = Answer::Array(vec![
            Answer::Integer(7),
            Answer::Integer(1_700_000_000),
            Answer::Integer(12_345),
            Answer::Array(vec![word("keys"), word("secret*")]),
            word("1.2.3.4:5"),
            word(""),
        ]);
        let entries: Vec<_> = entries_of(&Answer::Array(vec![entry, Answer::Null])).collect();
        let what = "KEYS with 1 arguments".to_owned();
        assert_eq!(entries, [(7, Entry { value: 12_345, what })]);
    }
}
