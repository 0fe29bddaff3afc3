//! Strings too long to copy: reference-counted chunks, shared with the replies that send them.
//!
//! A clone shares the list of chunks. A modification copies the list if it is shared, and of the
//! shared chunks only those that it modifies.

use crate::memory::accounting;
use crate::memory::reclaim;
use nagi_chunk::{CHUNK_BYTES, Chunk, UninitChunk};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// Lists of at most this many chunks are freed by the thread that drops them.
const LARGE_CHUNKS: usize = 16;

/// The shared chunk of zeros: any number of zeros takes the memory of one chunk.
pub(crate) static ZEROS: LazyLock<Chunk> = LazyLock::new(|| Chunk::zeros(CHUNK_BYTES));

/// A long string.
#[derive(Debug, Default)]
pub struct Rope {
    chunks: Arc<Chunks>,
    len: usize,
    /// Bytes counted as data while the string is in the keyspace.
    kept_bytes: usize,
}

impl Clone for Rope {
    fn clone(&self) -> Self {
        Rope { chunks: Arc::clone(&self.chunks), len: self.len, kept_bytes: 0 }
    }
}

impl Drop for Rope {
    fn drop(&mut self) {
        if self.kept_bytes > 0 {
            accounting::keep(-(self.kept_bytes as isize));
        }
    }
}

/// The chunks of a rope, each of [`CHUNK_BYTES`] but the last. A long list is freed by the
/// reclaimer thread.
#[derive(Clone, Debug, Default)]
pub struct Chunks(Vec<Chunk>);

impl AsRef<[Chunk]> for Chunks {
    fn as_ref(&self) -> &[Chunk] {
        &self.0
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        if self.0.len() > LARGE_CHUNKS {
            // Full chunks no longer count as data; a shorter last one does.
            let short = self.0.last().map_or(0, |last| last.len() % CHUNK_BYTES);
            reclaim::free_data(std::mem::take(&mut self.0), short as u64);
        }
    }
}

