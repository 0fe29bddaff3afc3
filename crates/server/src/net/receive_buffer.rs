//! Memory that a session lends to its driver, so that a large argument is received into the chunks
//! in which it is going to be kept.

use arrayvec::ArrayVec;
use std::io::IoSliceMut;
use std::sync::Arc;

/// Most chunks of a buffer: some 100 microseconds' worth of receiving.
pub(crate) const BUFFER_CHUNKS: usize = 4;

/// Chunks that are filled one after the other. Nothing else refers to them meanwhile.
#[derive(Debug, Default)]
pub(crate) struct ReceiveBuffer {
    chunks: ArrayVec<Arc<[u8]>, BUFFER_CHUNKS>,
    filled: usize,
}

impl ReceiveBuffer {
    /// The parts that are not filled yet, in order.
    pub(crate) fn slices(&mut self) -> ArrayVec<IoSliceMut<'_>, BUFFER_CHUNKS> {
        let mut skip = self.filled;
        // Nothing else refers to a chunk in a buffer, so that none is left out.
        let parts = self.chunks.iter_mut().filter_map(|chunk| {
            let from = skip.min(chunk.len());
            skip -= from;
            Arc::get_mut(chunk)?.get_mut(from..).filter(|part| !part.is_empty())
        });
        parts.map(IoSliceMut::new).collect()
    }

    /// Whether it has no chunk.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// How many chunks it has.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Adds a chunk to which nothing else refers, behind at most [`BUFFER_CHUNKS`] - 1 others.
    pub(crate) fn push(&mut self, chunk: Arc<[u8]>) {
        self.chunks.push(chunk);
    }

    /// Takes the first chunk out if it is full.
    pub(crate) fn take_full(&mut self) -> Option<Arc<[u8]>> {
        let len = self.chunks.first()?.len();
        self.filled = self.filled.checked_sub(len)?;
        self.chunks.pop_at(0)
    }

    /// How many bytes have been received.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    /// How many bytes there is room for.
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum::<usize>() - self.filled
    }

    /// Notes that `len` bytes have been received.
    pub(crate) fn advance(&mut self, len: usize) {
        self.filled += len;
    }
}
