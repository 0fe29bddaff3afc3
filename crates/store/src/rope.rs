//! Strings too long to move: reference-counted chunks, shared with the replies that carry them.
//!
//! A clone is as cheap as its list of chunks; a change copies no more than the chunks it touches,
//! and those only while somebody else holds them.

use std::sync::Arc;

/// Bytes of payload in every chunk but the last: with the reference counts in front, 64 KiB.
pub(crate) const CHUNK_BYTES: usize = 64 * 1024 - 16;

/// A long string.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    chunks: Vec<Arc<[u8]>>,
    len: usize,
}

impl Rope {
    /// Copies `bytes` into chunks.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Rope { chunks: bytes.chunks(CHUNK_BYTES).map(Arc::from).collect(), len: bytes.len() }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no byte at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The chunks in order, each of which a reply may hold on to.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = &Arc<[u8]>> {
        self.chunks.iter()
    }

    /// Appends `bytes`: the last chunk grows to its full size, new ones follow.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len();
        if let Some(last) = self.chunks.pop_if(|last| last.len() < CHUNK_BYTES) {
            let taken = bytes.len().min(CHUNK_BYTES - last.len());
            let (head, rest) = bytes.split_at(taken);
            self.chunks.push(last.iter().chain(head).copied().collect());
            bytes = rest;
        }
        self.chunks.extend(bytes.chunks(CHUNK_BYTES).map(Arc::from));
    }

    /// Appends `self[range]` to `out`; the range must lie within the rope.
    pub fn copy_range(&self, range: std::ops::Range<usize>, out: &mut Vec<u8>) {
        let mut at = 0;
        for chunk in &self.chunks {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(rope: &Rope) -> Vec<u8> {
        let mut out = Vec::new();
        rope.copy_range(0..rope.len(), &mut out);
        out
    }

    #[test]
    fn appending_equals_a_plain_vector() {
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
    fn a_clone_keeps_what_it_saw() {
        let mut rope = Rope::from_bytes(b"before");
        let seen = rope.clone();
        rope.append(b" and after");
        assert_eq!(whole(&seen), b"before");
        assert_eq!(whole(&rope), b"before and after");
    }
}
