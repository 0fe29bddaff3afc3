//! The binary protocol (memcached's `protocol_binary.h`): a header of 24 bytes, extras, key, value.
//!
//! ```text
//!  0      1        2        4       5     6         8        12       16
//!  +------+--------+--------+-------+-----+---------+--------+--------+-------+
//!  | 0x80 | opcode | key len| extras| 0   | vbucket | body   | opaque |  CAS  |  request
//!  | 0x81 |        |        | len   |     | status  | len    |        |       |  reply
//!  +------+--------+--------+-------+-----+---------+--------+--------+-------+
//! ```

use crate::Output;

/// The first byte of every request; no line of the text protocol begins with it.
pub const REQUEST: u8 = 0x80;
/// The first byte of every reply.
pub const REPLY: u8 = 0x81;

/// The length of a request or reply without extras, key and value.
pub const HEADER_BYTES: usize = 24;
/// The maximum length of a key in bytes.
const KEY_BYTES: usize = 250;
/// The maximum body length in a header, regardless of the limits.
const BODY_BYTES: usize = i32::MAX as usize - 1;

/// The limits of a request.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The maximum length of a value in bytes.
    pub value_bytes: usize,
}

/// A request, borrowed from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The operation.
    pub opcode: u8,
    /// Parameters of the opcode.
    pub extras: &'a [u8],
    /// The key; empty if there is none.
    pub key: &'a [u8],
    /// The value; empty if it is too long.
    pub value: &'a [u8],
    /// Repeated in the reply.
    pub opaque: u32,
    /// The expected version; 0 for any.
    pub cas: u64,
    /// Whether the value is too long and is discarded.
    pub oversized: bool,
}

/// The meaning of the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedFrame<'a> {
    /// More bytes are needed.
    Incomplete,
    /// Bytes of a value that is discarded.
    Dropped {
        /// The number of bytes.
        consumed: usize,
    },
    /// A request.
    Request {
        /// The number of bytes that it takes.
        consumed: usize,
        /// The request.
        frame: Frame<'a>,
    },
    /// A request with inconsistent lengths, and with an empty body. The connection must be closed.
    Contradiction {
        /// The parsed part of the request.
        frame: Frame<'a>,
        /// Whether the lengths are consistent, but the key or the whole request is too long.
        too_long: bool,
    },
    /// Not a request. The connection must be closed.
    Garbage,
}

/// Parses the requests of a connection.
#[derive(Debug, Default)]
pub struct Parser {
    /// The number of bytes of a too long value that have not arrived yet.
    discard_bytes: usize,
}

impl Parser {
    /// Parses the request at the start of `input`.
    pub fn parse<'a>(&mut self, input: &'a [u8], limits: &Limits) -> ParsedFrame<'a> {
        if self.discard_bytes > 0 {
            let consumed = self.discard_bytes.min(input.len());
            self.discard_bytes -= consumed;
            return if consumed == 0 {
                ParsedFrame::Incomplete
            } else {
                ParsedFrame::Dropped { consumed }
            };
        }
        if input.first().is_some_and(|magic| *magic != REQUEST) {
            return ParsedFrame::Garbage;
        }
        let Some((header, body)) = input.split_first_chunk::<HEADER_BYTES>() else {
            return ParsedFrame::Incomplete;
        };
        let [_, opcode, k0, k1, extras_len, _, _, _, b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] =
            *header;
        let key_len = usize::from(u16::from_be_bytes([k0, k1]));
        let body_len = u32::from_be_bytes([b0, b1, b2, b3]) as usize;
        let value_at = usize::from(extras_len) + key_len;
        let mut frame = Frame {
            opcode,
            extras: &[],
            key: &[],
            value: &[],
            opaque: u32::from_be_bytes([o0, o1, o2, o3]),
            cas: u64::from_be_bytes(cas),
            oversized: false,
        };
        if value_at > body_len || key_len > KEY_BYTES || body_len > BODY_BYTES {
            return ParsedFrame::Contradiction { frame, too_long: value_at <= body_len };
        }
        frame.oversized = body_len - value_at > limits.value_bytes;
        let needed = if frame.oversized { value_at } else { body_len };
        let Some(body) = body.get(..needed) else { return ParsedFrame::Incomplete };
        let (extras, rest) = body.split_at_checked(extras_len.into()).unwrap_or_default();
        let (key, value) = rest.split_at_checked(key_len).unwrap_or_default();
        frame = Frame { extras, key, value, ..frame };
        if frame.oversized {
            self.discard_bytes = body_len - value_at;
        }
        ParsedFrame::Request { consumed: HEADER_BYTES + needed, frame }
    }
}

