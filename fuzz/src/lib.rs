//! The assertions of the fuzz targets: parsers give the same results for input in one piece, cut at
//! arbitrary positions, and byte by byte. They also check the invariants of the property tests at
//! every call of a parser.

#[path = "../../crates/proto/tests/pieces/feed.rs"]
mod feed;
pub mod lua;
pub mod rdb;

pub use nagi_commands::fuzzing::acl_file;

use nagi_proto::memcached::{base64, binary};
use nagi_proto::{MalformedReply, memcached, resp};

/// Maximum length of an input that is also fed byte by byte.
const BYTE_BY_BYTE: usize = 512;

/// An input, and the positions at which it is cut.
struct Case<'a> {
    /// A bit that selects a variant of the target.
    flag: bool,
    cuts: Vec<usize>,
    input: &'a [u8],
}

impl<'a> Case<'a> {
    /// Parses an input. The first byte contains the number of cuts and the flag; two bytes for each
    /// cut follow.
    fn new(data: &'a [u8]) -> Option<Self> {
        let (&head, rest) = data.split_first()?;
        let (places, input) = rest.split_at_checked(usize::from(head & 7) * 2)?;
        let cuts = places.as_chunks().0.iter().map(|place| u16::from_le_bytes(*place).into());
        Some(Case { flag: head & 8 != 0, cuts: cuts.collect(), input })
    }

    /// Asserts that `read` returns the same result for the whole input and for its pieces.
    fn same_in_pieces<T: PartialEq + std::fmt::Debug>(&self, read: impl Fn(&[&[u8]]) -> T) {
        self.agrees_in_pieces(read, PartialEq::eq);
    }

    /// Asserts that the results of `read` for the whole input and for its pieces agree, as defined
    /// by `agrees`.
    fn agrees_in_pieces<T: std::fmt::Debug>(
        &self,
        read: impl Fn(&[&[u8]]) -> T,
        agrees: impl Fn(&T, &T) -> bool,
    ) {
        let whole = read(&[self.input]);
        let cut = read(&feed::cut(self.input, &self.cuts));
        assert!(agrees(&cut, &whole), "cut: {cut:?}, and whole {whole:?}");
        if self.input.len() <= BYTE_BY_BYTE {
            let bytes: Vec<&[u8]> = self.input.chunks(1).collect();
            let read = read(&bytes);
            assert!(agrees(&read, &whole), "byte by byte: {read:?}, and whole {whole:?}");
        }
    }
}

/// Checks HTTP requests and the replies that become responses, or the queries and the text of the
/// status page. The first byte selects which.
pub fn http_request(data: &[u8]) {
    match data.split_first() {
        Some((0x80.., data)) => nagi_commands::fuzzing::list_options(data),
        _ => nagi_http::fuzzing::request(data),
    }
}

/// Parses requests of RESP, with the limits before or after a login.
pub fn resp_request(data: &[u8]) {
    if let Some(case) = Case::new(data) {
        let limits = resp::Limits { bulk_bytes: 100_000, authenticated: case.flag };
        case.same_in_pieces(|pieces| feed::resp_requests(pieces, &limits));
    }
}

/// Parses replies of RESP, and decodes them to trees.
pub fn resp_reply(data: &[u8]) {
    if let Some(case) = Case::new(data) {
        case.same_in_pieces(|pieces| {
            let mut parser = resp::ReplyParser::default();
            feed::replies(pieces, |input| {
                let found = parser.next(input);
                if let Ok(Some(len)) = found {
                    decode(&input[..len]);
                }
                found
            })
        });
        let _ = resp::Reply::decode(case.input);
    }
}

/// Asserts that a complete reply decodes to all of its bytes, or is malformed inside.
fn decode(reply: &[u8]) {
    match resp::Reply::decode(reply) {
        Ok(decoded) => assert_eq!(decoded.map(|(_, len)| len), Some(reply.len())),
        Err(MalformedReply { at }) => assert!(at < reply.len(), "an element lies in its reply"),
    }
}

/// Parses requests and replies of memcached's text protocol.
pub fn memcached_text(data: &[u8]) {
    if let Some(case) = Case::new(data) {
        let limits = memcached::Limits {
            item_bytes: if case.flag { 16 } else { 1 << 20 },
            login_only: false,
        };
        case.agrees_in_pieces(|pieces| feed::memcached_requests(pieces, &limits), feed::agrees);
        case.same_in_pieces(|pieces| {
            let mut parser = memcached::ReplyParser::default();
            feed::replies(pieces, |input| parser.next(input))
        });
    }
}

/// Parses requests of memcached's binary protocol.
pub fn memcached_binary(data: &[u8]) {
    if let Some(case) = Case::new(data) {
        let limits = binary::Limits { value_bytes: if case.flag { 16 } else { 1 << 20 } };
        case.same_in_pieces(|pieces| feed::binary_requests(pieces, &limits));
    }
}

/// Parses a meta request. The input is the part after the command's name; its words are also used
/// as keys in base64.
pub fn memcached_meta(data: &[u8]) {
    const COMMANDS: [&[u8]; 6] = [b"mg ", b"ms ", b"md ", b"ma ", b"me ", b"mn "];
    let Some((command, rest)) = data.split_first() else { return };
    let Some(case) = Case::new(rest) else { return };
    let line = [COMMANDS[usize::from(*command) % COMMANDS.len()], case.input].concat();
    let limits =
        memcached::Limits { item_bytes: if case.flag { 16 } else { 1 << 20 }, login_only: false };
    let case = Case { input: &line, ..case };
    case.agrees_in_pieces(|pieces| feed::memcached_requests(pieces, &limits), feed::agrees);
    for word in line.split(|byte| b" \r\n".contains(byte)) {
        spelled(word);
    }
    spelled(&line);
}

/// Asserts that bytes survive encoding as base64, and that bytes decoded from base64 do. The text
/// itself need not survive, because the unused bits of its last letter may be set.
fn spelled(bytes: &[u8]) {
    let mut decoded = Vec::new();
    if base64::decode(bytes, &mut decoded) {
        comes_back(&decoded);
    }
    if !bytes.is_empty() {
        comes_back(bytes);
    }
}

fn comes_back(bytes: &[u8]) {
    let (mut decoded, mut encoded) = (Vec::new(), Vec::new());
    base64::encode(bytes, &mut encoded);
    assert!(base64::decode(&encoded, &mut decoded) && decoded == bytes, "base64 and back");
}
