//! The replies to be sent: plain bytes, with large values spliced in by reference.
//!
//! Small values are copied into the buffer; large ones are shared with the keyspace, chunk by
//! chunk, and sent without a copy.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use nagi_chunk::Chunk;

/// The pieces of a large value, of equal length except the last, shared between the keyspace and
/// the replies that contain it.
pub type Chunks = Arc<dyn AsRef<[Chunk]> + Send + Sync>;

/// Encoded replies, in order.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// The number of bytes of `bytes` that have been sent.
    sent: usize,
    splices: VecDeque<Splice>,
    /// The number of bytes waiting in all splices.
    spliced: usize,
}

/// The end of an [`Output`] at some time, to which it can be cut back.
#[derive(Clone, Copy, Debug)]
pub struct OutputMark {
    bytes: usize,
    splices: usize,
    spliced: usize,
}

/// A part of a large value.
struct Splice {
    /// The part is sent before the byte at this offset of `bytes`.
    at: usize,
    chunks: Chunks,
    /// The range of the value's bytes that are waiting.
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

    /// Returns the buffer itself, for encoders that format into it; they only append.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a range of a value's bytes without copying them.
    pub fn splice(&mut self, chunks: Chunks, range: Range<usize>) {
        self.spliced += range.len();
        self.splices.push_back(Splice { at: self.bytes.len(), chunks, range });
    }

    /// Appends the waiting bytes of another output, sharing its chunks.
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

    /// Returns the current end.
    #[must_use]
    pub fn mark(&self) -> OutputMark {
        let Output { bytes, splices, spliced, .. } = self;
        OutputMark { bytes: bytes.len(), splices: splices.len(), spliced: *spliced }
    }

    /// Returns the number of bytes appended since `mark`, without shared chunks.
    #[inline]
    #[must_use]
    pub fn copied_since(&self, mark: OutputMark) -> usize {
        self.bytes.len().saturating_sub(mark.bytes)
    }

    /// Removes everything appended since `mark`. Nothing may have been sent since then.
    pub fn cut_back(&mut self, mark: OutputMark) {
        debug_assert!(self.sent <= mark.bytes, "what was sent cannot be removed");
        self.bytes.truncate(mark.bytes);
        self.splices.truncate(mark.splices);
        self.spliced = mark.spliced;
    }

    /// Whether no bytes are waiting to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.sent && self.splices.is_empty()
    }

    /// Returns the number of bytes waiting to be sent, including shared chunks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.spliced
    }

    /// Returns the memory of the output in bytes, without shared chunks.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        self.bytes.capacity() + self.splices.capacity() * size_of::<Splice>()
    }

    /// Iterates over the values of which parts are waiting, in order, with the lengths of these
    /// parts.
    pub fn shared(&self) -> impl Iterator<Item = (&Chunks, usize)> {
        self.splices.iter().map(|splice| (&splice.chunks, splice.range.len()))
    }

    /// Returns all bytes if they are in the buffer itself, so that they can be sent as one slice.
    #[must_use]
    pub fn as_contiguous(&self) -> Option<&[u8]> {
        if self.splices.is_empty() { self.bytes.get(self.sent..) } else { None }
    }

    /// Iterates over the waiting bytes in order; a slice may be empty.
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

    /// Removes the first `len` waiting bytes, which have been sent, and drops values that have been
    /// sent completely.
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

    /// Creates an empty output with a capacity of `bytes`.
    #[must_use]
    pub fn with_room(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Removes everything, and keeps the buffer's memory unless it is more than `keep_bytes`.
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

    /// Returns plain bytes, or a part of a value in chunks of equal length.
    fn part() -> impl Strategy<Value = (Option<(usize, usize)>, Vec<u8>)> {
        (prop::option::of((1_usize..4, 0_usize..4)), prop::collection::vec(any::<u8>(), 0..9))
    }

    #[test]
    fn what_follows_a_mark_is_removed() {
        let mut out = Output::default();
        out.push(b"before");
        out.splice(Arc::new([Chunk::from(&b"shared"[..])]), 0..6);
        out.advance(3);
        let mark = out.mark();
        out.push(b"after");
        out.splice(Arc::new([Chunk::from(&b"more"[..])]), 0..4);
        out.push(b"end");
        assert_eq!(out.copied_since(mark), 8);
        out.cut_back(mark);
        assert_eq!(out.copied_since(mark), 0);
        assert_eq!(out.slices().collect::<Vec<_>>().concat(), b"oreshared");
        assert_eq!(out.len(), 9);
        out.advance(9);
        assert!(out.is_empty());
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