/// The header of a reply.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// The opcode of the request.
    pub opcode: u8,
    /// 0 if the request succeeded.
    pub status: u16,
    /// The opaque value of the request.
    pub opaque: u32,
    /// The version of the item; 0 for none.
    pub cas: u64,
}

/// Appends a reply without its value, of which `value_len` bytes must follow.
pub fn begin(out: &mut Output, head: Head, extras: &[u8], key: &[u8], value_len: usize) {
    let Head { opcode, status, opaque, cas } = head;
    let body_len = (extras.len() + key.len() + value_len) as u32;
    let buffer = out.buffer();
    buffer.extend_from_slice(&[REPLY, opcode]);
    buffer.extend_from_slice(&(key.len() as u16).to_be_bytes());
    buffer.extend_from_slice(&[extras.len() as u8, 0]);
    buffer.extend_from_slice(&status.to_be_bytes());
    buffer.extend_from_slice(&body_len.to_be_bytes());
    buffer.extend_from_slice(&opaque.to_be_bytes());
    buffer.extend_from_slice(&cas.to_be_bytes());
    buffer.extend_from_slice(extras);
    buffer.extend_from_slice(key);
}

/// Appends a reply.
pub fn write(out: &mut Output, head: Head, extras: &[u8], key: &[u8], value: &[u8]) {
    begin(out, head, extras, key, value.len());
    out.push(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { value_bytes: 10 };

    fn request(opcode: u8, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
        let mut out = Output::default();
        let head = Head { opcode, status: 0, opaque: 7, cas: 9 };
        write(&mut out, head, extras, key, value);
        let mut bytes = out.as_contiguous().unwrap().to_vec();
        bytes[0] = REQUEST;
        bytes
    }

    #[test]
    fn request_split_at_every_byte() {
        let input = request(1, b"extr", b"key", b"value");
        for cut in 0..input.len() {
            let step = Parser::default().parse(&input[..cut], &LIMITS);
            assert_eq!(step, ParsedFrame::Incomplete, "{cut}");
        }
        let ParsedFrame::Request { consumed, frame } = Parser::default().parse(&input, &LIMITS)
        else {
            panic!("a request");
        };
        assert_eq!((consumed, frame.opcode, frame.opaque, frame.cas), (input.len(), 1, 7, 9));
        assert_eq!(
            (frame.extras, frame.key, frame.value),
            (&b"extr"[..], &b"key"[..], &b"value"[..])
        );
    }

    #[test]
    fn too_long_value_is_discarded_as_it_arrives() {
        let input = request(1, b"", b"k", &[b'x'; 11]);
        let mut parser = Parser::default();
        let ParsedFrame::Request { consumed: 25, frame } = parser.parse(&input[..30], &LIMITS)
        else {
            panic!("a request");
        };
        assert!(frame.oversized && frame.key == b"k" && frame.value.is_empty());
        assert_eq!(parser.parse(&input[25..30], &LIMITS), ParsedFrame::Dropped { consumed: 5 });
        assert_eq!(parser.parse(b"", &LIMITS), ParsedFrame::Incomplete);
        let rest = [&input[30..], &request(0, b"", b"a", b"")].concat();
        assert_eq!(parser.parse(&rest, &LIMITS), ParsedFrame::Dropped { consumed: 6 });
        assert!(matches!(
            parser.parse(&rest[6..], &LIMITS),
            ParsedFrame::Request { consumed: 25, .. }
        ));
    }

    #[test]
    fn invalid_headers_are_refused() {
        assert_eq!(Parser::default().parse(b"get a\r\n", &LIMITS), ParsedFrame::Garbage);
        let mut input = request(0, b"ab", b"key", b"");
        input[11] = 4;
        let step = Parser::default().parse(&input, &LIMITS);
        assert!(matches!(step, ParsedFrame::Contradiction { too_long: false, .. }));
        let input = request(0, b"", &[b'k'; 251], b"");
        let step = Parser::default().parse(&input[..24], &LIMITS);
        assert!(matches!(step, ParsedFrame::Contradiction { too_long: true, .. }));
    }
}
