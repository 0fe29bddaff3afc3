//! Finds the start of each request in the bytes of a connection, so that its head is checked before
//! it is parsed. The parser accepts a line feed alone as the end of a line, and a head with both
//! Content-Length and Transfer-Encoding, so a proxy in front may see different requests (request
//! smuggling). For the same reason the chunks of a body are checked, up to its end.

use hyper::header::{HeaderMap, TRANSFER_ENCODING};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The head of a request, or the rest of it.
const HEAD: u64 = u64::MAX;
/// Nothing: a whole head has been passed on, and has not been parsed yet.
const NOTHING: u64 = u64::MAX - 1;
/// Bytes that are not inspected.
const ANYTHING: u64 = u64::MAX - 2;
/// The chunks of a body, or the rest of them.
const CHUNKS: u64 = u64::MAX - 3;

/// What is expected next on a connection; values below the constants are remaining bytes of a body.
/// The requests of a connection set this value, and its stream reads it. Threads do not share it,
/// but the parser requires streams that are `Send`.
#[derive(Clone, Debug)]
pub(crate) struct Expected(Arc<AtomicU64>);

impl Default for Expected {
    fn default() -> Self {
        Expected(Arc::new(AtomicU64::new(HEAD)))
    }
}

impl Expected {
    /// Records that a request with this body has begun.
    pub(crate) fn request_begins(&self, body: BodyLength) {
        self.set(match body {
            BodyLength::Known(0) => HEAD,
            BodyLength::Known(len) => len.min(CHUNKS - 1),
            BodyLength::Chunked => CHUNKS,
            BodyLength::Unknown => ANYTHING,
        });
    }

    /// Records that the following bytes are not HTTP.
    pub(crate) fn protocol_changes(&self) {
        self.set(ANYTHING);
    }

    fn set(&self, next: u64) {
        self.0.store(next, Ordering::Relaxed);
    }
}

/// The length of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    Known(u64),
    Chunked,
    /// Only the parser knows where the body ends: no further request may be read from the
    /// connection.
    Unknown,
}

impl BodyLength {
    /// The length of a body by these headers, given its length in bytes if it has one.
    pub(crate) fn of(bytes: Option<u64>, headers: &HeaderMap) -> Self {
        let mut encodings = headers.get_all(TRANSFER_ENCODING).iter();
        let (first, second) = (encodings.next(), encodings.next());
        let is_chunked = second.is_none()
            && first.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"chunked"));
        match bytes {
            Some(len) => BodyLength::Known(len),
            None if is_chunked => BodyLength::Chunked,
            None => BodyLength::Unknown,
        }
    }
}

/// How many of the received bytes may be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// This many bytes, at least one.
    Bytes(usize),
    /// This many bytes, of which the last one makes the head or the chunks invalid.
    Wrong(usize),
    /// None: the parser has not found the end of the head at the same place.
    Disagreed,
}

/// Inspects the bytes of a connection.
#[derive(Debug)]
pub(crate) struct Inspector {
    expected: Expected,
    head: Head,
    chunks: Chunks,
}

/// The head that is arriving.
#[derive(Debug, Default)]
struct Head {
    /// The beginning of the head, while its end has not arrived.
    begun: Vec<u8>,
    /// The start of the head's last line.
    line: usize,
    has_length: bool,
    has_encoding: bool,
}

impl Inspector {
    pub(crate) fn new(expected: Expected) -> Self {
        Inspector { expected, head: Head::default(), chunks: Chunks::default() }
    }

    /// Inspects received bytes, of which there is at least one.
    pub(crate) fn admit(&mut self, bytes: &[u8]) -> Admitted {
        match self.expected.0.load(Ordering::Relaxed) {
            ANYTHING => Admitted::Bytes(bytes.len()),
            NOTHING => Admitted::Disagreed,
            HEAD => {
                let admitted = self.head.take(bytes);
                if let Some(whole) = admitted {
                    self.head = Head::default();
                    self.expected.set(NOTHING);
                    return whole;
                }
                Admitted::Bytes(bytes.len())
            }
            CHUNKS => {
                let admitted = self.chunks.take(bytes);
                let Some(admitted) = admitted else { return Admitted::Bytes(bytes.len()) };
                self.chunks = Chunks::default();
                let is_wrong = matches!(admitted, Admitted::Wrong(_));
                self.expected.set(if is_wrong { NOTHING } else { HEAD });
                admitted
            }
            left => {
                let here = left.min(bytes.len() as u64);
                self.expected.set(if here == left { HEAD } else { left - here });
                Admitted::Bytes(usize::try_from(here).unwrap_or(bytes.len()))
            }
        }
    }
}

