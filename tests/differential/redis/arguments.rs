//! Arguments of every kind that the rows name: valid ones, ones at a limit, and invalid ones.

use super::grammar::Arguments;
use harness::Random;

const KEYS: [&[u8]; 8] =
    [b"a", b"b", b"c", b"key:1", b"key:2", b"", b"\0\xff\r\n\x80", b"{tag}with blanks"];

const VALUES: [&[u8]; 30] = [
    b"",
    b"0",
    b"1",
    b"-1",
    b"-0",
    b"42",
    b"007",
    b"+5",
    b" 7",
    b"7 ",
    b"3.5",
    b"1e3",
    b"1.5",
    b"foobar",
    b"ohmytext",
    b"mynewtext",
    b"word",
    b"two words",
    b"\x01\x7f\r\n",
    b"\0",
    b"\xff\xfe\0\x80",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551615",
    b"99999999999999999999",
    b"exactly forty-four bytes, the last embstr one",
    b"a value that is longer than what is stored in place of a pointer by anyone",
    // The beginning of a HyperLogLog, with too few bytes after it.
    b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0, and zeros are missing behind it",
];

/// IDs of stream entries.
const IDS: [&str; 15] = [
    "1-1",
    "2-*",
    "3",
    "5-*",
    "8-*",
    "9-*",
    "7-18446744073709551615",
    "0-0",
    "0",
    "-",
    "+",
    "$",
    ">",
    ">",
    "*x",
];

/// Integers at and beyond limits, and texts that only look like integers.
const NUMBERS: [&str; 30] = [
    "0",
    "1",
    "-1",
    "2",
    "10",
    "-10",
    "-0",
    "+1",
    "00",
    "007",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9223372036854775806",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "x",
    "",
    "1.5",
    " 1",
    "1 ",
    "1e3",
    "0x10",
    "nan",
];

/// Seconds that are out of range, in the past, or not a number.
const ODD_SECONDS: [&str; 8] = [
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "x",
    "",
    "1.5",
];

const PATTERNS: [&str; 16] = [
    "*",
    "a",
    "?",
    "key:*",
    "[ab]",
    "[^a]",
    "k??:[0-9]",
    "\\a",
    "*:1",
    "[a-c",
    "[",
    "[]",
    "[^]",
    "\\",
    "**********b",
    "[z-a]",
];

const ENCODINGS: [&str; 18] = [
    "u8", "i8", "u1", "i1", "i5", "u16", "i16", "u32", "i32", "u63", "i64", "u64", "i65", "u0",
    "U8", "x", "", "i-1",
];

/// Settings of both servers whose values may change here without consequences.
const SETTINGS: [&str; 16] = [
    "hz",
    "HZ",
    "slowlog-max-len",
    "list-max-listpack-size",
    "list-max-ziplist-size",
    "hash-max-listpack-entries",
    "set-max-intset-entries",
    "zset-max-listpack-value",
    "lfu-log-factor",
    "lfu-decay-time",
    "tcp-keepalive",
    "active-expire-effort",
    "notify-keyspace-events",
    "lazyfree-lazy-expire",
    "stream-node-max-bytes",
    "nonsense",
];

const SETTINGS_VALUES: [&str; 26] = [
    "0",
    "1",
    "-1",
    "10",
    "64",
    "100",
    "101",
    "500",
    "501",
    "yes",
    "no",
    "YES",
    "x",
    "",
    "1kb",
    "10MB",
    "1gb2",
    "1e3",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    " 5",
    "5.5",
    "KEA",
    "AKx",
    "gxE",
];

/// Generates arguments. Each server has its own payloads of DUMP.
pub(super) struct Vocabulary {
    /// Replies of DUMP, for use as arguments of RESTORE.
    pub(super) payloads: Vec<Vec<u8>>,
    /// The version of RESP that is compared.
    pub(super) protocol: u8,
}

