//! Defines how replies are compared, and which differences are permitted.

use super::comparison::{Comparison, mentions, same};
use super::generator::Words;
use harness::Reply;

/// Commands whose replies are not compared byte by byte, with the reasons.
const LOOSE: &[(&str, Comparison, &str)] = &[
    ("ACL GENPASS", Comparison::Kind, "is drawn"),
    ("ACL LOG", Comparison::Kind, "tells of sockets and times"),
    ("MEMORY USAGE", Comparison::Kind, "what a key takes is each server's own"),
    ("CLIENT ID", Comparison::Kind, "a number of the server's own"),
    ("CLIENT INFO", Comparison::Kind, "tells of sockets and memory"),
    ("CLIENT LIST", Comparison::Kind, "tells of sockets and memory"),
    ("CONFIG GET", Comparison::Unordered, "settings come in any order"),
    ("DUMP", Comparison::Kind, "the same value can be written in several ways"),
    ("EXPIRETIME", Comparison::Near(10), "set one after the other"),
    ("HGETALL", Comparison::Unordered, "fields of a large hash come in any order"),
    ("HKEYS", Comparison::Unordered, "fields of a large hash come in any order"),
    ("HRANDFIELD", Comparison::Kind, "is drawn"),
    ("HSCAN", Comparison::Unordered, "fields of a large hash come in any order"),
    ("HVALS", Comparison::Unordered, "fields of a large hash come in any order"),
    ("HELLO", Comparison::Kind, "names the server and the connection"),
    ("KEYS", Comparison::Unordered, "keys come in any order"),
    ("OBJECT IDLETIME", Comparison::Near(3), "asked one after the other"),
    ("PEXPIRETIME", Comparison::Near(10_000), "set one after the other"),
    ("PTTL", Comparison::Near(10_000), "asked one after the other"),
    ("RANDOMKEY", Comparison::Kind, "is drawn"),
    ("SDIFF", Comparison::Unordered, "members come in any order"),
    ("SINTER", Comparison::Unordered, "members come in any order"),
    ("SMEMBERS", Comparison::Unordered, "members come in any order"),
    ("SORT", Comparison::Unordered, "BY nosort leaves the order of a set open, BY of equal texts"),
    ("SORT_RO", Comparison::Unordered, "as SORT"),
    ("SPOP", Comparison::Unordered, "members come in any order"),
    ("SRANDMEMBER", Comparison::Kind, "is drawn"),
    ("SSCAN", Comparison::Unordered, "members come in any order"),
    ("SUNION", Comparison::Unordered, "members come in any order"),
    ("SCAN", Comparison::Unordered, "keys come in any order"),
    ("SLOWLOG GET", Comparison::Kind, "what is slow is each server's own"),
    ("SLOWLOG LEN", Comparison::Kind, "what is slow is each server's own"),
    ("TIME", Comparison::Kind, "asked one after the other"),
    ("TTL", Comparison::Near(10), "asked one after the other"),
    ("LATENCY LATEST", Comparison::Kind, "what is slow is each server's own"),
    ("GEOPOS", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZADD", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZDIFF", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZINCRBY", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZINTER", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZMPOP", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZMSCORE", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZPOPMAX", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZPOPMIN", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZRANGE", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZRANGEBYSCORE", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZREVRANGE", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZREVRANGEBYSCORE", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZSCORE", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("ZUNION", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("GEOSEARCH", Comparison::UnorderedNumbers, "what is equally far comes in any order"),
    ("GEORADIUS", Comparison::UnorderedNumbers, "what is equally far comes in any order"),
    ("GEORADIUS_RO", Comparison::UnorderedNumbers, "what is equally far comes in any order"),
    ("GEORADIUSBYMEMBER", Comparison::UnorderedNumbers, "what is equally far comes in any order"),
    (
        "GEORADIUSBYMEMBER_RO",
        Comparison::UnorderedNumbers,
        "what is equally far comes in any order",
    ),
    ("BZMPOP", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("BZPOPMAX", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("BZPOPMIN", Comparison::Numbers, "since 7.2 numbers have as few digits as needed"),
    ("FUNCTION DUMP", Comparison::Kind, "has a version and a checksum"),
    ("FUNCTION LIST", Comparison::Unordered, "functions come in any order"),
    ("XPENDING", Comparison::NearWithin(10_000), "asked one after the other"),
    ("ZRANDMEMBER", Comparison::Kind, "is drawn"),
    ("ZSCAN", Comparison::UnorderedNumbers, "members come in any order"),
    ("LATENCY HISTORY", Comparison::Kind, "what is slow is each server's own"),
];

/// A reply in which Redis 7.0 differs from Redis 7.2, whose behaviour nagi has, or from which nagi
/// differs intentionally.
struct Difference {
    /// The command, or both words of a subcommand.
    command: &'static str,
    accepts: fn(&Words, &Reply, &Reply) -> bool,
    reason: &'static str,
}

/// Whether SORT leaves the order of some elements undefined. With a pattern without an asterisk it
/// does not sort, and with ALPHA elements of equal weight come in any order.
pub(super) fn is_order_open(words: &Words) -> bool {
    let has = |name: &[u8]| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    let mut patterns = words.windows(2).filter(|pair| pair[0].eq_ignore_ascii_case(b"BY"));
    let pattern = patterns.next_back();
    pattern.is_some_and(|pair| !pair[1].contains(&b'*') || has(b"ALPHA"))
}

/// Whether SORT returns a part of elements whose order is undefined.
fn is_part_of_any_order(words: &Words, ours: &Reply, theirs: &Reply) -> bool {
    let has_limit = words.iter().any(|word| word.eq_ignore_ascii_case(b"LIMIT"));
    let len = |reply: &Reply| if let Reply::Array(all) = reply { Some(all.len()) } else { None };
    has_limit && is_order_open(words) && len(ours).is_some() && len(ours) == len(theirs)
}

/// Whether scores were refused, which may be due to an `errno` that an earlier number has left:
/// SORT checks `errno` without clearing it.
fn is_stale_range(theirs: &Reply) -> bool {
    is_no_score(theirs)
}

fn is_no_score(reply: &Reply) -> bool {
    let text = "ERR One or more scores can't be converted into double";
    matches!(reply, Reply::Error(error) if error == text)
}

fn is_no_cursor(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(error) if error == "ERR invalid cursor")
}

fn are_unbalanced(ours: &Reply, theirs: &Reply) -> bool {
    let is =
        |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with("ERR Unbalanced"));
    is(ours) && is(theirs)
}

fn is_overflow(ours: &Reply) -> bool {
    matches!(ours, Reply::Error(text) if text == "ERR timeout is out of range")
}

/// The number of references that Redis reports for a small integer.
const SHARED: i64 = 2_147_483_647;

const DIFFERENCES: &[Difference] = &[
    Difference {
        command: "COMMAND GETKEYS XREAD",
        accepts: |_, ours, theirs| is_list(theirs) && matches!(ours, Reply::Error(_)),
        reason: "where keys and ids are not as many, nagi names no keys",
    },
    Difference {
        command: "COMMAND GETKEYS XREADGROUP",
        accepts: |_, ours, theirs| is_list(theirs) && matches!(ours, Reply::Error(_)),
        reason: "where keys and ids are not as many, nagi names no keys",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS XREAD",
        accepts: |_, ours, theirs| is_list(theirs) && matches!(ours, Reply::Error(_)),
        reason: "where keys and ids are not as many, nagi names no keys",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS XREADGROUP",
        accepts: |_, ours, theirs| is_list(theirs) && matches!(ours, Reply::Error(_)),
        reason: "where keys and ids are not as many, nagi names no keys",
    },
    Difference {
        command: "XREAD",
        accepts: |_, ours, _| is_overflow(ours),
        reason: "since 7.2 a timeout that overflows is an error",
    },
    Difference {
        command: "XREADGROUP",
        accepts: |_, ours, _| is_overflow(ours),
        reason: "since 7.2 a timeout that overflows is an error",
    },
    Difference {
        command: "XREAD",
        accepts: |_, ours, theirs| are_unbalanced(ours, theirs),
        reason: "since 7.2 the message names the command",
    },
    Difference {
        command: "XREADGROUP",
        accepts: |_, ours, theirs| are_unbalanced(ours, theirs),
        reason: "since 7.2 the message names the command",
    },
    Difference {
        command: "BLMOVE",
        accepts: |_, ours, _| is_overflow(ours),
        reason: "since 7.2 a timeout that overflows is an error",
    },
    Difference {
        command: "BLMPOP",
        accepts: |_, ours, _| is_overflow(ours),
        reason: "since 7.2 a timeout that overflows is an error",
    },
    Difference {
        command: "BLPOP",
        accepts: |_, ours, _| is_overflow(ours),
        reason: "since 7.2 a timeout that overflows is an error",
    },
    Difference {
        command: "BRPOP",
        accepts: |_, ours, _| is_overflow(ours),
        reason: "since 7.2 a timeout that overflows is an error",
    },
    Difference {
        command: "BRPOPLPUSH",
        accepts: |_, ours, _| is_overflow(ours),
        reason: "since 7.2 a timeout that overflows is an error",
    },
    Difference {
        command: "BZMPOP",
        accepts: |_, ours, _| is_overflow(ours),
        reason: "since 7.2 a timeout that overflows is an error",
    },
    Difference {
        command: "BZPOPMAX",
        accepts: |_, ours, _| is_overflow(ours),
        reason: "since 7.2 a timeout that overflows is an error",
    },
    Difference {
        command: "BZPOPMIN",
        accepts: |_, ours, _| is_overflow(ours),
        reason: "since 7.2 a timeout that overflows is an error",
    },
    Difference {
        command: "SCRIPT LOAD",
        accepts: |_, ours, theirs| names_no_text(ours, theirs),
        reason: "a message names what is no text by U+FFFD",
    },
    Difference {
        command: "EVAL",
        accepts: |_, ours, theirs| names_no_text(ours, theirs),
        reason: "a message names what is no text by U+FFFD",
    },
    Difference {
        command: "EVAL_RO",
        accepts: |_, ours, theirs| names_no_text(ours, theirs),
        reason: "a message names what is no text by U+FFFD",
    },
    Difference {
        command: "COMMAND GETKEYS",
        accepts: |words, _, theirs| is_script(words) && *theirs == Reply::Array(Vec::new()),
        reason: "a number of keys that is none is an error also where there may be no keys",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS",
        accepts: |words, _, theirs| is_script(words) && *theirs == Reply::Array(Vec::new()),
        reason: "a number of keys that is none is an error also where there may be no keys",
    },
    Difference {
        command: "COMMAND GETKEYS",
        accepts: |words, _, _| is_newer_rank(words),
        reason: "ZRANK WITHSCORE is of 7.2",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS",
        accepts: |words, _, _| is_newer_rank(words),
        reason: "ZRANK WITHSCORE is of 7.2",
    },
    Difference {
        command: "COMMAND GETKEYS",
        accepts: |words, _, theirs| {
            let is_store =
                words.get(2).is_some_and(|name| name.to_ascii_uppercase().ends_with(b"STORE"));
            is_store && matches!(theirs, Reply::Error(_))
        },
        reason: "with more keys than there are words, nagi names the one that there is",
    },
    Difference {
        command: "COMMAND GETKEYS",
        accepts: |words, _, _| has_odd_count(words),
        reason: "Redis takes the start of a number that is none for a number of keys",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS",
        accepts: |words, _, _| has_odd_count(words),
        reason: "Redis takes the start of a number that is none for a number of keys",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS",
        accepts: |words, _, theirs| {
            let is_store =
                words.get(2).is_some_and(|name| name.to_ascii_uppercase().ends_with(b"STORE"));
            is_store && matches!(theirs, Reply::Error(_))
        },
        reason: "with more keys than there are words, nagi names the one that there is",
    },
    Difference {
        command: "LATENCY HISTOGRAM",
        accepts: |_, ours, theirs| {
            matches!(ours, Reply::Error(_)) == matches!(theirs, Reply::Error(_))
        },
        reason: "what took how long is the machine's, and what was refused each version's",
    },
    Difference {
        command: "COMMAND GETKEYS SYNC",
        accepts: |_, ours, theirs| matches!((ours, theirs), (Reply::Error(_), Reply::Error(_))),
        reason: "SYNC is of replication, which is not there",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS SYNC",
        accepts: |_, ours, theirs| matches!((ours, theirs), (Reply::Error(_), Reply::Error(_))),
        reason: "SYNC is of replication, which is not there",
    },
    Difference {
        command: "CLIENT KILL",
        accepts: |words, _, theirs| {
            let has_age = words.iter().any(|word| word.eq_ignore_ascii_case(b"MAXAGE"));
            has_age && matches!(theirs, Reply::Error(_))
        },
        reason: "MAXAGE is of 7.4",
    },
    Difference {
        command: "ACL GETUSER",
        accepts: |_, ours, _| mentions(ours, "sanitize-payload"),
        reason: "since 7.2 a user's flags have sanitize-payload",
    },
    Difference {
        command: "ACL LIST",
        accepts: |_, ours, _| mentions(ours, " sanitize-payload "),
        reason: "since 7.2 a user's flags have sanitize-payload",
    },
    Difference {
        command: "BITCOUNT",
        accepts: |_, ours, theirs| is_late(ours, theirs),
        reason: "since 7.2 arguments are checked before the key is looked for",
    },
    Difference {
        command: "BITPOS",
        accepts: |_, ours, theirs| is_late(ours, theirs),
        reason: "since 7.2 arguments are checked before the key is looked for",
    },
    Difference {
        command: "COMMAND",
        accepts: |words, _, _| words.len() == 1,
        reason: "lists what there is",
    },
    Difference {
        command: "COMMAND INFO",
        accepts: |_, _, _| true,
        reason: "says more since 7.2; it is only met where damage makes it of another command",
    },
    Difference {
        command: "COMMAND GETKEYS",
        accepts: |words, ours, theirs| is_lone(words, ours, theirs),
        reason: "since 7.2 a command may stand there without arguments",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS",
        accepts: |words, ours, theirs| is_lone(words, ours, theirs),
        reason: "since 7.2 a command may stand there without arguments",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS SINTERSTORE",
        accepts: |_, ours, theirs| !matches!((ours, theirs), (Reply::Error(_), _)),
        reason: "since 8.0 the destination is overwritten, as with SUNIONSTORE",
    },
    Difference {
        command: "COMMAND GETKEYS PFMERGE",
        accepts: |words, _, theirs| words.len() == 4 && matches!(theirs, Reply::Error(_)),
        reason: "Redis takes the destination alone for a mistake, which PFMERGE itself does not",
    },
    Difference {
        command: "COMMAND GETKEYSANDFLAGS PFMERGE",
        accepts: |words, _, theirs| words.len() == 4 && matches!(theirs, Reply::Error(_)),
        reason: "Redis takes the destination alone for a mistake, which PFMERGE itself does not",
    },
    Difference {
        command: "SORT",
        accepts: |words, ours, theirs| is_part_of_any_order(words, ours, theirs),
        reason: "a part of what BY leaves unsorted is any part",
    },
    Difference {
        command: "SORT_RO",
        accepts: |words, ours, theirs| is_part_of_any_order(words, ours, theirs),
        reason: "a part of what BY leaves unsorted is any part",
    },
    Difference {
        command: "SORT",
        accepts: |_, ours, _| is_no_score(ours),
        reason: "since 8.0 scores are decimal, and have no blanks in front",
    },
    Difference {
        command: "SORT_RO",
        accepts: |_, ours, _| is_no_score(ours),
        reason: "since 8.0 scores are decimal, and have no blanks in front",
    },
    Difference {
        command: "SCAN",
        accepts: |_, ours, theirs| is_no_cursor(ours) != is_no_cursor(theirs),
        reason: "since 8.0 a cursor is no negative integer and not empty",
    },
    Difference {
        command: "HSCAN",
        accepts: |_, ours, theirs| is_no_cursor(ours) != is_no_cursor(theirs),
        reason: "since 8.0 a cursor is no negative integer and not empty",
    },
    Difference {
        command: "SSCAN",
        accepts: |_, ours, theirs| is_no_cursor(ours) != is_no_cursor(theirs),
        reason: "since 8.0 a cursor is no negative integer and not empty",
    },
    Difference {
        command: "ZSCAN",
        accepts: |_, ours, theirs| is_no_cursor(ours) != is_no_cursor(theirs),
        reason: "since 8.0 a cursor is no negative integer and not empty",
    },
    Difference {
        command: "SORT",
        accepts: |_, _, theirs| is_stale_range(theirs),
        reason: "once a score was too large or too small, Redis takes others for the same",
    },
    Difference {
        command: "SORT_RO",
        accepts: |_, _, theirs| is_stale_range(theirs),
        reason: "once a score was too large or too small, Redis takes others for the same",
    },
    Difference {
        command: "HSCAN",
        accepts: |words, _, theirs| {
            let is_newer = words.iter().any(|word| word.eq_ignore_ascii_case(b"NOVALUES"));
            is_newer && matches!(theirs, Reply::Error(_))
        },
        reason: "NOVALUES is of 7.4",
    },
    Difference {
        command: "PFCOUNT",
        accepts: |_, ours, theirs| are_no_sketches(ours, theirs),
        reason: "of several keys that are no sketches another one is named",
    },
    Difference {
        command: "PFMERGE",
        accepts: |_, ours, theirs| are_no_sketches(ours, theirs),
        reason: "of several keys that are no sketches another one is named",
    },
    Difference {
        command: "PFADD",
        accepts: |_, ours, theirs| is_broken(ours) && matches!(theirs, Reply::Integer(_)),
        reason: "Redis finds what is wrong in a broken sketch only where it looks",
    },
    Difference {
        command: "HELLO",
        accepts: |_, ours, theirs| match (ours, theirs) {
            (Reply::Error(ours), Reply::Error(theirs)) => {
                ours.starts_with("ERR Syntax error") && theirs.starts_with("WRONGPASS")
            }
            _ => false,
        },
        reason: "since 7.2 all options are read before the login",
    },
    Difference {
        command: "LATENCY HISTOGRAM",
        accepts: |_, ours, theirs| match (ours, theirs) {
            (Reply::Map(ours), Reply::Map(theirs)) | (Reply::Array(ours), Reply::Array(theirs)) => {
                let mut keys = ours.iter().step_by(2);
                keys.all(|key| {
                    shows(key, "command|getkeys")
                        || shows(key, "command|getkeysandflags")
                        || theirs.contains(key)
                })
            }
            _ => false,
        },
        reason: "COMMAND GETKEYS of a word alone, which counts since 7.2",
    },
    Difference {
        command: "LPOS",
        accepts: |words, ours, _| is_least(words, ours),
        reason: "since 7.2 the least integer is no number of elements",
    },
    Difference {
        command: "LREM",
        accepts: |words, ours, _| is_least(words, ours),
        reason: "since 7.2 the least integer is no number of elements",
    },
    Difference {
        command: "OBJECT ENCODING",
        accepts: |_, ours, theirs| {
            shows(ours, "listpack") && (shows(theirs, "hashtable") || shows(theirs, "quicklist"))
        },
        reason: "since 7.2 small lists and sets are listpacks",
    },
    Difference {
        command: "OBJECT ENCODING",
        accepts: |_, ours, theirs| shows(ours, "skiplist") && shows(theirs, "listpack"),
        reason: "since 7.2 a request with many members has no listpack, even if they are the same",
    },
    Difference {
        command: "OBJECT ENCODING",
        accepts: |_, ours, theirs| shows(ours, "listpack") && shows(theirs, "skiplist"),
        reason: "Redis' SORT turns a sorted set into a skiplist",
    },
    Difference {
        command: "OBJECT ENCODING",
        accepts: |_, ours, theirs| {
            let is_small = shows(theirs, "listpack") || shows(theirs, "intset");
            is_small && (shows(ours, "hashtable") || shows(ours, "listpack"))
        },
        reason: "since 7.2 a request with many elements counts them, even if they are the same",
    },
    Difference {
        command: "HSCAN",
        accepts: is_own_step,
        reason: "how much a step shows is each server's own",
    },
    Difference {
        command: "SSCAN",
        accepts: is_own_step,
        reason: "how much a step shows is each server's own",
    },
    Difference {
        command: "ZSCAN",
        accepts: is_own_step,
        reason: "how much a step shows is each server's own",
    },
    Difference {
        command: "OBJECT IDLETIME",
        accepts: |_, ours, theirs| match (ours, theirs) {
            // The later access may be that on the other server, because RESTORE sets an access time
            // long ago.
            (Reply::Integer(ours), Reply::Integer(theirs)) => {
                ours != theirs && *ours.min(theirs) < 3
            }
            _ => false,
        },
        reason: "in Redis all keys with the same small integer share one time of use",
    },
    Difference {
        command: "OBJECT REFCOUNT",
        accepts: |_, ours, theirs| {
            matches!((ours, theirs), (Reply::Integer(SHARED), Reply::Integer(1)))
        },
        reason: "small integers count as shared, which a copy is not in Redis",
    },
    Difference {
        command: "OBJECT REFCOUNT",
        accepts: |_, ours, theirs| matches!((ours, theirs), (Reply::Integer(1), Reply::Integer(2))),
        reason: "in Redis a queued command refers to its arguments until EXEC ends",
    },
    Difference {
        command: "SCAN",
        accepts: |words, ours, theirs| {
            let begins = words.get(1).is_some_and(|cursor| [&b"0"[..], b""].contains(&&cursor[..]));
            let count = words.iter().rposition(|word| word.eq_ignore_ascii_case(b"COUNT"));
            let is_whole = count.and_then(|at| words.get(at + 1)).is_some_and(|it| it.len() > 3);
            !(begins && is_whole) && same(Comparison::Kind, ours, theirs)
        },
        reason: "without a count for all of them, how many keys come at once is a server's own",
    },
    Difference {
        command: "ZCOUNT",
        accepts: |words, ours, _| is_old_bound(words, ours),
        reason: "since 8.0 bounds are decimal, and have no blanks in front",
    },
    Difference {
        command: "ZRANGE",
        accepts: |words, ours, _| is_old_bound(words, ours),
        reason: "since 8.0 bounds are decimal, and have no blanks in front",
    },
    Difference {
        command: "ZRANGEBYSCORE",
        accepts: |words, ours, _| is_old_bound(words, ours),
        reason: "since 8.0 bounds are decimal, and have no blanks in front",
    },
    Difference {
        command: "ZREVRANGEBYSCORE",
        accepts: |words, ours, _| is_old_bound(words, ours),
        reason: "since 8.0 bounds are decimal, and have no blanks in front",
    },
    Difference {
        command: "ZREMRANGEBYSCORE",
        accepts: |words, ours, _| is_old_bound(words, ours),
        reason: "since 8.0 bounds are decimal, and have no blanks in front",
    },
    Difference {
        command: "ZRANGESTORE",
        accepts: |words, ours, _| is_old_bound(words, ours),
        reason: "since 8.0 bounds are decimal, and have no blanks in front",
    },
    Difference {
        command: "ZRANGESTORE",
        accepts: |words, _, theirs| is_negative_offset(words) && *theirs == Reply::Integer(0),
        reason: "since 8.0 an offset below zero is counted from the end of a skiplist",
    },
    Difference {
        command: "ZRANGE",
        accepts: |words, _, theirs| is_negative_offset(words) && is_list(theirs),
        reason: "since 8.0 an offset below zero is counted from the end of a skiplist",
    },
    Difference {
        command: "ZRANGEBYSCORE",
        accepts: |words, _, theirs| is_negative_offset(words) && is_list(theirs),
        reason: "since 8.0 an offset below zero is counted from the end of a skiplist",
    },
    Difference {
        command: "ZREVRANGEBYSCORE",
        accepts: |words, _, theirs| is_negative_offset(words) && is_list(theirs),
        reason: "since 8.0 an offset below zero is counted from the end of a skiplist",
    },
    Difference {
        command: "ZRANGEBYLEX",
        accepts: |words, _, theirs| is_negative_offset(words) && is_list(theirs),
        reason: "since 8.0 an offset below zero is counted from the end of a skiplist",
    },
    Difference {
        command: "ZREVRANGEBYLEX",
        accepts: |words, _, theirs| is_negative_offset(words) && is_list(theirs),
        reason: "since 8.0 an offset below zero is counted from the end of a skiplist",
    },
    Difference {
        command: "ZRANGEBYLEX",
        accepts: |words, ours, theirs| is_by_member(words) && same(Comparison::Kind, ours, theirs),
        reason: "what lies between two members is not defined where scores differ",
    },
    Difference {
        command: "ZREVRANGEBYLEX",
        accepts: |words, ours, theirs| is_by_member(words) && same(Comparison::Kind, ours, theirs),
        reason: "what lies between two members is not defined where scores differ",
    },
    Difference {
        command: "ZRANGE",
        accepts: |words, ours, theirs| is_by_member(words) && same(Comparison::Kind, ours, theirs),
        reason: "what lies between two members is not defined where scores differ",
    },
    Difference {
        command: "ZLEXCOUNT",
        accepts: |words, ours, theirs| is_by_member(words) && same(Comparison::Kind, ours, theirs),
        reason: "what lies between two members is not defined where scores differ",
    },
    Difference {
        command: "XREAD",
        accepts: |words, _, theirs| {
            words.iter().any(|word| word == b"+") && matches!(theirs, Reply::Error(_))
        },
        reason: "since 7.4 + is the last entry",
    },
    Difference {
        command: "XREADGROUP",
        accepts: |words, ours, theirs| {
            let are_errors = matches!((ours, theirs), (Reply::Error(_), Reply::Error(_)));
            are_errors && words.iter().any(|word| word == b"+")
        },
        reason: "since 7.4 the message for + is one of its own",
    },
    Difference {
        command: "XGROUP CREATECONSUMER",
        accepts: |_, ours, theirs| (ours, theirs) == (&Reply::Integer(0), &Reply::Integer(1)),
        reason: "since 7.2 XAUTOCLAIM and others create the consumer also where it gets nothing",
    },
    Difference {
        command: "ZRANK",
        accepts: |words, _, theirs| words.len() > 3 && matches!(theirs, Reply::Error(_)),
        reason: "WITHSCORE is of 7.2",
    },
    Difference {
        command: "ZREVRANK",
        accepts: |words, _, theirs| words.len() > 3 && matches!(theirs, Reply::Error(_)),
        reason: "WITHSCORE is of 7.2",
    },
    Difference {
        command: "SSCAN",
        accepts: |_, ours, theirs| same(Comparison::Kind, ours, theirs),
        reason: "since 7.2 a small set comes whole, whatever cursor and count say",
    },
];

fn is_lone(words: &Words, ours: &Reply, theirs: &Reply) -> bool {
    // Within MULTI, nagi queues such a command.
    let is_queued = *ours == Reply::Simple("QUEUED".to_owned());
    words.len() == 3 && matches!((ours, theirs), (Reply::Error(_), Reply::Error(_)))
        || words.len() == 3 && is_queued && matches!(theirs, Reply::Error(_))
}

/// Whether a request is COMMAND GETKEYS for ZRANK or ZREVRANK.
fn is_newer_rank(words: &Words) -> bool {
    words.get(2).is_some_and(|name| {
        name.eq_ignore_ascii_case(b"ZRANK") || name.eq_ignore_ascii_case(b"ZREVRANK")
    })
}

fn is_late(ours: &Reply, theirs: &Reply) -> bool {
    match (ours, theirs) {
        (Reply::Error(_), Reply::Integer(-1 | 0)) => true,
        (Reply::Error(_), Reply::Error(theirs)) => theirs.starts_with("WRONGTYPE"),
        _ => false,
    }
}

fn are_no_sketches(ours: &Reply, theirs: &Reply) -> bool {
    let is_none = |it: &Reply| {
        is_broken(it) || matches!(it, Reply::Error(text) if text.starts_with("WRONGTYPE"))
    };
    is_none(ours) && is_none(theirs)
}

fn is_old_bound(words: &Words, ours: &Reply) -> bool {
    let is_old = |word: &Vec<u8>| {
        let number = word.strip_prefix(b"(").unwrap_or(word);
        let lower = number.to_ascii_lowercase();
        number.first().is_some_and(u8::is_ascii_whitespace)
            || lower.windows(2).any(|it| it == b"0x")
    };
    words.iter().any(is_old) && matches!(ours, Reply::Error(text) if text.contains("not a float"))
}

pub(super) fn is_negative_offset(words: &Words) -> bool {
    let limits = words.windows(2).filter(|pair| pair[0].eq_ignore_ascii_case(b"LIMIT"));
    limits.into_iter().any(|pair| pair[1].starts_with(b"-"))
}

fn is_by_member(words: &Words) -> bool {
    let name = words[0].to_ascii_uppercase();
    let is_option = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"BYLEX");
    words.iter().any(is_option) || name.windows(3).any(|part| part == b"LEX")
}

