//! The keys that a running script has claimed, and those of them that it may have changed.

use crate::state::blocked::Name;
use nagi_store::{IdentityHasher, Intent, Key};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// The number of keys, and the bytes of their names, for which there is room at first: most scripts
/// need no more.
const FEW_KEYS: usize = 14;
const FEW_BYTES: usize = 256;

/// Claimed keys, by their hashes, as in the table of claims: two keys with one hash are one claim.
#[derive(Debug)]
pub(super) struct HeldKeys {
    keys: HashMap<u64, Held, BuildHasherDefault<IdentityHasher>>,
    /// The names of changed keys, in the order of the first change; and where each of them ends.
    changed: Vec<u8>,
    ends: Vec<usize>,
}

#[derive(Debug)]
struct Held {
    intent: Intent,
    may_be_changed: bool,
}

impl HeldKeys {
    pub(super) fn new() -> Self {
        let keys = HashMap::with_capacity_and_hasher(FEW_KEYS, BuildHasherDefault::default());
        let (changed, ends) = (Vec::with_capacity(FEW_BYTES), Vec::with_capacity(FEW_KEYS));
        HeldKeys { keys, changed, ends }
    }

    /// The number of claimed keys.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether a key is claimed with a sufficient intent.
    pub(super) fn has(&self, key: Key<'_>, intent: Intent) -> bool {
        let held = self.keys.get(&key.hash());
        held.is_some_and(|held| held.intent == Intent::Write || intent == Intent::Read)
    }

    /// Records that a key is claimed.
    pub(super) fn add(&mut self, key: Key<'_>, intent: Intent) {
        self.keys.insert(key.hash(), Held { intent, may_be_changed: false });
    }

    /// Forgets the keys that have not been changed, since everything is claimed.
    pub(super) fn keep_changed(&mut self) {
        self.keys.retain(|_, held| held.may_be_changed);
    }

    /// Records that a command may change a key, while everything is claimed.
    pub(super) fn add_changed(&mut self, key: Key<'_>) {
        let new = Held { intent: Intent::Write, may_be_changed: false };
        self.keys.entry(key.hash()).or_insert(new);
        self.note_changed(key);
    }

    /// Records that a command may change a key, if it is claimed.
    pub(super) fn note_changed(&mut self, key: Key<'_>) {
        let Some(held) = self.keys.get_mut(&key.hash()) else { return };
        if !std::mem::replace(&mut held.may_be_changed, true) {
            self.changed.extend_from_slice(key.bytes());
            self.ends.push(self.changed.len());
        }
    }

    /// The names of the keys that the script may have changed.
    pub(super) fn changed(&self) -> impl Iterator<Item = Name> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends).map(|(start, end)| start..*end);
        ranges.map(|range| self.changed.get(range).unwrap_or_default().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_store::{Store, StoreOptions};

    #[test]
    fn changed_keys_are_named_once_in_the_order_of_their_first_change() {
        let store = Store::new(&StoreOptions::default());
        let mut held = HeldKeys::new();
        for name in ["a", "long", "", "read"] {
            held.add(store.key(name.as_bytes()), Intent::Write);
        }
        for name in ["long", "", "a", "long", "unclaimed"] {
            held.note_changed(store.key(name.as_bytes()));
        }
        let changed: Vec<Name> = held.changed().collect();
        assert_eq!(changed, [&b"long"[..], b"", b"a"].map(Name::from));
    }

    #[test]
    fn claim_for_writing_includes_reading() {
        let store = Store::new(&StoreOptions::default());
        let (read, written) = (store.key(b"read"), store.key(b"written"));
        let mut held = HeldKeys::new();
        held.add(read, Intent::Read);
        held.add(written, Intent::Write);
        let has = |key| [Intent::Read, Intent::Write].map(|intent| held.has(key, intent));
        assert_eq!(has(read), [true, false]);
        assert_eq!(has(written), [true, true]);
        assert_eq!(has(store.key(b"other")), [false, false]);
    }
}
