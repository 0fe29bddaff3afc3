//! Replies on their way out: plain bytes, with large values spliced in by reference.
//!
//! A small value is copied into the buffer; a large one is shared with the keyspace, chunk by
//! chunk, and sent from where it lies.

use std::sync::Arc;

/// A piece of a large value, shared between the keyspace and the replies that carry it.
pub type Chunk = Arc<[u8]>;

/// Encoded replies, in order.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    splices: Vec<Splice>,
}

#[derive(Debug)]
struct Splice {
    /// The chunk goes out before the byte at this offset.
    at: usize,
    chunk: Chunk,
}

/// One contiguous part of an [`Output`].
#[derive(Debug)]
pub enum Piece<'a> {
    /// Bytes that the output owns.
    Bytes(&'a [u8]),
    /// A chunk of a large value.
    Shared(&'a Chunk),
}

impl Output {
    /// Appends `bytes`.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The buffer itself, for encoders that format into it.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends `chunk` without copying it.
    pub fn splice(&mut self, chunk: Chunk) {
        self.splices.push(Splice { at: self.bytes.len(), chunk });
    }

    /// Whether nothing is waiting to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.splices.is_empty()
    }

    /// Bytes in all, shared chunks included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() + self.splices.iter().map(|splice| splice.chunk.len()).sum::<usize>()
    }

    /// Whether every byte lies in the buffer itself, so that it can be sent as one slice.
    #[must_use]
    pub fn as_contiguous(&self) -> Option<&[u8]> {
        self.splices.is_empty().then_some(&self.bytes)
    }

    /// The parts, in the order in which they are to be sent.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let mut from = 0;
        let spliced = self.splices.iter().flat_map(move |splice| {
            let before = self.bytes.get(from..splice.at).unwrap_or_default();
            from = splice.at;
            [Piece::Bytes(before), Piece::Shared(&splice.chunk)]
        });
        let last = self.splices.last().map_or(0, |splice| splice.at);
        spliced.chain([Piece::Bytes(self.bytes.get(last..).unwrap_or_default())])
    }

    /// Forgets everything, keeping the buffer's memory unless it is beyond `keep_bytes`.
    pub fn clear(&mut self, keep_bytes: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(keep_bytes);
        self.splices.clear();
    }
}