impl Arguments for Vocabulary {
    fn argument(&mut self, random: &mut Random, kind: &str) -> Vec<u8> {
        let some: &[&str] = match kind {
            "key" | "key1" | "key2" | "newkey" | "source" | "destination" | "destkey"
            | "sourcekey" | "src" | "dst" | "storekey" | "storedistkey" => return key(random),
            "value" | "element" | "pivot" | "message" | "arg" => return value(random),
            "field" | "member" | "member1" | "member2" => return name(random),
            "score" | "weight" => return score(random).into_bytes(),
            "min" | "max" => return bound(random).into_bytes(),
            "longitude" => return coordinate(random, 180).into_bytes(),
            "latitude" => return coordinate(random, 85).into_bytes(),
            "radius" | "width" | "height" => {
                &["1", "1000", "500000", "20000000", "0", "-1", "1e3", "x", "", "inf"]
            }
            "limit" => &["0", "1", "2", "100", "-1", "x", ""],
            "serialized-value" => return self.payload(random),
            "amount" | "increment" if random.below(4) == 0 => return decimal(random).into_bytes(),
            "amount" | "increment" => &NUMBERS,
            "start" | "end" | "stop" | "offset" => return position(random).into_bytes(),
            "bit" => &["0", "1", "0", "1", "0", "1", "0", "1", "2", "-1", "x", "", "01"],
            "encoding" => &ENCODINGS,
            "min-match-len" => &["0", "1", "2", "3", "-1", "x", "9223372036854775808"],
            "seconds" => return time(random, 100_000).into_bytes(),
            // In Redis, the sum of this number and the current time overflows 64 bits without an
            // error.
            "ttl" => &["0", "0", "-1", "x", "", "1.5", "400000000", "9223372036854775808"],
            "milliseconds" => return time(random, 100_000_000).into_bytes(),
            // With a time in the past, DBSIZE would count the key until the server removes it,
            // which the servers do at different times.
            "unix-seconds" => &["4000000000", "4000000000", "0", "-1", "x", "9223372036854775807"],
            "unix-milliseconds" => &["4000000000000", "4000000000000", "0", "-1", "x"],
            "db" | "destination-db" | "index" | "index1" | "index2" => {
                &["0", "0", "1", "1", "15", "16", "-1", "x", "", "4294967296", "2147483648"]
            }
            "pattern" | "by-pattern" | "get-pattern" => &PATTERNS,
            "cursor" => &["0", "0", "0", "0", "x", "-1", "", "18446744073709551616", "0x"],
            // These counts cover the whole keyspace, because its order differs between the servers.
            "count" => &["1000", "100000", "2147483647", "0", "-1", "x", ""],
            "numkeys" => &["1", "1", "1", "2", "2", "3", "0", "-1", "x", "", "4294967296"],
            "rank" | "num-matches" | "len" if random.below(3) != 0 => {
                &["1", "2", "3", "-1", "-2", "0", "10"]
            }
            "type" => &["string", "STRING", "hash", "list", "set", "zset", "nonsense", ""],
            "frequency" => &["0", "1", "255", "256", "-1", "x"],
            "timeout" => &["0", "0", "-1", "x", "", "9223372036854775808"],
            "numreplicas" | "numlocal" => &["0", "0", "-1", "x", "9223372036854775808"],
            "protover" if random.below(4) != 0 => return vec![b'0' + self.protocol],
            "protover" => &["2", "3", "1", "4", "x", "", "02", "3.0", "9223372036854775808"],
            "username" => &["default", "default", "nobody", ""],
            "group" | "consumer" => &["g", "h", ""],
            "min-idle-time" => &["0", "1000000", "x"],
            "id" | "*" if random.below(3) != 0 => &IDS,
            "~" | "=" => &["~", "="],
            "threshold" => &["0", "1", "2", "5", "3-1", "-1", "x"],
            "last-id" => &["3-3", "0-1", "x"],
            "client-id" | "id" => &["999999999", "0", "-1", "x", "", "9223372036854775808"],
            "ip:port" => &["1.2.3.4:5", "nonsense", "", "[::1]:0"],
            "name" | "clientname" => &["me", "", "two words", "line\nbreak", "\u{7f}", "a-b_c"],
            "setting" => &SETTINGS,
            "setting-value" => &SETTINGS_VALUES,
            "command-name" => &["get", "SET", "config|get", "nonsense", "", "object|nonsense"],
            "event" => &["command", "fork", "nonsense", ""],
            "subcommand" => &["nonsense", "", "two words", "\r\n"],
            _ if random.below(2) == 0 => return value(random),
            _ => &NUMBERS,
        };
        some[random.below(some.len() as u64) as usize].as_bytes().to_vec()
    }
}

impl Vocabulary {
    /// Returns a payload, which may be truncated or changed.
    fn payload(&self, random: &mut Random) -> Vec<u8> {
        let mut payload = self.payloads[random.below(self.payloads.len() as u64) as usize].clone();
        let at = random.below(payload.len() as u64) as usize;
        match random.below(12) {
            0 => payload.truncate(at),
            1 => payload[at] ^= 1 << random.below(8),
            2 => payload.clear(),
            _ => {}
        }
        payload
    }
}

/// Returns the name of a field or a member: one of a few, so that names occur repeatedly.
fn name(random: &mut Random) -> Vec<u8> {
    match random.below(80) {
        0 => vec![b'f'; 65],
        1 => b"long".repeat(17_000),
        2..6 => limited(random),
        6..12 => value(random),
        12..32 => random.below(6).to_string().into_bytes(),
        _ => format!("f{}", random.below(8)).into_bytes(),
    }
}

fn key(random: &mut Random) -> Vec<u8> {
    match random.below(500) {
        0 => vec![b'k'; 300],
        1 => vec![0; 70_000],
        2..40 => KEYS[random.below(KEYS.len() as u64) as usize].to_vec(),
        _ => KEYS[random.below(5) as usize].to_vec(),
    }
}

