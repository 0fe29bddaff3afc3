//! Encodes requests of both protocols and parses them in any pieces; invalid input has the same
//! result in one piece and in many.

use crate::feed::{self, Event, cut};
use nagi_proto::memcached::binary;
use nagi_proto::{memcached, resp};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

const RESP: resp::Limits = resp::Limits { bulk_bytes: 10_000, authenticated: true };
const LOGIN: resp::Limits = resp::Limits { bulk_bytes: 100_000, authenticated: false };
const MEMCACHED: memcached::Limits = memcached::Limits { item_bytes: 40, login_only: false };
const BINARY: binary::Limits = binary::Limits { value_bytes: 20 };

fn arguments() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let argument = prop_oneof![
        8 => vec(any::<u8>(), 0..20),
        1 => vec(any::<u8>(), 90..1200),
    ];
    prop_oneof![6 => vec(argument, 0..6), 1 => vec(vec(any::<u8>(), 0..3), 100..300)]
}

fn multibulk(arguments: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Encodes an inline command with `arguments`, escaping bytes as necessary.
fn inline(arguments: &[Vec<u8>]) -> Vec<u8> {
    let quoted = |argument: &Vec<u8>| {
        let bytes = argument.iter().map(|byte| format!("\\x{byte:02x}"));
        format!("\"{}\"", bytes.collect::<String>())
    };
    let words: Vec<String> = arguments.iter().map(quoted).collect();
    format!(" {}\r\n", words.join("\t ")).into_bytes()
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    vec(any::<usize>(), 0..12)
}

/// Returns a binary request whose value may be too long, and whose lengths may be inconsistent.
fn binary_request() -> impl Strategy<Value = Vec<u8>> {
    let part = || vec(any::<u8>(), 0..30);
    let wrong = prop_oneof![9 => Just(0), 1 => any::<u8>()];
    (any::<u8>(), part(), part(), part(), wrong).prop_map(|(opcode, extras, key, value, wrong)| {
        let body = [&extras[..], &key, &value].concat();
        let key_len = key.len() as u8;
        let lengths = [0, key_len, extras.len() as u8, wrong, 0, 0, 0, 0, 0];
        let length = (body.len() as u8).wrapping_add(wrong);
        [&[binary::REQUEST, opcode], &lengths[..], &[length], &[7; 12], &body[..]].concat()
    })
}

/// Returns valid and invalid parts of memcached's lines.
fn memcached_garbage() -> impl Strategy<Value = Vec<u8>> {
    let words = select(vec![
        "set a 0 0 ",
        "add b 1 1 ",
        "cas a 0 0 ",
        "append a 0 0 ",
        "get ",
        "gets ",
        "incr a 1",
        "0",
        "3",
        "41",
        "1 7",
        " noreply",
        "delete ",
        "noreply",
        "\r\n",
        "\r\n",
        "\r\n",
        "\n",
        "\r",
        " ",
        "abc",
        "abc\r\n",
        "-1",
        "99999999999999999999",
        "2147483645",
        "touch",
        "flush_all",
    ]);
    let bytes = prop_oneof![
        20 => words.prop_map(|word| word.as_bytes().to_vec()),
        2 => vec(any::<u8>(), 0..50),
        1 => (0..40_000_usize).prop_map(|len| vec![b'k'; len]),
    ];
    vec(bytes, 0..30).prop_map(|parts| parts.concat())
}

fn resp_garbage() -> impl Strategy<Value = Vec<u8>> {
    let words = select(vec![
        "*",
        "$",
        "*1\r\n",
        "*2\r\n$3\r\nGET\r\n",
        "$1\r\na\r\n",
        "$3\r\nabc\r\n",
        "\r\n",
        "\r",
        "\n",
        "0",
        "1",
        "-1",
        "10",
        "11",
        "9999999999",
        "*-5\r\n",
        "'",
        "\"",
        "\\x4",
        " ",
        "PING\r\n",
        "ECHO \"a\"\n",
        "$10001\r\n",
        "$16385\r\n",
        "*1000\r\n",
    ]);
    let bytes = prop_oneof![
        20 => words.prop_map(|word| word.as_bytes().to_vec()),
        2 => vec(any::<u8>(), 0..50),
        1 => (0..70_000_usize).prop_map(|len| vec![b'1'; len]),
    ];
    vec(bytes, 0..30).prop_map(|parts| parts.concat())
}

/// Returns a storage, retrieval or other request of memcached: its bytes, and the expected result.
fn memcached_request() -> impl Strategy<Value = (Vec<u8>, Event)> {
    let key = "[a-z]{1,12}";
    let storage = (
        select(vec!["set", "add", "replace", "append", "prepend", "cas"]),
        key,
        vec(any::<u8>(), 0..40),
        any::<bool>(),
    );
    let storage = storage.prop_map(|(verb, key, data, quiet)| {
        let unique = if verb == "cas" { " 99" } else { "" };
        let line = format!("{verb} {key} 1 2 {}{unique}", data.len());
        let end = if quiet { " noreply\r\n" } else { "\r\n" };
        let bytes = [line.as_bytes(), end.as_bytes(), &data, b"\r\n"].concat();
        let mut arguments: Vec<Vec<u8>> = line.split(' ').map(|word| word.into()).collect();
        arguments.push(data);
        (bytes, if quiet { Event::Quiet } else { Event::Request }(arguments))
    });
    let other = (select(vec!["get", "gets", "gat 0", "stats", "nonsense"]), vec(key, 1..30));
    let other = other.prop_map(|(verb, keys)| {
        let line = format!("{verb} {}", keys.join(" "));
        let arguments = line.split(' ').map(|word| word.into()).collect();
        (format!("{line}\r\n").into_bytes(), Event::Request(arguments))
    });
    prop_oneof![storage, other]
}

fn check_resp(input: &[u8], expected: &[Event], cuts: &[usize]) -> Result<(), TestCaseError> {
    let found = feed::resp_requests(&cut(input, cuts), &RESP);
    prop_assert_eq!(found, (expected.to_vec(), Vec::new()));
    Ok(())
}

proptest! {
    #[test]
    fn resp_requests_round_trip(
        requests in vec((arguments(), any::<bool>()), 1..5),
        cuts in pieces(),
    ) {
        let encode = |(arguments, as_inline): &(Vec<_>, bool)| {
            if *as_inline { inline(arguments) } else { multibulk(arguments) }
        };
        let input: Vec<u8> = requests.iter().flat_map(encode).collect();
        let expected: Vec<Event> =
            requests.into_iter().map(|(arguments, _)| Event::Request(arguments)).collect();
        check_resp(&input, &expected, &[])?;
        check_resp(&input, &expected, &cuts)?;
    }

    #[test]
    fn resp_request_may_be_split_anywhere(
        first in vec(vec(any::<u8>(), 0..8), 0..4),
        second in vec(vec(any::<u8>(), 0..8), 0..4),
    ) {
        let input = [multibulk(&first), inline(&second)].concat();
        let expected = [Event::Request(first), Event::Request(second)];
        for place in 0..input.len() {
            check_resp(&input, &expected, &[place])?;
        }
        check_resp(&input, &expected, &(0..input.len()).collect::<Vec<_>>())?;
    }

    #[test]
    fn invalid_resp_is_parsed_the_same_in_pieces(input in resp_garbage(), cuts in pieces()) {
        for limits in [RESP, LOGIN] {
            let whole = feed::resp_requests(&[&input], &limits);
            prop_assert_eq!(feed::resp_requests(&cut(&input, &cuts), &limits), whole.clone());
            if input.len() < 2000 {
                let bytes: Vec<&[u8]> = input.chunks(1).collect();
                prop_assert_eq!(feed::resp_requests(&bytes, &limits), whole);
            }
        }
    }

    #[test]
    fn memcached_requests_round_trip(
        requests in vec(memcached_request(), 1..5),
        cuts in pieces(),
        place in any::<Index>(),
    ) {
        let (bytes, expected): (Vec<Vec<u8>>, Vec<Event>) = requests.into_iter().unzip();
        let input = bytes.concat();
        let expected = (expected, Vec::new());
        for cuts in [vec![], vec![place.index(input.len())], cuts, (0..input.len()).collect()] {
            let found = feed::memcached_requests(&cut(&input, &cuts), &MEMCACHED);
            prop_assert_eq!(found, expected.clone());
        }
    }

    #[test]
    fn binary_requests_are_parsed_the_same_in_pieces(
        requests in vec(binary_request(), 1..5),
        cuts in pieces(),
    ) {
        let input = requests.concat();
        let whole = feed::binary_requests(&[&input], &BINARY);
        for cuts in [cuts, (0..input.len()).collect()] {
            prop_assert_eq!(feed::binary_requests(&cut(&input, &cuts), &BINARY), whole.clone());
        }
    }

    #[test]
    fn invalid_memcached_requests_are_parsed_the_same_in_pieces(
        input in memcached_garbage(),
        cuts in pieces(),
    ) {
        let whole = feed::memcached_requests(&[&input], &MEMCACHED);
        let found = feed::memcached_requests(&cut(&input, &cuts), &MEMCACHED);
        prop_assert!(feed::agrees(&found, &whole), "{found:?}, and whole {whole:?}");
        if input.len() < 2000 {
            let bytes: Vec<&[u8]> = input.chunks(1).collect();
            prop_assert_eq!(feed::memcached_requests(&bytes, &MEMCACHED), whole);
        }
    }

    #[test]
    fn inline_words_equal_those_of_a_reference(line in r#"([ab x4\\"'\t\x0b\r]|\\x4a|\\n){0,24}"#) {
        let expected = match reference_split(line.trim_end_matches('\n')) {
            Some(words) => Event::Request(words),
            None => Event::Closed("unbalanced quotes in request".to_owned()),
        };
        let input = format!("{line}\n");
        let (found, _) = feed::resp_requests(&[input.as_bytes()], &RESP);
        // A line that starts like a multibulk would be parsed as one; none of these does.
        prop_assert_eq!(found, vec![expected]);
    }
}

/// Splits an inline command with a simple, slow algorithm, for comparison.
fn reference_split(line: &str) -> Option<Vec<Vec<u8>>> {
    const BLANKS: [char; 6] = [' ', '\t', '\n', '\x0b', '\x0c', '\r'];
    let mut words = Vec::new();
    let mut rest = line.trim_start_matches(BLANKS);
    while !rest.is_empty() {
        let plain = rest.find([' ', '\t', '\n', '\r', '"', '\'']).unwrap_or(rest.len());
        let mut word = rest.as_bytes()[..plain].to_vec();
        rest = &rest[plain..];
        if let Some(open) = rest.chars().next().filter(|first| ['"', '\''].contains(first)) {
            rest = &rest[1..];
            while !rest.starts_with(open) {
                let (byte, taken) = reference_escape(rest, open)?;
                word.push(byte);
                rest = &rest[taken..];
            }
            rest = &rest[1..];
            if !(rest.is_empty() || rest.starts_with(BLANKS)) {
                return None;
            }
        }
        words.push(word);
        rest = rest.trim_start_matches(BLANKS);
    }
    Some(words)
}

/// Returns the next byte between quotes, and the length of its source.
fn reference_escape(rest: &str, open: char) -> Option<(u8, usize)> {
    let bytes = rest.as_bytes();
    let first = *bytes.first()?;
    if first != b'\\' {
        return Some((first, 1));
    }
    if open == '\'' {
        return Some(if rest.starts_with("\\'") { (b'\'', 2) } else { (b'\\', 1) });
    }
    let hex = rest.get(2..4).filter(|hex| hex.bytes().all(|digit| digit.is_ascii_hexdigit()));
    match (bytes.get(1), hex) {
        (Some(b'x'), Some(hex)) => Some((u8::from_str_radix(hex, 16).unwrap(), 4)),
        (Some(letter), _) => {
            let controls = [(b'n', b'\n'), (b'r', b'\r'), (b't', b'\t'), (b'b', 8), (b'a', 7)];
            let control = controls.iter().find(|(name, _)| name == letter);
            Some((control.map_or(*letter, |(_, byte)| *byte), 2))
        }
        (None, _) => None,
    }
}
