//! What stands under keys that follow from the elements: the patterns of BY and GET.

use crate::Context;
use nagi_proto::resp::Writer;
use nagi_store::{Rope, StringValue, Text, Value};
use std::cmp::Ordering;
use std::ops::Deref;

/// A string that is kept for as long as something is sorted.
#[derive(Clone, Debug)]
pub(super) enum Kept {
    Bytes(Box<[u8]>),
    /// One that is long, shared.
    Rope(Rope),
}

impl Kept {
    pub(super) fn of(string: StringValue<'_>) -> Self {
        match string {
            StringValue::Rope(rope) => Kept::Rope(rope.clone()),
            string => Kept::Bytes(string.with_bytes(|bytes| bytes.into())),
        }
    }

    pub(super) fn value(&self) -> StringValue<'_> {
        match self {
            Kept::Bytes(bytes) => StringValue::Bytes(bytes),
            Kept::Rope(rope) => StringValue::Rope(rope),
        }
    }

    /// It as an element of a collection.
    pub(super) fn text(&self) -> Text<'_> {
        match self {
            Kept::Bytes(bytes) => Text::to_store(bytes),
            Kept::Rope(rope) => Text::in_chunks(rope.clone()),
        }
    }

    /// Bytes that it takes of memory, beside itself.
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            Kept::Bytes(bytes) => bytes.len(),
            Kept::Rope(_) => 0,
        }
    }

    pub(super) fn write(&self, reply: &mut Writer<'_>) {
        match self {
            Kept::Bytes(bytes) => reply.bulk(bytes),
            Kept::Rope(rope) => reply.bulk_chunks(rope.share(), 0..rope.len()),
        }
    }

    /// In the order of bytes.
    pub(super) fn compare(&self, other: &Kept) -> Ordering {
        fn pieces(kept: &Kept) -> Vec<&[u8]> {
            match kept {
                Kept::Bytes(bytes) => vec![&bytes[..]],
                Kept::Rope(rope) => rope.chunks().map(Deref::deref).collect(),
            }
        }
        match (self, other) {
            (Kept::Bytes(bytes), Kept::Bytes(others)) => bytes.cmp(others),
            _ => pieces(self).into_iter().flatten().cmp(pieces(other).into_iter().flatten()),
        }
    }
}

/// Where the asterisk of a pattern is, if it has one: Redis' patterns end at a zero byte.
fn asterisk(pattern: &[u8]) -> Option<usize> {
    pattern.iter().take_while(|byte| **byte != 0).position(|byte| *byte == b'*')
}

/// Whether keys that follow from a pattern differ.
pub(super) fn has_asterisk(pattern: &[u8]) -> bool {
    asterisk(pattern).is_some()
}

/// What a pattern means for an element: itself, or a string, or a field of a hash behind `->`.
pub(super) fn look_up(cx: &Context<'_>, pattern: &[u8], element: &Kept) -> Option<Kept> {
    if pattern == b"#" {
        return Some(element.clone());
    }
    let at = asterisk(pattern)?;
    let (before, behind) = (pattern.get(..at)?, pattern.get(at + 1..)?);
    let arrow = behind.windows(2).position(|pair| pair == b"->");
    let arrow = arrow.filter(|arrow| behind.get(arrow + 2).is_some_and(|byte| *byte != 0));
    let (behind, field) = match arrow {
        Some(arrow) => (behind.get(..arrow)?, Some(behind.get(arrow + 2..)?)),
        None => (behind, None),
    };
    let key = element.value().with_bytes(|element| [before, element, behind].concat());
    cx.db.get(cx.db.key(&key), |entry| match (entry?.value(), field) {
        (Value::String(string), None) => Some(Kept::of(string)),
        (Value::Hash(hash), Some(field)) => {
            hash.get(&Text::new(field), cx.db.now_ms()).map(|found| Kept::of(found.value))
        }
        _ => None,
    })
}
