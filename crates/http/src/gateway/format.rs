//! Replies in the formats of webdis.

use super::decoder::{Part, are_fields};
use super::event::Event;
use super::json_text::{JsonText, json_string};
use super::message_pack::MessagePack;
use super::result_object::ResultObject;

/// A format of replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// An object of the command's name and its reply.
    #[default]
    Json,
    /// The same as a script that calls a function (JSONP).
    Script,
    /// Unchanged, in RESP2.
    Raw,
    /// A map of the command's name and its reply, in MessagePack.
    MessagePack,
    /// The bytes alone, of this media type.
    Text(&'static str),
    /// Server-sent events, which have no extension.
    Events,
    /// An object with the result or the error, likewise; strings may be in base64.
    Result { is_base64: bool },
}

/// Extensions and their formats.
pub(super) const EXTENSIONS: &[(&str, Kind)] = &[
    ("json", Kind::Json),
    ("raw", Kind::Raw),
    ("msg", Kind::MessagePack),
    ("bin", Kind::Text("binary/octet-stream")),
    ("txt", Kind::Text("text/plain; charset=utf-8")),
    ("html", Kind::Text("text/html; charset=utf-8")),
    ("xhtml", Kind::Text("application/xhtml+xml")),
    ("xml", Kind::Text("text/xml")),
    ("css", Kind::Text("text/css")),
    ("js", Kind::Script),
    ("png", Kind::Text("image/png")),
    ("jpg", Kind::Text("image/jpeg")),
    ("jpeg", Kind::Text("image/jpeg")),
];

impl Kind {
    pub(super) fn named(extension: &str) -> Option<Self> {
        EXTENSIONS.iter().find(|(name, _)| *name == extension).map(|(_, kind)| *kind)
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Kind::Json | Kind::Result { .. } => "application/json",
            Kind::Script => "application/javascript",
            Kind::Raw => "binary/octet-stream",
            Kind::MessagePack => "application/x-msgpack",
            Kind::Text(media_type) => media_type,
            Kind::Events => "text/event-stream",
        }
    }
}

/// The most frequent media types, which no browser executes.
const HARMLESS: [&str; 2] = ["text/plain; charset=utf-8", "binary/octet-stream"];

/// Whether a browser may execute content of this media type: pages, scripts, documents that may
/// contain scripts, and parts with types of their own.
pub(super) fn is_active(media_type: &str) -> bool {
    if HARMLESS.contains(&media_type) {
        return false;
    }
    const WORDS: [&str; 7] = ["html", "xml", "svg", "script", "pdf", "xsl", "multipart"];
    let media_type = media_type.to_ascii_lowercase();
    WORDS.iter().any(|word| media_type.contains(word))
}

/// Writes one reply, part by part.
#[derive(Debug)]
pub(super) enum Formatter {
    Json(Json),
    MessagePack(MessagePack),
    Text { separator: Vec<u8>, has_element: bool, depth: usize },
    Event(Event),
    Result(ResultObject),
}

impl Formatter {
    /// A formatter of the reply to a command; a raw reply needs none.
    pub(super) fn new(kind: Kind, verb: &[u8], separator: &[u8]) -> Option<Self> {
        match kind {
            Kind::Raw => None,
            Kind::Json | Kind::Script => Some(Formatter::Json(Json::new(verb))),
            Kind::MessagePack => Some(Formatter::MessagePack(MessagePack::new(verb))),
            Kind::Text(_) => {
                let separator = separator.to_vec();
                Some(Formatter::Text { separator, has_element: false, depth: 0 })
            }
            Kind::Events => Some(Formatter::Event(Event::default())),
            Kind::Result { is_base64 } => Some(Formatter::Result(ResultObject::new(is_base64))),
        }
    }

    /// Appends the encoding of a part of the reply.
    pub(super) fn write(&mut self, part: Part<'_>, out: &mut Vec<u8>) {
        match self {
            Formatter::Event(event) => event.write(part, out),
            Formatter::Result(object) => object.write(part, out),
            Formatter::Json(json) => json.write(part, out),
            Formatter::MessagePack(pack) => pack.write(part, out),
            Formatter::Text { separator, has_element, depth } => {
                let begins = !matches!(part, Part::Bytes(..) | Part::Array(_) | Part::End);
                let is_further = begins && *depth > 0 && std::mem::replace(has_element, true);
                // As with webdis, there is no separator before a missing value.
                if is_further && part != Part::Nil {
                    out.extend(&*separator);
                }
                match part {
                    Part::Status(text) => out.extend([b"+", text].concat()),
                    Part::Error(text) => out.extend([b"-", text].concat()),
                    Part::Integer(number) => out.extend(number.to_string().bytes()),
                    Part::Bytes(bytes, _) => out.extend(bytes),
                    Part::Array(_) => *depth += 1,
                    Part::End => *depth -= 1,
                    Part::Nil | Part::Text(_) => {}
                }
            }
        }
    }

