//! Compares nagi's meta commands with memcached's.

use harness::{Connection, Random, Server};

/// The keyspace is emptied after about this number of requests, so that histories stay short.
const REQUESTS_A_HISTORY: u64 = 200;

const KEYS: [&str; 4] = ["a", "b", "key:1", "key:2"];
/// Keys that can only be written in base64, so that all requests write them in the same way.
/// memcached returns a key as it was written when it was stored, nagi as the request writes it.
const SPELLED: [&str; 2] = ["AAEC", "AAH/"];

/// Numbers that do not become shorter when they are incremented or decremented, because memcached
/// pads shorter numbers with blanks.
const VALUES: [&str; 6] =
    ["1000000", "5000000", "word", "two words", "x", "a longer value than others"];

const FLAGS: [&str; 42] = [
    "v",
    "v",
    "v",
    "t",
    "s",
    "f",
    "k",
    "k",
    "h",
    "l",
    "q",
    "O1",
    "Oopaque",
    "c",
    "N100",
    "R10",
    "R2000",
    "T1000",
    "T0",
    "N0",
    "I",
    "x",
    "F5",
    "F4294967295",
    "Fx",
    "Tx",
    "C",
    "C1",
    "E77777",
    "MS",
    "ME",
    "MR",
    "MA",
    "MP",
    "MI",
    "Mx",
    "z",
    "D3",
    "J1000000",
    "v",
    "noreply",
    "u",
];

/// Returns random flags. The same flag never follows itself, but may occur twice.
fn flags(random: &mut Random, command: &str) -> String {
    let mut words = String::new();
    for _ in 0..random.below(6) {
        let flag = random.choose(&FLAGS);
        // These flags would decrement to a shorter number, or store a version number that is
        // compared.
        if command == "ma" && flag.starts_with('M') && flag != "MI" && flag != "Mx" {
            continue;
        }
        words.push(' ');
        words.push_str(flag);
    }
    words
}

fn request(random: &mut Random) -> String {
    let command = random.choose(&["mg", "mg", "mg", "ms", "ms", "md", "ma", "set", "get", "mn"]);
    let (key, spelled) = match random.below(5) {
        0 => (random.choose(&SPELLED), " b"),
        _ => (random.choose(&KEYS), ""),
    };
    let flags = flags(random, command);
    let value = random.choose(&VALUES);
    match command {
        "ms" => format!("ms {key} {}{flags}{spelled}\r\n{value}\r\n", value.len()),
        "set" => {
            let key = random.choose(&KEYS);
            format!("set {key} 3 0 {}\r\n{value}\r\n", value.len())
        }
        "get" => format!("get {}\r\n", random.choose(&KEYS)),
        "mn" => "mn\r\n".to_owned(),
        command => format!("{command} {key}{flags}{spelled}\r\n"),
    }
}

/// How memcached shows these keys if `mg` has created their entries, with placeholders for bytes
/// that are not text, and how nagi shows them. Raw bytes such as a line break would end the reply's
/// line.
const RAW: [(&str, &str); 2] = [("k\0\u{1}\u{2}", "kAAEC b"), ("k\0\u{1}\u{fffd}", "kAAH/ b")];

/// Returns the remaining seconds as if no time had passed since they were set.
fn whole_time(word: &str) -> Option<String> {
    let left: u64 = word.strip_prefix('t')?.parse().ok()?;
    [100, 1000]
        .iter()
        .find(|given| (**given - 5..**given).contains(&left))
        .map(|it| format!("t{it}"))
}

/// Returns the complete reply to a request. Keys are in one form, differences of a few seconds are
/// removed, and version numbers are masked, because the servers count them differently.
fn answer(connection: &mut Connection, request: &str) -> Vec<String> {
    connection.send(request);
    connection.send("version\r\n");
    let mut lines = Vec::new();
    loop {
        let line = connection.line();
        if line.starts_with("VERSION ") {
            return lines;
        }
        let is_number = |word: &str| {
            let digits = word.strip_prefix('c').unwrap_or_default();
            !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
        };
        let mask = |word: &str| match RAW.iter().find(|(raw, _)| *raw == word) {
            Some((_, spelled)) => (*spelled).to_owned(),
            None if is_number(word) => "c#".to_owned(),
            None if ["l1", "l2", "l3"].contains(&word) => "l0".to_owned(),
            None => whole_time(word).unwrap_or_else(|| word.to_owned()),
        };
        lines.push(line.split(' ').map(mask).collect::<Vec<_>>().join(" "));
    }
}

#[test]
fn random_meta_requests_are_answered_as_by_memcached() {
    // memcached's LRU thread sometimes holds entries. An increment then cannot change them in
    // place, and forgets that they were read.
    let memcached = super::newest_memcached_with(&["-o", "no_lru_maintainer"]);
    let nagi = Server::nagi();
    let Some(memcached) = memcached else { return };
    let mut random = Random::announced();
    let (mut ours, mut theirs) = (nagi.connect_memcached(), memcached.connect_memcached());
    let mut history: Vec<String> = Vec::new();
    for number in 0..super::count() {
        if number.is_multiple_of(REQUESTS_A_HISTORY) {
            history.clear();
            for connection in [&mut ours, &mut theirs] {
                for key in KEYS {
                    let _ = answer(connection, &format!("md {key}\r\n"));
                }
                for key in SPELLED {
                    let _ = answer(connection, &format!("md {key} b\r\n"));
                }
            }
        }
        let text = request(&mut random);
        history.push(format!("{text:?}"));
        let (our_lines, their_lines) = (answer(&mut ours, &text), answer(&mut theirs, &text));
        assert_eq!(
            our_lines,
            their_lines,
            "nagi (left) and memcached (right) differ after:\n{}",
            history[history.len().saturating_sub(12)..].join("\n")
        );
    }
}
