//! The key that pages show for a client. Its worker stores the key with every batch, so that pages
//! also show requests that have been waiting since before the page was opened. No lock is needed: a
//! reader compares versions (a seqlock).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

const WORD_BYTES: usize = 8;
/// Maximum attempts to read a key that changes meanwhile.
const TRIES: usize = 100;

/// The first bytes of the key of a client's current or last request; stored by one thread.
#[derive(Debug, Default)]
pub struct ShownKey {
    /// Odd while the key is being stored.
    version: AtomicU32,
    len: AtomicU32,
    words: [AtomicU64; Self::MAX_BYTES / WORD_BYTES],
}

impl ShownKey {
    /// Maximum bytes of a key that pages show.
    pub const MAX_BYTES: usize = 64;

    /// Stores the first bytes of a key; an empty one means none.
    #[inline]
    pub fn set(&self, key: &[u8]) {
        let key = key.get(..Self::MAX_BYTES).unwrap_or(key);
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        let (words, rest) = key.as_chunks::<WORD_BYTES>();
        let mut places = self.words.iter();
        for (word, place) in words.iter().zip(&mut places) {
            place.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        if let (false, Some(place)) = (rest.is_empty(), places.next()) {
            let last = match key.last_chunk::<WORD_BYTES>() {
                Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
                None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
            };
            place.store(last, Ordering::Relaxed);
        }
        self.len.store(key.len() as u32, Ordering::Relaxed);
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }

    /// The key as text, with replacements for invalid UTF-8; empty if it changed during each
    /// attempt.
    pub(crate) fn text(&self) -> String {
        let key = (0..TRIES).find_map(|_| self.read()).unwrap_or_default();
        String::from_utf8_lossy(&key).into_owned()
    }

    fn read(&self) -> Option<Vec<u8>> {
        let version = self.version.load(Ordering::Acquire);
        let len = self.len.load(Ordering::Relaxed) as usize;
        let words = self.words.each_ref().map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        fence(Ordering::Acquire);
        let is_stable =
            version.is_multiple_of(2) && self.version.load(Ordering::Relaxed) == version;
        is_stable.then(|| words.as_flattened().get(..len).unwrap_or_default().to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn first_bytes_are_kept() {
        let shown = ShownKey::default();
        assert_eq!(shown.text(), "");
        for len in (0..70).chain([7, 0, 8, 1]) {
            let key: String = ('!'..).take(len).collect();
            shown.set(key.as_bytes());
            assert_eq!(shown.text(), key[..len.min(64)]);
        }
        shown.set(b"a\xffb");
        assert_eq!(shown.text(), "a\u{fffd}b");
    }

    #[test]
    fn a_reader_never_sees_a_mixture() {
        let (shown, is_over) = (ShownKey::default(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for byte in (b'a'..=b'z').cycle().take(200_000) {
                    shown.set(&[byte; 64][..usize::from(byte - b'a') + 30]);
                }
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                let key = shown.text().into_bytes();
                let Some(first) = key.first() else { continue };
                assert!(key.iter().all(|byte| byte == first), "{key:?}");
                assert_eq!(key.len(), usize::from(first - b'a') + 30);
            }
        });
    }
}