    /// Appends the text after the reply.
    pub(super) fn end(&mut self, out: &mut Vec<u8>) {
        match self {
            Formatter::Event(_) => Event::end(out),
            Formatter::Result(_) => ResultObject::end(out),
            Formatter::Json(json) => json.end(out),
            Formatter::MessagePack(_) | Formatter::Text { .. } => {}
        }
    }
}

/// The state of a conversion to JSON.
#[derive(Debug)]
pub(super) struct Json {
    verb: Vec<u8>,
    /// For each open array: whether it is an object, and its number of elements so far.
    arrays: Vec<(bool, usize)>,
    has_begun: bool,
    text: JsonText,
    /// The text of INFO, which becomes an object once it is complete.
    info: Option<Vec<u8>>,
}

impl Json {
    fn new(verb: &[u8]) -> Self {
        let info = verb.eq_ignore_ascii_case(b"INFO").then(Vec::new);
        Json {
            verb: verb.to_vec(),
            arrays: Vec::new(),
            has_begun: false,
            text: JsonText::default(),
            info,
        }
    }

    fn write(&mut self, part: Part<'_>, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.has_begun, true) {
            out.push(b'{');
            json_string(&self.verb, out);
            out.push(b':');
        }
        if !matches!(part, Part::Bytes(..) | Part::End)
            && let Some((is_object, elements)) = self.arrays.last_mut()
        {
            match *elements {
                0 => {}
                odd if *is_object && odd % 2 == 1 => out.push(b':'),
                _ => out.push(b','),
            }
            *elements += 1;
        }
        match part {
            Part::Status(text) => json_status("true", text, out),
            Part::Error(text) => json_status("false", text, out),
            Part::Integer(number) => out.extend(number.to_string().bytes()),
            Part::Nil => out.extend(b"null"),
            Part::Text(_) if self.info.is_some() => {}
            Part::Text(_) => out.push(b'"'),
            Part::Bytes(bytes, is_last) => self.bytes(bytes, is_last, out),
            Part::Array(len) => {
                let is_object = self.arrays.is_empty() && are_fields(&self.verb, len);
                self.arrays.push((is_object, 0));
                out.push(if is_object { b'{' } else { b'[' });
            }
            Part::End => {
                let is_object = self.arrays.pop().is_some_and(|(is_object, _)| is_object);
                out.push(if is_object { b'}' } else { b']' });
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8], is_last: bool, out: &mut Vec<u8>) {
        match &mut self.info {
            Some(info) => {
                info.extend(bytes);
                if is_last {
                    json_info(info, out);
                }
            }
            None => {
                self.text.write(bytes, is_last, out);
                if is_last {
                    out.push(b'"');
                }
            }
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        out.push(b'}');
    }
}

fn json_status(is_fine: &str, text: &[u8], out: &mut Vec<u8>) {
    out.extend([b"[", is_fine.as_bytes(), b","].concat());
    json_string(text, out);
    out.push(b']');
}

/// The fields of INFO.
fn json_info(text: &[u8], out: &mut Vec<u8>) {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let is_field = |line: &&[u8]| !line.starts_with(b"#") && line.contains(&b':');
    out.push(b'{');
    for (number, line) in lines.filter(is_field).enumerate() {
        if number > 0 {
            out.push(b',');
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(0);
        let (name, value) = line.split_at(colon);
        json_string(name, out);
        out.push(b':');
        json_string(value.get(1..).unwrap_or_default(), out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::decoder::Decoder;
    use proptest::prelude::*;

    fn formatted(extension: &str, verb: &str, reply: &[u8], separator: &[u8]) -> Vec<u8> {
        let kind = Kind::named(extension).unwrap();
        let mut formatter = Formatter::new(kind, verb.as_bytes(), separator).unwrap();
        let (mut decoder, mut at, mut out) = (Decoder::default(), 0, Vec::new());
        while let Some((part, consumed)) = decoder.next(&reply[at..]).unwrap() {
            formatter.write(part, &mut out);
            at += consumed;
            if decoder.is_over() {
                break;
            }
        }
        formatter.end(&mut out);
        out
    }

    fn text(extension: &str, verb: &str, reply: &str, separator: &str) -> String {
        let out = formatted(extension, verb, reply.as_bytes(), separator.as_bytes());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_is_that_of_webdis() {
        for (verb, reply, expected) in [
            ("SET", "+OK\r\n", r#"{"SET":[true,"OK"]}"#),
            ("get", "$5\r\nwo\"ld\r\n", r#"{"get":"wo\"ld"}"#),
            ("GET", "$-1\r\n", r#"{"GET":null}"#),
            ("GET", "$0\r\n\r\n", r#"{"GET":""}"#),
            ("INCR", ":-7\r\n", r#"{"INCR":-7}"#),
            ("X", "-ERR no\r\n", r#"{"X":[false,"ERR no"]}"#),
            ("MGET", "*2\r\n$1\r\na\r\n$-1\r\n", r#"{"MGET":["a",null]}"#),
            ("KEYS", "*0\r\n", r#"{"KEYS":[]}"#),
            ("HGETALL", "*2\r\n$1\r\na\r\n$1\r\n1\r\n", r#"{"HGETALL":{"a":"1"}}"#),
            ("HGETALL", "*0\r\n", r#"{"HGETALL":{}}"#),
            ("EXEC", "*2\r\n*1\r\n:1\r\n*0\r\n", r#"{"EXEC":[[1],[]]}"#),
            ("INFO", "$13\r\n# A\r\na:1\r\nb:2\r\n", r##"{"INFO":{"a":"1","b":"2"}}"##),
            ("GET", "$3\r\n\u{1}\n\t\r\n", r#"{"GET":"\u0001\n\t"}"#),
        ] {
            assert_eq!(text("json", verb, reply, ""), expected);
        }
    }

    #[test]
    fn text_is_that_of_webdis() {
        for (reply, separator, expected) in [
            ("+OK\r\n", "", "+OK"),
            ("-ERR x\r\n", "", "-ERR x"),
            (":3\r\n", "", "3"),
            ("$3\r\nabc\r\n", "", "abc"),
            ("*3\r\n$1\r\na\r\n:2\r\n$-1\r\n", "", "a2"),
            ("*2\r\n$1\r\na\r\n$1\r\nb\r\n", ",", "a,b"),
        ] {
            assert_eq!(text("txt", "X", reply, separator), expected);
        }
    }

    #[test]
    fn message_pack_holds_every_kind() {
        let reply = b"*4\r\n:1\r\n$1\r\na\r\n$-1\r\n+OK\r\n";
        let expected = b"\x81\xa1X\x94\x01\xa1a\xc0\x92\xc3\xa2OK";
        assert_eq!(formatted("msg", "X", reply, b""), expected);
        let hash = b"*2\r\n$1\r\na\r\n$1\r\n1\r\n";
        assert_eq!(formatted("msg", "HGETALL", hash, b""), b"\x81\xa7HGETALL\x81\xa1a\xa11");
    }

    /// Any reply in RESP2.
    fn replies() -> impl Strategy<Value = Vec<u8>> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..20);
        let line = "[ -~]{0,10}";
        let leaf = prop_oneof![
            any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
            line.prop_map(|text| format!("+{text}\r\n").into_bytes()),
            line.prop_map(|text| format!("-{text}\r\n").into_bytes()),
            Just(b"$-1\r\n".to_vec()),
            bytes.prop_map(|bytes| {
                [format!("${}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat()
            }),
        ];
        leaf.prop_recursive(3, 20, 5, |inner| {
            proptest::collection::vec(inner, 0..5).prop_map(|elements| {
                [format!("*{}\r\n", elements.len()).into_bytes(), elements.concat()].concat()
            })
        })
    }

    proptest! {
        #[test]
        fn any_reply_is_json(reply in replies(), verb in "(GET|HGETALL|INFO|\"x)") {
            let out = formatted("json", &verb, &reply, b"");
            // With HGETALL, other replies may become objects with keys that are not strings.
            if verb != "HGETALL" {
                let json: Result<serde_json::Value, _> = serde_json::from_slice(&out);
                prop_assert!(json.is_ok(), "{}", String::from_utf8_lossy(&out));
            }
        }

        #[test]
        fn any_bytes_are_replies_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let (mut decoder, mut at) = (Decoder::default(), 0);
            while let Ok(Some((_, consumed))) = decoder.next(&bytes[at..]) {
                at += consumed;
            }
        }
    }

    #[test]
    fn types_that_browsers_execute_are_recognised() {
        for (media_type, expected) in [
            ("text/html", true),
            ("image/svg+xml", true),
            ("application/javascript", true),
            ("Multipart/x-mixed-replace", true),
            ("text/plain", false),
            ("image/png", false),
        ] {
            assert_eq!(is_active(media_type), expected, "{media_type}");
        }
    }
}
