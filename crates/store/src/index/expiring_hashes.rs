//! The index of a table's hashes with fields that expire, ordered by the time at which each is to
//! be swept.
//!
//! Keys that expire need no index, since the sweep visits all entries; but a hash would have to be
//! searched for the field that expires first. Few hashes have such fields, so these are indexed.

use std::collections::BTreeSet;

/// Hashes with fields that expire: the time to sweep each, in milliseconds since 1970, and the
/// hash of its key.
#[derive(Debug, Default)]
pub(crate) struct ExpiringHashes(BTreeSet<(u64, u64)>);

impl ExpiringHashes {
    /// Returns the number of hashes. Two hashes with the same time whose keys have the same hash
    /// count as one.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Updates the time at which the hash under a key is to be swept; `None` means never.
    #[cold]
    pub(crate) fn change(&mut self, key_hash: u64, before: Option<u64>, now: Option<u64>) {
        if before == now {
            return;
        }
        if let Some(before) = before {
            self.0.remove(&(before, key_hash));
        }
        if let Some(now) = now {
            self.0.insert((now, key_hash));
        }
    }

    /// Returns the key hashes of the hashes to be swept by `now_ms`, earliest first.
    pub(crate) fn due(&self, now_ms: u64) -> impl Iterator<Item = u64> {
        self.0.range(..=(now_ms, u64::MAX)).map(|(_, key_hash)| *key_hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_hashes_are_ordered_by_time() {
        let mut index = ExpiringHashes::default();
        index.change(7, None, Some(300));
        index.change(8, None, Some(100));
        index.change(9, None, Some(200));
        index.change(9, Some(200), Some(200));
        assert_eq!(index.due(200).collect::<Vec<_>>(), [8, 9]);
        index.change(8, Some(100), Some(400));
        assert_eq!(index.due(300).collect::<Vec<_>>(), [9, 7]);
        for (key_hash, at_ms) in [(7, 300), (8, 400), (9, 200)] {
            index.change(key_hash, Some(at_ms), None);
        }
        assert_eq!(index.len(), 0);
    }
}
