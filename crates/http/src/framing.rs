//! Finds the start of each request in the bytes of a connection, so that its head is checked before
//! it is parsed. The parser accepts a line feed alone as the end of a line, and two equal lengths,
//! so that a proxy in front may see different requests (request smuggling).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The head of a request, or the rest of it.
const HEAD: u64 = u64::MAX;
/// Nothing: a whole head has been passed on, and has not been parsed yet.
const NOTHING: u64 = u64::MAX - 1;
/// Bytes that are not inspected.
const ANYTHING: u64 = u64::MAX - 2;

/// What is expected next on a connection; values below the constants are remaining bytes of a body.
/// The requests of a connection set it for its stream. Threads do not share it, but the parser
/// requires streams that are `Send`.
#[derive(Clone, Debug)]
pub(crate) struct Expected(Arc<AtomicU64>);

impl Default for Expected {
    fn default() -> Self {
        Expected(Arc::new(AtomicU64::new(HEAD)))
    }
}

impl Expected {
    /// Records that a request has begun whose body has `body` bytes. If the length is unknown, no
    /// further request may be read from the connection.
    pub(crate) fn request_begins(&self, body: Option<u64>) {
        self.set(match body {
            Some(0) => HEAD,
            Some(len) => len.min(ANYTHING - 1),
            None => ANYTHING,
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

/// How many of the received bytes may be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admitted {
    /// This many bytes, at least one.
    Bytes(usize),
    /// This many bytes, of which the last one makes the head invalid.
    Wrong(usize),
    /// None: the parser has not found the end of the head at the same place.
    Disagreed,
}

/// Inspects the bytes of a connection.
#[derive(Debug)]
pub(crate) struct Inspector {
    expected: Expected,
    head: Head,
}

/// The head that is arriving.
#[derive(Debug, Default)]
struct Head {
    /// Its beginning, while its end has not arrived.
    begun: Vec<u8>,
    /// The start of its last line.
    line: usize,
    has_length: bool,
    has_encoding: bool,
}

impl Inspector {
    pub(crate) fn new(expected: Expected) -> Self {
        Inspector { expected, head: Head::default() }
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

#[cfg(test)]
mod tests {
    use super::*;

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
                    expected.request_begins(Some(0));
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
        expected.request_begins(Some(3));
        assert_eq!(inspector.admit(b"x\n"), Admitted::Bytes(2));
        assert_eq!(inspector.admit(b"yB\n"), Admitted::Bytes(1));
        assert_eq!(inspector.admit(b"B\n"), Admitted::Wrong(2));
        expected.protocol_changes();
        assert_eq!(inspector.admit(b"x\ny"), Admitted::Bytes(3));
    }
}
