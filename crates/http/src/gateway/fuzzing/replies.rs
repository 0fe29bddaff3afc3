//! Replies of a worker that become responses.

use crate::gateway::decoder::{Decoder, Part};
use crate::gateway::format::{Formatter, Kind};
use crate::gateway::upstash::{self, Form};
use crate::gateway::worker_connection::{Element, Reply, reply_of};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

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
            Kind::Result { is_base64 } => is_item(shown, reply, is_base64),
            _ => {}
        }
    }
    for (path, commands) in [("/pipeline", whole.replies.len()), ("/multi-exec", 2)] {
        let mut out = Vec::new();
        let form = Form::of(path, &HeaderMap::new());
        upstash::write(form, commands, &whole.replies, &mut out);
        is_json(&out);
    }
}

/// Whether a reply consists of names and values, which become an object.
fn is_fields(reply: &Reply) -> bool {
    match reply {
        Reply::Array(elements) => elements.iter().all(|it| matches!(it, Reply::Text(_))),
        _ => true,
    }
}

/// Checks that a reply is the same as alone in a pipeline.
fn is_item(text: &[u8], reply: &Reply, is_base64: bool) {
    let encoding = HeaderValue::from_static(if is_base64 { "base64" } else { "" });
    let headers = HeaderMap::from_iter([(HeaderName::from_static("upstash-encoding"), encoding)]);
    let mut list = Vec::new();
    upstash::write(Form::of("/pipeline", &headers), 1, std::slice::from_ref(reply), &mut list);
    assert_eq!([b"[", text, b"]"].concat(), list, "{}", String::from_utf8_lossy(text));
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
            let whole = match reply_of(part, &mut text) {
                Element::Begins => {
                    arrays.push(Vec::new());
                    None
                }
                Element::Unfinished => None,
                Element::Whole(reply) => Some(reply),
                Element::Ends => arrays.pop().map(Reply::Array),
            };
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