impl Head {
    /// Takes more of the head. Returns how much was taken if the head is complete or invalid.
    fn take(&mut self, bytes: &[u8]) -> Option<Admitted> {
        let before = self.begun.len();
        let mut begun = std::mem::take(&mut self.begun);
        if before > 0 {
            begun.extend_from_slice(bytes);
        }
        let head = if before > 0 { &*begun } else { bytes };
        let (mut from, mut first) = (before, 0);
        while let Some(end) = head.get(from..).and_then(|it| it.iter().position(|it| *it == b'\n'))
        {
            let end = from + end;
            from = end + 1;
            let line = head.get(self.line..end).unwrap_or_default();
            let Some(line) = line.strip_suffix(b"\r") else {
                return Some(Admitted::Wrong(from - before));
            };
            if line.is_empty() && self.line > first {
                let has_both = self.has_length && self.has_encoding;
                let taken = from - before;
                return Some(if has_both {
                    Admitted::Wrong(taken)
                } else {
                    Admitted::Bytes(taken)
                });
            }
            if line.is_empty() {
                // Empty lines before a request are ignored.
                first = from;
            }
            self.note(line);
            self.line = from;
        }
        if before == 0 {
            begun = bytes.get(first..).unwrap_or_default().to_vec();
        } else {
            begun.drain(..first);
        }
        self.line -= first;
        self.begun = begun;
        None
    }

    fn note(&mut self, line: &[u8]) {
        let is_named = |name: &[u8]| {
            line.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name))
        };
        match line.first() {
            Some(b'c' | b'C') => self.has_length |= is_named(b"content-length"),
            Some(b't' | b'T') => self.has_encoding |= is_named(b"transfer-encoding"),
            _ => {}
        }
    }
}

/// The chunks of a body that is arriving (RFC 9112, 7.1). The parser has the same stages: it finds
/// the end of the chunks at the same place, or refuses them.
#[derive(Debug, Default)]
struct Chunks {
    stage: Stage,
    /// Bytes of data left in the current chunk, and the number of digits of its size.
    left: u64,
    digits: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Size,
    Extension,
    /// A carriage return has ended the line of the size.
    SizeEnd,
    Data,
    /// All data of a chunk has arrived.
    DataEnd,
    DataLineFeed,
    /// A line begins after the last chunk: of the trailer, or the empty last one.
    Line,
    Trailer,
    TrailerEnd,
    LastLineFeed,
    Over,
}

impl Chunks {
    /// Takes more of the body. Returns how much was taken if the body is complete or invalid.
    fn take(&mut self, bytes: &[u8]) -> Option<Admitted> {
        let mut taken = 0;
        while let Some(rest) = bytes.get(taken..).filter(|rest| !rest.is_empty()) {
            if self.stage == Stage::Data {
                let here = usize::try_from(self.left).unwrap_or(usize::MAX).min(rest.len());
                self.left -= here as u64;
                taken += here;
                if self.left == 0 {
                    self.stage = Stage::DataEnd;
                }
                continue;
            }
            let next = rest.first().and_then(|byte| self.next(*byte));
            taken += 1;
            match next {
                Some(Stage::Over) => return Some(Admitted::Bytes(taken)),
                Some(stage) => self.stage = stage,
                None => return Some(Admitted::Wrong(taken)),
            }
        }
        None
    }

