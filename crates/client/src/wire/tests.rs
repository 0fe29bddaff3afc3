//! Answers in every protocol, whole and in pieces.

use super::progress::Progress;
use super::*;

fn value(bytes: &str, flags: u32, cas: Option<u64>) -> Option<Value> {
    Some(Value { bytes: bytes.as_bytes().to_vec(), flags, cas })
}

/// Decodes `input` byte by byte; no answer may be found before the end.
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
fn a_server_that_refuses_even_the_end_of_many_is_not_waited_for() {
    let refused = b"CLIENT_ERROR unauthenticated\r\n";
    let get = Request::Get { keys: vec![b"a", b"b"] };
    let expected = Answer::Refused("CLIENT_ERROR unauthenticated".to_owned());
    assert_eq!(decode(Dialect::Meta, &get, refused), expected);
    let quietly = Request::Quietly { writes: vec![Request::Delete { key: b"a" }] };
    assert_eq!(decode(Dialect::Meta, &quietly, refused), expected);
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

/// A server that gives out no versions reports 0 for each value.
#[test]
fn no_version_is_not_taken_for_any() {
    let request =
        Request::Store { mode: Mode::Cas(0), key: b"k", value: b"v", flags: 0, expiry: 0 };
    assert!(request.encode(Dialect::Binary, &mut Vec::new()).is_err());
    assert!(request.encode(Dialect::Meta, &mut Vec::new()).is_ok());
}

/// Encodes a packet of the binary protocol as a server would send it.
fn packet(operation: u8, key: &[u8], value: &[u8]) -> Vec<u8> {
    let extras: &[u8] = if key.is_empty() { &[] } else { &[0; 4] };
    let body = (extras.len() + key.len() + value.len()) as u32;
    let mut bytes = vec![0x81, operation, 0, key.len() as u8, extras.len() as u8, 0, 0, 0];
    bytes.extend_from_slice(&body.to_be_bytes());
    bytes.extend_from_slice(&[0; 12]);
    bytes.extend([extras, key, value].concat());
    bytes
}

#[test]
fn a_large_answer_in_many_pieces_is_read_once() {
    const KEYS: usize = 1000;
    let names: Vec<String> = (0..KEYS).map(|number| format!("key-{number}")).collect();
    let request = Request::Get { keys: names.iter().map(String::as_bytes).collect() };
    let mut meta = Vec::new();
    let mut binary = Vec::new();
    for name in &names {
        meta.extend(format!("VA 20 f0 c1 k{name}\r\n{}\r\n", "x".repeat(20)).into_bytes());
        binary.extend(packet(0x0d, name.as_bytes(), &[b'x'; 20]));
    }
    meta.extend(b"MN\r\n");
    binary.extend(packet(0x0a, b"", b""));
    for (bytes, step) in [(meta, meta::step as fn(&mut _, &_, &_) -> _), (binary, binary::step)] {
        let (mut steps, mut progress) = (0, Progress::default());
        let mut answer = None;
        for end in 1..=bytes.len() {
            assert_eq!(answer, None, "{end} of {}", bytes.len());
            let read = progress.run(&bytes[..end], |progress, rest| {
                steps += 1;
                step(progress, &request, rest)
            });
            answer = read.unwrap();
        }
        let Some((len, Answer::Values(values))) = answer else { panic!("{answer:?}") };
        assert_eq!(len, bytes.len());
        assert!(values.iter().flatten().all(|value| value.bytes == [b'x'; 20]));
        assert_eq!(values.iter().flatten().count(), KEYS);
        // A step is one attempt to parse an element. A line takes one attempt for each of its
        // bytes, until it is complete.
        assert!(steps <= 30 * KEYS, "{steps} steps for {KEYS} values in {len} pieces");
    }
}

#[test]
fn a_long_line_in_many_pieces_is_searched_once() {
    let line = [&[b'x'; 1000][..], b"\n"].concat();
    let mut progress = Progress::default();
    for end in 0..line.len() {
        // Searched bytes are not read again: a change to them has no effect.
        assert_eq!(progress.line_end(&line[..end]), None);
        let changed = vec![b'\n'; end];
        assert_eq!(progress.line_end(&changed), None);
    }
    assert_eq!(progress.line_end(&line), Some(1001));
}

#[test]
fn values_that_were_not_asked_for_are_malformed() {
    let request = Request::Get { keys: vec![b"a", b"b"] };
    let unasked = |key: &[u8]| packet(0x0d, key, b"x");
    for (dialect, reply) in [
        (Dialect::Text, b"VALUE c 0 1\r\nx\r\nEND\r\n".to_vec()),
        (Dialect::Text, b"VALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n".to_vec()),
        (Dialect::Meta, b"VA 1 kc\r\nx\r\nMN\r\n".to_vec()),
        (Dialect::Binary, unasked(b"c")),
        (Dialect::Resp, b"*3\r\n$-1\r\n$-1\r\n$-1\r\n".to_vec()),
        (Dialect::Resp, b"*2\r\n*1\r\n_\r\n_\r\n".to_vec()),
    ] {
        let answer = Decoder::new(dialect).next(&request, &reply);
        assert!(answer.is_err(), "{dialect:?} {answer:?}");
    }
    let reply = b"*1\r\n_\r\n";
    let answer = Decoder::new(Dialect::Resp).next(&Request::Delete { key: b"a" }, reply);
    assert!(answer.is_err(), "{answer:?}");
    // The server may send the values in any order.
    let reply = b"VALUE b 0 1\r\ny\r\nVALUE a 0 1\r\nx\r\nEND\r\n";
    let (_, answer) = Decoder::new(Dialect::Text).next(&request, reply).unwrap().unwrap();
    assert_eq!(answer, Answer::Values(vec![value("x", 0, None), value("y", 0, None)]));
}

#[test]
fn refused_quiet_writes_are_answered() {
    let set = |key, value| Request::Store { mode: Mode::Set, key, value, flags: 1, expiry: 2 };
    let writes = vec![set(b"a", b"x"), Request::Delete { key: b"b" }];
    let request = Request::Quietly { writes };
    let too_large = "SERVER_ERROR object too large for cache";
    let text = format!("{too_large}\r\nERROR\r\nVERSION 1.6.18\r\n");
    let meta = format!("{too_large}\r\nNF \r\nNS \r\nMN\r\n");
    let binary = [packet(0x14, b"", b""), packet(0x0a, b"", b"")].concat();
    for (dialect, sent, done, refused) in [
        (
            Dialect::Text,
            &b"set a 1 2 1 noreply\r\nx\r\ndelete b noreply\r\nversion\r\n"[..],
            b"VERSION 1.6.18\r\n".to_vec(),
            text.into_bytes(),
        ),
        (
            Dialect::Meta,
            b"ms a 1 F1 T2 MS q\r\nx\r\nmd b q\r\nmn\r\n",
            b"MN\r\n".to_vec(),
            meta.into(),
        ),
    ] {
        let mut bytes = Vec::new();
        request.encode(dialect, &mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), String::from_utf8_lossy(sent));
        assert_eq!(decode(dialect, &request, &done), Answer::Done);
        let expected = Answer::Refused(format!("2 of 2 writes: {too_large}"));
        assert_eq!(decode(dialect, &request, &refused), expected);
    }
    let mut bytes = Vec::new();
    request.encode(Dialect::Binary, &mut bytes).unwrap();
    let operations = [bytes[1], bytes[24 + 8 + 2 + 1], bytes[24 + 8 + 2 + 24 + 1 + 1]];
    assert_eq!(operations, [0x11, 0x14, 0x0a]);
    let mut failed = packet(0x11, b"", b"Too large.");
    failed[7] = 3;
    assert_eq!(
        decode(Dialect::Binary, &request, &[failed, binary[24..].to_vec()].concat()),
        Answer::Refused("1 of 2 writes: Too large.".to_owned())
    );
    let mut missing = packet(0x14, b"", b"Not found");
    missing[7] = 1;
    let answer = decode(Dialect::Binary, &request, &[missing, binary[24..].to_vec()].concat());
    assert_eq!(answer, Answer::Done);
    let counted =
        Request::Quietly { writes: vec![Request::Count { key: b"a", by: 1, down: true }] };
    assert!(counted.encode(Dialect::Text, &mut Vec::new()).is_err());
}