fn is_list(reply: &Reply) -> bool {
    matches!(reply, Reply::Array(_))
}

fn is_least(words: &Words, ours: &Reply) -> bool {
    words.iter().any(|word| word == b"-9223372036854775808")
        && matches!(ours, Reply::Error(text) if text.contains("value must between"))
}

fn is_broken(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("INVALIDOBJ"))
}

/// Whether a step of a scan uses a cursor of its own, or has not returned all elements.
fn is_own_step(words: &Words, ours: &Reply, theirs: &Reply) -> bool {
    let goes_on = |reply: &Reply| match reply {
        Reply::Array(parts) => parts.first().is_some_and(|cursor| !shows(cursor, "0")),
        _ => false,
    };
    let are_steps = matches!((ours, theirs), (Reply::Array(_), Reply::Array(_)));
    let begins = words.get(2).is_some_and(|cursor| cursor.as_slice() == b"0");
    are_steps && (!begins || goes_on(ours) || goes_on(theirs))
}

/// Whether an argument of the command is a number that is not a valid integer, such as 1.5 or a
/// number after a blank.
fn has_odd_count(words: &Words) -> bool {
    let is_odd = |word: &Vec<u8>| {
        let text = std::str::from_utf8(word).unwrap_or_default();
        text.trim().parse::<f64>().is_ok() && text.parse::<i64>().is_err()
    };
    words.iter().skip(3).take(2).any(is_odd)
}