    /// The stage after a byte that is not data; `None` if the byte is invalid.
    fn next(&mut self, byte: u8) -> Option<Stage> {
        /// The most digits that do not overflow.
        const MOST_DIGITS: u32 = u64::BITS / 4;
        Some(match (self.stage, byte) {
            (Stage::Size, byte) if byte.is_ascii_hexdigit() && self.digits < MOST_DIGITS => {
                let digit = char::from(byte).to_digit(16)?;
                self.left = self.left << 4 | u64::from(digit);
                self.digits += 1;
                Stage::Size
            }
            (Stage::Size, b';' | b' ' | b'\t') if self.digits > 0 => Stage::Extension,
            (Stage::Size, b'\r') if self.digits > 0 => Stage::SizeEnd,
            (Stage::SizeEnd, b'\n') => {
                self.digits = 0;
                if self.left == 0 { Stage::Line } else { Stage::Data }
            }
            (Stage::DataEnd, b'\r') => Stage::DataLineFeed,
            (Stage::DataLineFeed, b'\n') => Stage::Size,
            (Stage::Line, b'\r') => Stage::LastLineFeed,
            (Stage::LastLineFeed, b'\n') => Stage::Over,
            (Stage::TrailerEnd, b'\n') => Stage::Line,
            (Stage::Extension | Stage::Line | Stage::Trailer, b'\n') => return None,
            (Stage::Extension, b'\r') => Stage::SizeEnd,
            (Stage::Extension, _) => Stage::Extension,
            (Stage::Trailer, b'\r') => Stage::TrailerEnd,
            (Stage::Line | Stage::Trailer, _) => Stage::Trailer,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    /// The bytes that an inspector admits from pieces of this length, as requests without bodies;
    /// with a mark after each head, and another one at an invalid byte.
    fn admitted(bytes: &[u8], step: usize) -> String {
        let expected = Expected::default();
        let (mut inspector, mut out) = (Inspector::new(expected.clone()), Vec::new());
        for mut piece in bytes.chunks(step) {
            while !piece.is_empty() {
                match inspector.admit(piece) {
                    Admitted::Bytes(taken) => {
                        out.extend_from_slice(&piece[..taken]);
                        piece = &piece[taken..];
                    }
                    Admitted::Wrong(taken) => {
                        out.extend_from_slice(&piece[..taken]);
                        out.push(b'!');
                        return String::from_utf8(out).unwrap();
                    }
                    Admitted::Disagreed => panic!("a head is whole"),
                }
                if expected.0.load(Ordering::Relaxed) == NOTHING {
                    out.push(b'|');
                    expected.request_begins(BodyLength::Known(0));
                }
            }
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn heads_are_handed_over_one_by_one() {
        for (bytes, expected) in [
            ("GET / HTTP/1.1\r\n\r\nGET", "GET / HTTP/1.1\r\n\r\n|GET"),
            ("\r\n\r\nA\r\nb: c\r\n\r\n\r\nD\r\n\r\n", "\r\n\r\nA\r\nb: c\r\n\r\n|\r\nD\r\n\r\n|"),
            ("A\nb: c\r\n\r\n", "A\n!"),
            ("\nA\r\n\r\n", "\n!"),
            ("A\r\nb: c\n\r\n", "A\r\nb: c\n!"),
            ("A\r\nb: c\r\n\n", "A\r\nb: c\r\n\n!"),
            ("A\r\n\r\nB\r\nb: c\nd", "A\r\n\r\n|B\r\nb: c\n!"),
            ("A\r\ncontent-length: 1\r\n\r\n", "A\r\ncontent-length: 1\r\n\r\n|"),
            (
                "A\r\nContent-Length: 1\r\nTRANSFER-ENCODING: x\r\n\r\n",
                "A\r\nContent-Length: 1\r\nTRANSFER-ENCODING: x\r\n\r\n!",
            ),
        ] {
            for step in 1..=bytes.len() {
                assert_eq!(admitted(bytes.as_bytes(), step), expected, "{step}");
            }
        }
    }

    #[test]
    fn lines_in_front_of_a_request_are_not_kept() {
        let mut head = Head::default();
        for _ in 0..100 {
            assert_eq!(head.take(b"\r\n\r"), None);
            assert_eq!(head.take(b"\n\r\n"), None);
            assert!(head.begun.len() <= 1, "{:?}", head.begun);
        }
    }

    #[test]
    fn bodies_are_not_looked_at() {
        let expected = Expected::default();
        let mut inspector = Inspector::new(expected.clone());
        assert_eq!(inspector.admit(b"A\r\n\r\nx\ny"), Admitted::Bytes(5));
        assert_eq!(inspector.admit(b"x\ny"), Admitted::Disagreed);
        expected.request_begins(BodyLength::Known(3));
        assert_eq!(inspector.admit(b"x\n"), Admitted::Bytes(2));
        assert_eq!(inspector.admit(b"yB\n"), Admitted::Bytes(1));
        assert_eq!(inspector.admit(b"B\n"), Admitted::Wrong(2));
        expected.protocol_changes();
        assert_eq!(inspector.admit(b"x\ny"), Admitted::Bytes(3));
    }

    /// The bytes that are admitted of a chunked body and a request after it, in pieces of this
    /// length; with a mark at the end of the body, or another one at an invalid byte.
    fn chunked(bytes: &[u8], step: usize) -> String {
        let expected = Expected::default();
        let (mut inspector, mut out) = (Inspector::new(expected.clone()), Vec::new());
        expected.request_begins(BodyLength::Chunked);
        for mut piece in bytes.chunks(step) {
            while !piece.is_empty() {
                let was_body = expected.0.load(Ordering::Relaxed) == CHUNKS;
                let (taken, is_wrong) = match inspector.admit(piece) {
                    Admitted::Bytes(taken) => (taken, false),
                    Admitted::Wrong(taken) => (taken, true),
                    Admitted::Disagreed => panic!("nothing follows"),
                };
                out.extend_from_slice(&piece[..taken]);
                piece = &piece[taken..];
                if is_wrong {
                    out.push(b'!');
                    assert_eq!(inspector.admit(b"x"), Admitted::Disagreed);
                    return String::from_utf8(out).unwrap();
                }
                if was_body && expected.0.load(Ordering::Relaxed) == HEAD {
                    out.push(b'|');
                }
            }
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_chunked_body_ends_with_its_last_line() {
        for (bytes, expected) in [
            ("0\r\n\r\nGET", "0\r\n\r\n|GET"),
            ("3\r\na\nb\r\n0\r\n\r\nGET", "3\r\na\nb\r\n0\r\n\r\n|GET"),
            ("1;x=\"y\"\r\na\r\n00\r\n\r\nG", "1;x=\"y\"\r\na\r\n00\r\n\r\n|G"),
            ("a \r\n0123456789\r\n0\r\nX: y\r\nZ: z\r\n\r\nG", {
                "a \r\n0123456789\r\n0\r\nX: y\r\nZ: z\r\n\r\n|G"
            }),
            ("3\r\n0\r\n\r\n0\r\n\r\n", "3\r\n0\r\n\r\n0\r\n\r\n|"),
            ("x\r\n", "x!"),
            ("\r\n", "\r!"),
            (";x\r\n", ";!"),
            ("-1\r\n", "-!"),
            ("1\na\r\n", "1\n!"),
            ("1;\na\r\n", "1;\n!"),
            ("1\r\nab\r\n", "1\r\nab!"),
            ("1\r\na\n0\r\n", "1\r\na\n!"),
            ("0\r\n\nGET", "0\r\n\n!"),
            ("0\r\nX: y\n\r\n", "0\r\nX: y\n!"),
            ("0\r\nX: y\rZ", "0\r\nX: y\rZ!"),
            ("0\r\n\rZ", "0\r\n\rZ!"),
            ("ffffffffffffffff\r\na", "ffffffffffffffff\r\na"),
            ("11111111111111111\r\n", "11111111111111111!"),
        ] {
            for step in 1..=bytes.len() {
                assert_eq!(chunked(bytes.as_bytes(), step), expected, "{step}");
            }
        }
    }

    #[test]
    fn only_one_encoding_is_chunked() {
        for (values, expected) in [
            (&["Chunked"][..], BodyLength::Chunked),
            (&["gzip, chunked"], BodyLength::Unknown),
            (&["chunked", "chunked"], BodyLength::Unknown),
            (&[], BodyLength::Unknown),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(TRANSFER_ENCODING, HeaderValue::from_static(value));
            }
            assert_eq!(BodyLength::of(None, &headers), expected, "{values:?}");
        }
    }
}
