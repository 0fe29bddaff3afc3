//! Compares nagi with memcached's text protocol.

use std::collections::HashMap;

use harness::{Connection, Random, Server};

/// The keyspace is emptied after about this number of commands, so that histories stay short.
const COMMANDS_A_HISTORY: u64 = 500;

const KEYS: [&str; 4] = ["a", "b", "key:1", "key:2"];

/// Numbers have only the form that increments produce, because the length of other forms would show
/// padding. No value is empty, because memcached's increment reads bytes beyond an empty value.
const VALUES: [&str; 7] = [
    "0",
    "1",
    "42",
    "9999999999",
    "word",
    "two words",
    "a value that is longer than the others of its kind",
];

/// Parts that are appended or prepended. Digits among them would create a number beyond every
/// range.
const PARTS: [&str; 4] = ["", "word", "two words", "x-"];

const NUMBERS: [&str; 9] =
    ["0", "1", "10", "18446744073709551615", "18446744073709551616", "-1", "x", "1.5", "100"];

const FLAGS: [&str; 4] = ["0", "1", "65536", "4294967295"];

/// Times far in the future or in the past, so that nothing expires during the comparison. Times
/// that do not parse are omitted, because the versions of memcached differ in whether they skip the
/// data after such a line.
const TIMES: [&str; 5] = ["0", "0", "1000", "2000000000", "-1"];

/// A placeholder for the CAS number that this server last assigned to the key.
const UNIQUE: &str = "{unique}";

/// A CAS number that no server has assigned.
const STALE: &str = "987654321987654";

/// A server, and the CAS numbers that it has assigned.
struct Side {
    connection: Connection,
    uniques: HashMap<String, String>,
}

impl Side {
    fn new(server: &Server) -> Self {
        Self { connection: server.connect_memcached(), uniques: HashMap::new() }
    }

    /// Sends a request. Returns all lines that answer it, with CAS numbers masked.
    fn run(&mut self, key: &str, request: &str) -> Vec<String> {
        let unique = self.uniques.get(key).map_or(STALE, String::as_str);
        self.connection.send(request.replace(UNIQUE, unique));
        // Everything before the reply to this command belongs to the request.
        self.connection.send("version\r\n");
        let mut lines = Vec::new();
        loop {
            let line = self.connection.line();
            if line.starts_with("VERSION ") {
                return lines;
            }
            lines.push(self.mask_unique(line));
        }
    }

    /// Removes the fourth number of a line such as `VALUE a 0 1 77`.
    fn mask_unique(&mut self, line: String) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["VALUE", key, flags, length, unique] => {
                self.uniques.insert(key.to_owned(), unique.to_owned());
                format!("VALUE {key} {flags} {length} {UNIQUE}")
            }
            _ => line,
        }
    }
}

/// Returns a request, and the key that it uses.
fn request(random: &mut Random) -> (&'static str, String) {
    let key = random.choose(&KEYS);
    let noreply = if random.below(10) == 0 { " noreply" } else { "" };
    let time = random.choose(&TIMES);
    let text = match random.below(14) {
        0..=3 => {
            let verb = random.choose(&["set", "set", "add", "replace"]);
            let (flags, value) = (random.choose(&FLAGS), random.choose(&VALUES));
            format!("{verb} {key} {flags} {time} {}{noreply}\r\n{value}\r\n", value.len())
        }
        4 => {
            let (verb, part) = (random.choose(&["append", "prepend"]), random.choose(&PARTS));
            format!("{verb} {key} 0 {time} {}{noreply}\r\n{part}\r\n", part.len())
        }
        5 => {
            let (value, unique) = (random.choose(&VALUES), random.choose(&[UNIQUE, UNIQUE, STALE]));
            format!("cas {key} 0 {time} {} {unique}{noreply}\r\n{value}\r\n", value.len())
        }
        6 | 7 => {
            let verb = random.choose(&["get", "gets"]);
            let keys: Vec<&str> = (0..=random.below(3)).map(|_| random.choose(&KEYS)).collect();
            format!("{verb} {}\r\n", keys.join(" "))
        }
        8 => format!("{} {time} {key}\r\n", random.choose(&["gat", "gats"])),
        9 | 10 => {
            let (verb, delta) = (random.choose(&["incr", "decr"]), random.choose(&NUMBERS));
            format!("{verb} {key} {delta}\r\n")
        }
        11 => format!("touch {key} {time}{noreply}\r\n"),
        12 => {
            format!("delete {key}{}{noreply}\r\n", random.choose(&["", "", "", " 0"]))
        }
        _ => {
            // The versions of memcached differ for lines with too few words, so these lines have
            // enough words.
            let odd = [
                "nonsense\r\n",
                "verbosity 0\r\n",
                "GET a\r\n",
                "get  a\r\n",
                "get a \r\n",
                "get a\n",
                "flush_all 0\r\n",
                "flush_all noreply\r\n",
                "flush_all x\r\n",
                "set a 0 0 -1\r\n",
                "set a 0 0 1 bogus\r\nx\r\n",
                "set  b 0 0 1\r\nx\r\n",
                "stats nonsense\r\n",
            ];
            random.choose(&odd).to_owned()
        }
    };
    (key, text)
}

#[test]
fn random_requests_are_answered_as_by_memcached() {
    let (nagi, memcached) = (Server::nagi(), Server::memcached());
    let mut random = Random::announced();
    let (mut ours, mut theirs) = (Side::new(&nagi), Side::new(&memcached));
    let mut history: Vec<String> = Vec::new();
    for number in 0..super::count() {
        if number.is_multiple_of(COMMANDS_A_HISTORY) {
            history.clear();
            for side in [&mut ours, &mut theirs] {
                for key in KEYS {
                    let _ = side.run(key, &format!("delete {key}\r\n"));
                }
                side.uniques.clear();
            }
        }
        let (key, text) = request(&mut random);
        history.push(format!("{text:?}"));
        let (our_lines, their_lines) = (ours.run(key, &text), theirs.run(key, &text));
        assert_eq!(
            our_lines,
            their_lines,
            "nagi (left) and memcached (right) differ after:\n{}",
            history[history.len().saturating_sub(12)..].join("\n")
        );
        // memcached may keep the old length and pad with blanks, and versions before 1.6.45 cannot
        // read back numbers above half of the range. Setting the value makes both servers equal
        // again.
        let counts = text.starts_with("incr ") || text.starts_with("decr ");
        if let [number] = our_lines.as_slice()
            && counts
            && number.starts_with(|first: char| first.is_ascii_digit())
        {
            let number = if number.len() > 18 { "7" } else { number };
            let text = format!("set {key} 0 0 {}\r\n{number}\r\n", number.len());
            assert_eq!(ours.run(key, &text), theirs.run(key, &text));
        }
    }
}