fn shows(reply: &Reply, text: &str) -> bool {
    matches!(reply, Reply::Bulk(bytes) if bytes == text.as_bytes())
}

/// The result of a comparison.
pub(super) enum Verdict {
    /// The replies are the same.
    Same,
    /// The replies differ in a permitted way, for this reason.
    Explained(&'static str),
    /// The replies differ in a way that is not permitted.
    Different,
}

/// Compares the replies to a command, which are given with their bytes.
pub(super) fn judge(words: &Words, ours: &(Reply, Vec<u8>), theirs: &(Reply, Vec<u8>)) -> Verdict {
    if ours.1 == theirs.1 {
        return Verdict::Same;
    }
    let loose = LOOSE.iter().find(|(command, ..)| is_command(words, command));
    if loose.is_some_and(|(_, comparison, _)| same(*comparison, &ours.0, &theirs.0)) {
        return Verdict::Same;
    }
    let mut known = DIFFERENCES.iter().filter(|it| is_command(words, it.command));
    match known.find(|it| (it.accepts)(words, &ours.0, &theirs.0)) {
        Some(difference) => Verdict::Explained(difference.reason),
        None => Verdict::Different,
    }
}

/// Whether replies to a command are always the same, byte by byte.
pub(super) fn is_exact(words: &Words) -> bool {
    let is_loose = LOOSE.iter().any(|(command, ..)| is_command(words, command));
    !is_loose && DIFFERENCES.iter().all(|it| !is_command(words, it.command))
}

fn is_command(words: &Words, name: &str) -> bool {
    let parts: Vec<&str> = name.split(' ').collect();
    words.len() >= parts.len()
        && parts.iter().zip(words).all(|(part, word)| word.eq_ignore_ascii_case(part.as_bytes()))
}

/// Whether errors quote a byte of a script that is not valid text.
fn names_no_text(ours: &Reply, theirs: &Reply) -> bool {
    let (Reply::Error(ours), Reply::Error(theirs)) = (ours, theirs) else { return false };
    let before = |text: &str| text.split("near '").next().map(str::to_owned);
    ours.contains('\u{fffd}') && before(ours) == before(theirs)
}

/// Whether the arguments of COMMAND GETKEYS are a command that runs a script.
fn is_script(words: &Words) -> bool {
    let name = words.get(2).map(|name| name.to_ascii_uppercase());
    name.is_some_and(|name| name.starts_with(b"EVAL") || name.starts_with(b"FCALL"))
}