/// Returns a text as long as a limit of small collections, or one byte more or less. The limits are
/// those of [`super::LIMITS`], of nagi's packed form, and of strings within an element.
fn limited(random: &mut Random) -> Vec<u8> {
    let limit = [8, 8, 8, 8, 64, 512, 2048][random.below(7) as usize];
    vec![b'l'; limit - 1 + random.below(3) as usize]
}

/// Returns a bound of a range of stream entries.
pub(super) fn entry_bound(random: &mut Random) -> Vec<u8> {
    random.choose(&["-", "+", "-", "+", "1", "2", "3-0", "5-1", "(1-1", "(5", "8"]).into()
}

pub(super) fn value(random: &mut Random) -> Vec<u8> {
    match random.below(400) {
        // Longer than one chunk.
        0 => b"long".repeat(17_000),
        60..90 => limited(random),
        1..40 => decimal(random).into_bytes(),
        40..60 => (0..random.below(40)).map(|_| random.bits() as u8).collect(),
        90..110 => random.choose(&NUMBERS).as_bytes().to_vec(),
        _ => VALUES[random.below(VALUES.len() as u64) as usize].to_vec(),
    }
}

/// Returns a number at a limit.
pub(super) fn odd_number(random: &mut Random) -> Vec<u8> {
    random.choose(&NUMBERS).as_bytes().to_vec()
}

/// Returns a score: mostly one of a few, so that some scores are equal.
fn score(random: &mut Random) -> String {
    match random.below(8) {
        0 => decimal(random),
        1 => random.choose(&["inf", "-inf", "-0", "0.1", "1e300", "-7.25"]).to_owned(),
        _ => random.below(4).to_string(),
    }
}

/// Returns a bound of a range of scores or of members.
fn bound(random: &mut Random) -> String {
    match random.below(12) {
        0 => decimal(random),
        1 => random.choose(&NUMBERS).to_owned(),
        2 | 3 => random.choose(&["-", "+", "-inf", "+inf"]).to_owned(),
        4 | 5 => format!("({}", random.below(4)),
        6 => format!("[f{}", random.below(8)),
        7 => format!("(f{}", random.below(8)),
        _ => random.below(4).to_string(),
    }
}

/// Returns a longitude or a latitude: one of a few, so that positions are close to each other.
fn coordinate(random: &mut Random, most: u64) -> String {
    let degrees = random.below(2 * most + 2) as i64 - most as i64;
    match random.below(8) {
        0 => score(random),
        1 => degrees.to_string(),
        _ => format!("{}.{}", 13 + random.below(3), random.below(1000)),
    }
}

/// Returns a number with decimals, or a text that looks similar.
fn decimal(random: &mut Random) -> String {
    let digits = random.bits() >> random.below(64);
    let odd = [
        "inf",
        "-inf",
        "+inf",
        "Infinity",
        "nan",
        "NaN",
        "-nan",
        "0x1f",
        "0x1p4",
        ".5",
        "5.",
        "1e",
        "1e5000",
        "-1e5000",
        "1e-5000",
        "1e308",
        "1.7976931348623157e308",
        "5e-324",
        "-0.0",
        "1_0",
    ];
    match random.below(6) {
        0 => format!("-{digits}"),
        1 => format!("{digits}.{}", random.below(1_000_000)),
        2 => format!("{digits}e{}", random.below(40)),
        3 => format!("-{digits}.{}e-{}", random.below(1000), random.below(40)),
        4 => random.choose(&odd).to_owned(),
        _ => format!("0.{digits}"),
    }
}

/// Returns an offset in a string: mostly near the beginning, sometimes in a chunk after the first,
/// rarely beyond every limit. Offsets in between are omitted, because Redis would use much memory
/// for them; see [`super::giant`].
fn position(random: &mut Random) -> String {
    let odd = [
        "4294967296",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "1152921504606846976",
        "2305843009213693952",
        "x",
        "",
        "#1",
        "#x",
        "#",
        "#-1",
        "#9223372036854775807",
        "#4294967296",
        "1.5",
        "-0",
        "+1",
        " 1",
    ];
    match random.below(40) {
        0..3 => random.choose(&odd).to_owned(),
        3 => random.below(1_200_000).to_string(),
        4 => format!("#{}", random.below(40)),
        5..12 => (-1 - random.below(30) as i64).to_string(),
        _ => random.below(80).to_string(),
    }
}

/// Returns a time far in the future, so that no key expires during the comparison. No time is
/// returned twice, so that GT and LT do not depend on the millisecond.
fn time(random: &mut Random, least: u64) -> String {
    match random.below(12) {
        0..3 => random.choose(&ODD_SECONDS).to_owned(),
        3 => (4_000_000_000_000_000 + random.below(1_000_000_000_000)).to_string(),
        4 => (9_223_372_000_000_000 + random.below(36_854_775)).to_string(),
        _ => (least + random.below(least * 1000)).to_string(),
    }
}
