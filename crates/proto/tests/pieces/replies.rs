//! Encodes replies of both protocols, and finds and decodes them in any pieces.

use crate::feed::{self, cut};
use nagi_proto::resp::{Reply, Version, Writer};
use nagi_proto::{Output, memcached, resp};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

fn line() -> impl Strategy<Value = String> {
    "[ -~]{0,20}"
}

fn bulk() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..20), vec(any::<u8>(), 95..105)]
}

/// Returns replies of all types, nested to a small depth.
fn reply() -> impl Strategy<Value = Reply> {
    let scalar = prop_oneof![
        line().prop_map(Reply::Simple),
        line().prop_map(Reply::Error),
        any::<i64>().prop_map(Reply::Integer),
        bulk().prop_map(Reply::Bulk),
        Just(Reply::Null),
        Just(Reply::NullArray),
        any::<bool>().prop_map(Reply::Boolean),
        prop::num::f64::ANY.prop_filter("equal to itself", |n| !n.is_nan()).prop_map(Reply::Double),
        "-?[1-9][0-9]{0,40}".prop_map(Reply::BigNumber),
        bulk().prop_map(|text| Reply::Verbatim { format: *b"txt", text }),
    ];
    scalar.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Reply::Array),
            vec(inner.clone(), 0..6).prop_map(Reply::Set),
            vec(inner.clone(), 0..6).prop_map(Reply::Push),
            vec((inner.clone(), inner), 0..4).prop_map(Reply::Map),
        ]
    })
}

/// Encodes a reply in RESP3, except for RESP2's null array.
fn encode(reply: &Reply, into: &mut Vec<u8>) {
    let string = |into: &mut Vec<u8>, kind: char, text: &[u8]| {
        into.extend_from_slice(format!("{kind}{}\r\n", text.len()).as_bytes());
        into.extend_from_slice(text);
        into.extend_from_slice(b"\r\n");
    };
    let list = |into: &mut Vec<u8>, kind: char, replies: &[Reply]| {
        into.extend_from_slice(format!("{kind}{}\r\n", replies.len()).as_bytes());
        replies.iter().for_each(|reply| encode(reply, into));
    };
    let plain = match reply {
        Reply::Bulk(bytes) => return string(into, '$', bytes),
        Reply::Verbatim { format, text } => {
            return string(into, '=', &[format, &b":"[..], text].concat());
        }
        Reply::Array(replies) => return list(into, '*', replies),
        Reply::Set(replies) => return list(into, '~', replies),
        Reply::Push(replies) => return list(into, '>', replies),
        Reply::Map(pairs) => {
            into.extend_from_slice(format!("%{}\r\n", pairs.len()).as_bytes());
            for (key, value) in pairs {
                encode(key, into);
                encode(value, into);
            }
            return;
        }
        Reply::Simple(text) => format!("+{text}"),
        Reply::Error(text) => format!("-{text}"),
        Reply::Integer(number) => format!(":{number}"),
        Reply::Null => "_".to_owned(),
        Reply::NullArray => "*-1".to_owned(),
        Reply::Boolean(value) => format!("#{}", if *value { 't' } else { 'f' }),
        Reply::Double(number) => format!(",{number}"),
        Reply::BigNumber(digits) => format!("({digits}"),
    };
    into.extend_from_slice(plain.as_bytes());
    into.extend_from_slice(b"\r\n");
}

fn resp_garbage() -> impl Strategy<Value = Vec<u8>> {
    let words = select(vec![
        "*2\r\n",
        "*-1\r\n",
        "%1\r\n",
        "|1\r\n",
        ">1\r\n",
        "~0\r\n",
        "$3\r\nabc\r\n",
        "$-1\r\n",
        "+OK\r\n",
        ":1\r\n",
        "_\r\n",
        "=5\r\ntxt:a\r\n",
        "\r\n",
        "\r",
        "$",
        "1",
        "-",
        "x",
        "*1000\r\n",
        "#t\r\n",
    ]);
    let bytes = prop_oneof![
        20 => words.prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..20),
    ];
    vec(bytes, 0..30).prop_map(|parts| parts.concat())
}

