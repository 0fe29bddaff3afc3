//! Chunks: the reference-counted pieces of large values, shared by the keyspace, by requests that
//! store them and by replies that send them.
//!
//! A full chunk has its own block of memory ([`pool`]), which is returned to the kernel when it is
//! no longer needed. Shorter chunks use the general allocator.

pub mod pool;
#[cfg(test)]
mod tests;

use pool::Block;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::sync::Arc;

/// The size of every chunk of a value except the last, in bytes.
pub const CHUNK_BYTES: usize = pool::BLOCK_BYTES;

/// Bytes that do not change while they are shared.
#[derive(Clone)]
pub struct Chunk(Memory);

#[derive(Clone)]
enum Memory {
    /// A whole block, every byte of which has been written.
    Block(Arc<Block>),
    General(Arc<[u8]>),
}

impl Chunk {
    /// Creates a chunk of `len` zeros.
    #[must_use]
    pub fn zeros(len: usize) -> Self {
        let mut chunk = UninitChunk::new(len);
        chunk.room().fill(0);
        chunk.advance(len);
        chunk.finish()
    }

    /// Whether both refer to the same memory; equal bytes do not suffice.
    #[must_use]
    pub fn is_same(&self, other: &Chunk) -> bool {
        std::ptr::eq::<[u8]>(&**self, &**other)
    }

    /// Returns the bytes for modification, if the chunk is not shared.
    pub fn get_mut(&mut self) -> Option<&mut [u8]> {
        match &mut self.0 {
            Memory::Block(block) => Arc::get_mut(block).map(|block| {
                // SAFETY: every byte of a chunk's block has been written.
                unsafe { block.bytes_mut().assume_init_mut() }
            }),
            Memory::General(bytes) => Arc::get_mut(bytes),
        }
    }

    /// Returns the bytes for modification; they are copied first if the chunk is shared.
    pub fn make_mut(&mut self) -> &mut [u8] {
        if self.get_mut().is_none() {
            *self = Chunk::from(&**self);
        }
        self.get_mut().unwrap_or_default()
    }
}

impl Deref for Chunk {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            // SAFETY: every byte of a chunk's block has been written.
            Memory::Block(block) => unsafe { block.bytes().assume_init_ref() },
            Memory::General(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Chunk {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Chunk {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Chunk {}

impl PartialOrd for Chunk {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Chunk {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunk").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl From<&[u8]> for Chunk {
    fn from(bytes: &[u8]) -> Self {
        if bytes.len() != CHUNK_BYTES {
            return Chunk(Memory::General(bytes.into()));
        }
        let mut chunk = UninitChunk::new(bytes.len());
        chunk.append(bytes);
        chunk.finish()
    }
}

impl From<Vec<u8>> for Chunk {
    fn from(bytes: Vec<u8>) -> Self {
        Chunk::from(&bytes[..])
    }
}

impl From<Arc<[u8]>> for Chunk {
    fn from(bytes: Arc<[u8]>) -> Self {
        Chunk(Memory::General(bytes))
    }
}

/// A chunk under construction: bytes that have been written, and room for the rest.
pub struct UninitChunk {
    memory: UninitMemory,
    /// The number of bytes from the start that have been written.
    written: usize,
}

enum UninitMemory {
    Block(Block),
    /// Not shared: a second reference would make the bytes immutable.
    General(Arc<[MaybeUninit<u8>]>),
}

impl UninitChunk {
    /// Allocates room for `len` bytes.
    #[must_use]
    pub fn new(len: usize) -> Self {
        let block = if len == CHUNK_BYTES { Block::take() } else { None };
        #[cfg(not(miri))]
        let general = || UninitMemory::General(Arc::new_uninit_slice(len));
        // Inline assembly, on which `freeze` relies, has no effect under Miri.
        #[cfg(miri)]
        let general = || UninitMemory::General(Arc::new_zeroed_slice(len));
        UninitChunk { memory: block.map_or_else(general, UninitMemory::Block), written: 0 }
    }

    /// Returns the final length.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.memory {
            UninitMemory::Block(block) => block.bytes().len(),
            UninitMemory::General(bytes) => bytes.len(),
        }
    }

    /// Whether the final length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of bytes that have been written.
    #[must_use]
    pub fn written(&self) -> usize {
        self.written
    }

    /// Returns the unwritten part, for the kernel or a copy to write to. The values of its bytes
    /// are arbitrary.
    pub fn room(&mut self) -> &mut [u8] {
        let written = self.written;
        freeze(self.bytes_mut()).get_mut(written..).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        match &mut self.memory {
            UninitMemory::Block(block) => block.bytes_mut(),
            UninitMemory::General(bytes) => Arc::get_mut(bytes).unwrap_or_default(),
        }
    }

    /// Records that the first `len` bytes of the room have been written.
    pub fn advance(&mut self, len: usize) {
        self.written = self.len().min(self.written + len);
    }

    /// Writes as many of these bytes as fit. Returns how many.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let room = self.room();
        let len = room.len().min(bytes.len());
        if let (Some(room), Some(bytes)) = (room.get_mut(..len), bytes.get(..len)) {
            room.copy_from_slice(bytes);
        }
        self.advance(len);
        len
    }

    /// Returns the chunk. Unwritten bytes are zero.
    #[must_use]
    pub fn finish(mut self) -> Chunk {
        self.room().fill(0);
        Chunk(match self.memory {
            UninitMemory::Block(block) => Memory::Block(Arc::new(block)),
            // SAFETY: the unwritten bytes have been frozen above.
            UninitMemory::General(bytes) => Memory::General(unsafe { bytes.assume_init() }),
        })
    }
}

impl fmt::Debug for UninitChunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UninitChunk { written, .. } = self;
        f.debug_struct("UninitChunk").field("written", written).finish_non_exhaustive()
    }
}

/// Makes unwritten bytes count as initialized, with arbitrary values. Writing zeros would be wasted
/// if the kernel or a copy writes next.
fn freeze(bytes: &mut [MaybeUninit<u8>]) -> &mut [u8] {
    #[cfg(not(miri))]
    // SAFETY: the assembly contains no instruction, but the compiler must assume that it writes to
    // every byte, as the last user of the memory or the kernel has done.
    unsafe {
        let at = bytes.as_mut_ptr();
        std::arch::asm!("/* {0} */", in(reg) at, options(nostack, preserves_flags));
    }
    // SAFETY: every byte has been written, from the compiler's view.
    unsafe { bytes.assume_init_mut() }
}
