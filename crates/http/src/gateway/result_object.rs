//! Replies as objects with a result or an error, in the format of Upstash's REST interface, and
//! lists of them. They are written as the replies arrive.

use super::decoder::Part;
use super::json_text::{JsonText, json_string};
use super::refusal::write_error;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Writes one reply, part by part.
#[derive(Debug)]
pub(super) struct ResultObject {
    has_begun: bool,
    /// The number of elements so far of each open array.
    arrays: Vec<usize>,
    text: Text,
}

/// Writes a list of such objects, each of one reply.
#[derive(Debug)]
pub(super) struct ResultList {
    is_base64: bool,
    /// The number of objects; `None` before the list has begun.
    count: Option<usize>,
    /// The object of a reply that has arrived in part.
    object: Option<ResultObject>,
}

/// The encoding of strings.
#[derive(Debug)]
enum Text {
    Json(JsonText),
    Base64(Base64Text),
}

/// Encodes a string that arrives in pieces.
#[derive(Debug, Default)]
struct Base64Text {
    /// Bytes that do not fill a group.
    rest: Vec<u8>,
    has_begun: bool,
}

/// The number of bytes that are encoded together (RFC 4648, 4).
const GROUP_BYTES: usize = 3;
/// The only text that is never encoded.
const PLAIN: &[u8] = b"OK";

impl ResultObject {
    pub(super) fn new(is_base64: bool) -> Self {
        let text = match is_base64 {
            true => Text::Base64(Base64Text::default()),
            false => Text::Json(JsonText::default()),
        };
        ResultObject { has_begun: false, arrays: Vec::new(), text }
    }

    /// Appends the encoding of a part of the reply.
    pub(super) fn write(&mut self, part: Part<'_>, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            if let Part::Error(text) = part {
                out.extend(b"{\"error\":");
                return json_string(text, out);
            }
            out.extend(b"{\"result\":");
        }
        if !matches!(part, Part::Bytes(..) | Part::End)
            && let Some(elements) = self.arrays.last_mut()
        {
            if *elements > 0 {
                out.push(b',');
            }
            *elements += 1;
        }
        match part {
            Part::Status(text) | Part::Error(text) => {
                out.push(b'"');
                self.bytes(text, true, out);
            }
            Part::Integer(number) => out.extend(number.to_string().bytes()),
            Part::Nil => out.extend(b"null"),
            Part::Text(_) => out.push(b'"'),
            Part::Bytes(bytes, is_last) => self.bytes(bytes, is_last, out),
            Part::Array(_) => {
                self.arrays.push(0);
                out.push(b'[');
            }
            Part::End => {
                self.arrays.pop();
                out.push(b']');
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8], is_last: bool, out: &mut Vec<u8>) {
        match &mut self.text {
            Text::Json(text) => text.write(bytes, is_last, out),
            Text::Base64(text) => text.write(bytes, is_last, out),
        }
        if is_last {
            out.push(b'"');
        }
    }

    /// Appends the text after the reply.
    pub(super) fn end(out: &mut Vec<u8>) {
        out.push(b'}');
    }

    /// Whether the reply is complete, after its part `last`.
    fn is_complete(&self, last: Part<'_>) -> bool {
        let is_open = matches!(last, Part::Text(_) | Part::Bytes(_, false));
        self.arrays.is_empty() && !is_open
    }
}

impl ResultList {
    pub(super) fn new(is_base64: bool) -> Self {
        ResultList { is_base64, count: None, object: None }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.count.is_some()
    }

    /// Whether the list is between two objects.
    pub(super) fn is_between(&self) -> bool {
        self.object.is_none()
    }

    /// Begins the list, if it has not begun.
    pub(super) fn begin(&mut self, out: &mut Vec<u8>) {
        if self.count.is_none() {
            out.push(b'[');
            self.count = Some(0);
        }
    }

    /// Appends the encoding of a part of a reply, the next one after a complete reply.
    pub(super) fn write(&mut self, part: Part<'_>, out: &mut Vec<u8>) {
        let mut object = self.object.take().unwrap_or_else(|| {
            self.separate(out);
            ResultObject::new(self.is_base64)
        });
        object.write(part, out);
        match object.is_complete(part) {
            true => ResultObject::end(out),
            false => self.object = Some(object),
        }
    }

