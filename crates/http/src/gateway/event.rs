//! Messages as server-sent events, in the form of Upstash's REST interface: `data:` and the parts
//! of a message with commas between them
//! (<https://html.spec.whatwg.org/multipage/server-sent-events.html>).

use super::decoder::Part;
use hyper::body::Bytes;
use std::time::Duration;

/// Maximum time without data to a client: some clients and proxies give up after a minute.
pub(super) const SILENCE: Duration = Duration::from_secs(20);
/// A comment, which clients ignore.
pub(super) const COMMENT: Bytes = Bytes::from_static(b":\n\n");

/// Writes one message as an event, part by part.
///
/// Further lines of a message begin with `data:` without a space, which has the same meaning.
/// Clients that expect the space then do not take such a line, whose text any publisher may choose,
/// for a message.
#[derive(Debug, Default)]
pub(super) struct Event {
    has_begun: bool,
    has_element: bool,
    line: Line,
}

/// The position of an event in a line.
#[derive(Debug, Default, PartialEq, Eq)]
enum Line {
    #[default]
    Within,
    /// At its beginning, after a carriage return that a line feed may still follow.
    BehindReturn,
    /// At its beginning.
    Begun,
}

impl Event {
    /// Appends the encoding of a part of the message.
    pub(super) fn write(&mut self, part: Part<'_>, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.extend(b"data: ");
        }
        let begins = !matches!(part, Part::Bytes(..) | Part::Array(_) | Part::End);
        if begins && std::mem::replace(&mut self.has_element, true) {
            self.text(b",", out);
        }
        match part {
            Part::Status(b"OK") => self.text(b"\"OK\"", out),
            Part::Status(text) | Part::Error(text) | Part::Bytes(text, _) => self.text(text, out),
            Part::Integer(number) => self.text(number.to_string().as_bytes(), out),
            Part::Nil | Part::Text(_) | Part::Array(_) | Part::End => {}
        }
    }

    /// Appends the end of an event.
    pub(super) fn end(out: &mut Vec<u8>) {
        out.extend(b"\n\n");
    }

    fn text(&mut self, text: &[u8], out: &mut Vec<u8>) {
        for &byte in text {
            let line = std::mem::take(&mut self.line);
            match byte {
                b'\n' if line == Line::BehindReturn => self.line = Line::Begun,
                b'\n' | b'\r' => {
                    out.extend(b"\ndata:");
                    self.line = if byte == b'\r' { Line::BehindReturn } else { Line::Begun };
                }
                byte => {
                    // One space after the colon is part of the delimiter.
                    if line != Line::Within && byte == b' ' {
                        out.push(b' ');
                    }
                    out.push(byte);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn event(parts: &[Part<'_>]) -> String {
        let (mut event, mut out) = (Event::default(), Vec::new());
        parts.iter().for_each(|part| event.write(*part, &mut out));
        Event::end(&mut out);
        String::from_utf8(out).unwrap()
    }

    fn message(pieces: &[&str]) -> String {
        let last = pieces.len() - 1;
        let mut parts = vec![Part::Array(3), Part::Text(7), Part::Bytes(b"message", true)];
        parts.extend([Part::Text(1), Part::Bytes(b"c", true), Part::Text(pieces.len())]);
        let pieces = pieces.iter().enumerate();
        parts.extend(pieces.map(|(at, piece)| Part::Bytes(piece.as_bytes(), at == last)));
        parts.push(Part::End);
        event(&parts)
    }

    /// The data that a browser parses from a stream with one event.
    fn heard(stream: &str) -> String {
        let lines = stream.strip_suffix("\n\n").unwrap().split('\n');
        let data = lines.map(|line| line.strip_prefix("data:").unwrap());
        let data = data.map(|data| data.strip_prefix(' ').unwrap_or(data));
        data.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_message_is_an_event() {
        assert_eq!(message(&["hello"]), "data: message,c,hello\n\n");
        assert_eq!(message(&[""]), "data: message,c,\n\n");
        assert_eq!(message(&["a\n", "b\r", "\nc\r\r d"]), {
            "data: message,c,a\ndata:b\ndata:c\ndata:\ndata:  d\n\n"
        });
        assert_eq!(message(&["x\nmessage,c,y"]), "data: message,c,x\ndata:message,c,y\n\n");
        assert_eq!(event(&[Part::Status(b"OK")]), "data: \"OK\"\n\n");
        let subscribed = [Part::Text(1), Part::Bytes(b"c", true), Part::Integer(1), Part::End];
        assert_eq!(event(&subscribed), "data: c,1\n\n");
    }

    proptest! {
        #[test]
        fn any_message_is_one_event(
            pieces in proptest::collection::vec("[a ,:\r\nü]{0,6}", 1..4),
        ) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let stream = message(&pieces);
            let text = pieces.concat().replace("\r\n", "\n").replace('\r', "\n");
            prop_assert_eq!(heard(&stream), format!("message,c,{text}"));
            prop_assert!(!stream[..stream.len() - 2].contains("\n\n"));
        }
    }
}
