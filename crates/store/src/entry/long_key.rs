//! Long keys: each is stored once, outside its entries, so that no latch is held while one is
//! compared, copied or freed.
//!
//! ```text
//!  operation          looks its key up here, byte by byte -----+   no latch
//!                                                              v
//!  LongKeys   hash -> [ LongKey ]                            LongKey ... its bytes
//!                                                              ^
//!  entry      ... hash, ..., address of the LongKey -----------+   latch held: same address?
//! ```
//!
//! Equal bytes never have more than one [`LongKey`] in use. Under a latch, two long keys are
//! therefore equal exactly if they have the same address, however long they are and even if their
//! hashes collide.

use crate::entry::identity_hasher::IdentityHasher;
use crate::memory::accounting;
use crate::memory::reclaim;
use crate::sync::holds::{self, Work};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// The length of the longest key that is stored in its entry. It leaves room in an arena for any
/// value that is not a rope.
pub(crate) const INLINE_KEY_BYTES: usize = 2048;

/// The length of the shortest key that is identified by the address of its bytes.
pub(crate) const INTERNED_BYTES: usize = 128 * 1024;

/// The number of stripes of the table. Each has its own lock, which is held for microseconds.
const STRIPES: usize = 256;
/// The length in bytes of the longest key that is freed by the thread that releases it.
const QUICK_BYTES: usize = 1 << 20;

/// One long key. Clones are the same key; the last of them must be dropped without holding a latch.
#[derive(Clone, Debug)]
pub(crate) struct LongKey(Arc<Kept>);

/// The shared part.
#[derive(Debug)]
pub(crate) struct Kept {
    bytes: Arc<[u8]>,
    hash: u64,
    /// The number of entries that have it; if there are any, it counts as data.
    entries: AtomicUsize,
    keys: Arc<LongKeys>,
}

/// Every long key in use, by its hash.
#[derive(Debug)]
pub(crate) struct LongKeys {
    by_hash: Box<[Mutex<Stripe>]>,
    /// The longest keys, by the address of their bytes.
    by_address: Mutex<HashMap<usize, Weak<Kept>>>,
}

/// Provides a key's bytes for storage.
type Make<'a> = &'a dyn Fn() -> Arc<[u8]>;

type Stripe = HashMap<u64, Vec<Weak<Kept>>, BuildHasherDefault<IdentityHasher>>;

impl LongKey {
    fn new(bytes: Arc<[u8]>, hash: u64, keys: &Arc<LongKeys>) -> Self {
        note(bytes.len());
        let (entries, keys) = (AtomicUsize::new(0), Arc::clone(keys));
        let kept = Arc::new(Kept { bytes, hash, entries, keys });
        if kept.bytes.len() >= INTERNED_BYTES {
            kept.keys.by_address.lock().insert(kept.bytes.as_ptr().addr(), Arc::downgrade(&kept));
        }
        LongKey(kept)
    }

    /// Returns its keyed hash.
    pub(crate) fn hash(&self) -> u64 {
        self.0.hash
    }

    /// Returns its bytes. No latch may be held while they are read.
    pub(crate) fn bytes(&self) -> &Arc<[u8]> {
        &self.0.bytes
    }

    /// Returns its address, which identifies it while it is in use.
    pub(crate) fn address(&self) -> *const Kept {
        Arc::as_ptr(&self.0)
    }

    /// Transfers a reference to an entry, which stores the address.
    pub(crate) fn into_entry(self) -> *const Kept {
        if self.0.entries.fetch_add(1, Ordering::Relaxed) == 0 {
            accounting::keep(accounting::own_bytes(self.0.bytes.len()));
        }
        Arc::into_raw(self.0)
    }

    /// Returns the key of an entry, which keeps its reference.
    ///
    /// # Safety
    /// The address came from [`LongKey::into_entry`] and its reference was not taken back.
    pub(crate) unsafe fn of_entry(address: *const Kept) -> ManuallyDrop<Self> {
        // SAFETY: the caller guarantees it.
        ManuallyDrop::new(LongKey(unsafe { Arc::from_raw(address) }))
    }