fn memcached_garbage() -> impl Strategy<Value = Vec<u8>> {
    let words = select(vec![
        "VALUE a 0 3\r\n",
        "VALUE a 0 0 7\r\n",
        "abc\r\n",
        "\r\n",
        "END\r\n",
        "STAT a b\r\n",
        "STORED\r\n",
        "VALUE a 0\r\n",
        "VALUE ",
        "12\r\n",
        "\r",
        "x",
    ]);
    vec(words, 0..20).prop_map(|words| words.concat().into_bytes())
}

/// Returns the lengths of the replies in `input` and its end, as a whole, in pieces and byte by
/// byte.
fn resp_lengths(input: &[u8], cuts: &[usize]) -> [feed::Found; 3] {
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    [vec![input], cut(input, cuts), bytes].map(|pieces| {
        let mut parser = resp::ReplyParser::default();
        feed::replies(&pieces, |input| parser.next(input))
    })
}

fn memcached_lengths(input: &[u8], cuts: &[usize]) -> [feed::Found; 3] {
    let bytes: Vec<&[u8]> = input.chunks(1).collect();
    [vec![input], cut(input, cuts), bytes].map(|pieces| {
        let mut parser = memcached::ReplyParser::default();
        feed::replies(&pieces, |input| parser.next(input))
    })
}

fn pieces() -> impl Strategy<Value = Vec<usize>> {
    vec(any::<usize>(), 0..12)
}

proptest! {
    #[test]
    fn resp_replies_are_found_and_decoded(replies in vec(reply(), 1..4), cuts in pieces()) {
        let encoded = replies.iter().map(|reply| {
            let mut bytes = Vec::new();
            encode(reply, &mut bytes);
            bytes
        });
        let encoded: Vec<Vec<u8>> = encoded.collect();
        let lengths: Vec<usize> = encoded.iter().map(Vec::len).collect();
        for found in resp_lengths(&encoded.concat(), &cuts) {
            prop_assert_eq!(found, (lengths.clone(), Ok(0)));
        }
        for (reply, bytes) in replies.iter().zip(&encoded) {
            prop_assert_eq!(Reply::decode(bytes), Ok(Some((reply.clone(), bytes.len()))));
            prop_assert_eq!(Reply::decode(&bytes[..bytes.len() - 1]), Ok(None));
        }
    }

    #[test]
    fn invalid_resp_is_parsed_the_same_in_pieces(input in resp_garbage(), cuts in pieces()) {
        let [whole, cut, bytes] = resp_lengths(&input, &cuts);
        prop_assert_eq!(&cut, &whole);
        prop_assert_eq!(&bytes, &whole);
        let _ = Reply::decode(&input);
    }

    #[test]
    fn invalid_memcached_replies_parse_identically(input in memcached_garbage(), cuts in pieces()) {
        let [whole, cut, bytes] = memcached_lengths(&input, &cuts);
        prop_assert_eq!(&cut, &whole);
        prop_assert_eq!(&bytes, &whole);
    }

    #[test]
    fn memcached_values_are_found(
        values in vec(("[a-z]{1,9}", any::<u32>(), bulk(), any::<Option<u64>>()), 0..5),
        cuts in pieces(),
    ) {
        let mut out = Output::default();
        let mut writer = memcached::Writer::new(&mut out, false);
        for (key, flags, data, unique) in &values {
            writer.value_header(key.as_bytes(), *flags, data.len(), *unique);
            writer.data(data);
        }
        writer.line("END");
        let input = out.as_contiguous().unwrap();
        for found in memcached_lengths(input, &cuts) {
            prop_assert_eq!(found, (vec![input.len()], Ok(0)));
        }
    }

    #[test]
    fn error_is_one_line_whatever_it_quotes(text in "[a\r\né]{0,9}") {
        let mut out = Output::default();
        Writer::new(&mut out, Version::Two).error(&text);
        let expected = Reply::Error(text.replace(['\r', '\n'], " "));
        let bytes = out.as_contiguous().unwrap();
        prop_assert_eq!(Reply::decode(bytes), Ok(Some((expected, bytes.len()))));
    }
}
