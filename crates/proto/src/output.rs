//! Replies on their way out: plain bytes, with large values spliced in by reference.
//!
//! A small value is copied into the buffer; a large one is shared with the keyspace, chunk by
//! chunk, and sent from where it lies.

use std::collections::VecDeque;
use std::sync::Arc;

/// A piece of a large value, shared between the keyspace and the replies that carry it.
pub type Chunk = Arc<[u8]>;

/// Encoded replies, in order.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that have been sent.
    sent: usize,
    splices: VecDeque<Splice>,
    /// Bytes of the first splice that have been sent.
    sent_of_splice: usize,
    /// Bytes in all splices, sent ones of the first included.
    spliced: usize,
}

#[derive(Debug)]
struct Splice {
    /// The chunk goes out before the byte at this offset.
    at: usize,
    chunk: Chunk,
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

    /// Appends `chunk` without copying it.
    pub fn splice(&mut self, chunk: Chunk) {
        self.spliced += chunk.len();
        self.splices.push_back(Splice { at: self.bytes.len(), chunk });
    }

    /// Whether nothing is waiting to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.len() == self.sent && self.splices.is_empty()
    }

    /// Bytes waiting to be sent, shared chunks included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.spliced - self.sent_of_splice
    }

    /// Whether every byte lies in the buffer itself, so that it can be sent as one slice.
    #[must_use]
    pub fn as_contiguous(&self) -> Option<&[u8]> {
        if self.splices.is_empty() { self.bytes.get(self.sent..) } else { None }
    }

    /// What is waiting, in the order in which it is to be sent; a slice may be empty.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = self.sent;
        let mut skip = self.sent_of_splice;
        let spliced = self.splices.iter().flat_map(move |splice| {
            let before = self.bytes.get(from..splice.at).unwrap_or_default();
            let chunk = splice.chunk.get(skip..).unwrap_or_default();
            from = splice.at;
            skip = 0;
            [before, chunk]
        });
        let last = self.splices.back().map_or(self.sent, |splice| splice.at);
        spliced.chain([self.bytes.get(last..).unwrap_or_default()])
    }

    /// Forgets the first `len` bytes of what is waiting, which have been sent; chunks among them
    /// are let go.
    pub fn advance(&mut self, mut len: usize) {
        debug_assert!(len <= self.len(), "no more can have been sent than was waiting");
        while let Some(splice) = self.splices.front() {
            let before = splice.at - self.sent;
            if len < before {
                break;
            }
            len -= before;
            self.sent = splice.at;
            let chunk_len = splice.chunk.len();
            if len < chunk_len - self.sent_of_splice {
                self.sent_of_splice += len;
                return;
            }
            len -= chunk_len - self.sent_of_splice;
            self.spliced -= chunk_len;
            self.sent_of_splice = 0;
            self.splices.pop_front();
        }
        self.sent = self.bytes.len().min(self.sent + len);
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
            self.sent_of_splice = 0;
            self.spliced = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of its own, or a chunk.
    fn part() -> impl Strategy<Value = (bool, Vec<u8>)> {
        (any::<bool>(), prop::collection::vec(any::<u8>(), 0..5))
    }

    proptest! {
        #[test]
        fn whatever_a_send_takes_the_rest_follows(
            parts in prop::collection::vec(part(), 0..12),
            takes in prop::collection::vec(0_usize..7, 0..40),
        ) {
            let mut out = Output::default();
            let mut model = Vec::new();
            for (shared, bytes) in &parts {
                model.extend_from_slice(bytes);
                if *shared { out.splice(Arc::from(&bytes[..])) } else { out.push(bytes) }
            }
            let waiting = |out: &Output| out.slices().collect::<Vec<_>>().concat();
            for take in takes {
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