impl Rope {
    /// Copies `bytes` into chunks.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let chunks = bytes.chunks(CHUNK_BYTES).map(Chunk::from).collect();
        Rope { chunks: Arc::new(Chunks(chunks)), len: bytes.len(), kept_bytes: 0 }
    }

    /// Creates a string from chunks, each of [`CHUNK_BYTES`] but the last.
    #[must_use]
    pub fn from_chunks(chunks: Vec<Chunk>) -> Self {
        let last = chunks.last().map_or(0, |last| last.len());
        let len = chunks.len().saturating_sub(1) * CHUNK_BYTES + last;
        Rope { len, chunks: Arc::new(Chunks(chunks)), kept_bytes: 0 }
    }

    /// Counts the string as data, after it has been stored or modified in the keyspace.
    pub(crate) fn keep(&mut self) {
        let bytes = self.len / CHUNK_BYTES * accounting::BLOCK_BYTES;
        accounting::keep(bytes as isize - self.kept_bytes as isize);
        self.kept_bytes = bytes;
    }

    /// Shares all chunks with a reply.
    #[must_use]
    pub fn share(&self) -> Arc<Chunks> {
        Arc::clone(&self.chunks)
    }

    /// Returns the chunks for modification.
    fn chunks_mut(&mut self) -> &mut Vec<Chunk> {
        &mut Arc::make_mut(&mut self.chunks).0
    }

    /// Creates a string of `len` zeros, which takes memory only for the list of chunks.
    pub(crate) fn zeros(len: usize) -> Self {
        let mut rope = Rope::default();
        rope.grow(len);
        rope
    }

    /// Returns the length of the string in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the string is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the chunks in order. A reply may keep references to them.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = &Chunk> {
        self.chunks.0.iter()
    }

    /// Returns the chunk at an index.
    #[must_use]
    pub fn chunk(&self, index: usize) -> Option<&Chunk> {
        self.chunks.0.get(index)
    }

    /// Whether a chunk is the shared chunk of zeros.
    #[must_use]
    pub fn is_zeros(chunk: &Chunk) -> bool {
        chunk.is_same(&ZEROS)
    }

    /// Appends a chunk, which must have [`CHUNK_BYTES`] unless it is the last.
    pub fn push(&mut self, chunk: Chunk) {
        debug_assert!(self.len.is_multiple_of(CHUNK_BYTES), "only the last chunk may be shorter");
        self.len += chunk.len();
        self.chunks_mut().push(chunk);
    }

    /// Appends a chunk with a copy of `bytes`. If they are all zeros, the shared chunk is used
    /// instead.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let is_zeros = bytes.len() == CHUNK_BYTES && bytes.iter().fold(0, |all, it| all | it) == 0;
        self.push(if is_zeros { ZEROS.clone() } else { Chunk::from(bytes) });
    }

    /// Returns the byte at an index; 0 after the end.
    #[must_use]
    pub fn byte(&self, at: usize) -> u8 {
        let chunk = self.chunk(at / CHUNK_BYTES);
        chunk.and_then(|chunk| chunk.get(at % CHUNK_BYTES)).copied().unwrap_or(0)
    }

    /// Extends the string to `len` bytes with zeros, unless it is already as long.
    pub(crate) fn grow(&mut self, len: usize) {
        if len <= self.len {
            return;
        }
        self.len = len;
        let chunks = self.chunks_mut();
        if let Some(last) = chunks.pop_if(|last| last.len() < CHUNK_BYTES) {
            let start = chunks.len() * CHUNK_BYTES;
            let zeros = ZEROS.get(..(len - start).min(CHUNK_BYTES) - last.len());
            chunks.push(joined(&last, zeros.unwrap_or_default()));
        }
        let full = (len / CHUNK_BYTES).max(chunks.len());
        chunks.resize(full, ZEROS.clone());
        if let rest @ 1.. = len % CHUNK_BYTES
            && chunks.len() * CHUNK_BYTES < len
        {
            chunks.push(ZEROS.get(..rest).unwrap_or_default().into());
        }
    }

    /// Overwrites a part of a rope that is long enough. Shared chunks are copied first.
    pub(crate) fn write(&mut self, patch: &Patch<'_>) {
        let Patch { offset, mut bytes, .. } = *patch;
        let mut whole = patch.whole.iter();
        let mut start = offset % CHUNK_BYTES;
        for chunk in self.chunks_mut().iter_mut().skip(offset / CHUNK_BYTES) {
            if bytes.is_empty() {
                break;
            }
            let len = bytes.len().min(chunk.len() - start);
            let (piece, rest) = bytes.split_at(len);
            if len < CHUNK_BYTES {
                let target = chunk.make_mut().get_mut(start..start + len);
                target.unwrap_or_default().copy_from_slice(piece);
            } else if let Some(prepared) = whole.next() {
                *chunk = prepared.clone();
            }
            (bytes, start) = (rest, 0);
        }
    }

    /// Overwrites a part, extending the string with zeros if necessary.
    pub fn overwrite(&mut self, offset: usize, bytes: &[u8]) {
        if offset >= self.len {
            self.grow(offset);
            return self.append(bytes);
        }
        let patch = Patch::new(offset, bytes);
        self.grow(patch.end());
        self.write(&patch);
    }

    /// Appends `bytes`: fills up the last chunk, then adds new ones.
    pub fn append(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len();
        let chunks = self.chunks_mut();
        if let Some(last) = chunks.pop_if(|last| last.len() < CHUNK_BYTES) {
            let taken = bytes.len().min(CHUNK_BYTES - last.len());
            let (head, rest) = bytes.split_at(taken);
            chunks.push(joined(&last, head));
            bytes = rest;
        }
        chunks.extend(bytes.chunks(CHUNK_BYTES).map(Chunk::from));
    }

    /// Appends `self[range]` to `out`; the range must lie within the rope.
    pub fn copy_range(&self, range: Range<usize>, out: &mut Vec<u8>) {
        let first = range.start / CHUNK_BYTES;
        let mut at = first * CHUNK_BYTES;
        for chunk in self.chunks().skip(first) {
            let from = range.start.saturating_sub(at).min(chunk.len());
            let to = range.end.saturating_sub(at).min(chunk.len());
            out.extend_from_slice(chunk.get(from..to).unwrap_or_default());
            at += chunk.len();
            if at >= range.end {
                break;
            }
        }
    }
}

/// Creates a chunk from two parts.
fn joined(first: &[u8], second: &[u8]) -> Chunk {
    let mut chunk = UninitChunk::new(first.len() + second.len());
    chunk.append(first);
    chunk.append(second);
    chunk.finish()
}

/// Bytes to write into a string. Parts that fill whole chunks of a rope are copied into chunks
/// beforehand, so that the latch is not held during that copy.
#[derive(Clone, Debug)]
pub(crate) struct Patch<'a> {
    offset: usize,
    bytes: &'a [u8],
    whole: Vec<Chunk>,
}

impl<'a> Patch<'a> {
    pub(crate) fn new(offset: usize, bytes: &'a [u8]) -> Self {
        let to_boundary = (CHUNK_BYTES - offset % CHUNK_BYTES) % CHUNK_BYTES;
        let aligned = bytes.get(to_boundary..).unwrap_or_default();
        Patch { offset, bytes, whole: aligned.chunks_exact(CHUNK_BYTES).map(Chunk::from).collect() }
    }

    /// Returns the length that a string needs to contain the patch.
    pub(crate) fn end(&self) -> usize {
        self.offset + self.bytes.len()
    }
}

/// A string that can be modified in place.
#[derive(Debug)]
pub(crate) struct StringMut<'a> {
    string: WritableString<'a>,
    /// If set, receives the ranges that are overwritten.
    written: Option<&'a mut Vec<Range<usize>>>,
}

