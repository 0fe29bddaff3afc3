//! A buffer that a session lends to its driver, so that a large argument is received directly into
//! its final chunks.

use arrayvec::ArrayVec;
use nagi_chunk::{Chunk, UninitChunk};
use std::io::IoSliceMut;

/// Maximum number of chunks in a buffer. To fill them takes some 100 microseconds of receiving.
pub(crate) const BUFFER_CHUNKS: usize = 4;

/// Chunks that are filled in order.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    chunks: ArrayVec<UninitChunk, BUFFER_CHUNKS>,
}

impl ReceiveBuffer {
    /// The unfilled parts, in order.
    pub(crate) fn slices(&mut self) -> ArrayVec<IoSliceMut<'_>, BUFFER_CHUNKS> {
        let parts = self.chunks.iter_mut().map(UninitChunk::room);
        parts.filter(|part| !part.is_empty()).map(IoSliceMut::new).collect()
    }

    /// Whether the buffer has no chunk.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Adds a chunk; at most [`BUFFER_CHUNKS`] in all.
    pub(crate) fn push(&mut self, chunk: UninitChunk) {
        self.chunks.push(chunk);
    }

    /// Removes and returns the first chunk if it is full.
    pub(crate) fn take_full(&mut self) -> Option<Chunk> {
        let first = self.chunks.first()?;
        if first.written() < first.len() {
            return None;
        }
        self.chunks.pop_at(0).map(UninitChunk::finish)
    }

    /// The number of bytes received.
    pub(crate) fn filled(&self) -> usize {
        self.chunks.iter().map(UninitChunk::written).sum()
    }

    /// The number of bytes that there is room for.
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len() - chunk.written()).sum()
    }

    /// Records that `len` bytes have been received.
    pub(crate) fn advance(&mut self, mut len: usize) {
        for chunk in &mut self.chunks {
            let here = len.min(chunk.len() - chunk.written());
            chunk.advance(here);
            len -= here;
        }
    }
}
