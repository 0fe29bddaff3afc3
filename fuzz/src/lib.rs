//! What the fuzz targets assert: any bytes mean the same whole, cut and one by one, and what
//! the property tests check at every call of a parser.

#[path = "../../crates/proto/tests/pieces/feed.rs"]
mod feed;
pub mod lua;
pub mod rdb;

pub use nagi_commands::fuzzing::acl_file;

use nagi_proto::memcached::{base64, binary};
use nagi_proto::{MalformedReply, memcached, resp};

/// Longest input that is also fed byte by byte.
const BYTE_BY_BYTE: usize = 512;

/// An input with the places to cut it at.
struct Case<'a> {
    /// A spare bit for a target to choose by.
    flag: bool,
    cuts: Vec<usize>,
    input: &'a [u8],
}

impl<'a> Case<'a> {
    /// The first byte holds the number of cuts and the flag; two bytes for each cut follow.
    fn new(data: &'a [u8]) -> Option<Self> {
        let (&head, rest) = data.split_first()?;
        let (places, input) = rest.split_at_checked(usize::from(head & 7) * 2)?;
        let cuts = places.as_chunks().0.iter().map(|place| u16::from_le_bytes(*place).into());
        Some(Case { flag: head & 8 != 0, cuts: cuts.collect(), input })
    }

    /// Asserts that `read` makes the same of the input in every kind of pieces.
    fn same_in_pieces<T: PartialEq + std::fmt::Debug>(&self, read: impl Fn(&[&[u8]]) -> T) {
        self.agrees_in_pieces(read, PartialEq::eq);
    }

    /// Asserts that what `read` makes of the input in every kind of pieces agrees with the whole.
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

/// What clients send over HTTP, and what replies become; queries of the status page, and its texts.
pub fn http_request(data: &[u8]) {
    match data.split_first() {
        Some((0x80.., data)) => nagi_commands::fuzzing::list_options(data),
        _ => nagi_http::fuzzing::request(data),
    }
}

/// Requests of RESP, before and after a login.
pub fn resp_request(data: &[u8]) {
    if let Some(case) = Case::new(data) {
        let limits = resp::Limits { bulk_bytes: 100_000, authenticated: case.flag };
        case.same_in_pieces(|pieces| feed::resp_requests(pieces, &limits));
    }
}

/// Replies of RESP, and their trees.
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

/// A complete reply decodes to all of its bytes, unless something in it is malformed.
fn decode(reply: &[u8]) {
    match resp::Reply::decode(reply) {
        Ok(decoded) => assert_eq!(decoded.map(|(_, len)| len), Some(reply.len())),
        Err(MalformedReply { at }) => assert!(at < reply.len(), "an element lies in its reply"),
    }
}

/// Requests and replies of memcached's text protocol.
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

/// Requests of memcached's binary protocol.
pub fn memcached_binary(data: &[u8]) {
    if let Some(case) = Case::new(data) {
        let limits = binary::Limits { value_bytes: if case.flag { 16 } else { 1 << 20 } };
        case.same_in_pieces(|pieces| feed::binary_requests(pieces, &limits));
    }
}

/// What follows a meta command and a key, and that key in base64.
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

/// Any bytes come back from how they are spelled, and what a text spells does as well: the bits
/// of its last letter that say nothing may have been set.
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