#[derive(Debug)]
enum WritableString<'a> {
    Bytes(&'a mut [u8]),
    Rope(&'a mut Rope),
}

impl<'a> StringMut<'a> {
    pub(crate) fn of_bytes(
        bytes: &'a mut [u8],
        written: Option<&'a mut Vec<Range<usize>>>,
    ) -> Self {
        StringMut { string: WritableString::Bytes(bytes), written }
    }

    pub(crate) fn of_rope(rope: &'a mut Rope, written: Option<&'a mut Vec<Range<usize>>>) -> Self {
        StringMut { string: WritableString::Rope(rope), written }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.string {
            WritableString::Bytes(bytes) => bytes.len(),
            WritableString::Rope(rope) => rope.len(),
        }
    }

    /// Returns the byte at an index; 0 after the end.
    pub(crate) fn byte(&self, at: usize) -> u8 {
        match &self.string {
            WritableString::Bytes(bytes) => bytes.get(at).copied().unwrap_or(0),
            WritableString::Rope(rope) => rope.byte(at),
        }
    }

    /// Overwrites a part within the string.
    pub(crate) fn write(&mut self, patch: &Patch<'_>) {
        self.note(patch.offset..patch.end());
        match &mut self.string {
            WritableString::Bytes(bytes) => {
                let target = bytes.get_mut(patch.offset..patch.end());
                target.unwrap_or_default().copy_from_slice(patch.bytes);
            }
            WritableString::Rope(rope) => rope.write(patch),
        }
    }

    /// Returns the whole string for modification, if it is contiguous.
    pub(crate) fn piece_mut(&mut self) -> Option<&mut [u8]> {
        self.note(0..self.len());
        match &mut self.string {
            WritableString::Bytes(bytes) => Some(bytes),
            WritableString::Rope(_) => None,
        }
    }

    #[inline]
    fn note(&mut self, range: Range<usize>) {
        if let Some(written) = &mut self.written {
            written.push(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(rope: &Rope) -> Vec<u8> {
        let mut out = Vec::new();
        rope.copy_range(0..rope.len(), &mut out);
        out
    }

    #[test]
    fn appending_equals_a_vector() {
        let mut rope = Rope::default();
        let mut model = Vec::new();
        for (index, len) in
            [1, CHUNK_BYTES - 1, 3, CHUNK_BYTES, 0, 2 * CHUNK_BYTES + 7, 9].into_iter().enumerate()
        {
            let piece = vec![u8::try_from(index).unwrap(); len];
            rope.append(&piece);
            model.extend_from_slice(&piece);
            assert_eq!(rope.len(), model.len());
        }
        assert_eq!(whole(&rope), model);
        assert!(rope.chunks().all(|chunk| chunk.len() <= CHUNK_BYTES));
        let mut part = Vec::new();
        rope.copy_range(CHUNK_BYTES - 5..CHUNK_BYTES + 5, &mut part);
        assert_eq!(part, model[CHUNK_BYTES - 5..CHUNK_BYTES + 5]);
    }

    #[test]
    fn clone_does_not_change() {
        let mut rope = Rope::from_bytes(b"before");
        let seen = rope.clone();
        rope.append(b" and after");
        assert_eq!(whole(&seen), b"before");
        assert_eq!(whole(&rope), b"before and after");
    }

    #[test]
    fn zeros_share_one_chunk() {
        let mut rope = Rope::zeros(3 * CHUNK_BYTES + 5);
        assert_eq!(whole(&rope), vec![0; 3 * CHUNK_BYTES + 5]);
        assert_eq!(rope.chunks().filter(|chunk| Rope::is_zeros(chunk)).count(), 3);
        rope.write(&Patch::new(CHUNK_BYTES + 1, b"x"));
        assert_eq!(rope.chunks().filter(|chunk| Rope::is_zeros(chunk)).count(), 2);
        assert_eq!((rope.byte(CHUNK_BYTES + 1), rope.byte(1), rope.byte(usize::MAX)), (b'x', 0, 0));
        assert!(ZEROS.iter().all(|byte| *byte == 0));
    }

    proptest! {
        #[test]
        fn modifications_equal_those_of_a_vector(
            steps in proptest::collection::vec(
                (0..4 * CHUNK_BYTES, prop_oneof![0..40_usize, 0..3 * CHUNK_BYTES], any::<u8>()),
                1..8,
            ),
        ) {
            let (mut rope, mut model) = (Rope::default(), Vec::new());
            for (offset, len, byte) in steps {
                let shared = rope.clone();
                let before = model.clone();
                let bytes = vec![byte; len];
                let patch = Patch::new(offset, &bytes);
                model.resize(model.len().max(offset + len), 0);
                model[offset..offset + len].copy_from_slice(&bytes);
                if len % 2 == 0 {
                    rope.grow(patch.end());
                    rope.write(&patch);
                } else {
                    rope.overwrite(offset, &bytes);
                }
                prop_assert_eq!(whole(&rope), &model[..]);
                prop_assert_eq!(whole(&shared), before);
                let range = offset.min(model.len() / 2)..model.len() - model.len() / 3;
                let mut part = Vec::new();
                rope.copy_range(range.clone(), &mut part);
                prop_assert_eq!(&part[..], model.get(range).unwrap_or_default());
            }
        }
    }
}
