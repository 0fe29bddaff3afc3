//! Answers in every protocol, whole and in pieces.

use super::*;

fn value(bytes: &str, flags: u32, cas: Option<u64>) -> Option<Value> {
    Some(Value { bytes: bytes.as_bytes().to_vec(), flags, cas })
}

/// Decodes `input` byte by byte; no answer is found before the end.
fn decode(dialect: Dialect, request: &Request<'_>, input: &[u8]) -> Answer {
    let mut decoder = Decoder::new(dialect);
    for end in 0..input.len() {
        assert_eq!(decoder.next(request, &input[..end]), Ok(None), "{end} of {input:?}");
    }
    let more = [input, b"X"].concat();
    let (len, answer) = decoder.next(request, &more).unwrap().unwrap();
    assert_eq!(len, input.len());
    answer
}

#[test]
fn values_come_in_the_order_of_keys() {
    let request = Request::Get { keys: vec![b"a", b"b", b"a", b"c"] };
    let text = b"VALUE a 5 1 9\r\nx\r\nVALUE a 5 1 9\r\nx\r\nVALUE c 0 2 1\r\n\r\n\r\nEND\r\n";
    let expected = Answer::Values(vec![
        value("x", 5, Some(9)),
        None,
        value("x", 5, Some(9)),
        value("\r\n", 0, Some(1)),
    ]);
    assert_eq!(decode(Dialect::Text, &request, text), expected);
    let meta = b"VA 1 f5 c9 ka\r\nx\r\nVA 1 f5 c9 ka\r\nx\r\nVA 2 f0 c1 kc\r\n\r\n\r\nMN\r\n";
    assert_eq!(decode(Dialect::Meta, &request, meta), expected);
    let resp = b"*4\r\n$1\r\nx\r\n$-1\r\n$1\r\nx\r\n$2\r\n\r\n\r\n";
    let plain = vec![value("x", 0, None), None, value("x", 0, None), value("\r\n", 0, None)];
    assert_eq!(decode(Dialect::Resp, &request, resp), Answer::Values(plain));
}

#[test]
fn refusals_are_answers() {
    let get = Request::Get { keys: vec![b"a"] };
    for (dialect, reply) in [
        (Dialect::Text, &b"SERVER_ERROR out of memory\r\n"[..]),
        (Dialect::Meta, b"SERVER_ERROR out of memory\r\nMN\r\n"),
        (Dialect::Resp, b"-SERVER_ERROR out of memory\r\n"),
    ] {
        let answer = decode(dialect, &get, reply);
        assert_eq!(answer, Answer::Refused("SERVER_ERROR out of memory".to_owned()));
    }
}

#[test]
fn a_reply_of_another_protocol_is_malformed() {
    let delete = Request::Delete { key: b"a" };
    for (dialect, reply) in [
        (Dialect::Text, &b"HTTP/1.1 400 Bad Request\r\n"[..]),
        (Dialect::Meta, b"HTTP/1.1 400 Bad Request\r\n"),
        (Dialect::Binary, b"HTTP/1.1 400 Bad Request\r\n"),
        (Dialect::Resp, b"HTTP/1.1 400 Bad Request\r\n"),
    ] {
        assert!(Decoder::new(dialect).next(&delete, reply).is_err(), "{dialect:?}");
    }
}

#[test]
fn keys_that_would_end_a_line_are_refused() {
    for key in [&b"a b"[..], b"a\r\nflush_all", b"", &[b'k'; 251]] {
        for dialect in [Dialect::Text, Dialect::Meta] {
            let mut out = Vec::new();
            assert!(Request::Delete { key }.encode(dialect, &mut out).is_err());
            assert!(out.is_empty());
        }
    }
    assert!(Request::Delete { key: &[0xe9; 250] }.encode(Dialect::Text, &mut Vec::new()).is_ok());
}
