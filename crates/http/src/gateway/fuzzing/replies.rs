//! Replies of a worker that become responses.

use crate::gateway::decoder::{Decoder, Part};
use crate::gateway::format::{Formatter, Kind};
use crate::gateway::json_text::json_string;
use crate::gateway::result_object::ResultList;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// A whole reply.
#[derive(Clone, Debug, PartialEq)]
enum Reply {
    Status(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Nil,
    Text(Vec<u8>),
    Array(Vec<Reply>),
}

/// The decoded replies, and whether the bytes after them are malformed.
#[derive(Debug, PartialEq)]
struct Seen {
    shown: Vec<Vec<u8>>,
    replies: Vec<Reply>,
    is_malformed: bool,
}

/// A byte for the format and the command, one for the places where the reply is split, and replies
/// in RESP2. The result must not depend on the split, and must be valid in the format.
pub(super) fn reply(data: &[u8]) {
    const VERBS: [&[u8]; 4] = [b"GET", b"HGETALL", b"INFO", b"a\"\n\xff</script>"];
    let [form, cut, replies @ ..] = data else { return };
    let verb = VERBS[usize::from(form >> 6)];
    let kinds = [
        Kind::Json,
        Kind::MessagePack,
        Kind::Text("text/plain"),
        Kind::Events,
        Kind::Result { is_base64: false },
        Kind::Result { is_base64: true },
    ];
    let kind = kinds[usize::from(form % 64) % kinds.len()];
    let whole = read(&[replies], kind, verb);
    let (front, back) = replies.split_at(usize::from(*cut).min(replies.len()));
    assert_eq!(read(&[front, back], kind, verb), whole, "cut at {cut}");
    let bytes: Vec<&[u8]> = replies.chunks(1).collect();
    assert_eq!(read(&bytes, kind, verb), whole, "byte by byte");
    for (shown, reply) in whole.shown.iter().zip(&whole.replies) {
        match kind {
            Kind::Json if verb != b"HGETALL" || is_fields(reply) => is_json(shown),
            Kind::Events => is_event(shown),
            Kind::Result { is_base64 } => {
                let expected = item(reply, is_base64);
                assert_eq!(String::from_utf8_lossy(shown), String::from_utf8_lossy(&expected));
            }
            _ => {}
        }
    }
    for is_base64 in [false, true] {
        let list = list(replies, is_base64);
        let items = whole.replies.iter().map(|reply| item(reply, is_base64));
        let expected = [b"[", &items.collect::<Vec<_>>().join(&b',')[..], b"]"].concat();
        assert_eq!(String::from_utf8_lossy(&list), String::from_utf8_lossy(&expected));
        is_json(&list);
    }
}

/// The list of all complete replies.
fn list(replies: &[u8], is_base64: bool) -> Vec<u8> {
    let (mut decoder, mut at) = (Decoder::default(), 0);
    let (mut list, mut out) = (ResultList::new(is_base64), Vec::new());
    list.begin(&mut out);
    let mut whole_bytes = out.len();
    while let Ok(Some((part, len))) = decoder.next(replies.get(at..).unwrap_or_default()) {
        at += len;
        list.write(part, &mut out);
        assert_eq!(list.is_between(), decoder.is_over(), "an object is one reply");
        if decoder.is_over() {
            whole_bytes = out.len();
        }
    }
    out.truncate(whole_bytes);
    list.end(&mut out);
    out
}

/// Whether a reply consists of names and values, which become an object.
fn is_fields(reply: &Reply) -> bool {
    match reply {
        Reply::Array(elements) => elements.iter().all(|it| matches!(it, Reply::Text(_))),
        _ => true,
    }
}

/// A reply as an object.
fn item(reply: &Reply, is_base64: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if let Reply::Error(error) = reply {
        out.extend(b"{\"error\":");
        json_string(error, &mut out);
    } else {
        out.extend(b"{\"result\":");
        result(reply, is_base64, &mut out);
    }
    out.push(b'}');
    out
}

fn result(reply: &Reply, is_base64: bool, out: &mut Vec<u8>) {
    let text = |text: &[u8], out: &mut Vec<u8>| match is_base64 && text != b"OK" {
        true => json_string(STANDARD.encode(text).as_bytes(), out),
        false => json_string(text, out),
    };
    match reply {
        Reply::Status(bytes) | Reply::Error(bytes) | Reply::Text(bytes) => text(bytes, out),
        Reply::Integer(number) => out.extend(number.to_string().bytes()),
        Reply::Nil => out.extend(b"null"),
        Reply::Array(elements) => {
            out.push(b'[');
            for (number, element) in elements.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                result(element, is_base64, out);
            }
            out.push(b']');
        }
    }
}

fn is_json(text: &[u8]) {
    let read = serde_json::from_slice::<Value>(text);
    assert!(read.is_ok(), "{read:?}: {}", String::from_utf8_lossy(text));
}

/// Checks that the text is one event, with all content on lines of `data`.
fn is_event(text: &[u8]) {
    let lines = text.strip_suffix(b"\n\n").unwrap_or_default().split(|byte| *byte == b'\n');
    let are_data = lines.clone().all(|line| line.starts_with(b"data:") && !line.contains(&b'\r'));
    assert!(are_data, "{}", String::from_utf8_lossy(text));
}

fn read(pieces: &[&[u8]], kind: Kind, verb: &[u8]) -> Seen {
    let mut seen = Seen { shown: Vec::new(), replies: Vec::new(), is_malformed: false };
    let (mut decoder, mut input, mut at) = (Decoder::default(), Vec::new(), 0);
    let (mut formatter, mut shown) = (Formatter::new(kind, verb, b","), Vec::new());
    let (mut text, mut arrays) = (Vec::new(), Vec::<Vec<Reply>>::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let (part, len) = match decoder.next(input.get(at..).unwrap_or_default()) {
                Ok(Some(read)) => read,
                Ok(None) => break,
                Err(_) => return Seen { is_malformed: true, ..seen },
            };
            assert!(len > 0 || part == Part::End, "a part takes bytes");
            formatter.iter_mut().for_each(|formatter| formatter.write(part, &mut shown));
            let whole = whole_reply(part, &mut text, &mut arrays);
            match (whole, arrays.last_mut()) {
                (Some(reply), Some(array)) => array.push(reply),
                (Some(reply), None) => seen.replies.push(reply),
                _ => {}
            }
            at += len;
            if decoder.is_over() {
                formatter.iter_mut().for_each(|formatter| formatter.end(&mut shown));
                seen.shown.push(std::mem::take(&mut shown));
                formatter = Formatter::new(kind, verb, b",");
            }
        }
    }
    assert_eq!(seen.shown.len(), seen.replies.len(), "each reply is over once");
    seen
}

/// The reply or element that a part completes.
fn whole_reply(part: Part<'_>, text: &mut Vec<u8>, arrays: &mut Vec<Vec<Reply>>) -> Option<Reply> {
    Some(match part {
        Part::Status(text) => Reply::Status(text.to_vec()),
        Part::Error(text) => Reply::Error(text.to_vec()),
        Part::Integer(number) => Reply::Integer(number),
        Part::Nil => Reply::Nil,
        Part::Text(_) => return None,
        Part::Bytes(bytes, is_last) => {
            text.extend(bytes);
            if !is_last {
                return None;
            }
            Reply::Text(std::mem::take(text))
        }
        Part::Array(_) => {
            arrays.push(Vec::new());
            return None;
        }
        Part::End => return arrays.pop().map(Reply::Array),
    })
}
