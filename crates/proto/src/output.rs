//! Replies on their way out: plain bytes, with large values spliced in by reference.
//!
//! A small value is copied into the buffer; a large one is shared with the keyspace, chunk by
//! chunk, and sent from where it lies.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use nagi_chunk::Chunk;

/// The pieces of a large value, all of one length but the last, shared between the keyspace and the
/// replies that carry it.
pub type Chunks = Arc<dyn AsRef<[Chunk]> + Send + Sync>;

/// Encoded replies, in order.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that have been sent.
    sent: usize,
    splices: VecDeque<Splice>,
    /// Bytes waiting in all splices.
    spliced: usize,
}

/// A part of a large value.
struct Splice {
    /// It goes out before the byte at this offset.
    at: usize,
    chunks: Chunks,
    /// Which bytes of the value are waiting.
    range: Range<usize>,
}

impl Splice {
    fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let chunks = (*self.chunks).as_ref();
        let stride = chunks.first().map_or(1, |first| first.len().max(1));
        let from = self.range.start / stride;
        chunks.iter().enumerate().skip(from).map_while(move |(index, chunk)| {
            let from = self.range.start.saturating_sub(index * stride);
            let to = self.range.end.saturating_sub(index * stride).min(chunk.len());
            chunk.get(from..to).filter(|slice| !slice.is_empty())
        })
    }
}

impl fmt::Debug for Splice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Splice { at, range, .. } = self;
        f.debug_struct("Splice").field("at", at).field("range", range).finish_non_exhaustive()
    }
}

impl Output {
    /// Appends `bytes`.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The buffer itself, for encoders that format into it; they append and change nothing else.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a range of a value's bytes without copying them.
    pub fn splice(&mut self, chunks: Chunks, range: Range<usize>) {
        self.spliced += range.len();
        self.splices.push_back(Splice { at: self.bytes.len(), chunks, range });
    }

    /// Appends what is waiting in another, and shares what that shares.
    pub fn append(&mut self, other: &Output) {
        let before = self.bytes.len();
        self.spliced += other.spliced;
        self.splices.extend(other.splices.iter().map(|splice| Splice {
            at: before + splice.at - other.sent,
            chunks: Arc::clone(&splice.chunks),
            range: splice.range.clone(),
        }));
        self.bytes.extend_from_slice(other.bytes.get(other.sent..).unwrap_or_default());
    }

    /// Whether nothing is waiting to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.sent && self.splices.is_empty()
    }

    /// Bytes waiting to be sent, shared chunks included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.spliced
    }

    /// Memory that it has, in bytes, without what it shares.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        self.bytes.capacity() + self.splices.capacity() * size_of::<Splice>()
    }

    /// The values of which parts are waiting, in order, with the lengths of these parts.
    pub fn shared(&self) -> impl Iterator<Item = (&Chunks, usize)> {
        self.splices.iter().map(|splice| (&splice.chunks, splice.range.len()))
    }

    /// Whether every byte lies in the buffer itself, so that it can be sent as one slice.
    #[must_use]
    pub fn as_contiguous(&self) -> Option<&[u8]> {
        if self.splices.is_empty() { self.bytes.get(self.sent..) } else { None }
    }

    /// What is waiting, in the order in which it is to be sent; a slice may be empty.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = self.sent;
        let spliced = self.splices.iter().flat_map(move |splice| {
            let before = self.bytes.get(from..splice.at).unwrap_or_default();
            from = splice.at;
            std::iter::once(before).chain(splice.slices())
        });
        let last = self.splices.back().map_or(self.sent, |splice| splice.at);
        spliced.chain([self.bytes.get(last..).unwrap_or_default()])
    }

    /// Forgets the first `len` bytes of what is waiting, which have been sent; values that went out
    /// in full are let go.
    pub fn advance(&mut self, mut len: usize) {
        debug_assert!(len <= self.len(), "no more can have been sent than was waiting");
        while let Some(splice) = self.splices.front_mut() {
            let before = splice.at - self.sent;
            if len < before {
                break;
            }
            len -= before;
            self.sent = splice.at;
            let taken = len.min(splice.range.len());
            splice.range.start += taken;
            self.spliced -= taken;
            len -= taken;
            if !splice.range.is_empty() {
                return;
            }
            self.splices.pop_front();
        }
        self.sent = self.bytes.len().min(self.sent + len);
    }

    /// An empty one that grows only beyond so many bytes.
    #[must_use]
    pub fn with_room(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Forgets everything, keeping the buffer's memory unless it is beyond `keep_bytes`.
    #[inline]
    pub fn clear(&mut self, keep_bytes: usize) {
        self.bytes.clear();
        self.sent = 0;
        if self.bytes.capacity() > keep_bytes {
            self.bytes.shrink_to(keep_bytes);
        }
        if !self.splices.is_empty() {
            self.splices = VecDeque::new();
            self.spliced = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of its own, or a part of a value in chunks of a length.
    fn part() -> impl Strategy<Value = (Option<(usize, usize)>, Vec<u8>)> {
        (prop::option::of((1_usize..4, 0_usize..4)), prop::collection::vec(any::<u8>(), 0..9))
    }

    proptest! {
        #[test]
        fn partial_sends_are_continued(
            parts in prop::collection::vec(part(), 0..12),
            takes in prop::collection::vec(0_usize..7, 0..40),
        ) {
            let mut out = Output::default();
            let mut model = Vec::new();
            for (shared, bytes) in &parts {
                let Some((stride, skip)) = shared else {
                    model.extend_from_slice(bytes);
                    out.push(bytes);
                    continue;
                };
                let chunks: Vec<Chunk> = bytes.chunks(*stride).map(Chunk::from).collect();
                let range = (*skip).min(bytes.len())..bytes.len() - bytes.len() / 8;
                let range = range.start.min(range.end)..range.end;
                model.extend_from_slice(&bytes[range.clone()]);
                out.splice(Arc::new(chunks), range);
            }
            let waiting = |out: &Output| out.slices().collect::<Vec<_>>().concat();
            for take in takes {
                let mut after = Output::default();
                after.push(b"before");
                after.append(&out);
                prop_assert_eq!(waiting(&after), [b"before", &model[..]].concat());
                prop_assert_eq!(after.len(), 6 + model.len());
                prop_assert_eq!(waiting(&out), &model[..]);
                prop_assert_eq!(out.len(), model.len());
                if let Some(bytes) = out.as_contiguous() {
                    prop_assert_eq!(bytes, &model[..]);
                }
                let take = take.min(model.len());
                out.advance(take);
                model.drain(..take);
            }
            out.advance(model.len());
            prop_assert!(out.is_empty());
            prop_assert_eq!(out.len(), 0);
        }
    }
}