    /// Takes the reference back from an entry that no longer needs it.
    pub(crate) fn from_entry(long: ManuallyDrop<Self>) -> Self {
        if long.0.entries.fetch_sub(1, Ordering::Relaxed) == 1 {
            accounting::keep(-accounting::own_bytes(long.0.bytes.len()));
        }
        ManuallyDrop::into_inner(long)
    }
}

impl AsRef<[u8]> for LongKey {
    fn as_ref(&self) -> &[u8] {
        &self.0.bytes
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let len = self.bytes.len();
        note(len);
        if len >= INTERNED_BYTES {
            self.keys.by_address.lock().remove(&self.bytes.as_ptr().addr());
        }
        self.keys.forget(self.hash);
        if len > QUICK_BYTES {
            reclaim::free_elsewhere(std::mem::take(&mut self.bytes));
        }
    }
}

impl LongKeys {
    pub(crate) fn new() -> Arc<Self> {
        let by_hash = (0..STRIPES).map(|_| Mutex::default()).collect();
        Arc::new(LongKeys { by_hash, by_address: Mutex::default() })
    }

    /// Returns the key whose bytes are at exactly this address, not merely equal.
    pub(crate) fn at(&self, bytes: &[u8]) -> Option<LongKey> {
        let kept = self.by_address.lock().get(&bytes.as_ptr().addr()).and_then(Weak::upgrade)?;
        (kept.bytes.len() == bytes.len()).then_some(LongKey(kept))
    }

    /// Returns the key with these bytes and this hash; if there is none, a new one with the bytes
    /// that `make` returns.
    #[cold]
    pub(super) fn look_up(
        self: &Arc<Self>,
        bytes: &[u8],
        hash: u64,
        make: Option<Make<'_>>,
    ) -> Option<LongKey> {
        if bytes.len() >= INTERNED_BYTES
            && let Some(long) = self.at(bytes)
        {
            return Some(long);
        }
        let mut made = None;
        // Other keys with the same hash, kept in use so that their addresses stay valid.
        let mut others: Vec<LongKey> = Vec::new();
        loop {
            let is_new = |it: &LongKey| others.iter().all(|other| other.address() != it.address());
            let mut stripe = self.stripe(hash).lock();
            let known = stripe.get(&hash).into_iter().flatten();
            let new: Vec<_> = known.filter_map(Weak::upgrade).map(LongKey).filter(is_new).collect();
            if new.is_empty()
                && let Some(made) = made
            {
                let LongKey(kept) = &made;
                stripe.entry(hash).or_default().push(Arc::downgrade(kept));
                return Some(made);
            }
            drop(stripe);
            for candidate in new {
                if is_equal(candidate.bytes(), bytes) {
                    return Some(candidate);
                }
                others.push(candidate);
            }
            let make = make?;
            made = made.or_else(|| Some(LongKey::new(make(), hash, self)));
        }
    }

    /// Removes the keys of a hash that are no longer in use.
    fn forget(&self, hash: u64) {
        let mut stripe = self.stripe(hash).lock();
        let Some(keys) = stripe.get_mut(&hash) else { return };
        keys.retain(|key| key.strong_count() > 0);
        if keys.is_empty() {
            stripe.remove(&hash);
            if stripe.is_empty() {
                *stripe = Stripe::default();
            }
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of stripes")]
    fn stripe(&self, hash: u64) -> &Mutex<Stripe> {
        &self.by_hash[hash as usize % STRIPES]
    }

    /// Returns the number of keys.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.by_hash.iter().map(|stripe| stripe.lock().values().map(Vec::len).sum::<usize>()).sum()
    }
}

fn is_equal(kept: &[u8], bytes: &[u8]) -> bool {
    if kept.len() != bytes.len() {
        return false;
    }
    note(bytes.len());
    kept == bytes
}

/// Counts bytes that are read, copied or freed: under a latch, that would be an error.
pub(crate) fn note(bytes: usize) {
    holds::note(Work { bytes: bytes as u64, ..Work::default() });
}