#[test]
fn logins_are_sent_in_each_protocol() {
    let login = Login { user: Some("bob".to_owned()), password: "s3cret".to_owned() };
    let encoded = |request: Request<'_>, dialect| {
        let mut bytes = Vec::new();
        request.encode(dialect, &mut bytes).map(|()| bytes)
    };
    let request = || Request::Login { login: &login };
    let text = b"set login 0 0 10\r\nbob s3cret\r\n".to_vec();
    assert_eq!(encoded(request(), Dialect::Text).as_ref(), Ok(&text));
    assert_eq!(encoded(request(), Dialect::Meta), Ok(text));
    let binary = encoded(request(), Dialect::Binary).unwrap();
    assert_eq!(binary[..4], [0x80, 0x21, 0, 5]);
    assert!(binary.ends_with(b"PLAIN\0bob\0s3cret"), "{binary:?}");
    let resp = b"*3\r\n$4\r\nAUTH\r\n$3\r\nbob\r\n$6\r\ns3cret\r\n".to_vec();
    assert_eq!(encoded(request(), Dialect::Resp), Ok(resp));
    let hello = encoded(Request::Hello { login: Some(&login) }, Dialect::Resp).unwrap();
    assert!(hello.starts_with(b"*5\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n"), "{hello:?}");
    assert!(encoded(Request::Hello { login: None }, Dialect::Text).is_err());
    for (user, password) in [(None, "x"), (Some("a b"), "x"), (Some("a"), "x\r\nflush_all")] {
        let login = Login { user: user.map(str::to_owned), password: password.to_owned() };
        let refused = encoded(Request::Login { login: &login }, Dialect::Text).unwrap_err();
        assert!(!refused.contains(password) || password == "x", "{refused}");
    }
    assert_eq!(decode(Dialect::Text, &request(), b"STORED\r\n"), Answer::Done);
    assert_eq!(decode(Dialect::Meta, &request(), b"STORED\r\n"), Answer::Done);
    assert_eq!(decode(Dialect::Resp, &request(), b"+OK\r\n"), Answer::Done);
    let hello = Request::Hello { login: None };
    assert_eq!(decode(Dialect::Resp, &hello, b"%1\r\n+proto\r\n:3\r\n"), Answer::Done);
    let refused = decode(Dialect::Resp, &hello, b"-NOPROTO unsupported\r\n");
    assert_eq!(refused, Answer::Refused("NOPROTO unsupported".to_owned()));
    let stats = Request::Stats { section: "" };
    let pairs = decode(Dialect::Resp, &stats, b"=7\r\ntxt:a:b\r\n");
    assert_eq!(pairs, Answer::Pairs(vec![("a".to_owned(), "b".to_owned())]));
}

#[test]
fn keys_with_blanks_are_refused_in_each_protocol_of_memcached() {
    for dialect in [Dialect::Text, Dialect::Meta, Dialect::Binary] {
        for key in [&b"a b"[..], b"a\r\nflush_all", b"", &[b'x'; 251]] {
            let mut bytes = Vec::new();
            assert!(Request::Delete { key }.encode(dialect, &mut bytes).is_err(), "{key:?}");
            assert!(bytes.is_empty());
        }
    }
}
