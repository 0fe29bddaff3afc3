//! Memory that a session lends to its driver, so that a large argument is received directly into
//! its final chunks.

use arrayvec::ArrayVec;
use nagi_chunk::{Chunk, UninitChunk};
use std::io::IoSliceMut;

/// Most chunks of a buffer: some 100 microseconds' worth of receiving.
pub(crate) const BUFFER_CHUNKS: usize = 4;

/// Chunks that are filled one after the other.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    chunks: ArrayVec<UninitChunk, BUFFER_CHUNKS>,
}

impl ReceiveBuffer {
    /// The parts that are not filled yet, in order.
    pub(crate) fn slices(&mut self) -> ArrayVec<IoSliceMut<'_>, BUFFER_CHUNKS> {
        let parts = self.chunks.iter_mut().map(UninitChunk::room);
        parts.filter(|part| !part.is_empty()).map(IoSliceMut::new).collect()
    }

    /// Whether it has no chunk.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// How many chunks it has.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Adds a chunk, after at most [`BUFFER_CHUNKS`] - 1 other ones.
    pub(crate) fn push(&mut self, chunk: UninitChunk) {
        self.chunks.push(chunk);
    }

    /// Takes the first chunk out if it is full.
    pub(crate) fn take_full(&mut self) -> Option<Chunk> {
        let first = self.chunks.first()?;
        if first.written() < first.len() {
            return None;
        }
        self.chunks.pop_at(0).map(UninitChunk::finish)
    }

    /// How many bytes have been received.
    pub(crate) fn filled(&self) -> usize {
        self.chunks.iter().map(UninitChunk::written).sum()
    }

    /// How many bytes there is room for.
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len() - chunk.written()).sum()
    }

    /// Notes that `len` bytes have been received.
    pub(crate) fn advance(&mut self, mut len: usize) {
        for chunk in &mut self.chunks {
            let here = len.min(chunk.len() - chunk.written());
            chunk.advance(here);
            len -= here;
        }
    }
}