    /// Appends an error in place of a reply.
    pub(super) fn error(&mut self, error: &[u8], out: &mut Vec<u8>) {
        self.separate(out);
        write_error(error, out);
    }

    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        out.push(b']');
    }

    /// Appends what precedes an object.
    fn separate(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        if self.count > Some(0) {
            out.push(b',');
        }
        self.count = self.count.map(|count| count + 1);
    }
}

impl Base64Text {
    fn write(&mut self, bytes: &[u8], is_last: bool, out: &mut Vec<u8>) {
        self.rest.extend_from_slice(bytes);
        let len = self.rest.len();
        let taken = if is_last { len } else { len / GROUP_BYTES * GROUP_BYTES };
        let part: Vec<u8> = self.rest.drain(..taken).collect();
        match is_last && !self.has_begun && part == PLAIN {
            true => out.extend(part),
            false => out.extend(STANDARD.encode(part).bytes()),
        }
        self.has_begun = !is_last && (self.has_begun || taken > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The encoding of an array of strings, each in pieces of this length.
    fn written(is_base64: bool, texts: &[&[u8]], step: usize) -> String {
        let (mut object, mut out) = (ResultObject::new(is_base64), Vec::new());
        object.write(Part::Array(texts.len()), &mut out);
        for text in texts {
            object.write(Part::Text(text.len()), &mut out);
            let mut pieces: Vec<&[u8]> = text.chunks(step).collect();
            let last = pieces.pop().unwrap_or_default();
            pieces.iter().for_each(|piece| object.write(Part::Bytes(piece, false), &mut out));
            object.write(Part::Bytes(last, true), &mut out);
        }
        object.write(Part::End, &mut out);
        ResultObject::end(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_do_not_depend_on_their_pieces() {
        let texts: [&[u8]; 7] =
            [b"", b"OK", b"O", b"abcOK", b"a\xff", "\u{e9}\"".as_bytes(), b"abcdefg"];
        let plain =
            "{\"result\":[\"\",\"OK\",\"O\",\"abcOK\",\"a\u{fffd}\",\"\u{e9}\\\"\",\"abcdefg\"]}";
        let base64 = r#"{"result":["","OK","Tw==","YWJjT0s=","Yf8=","w6ki","YWJjZGVmZw=="]}"#;
        for step in 1..9 {
            assert_eq!(written(false, &texts, step), plain, "{step}");
            assert_eq!(written(true, &texts, step), base64, "{step}");
        }
    }

    #[test]
    fn errors_are_no_results() {
        for is_base64 in [false, true] {
            let (mut object, mut out) = (ResultObject::new(is_base64), Vec::new());
            object.write(Part::Error(b"ERR \"a\""), &mut out);
            ResultObject::end(&mut out);
            assert_eq!(out, br#"{"error":"ERR \"a\""}"#);
        }
    }

    #[test]
    fn a_list_has_an_object_for_each_reply() {
        let (mut list, mut out) = (ResultList::new(false), Vec::new());
        for part in [Part::Integer(1), Part::Array(2), Part::Array(0), Part::End] {
            list.write(part, &mut out);
        }
        assert!(!list.is_between());
        for part in [Part::Error(b"ERR in"), Part::End, Part::Text(2), Part::Bytes(b"a", false)] {
            list.write(part, &mut out);
        }
        assert!(!list.is_between());
        list.write(Part::Bytes(b"b", true), &mut out);
        list.error(b"NOPERM no", &mut out);
        list.write(Part::Error(b"OOM no"), &mut out);
        list.write(Part::Nil, &mut out);
        list.end(&mut out);
        let expected = [
            r#"[{"result":1},{"result":[[],"ERR in"]},{"result":"ab"},{"error":"NOPERM no"},"#,
            r#"{"error":"OOM no"},{"result":null}]"#,
        ];
        assert_eq!(String::from_utf8(out).unwrap(), expected.concat());
        let (mut list, mut out) = (ResultList::new(false), Vec::new());
        list.end(&mut out);
        assert_eq!(out, b"[]");
    }
}
