//! Long keys: each is kept once, outside the entries that have it, so that no latch is held while
//! one is compared, copied or freed.
//!
//! ```text
//!  operation          looks its key up here, byte by byte -----+   no latch
//!                                                              v
//!  LongKeys   hash -> [ LongKey ]                            LongKey ... its bytes
//!                                                              ^
//!  entry      ... hash, ..., address of the LongKey -----------+   latch held: same address?
//! ```
//!
//! Of equal bytes there is never more than one [`LongKey`] that is held. So within a latch
//! two long keys are equal if they are the same one, however long they are, and even if everything
//! that was worked out from their bytes is equal.

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

/// The longest key that stands in its entry. With it, any value that is no rope has room in an
/// arena.
pub(crate) const INLINE_KEY_BYTES: usize = 2048;

/// The shortest key that is known by where its bytes lie.
pub(crate) const INTERNED_BYTES: usize = 128 * 1024;

/// Parts of the table, each with a lock of its own, which is held for microseconds.
const STRIPES: usize = 256;
/// Keys that are freed where they are let go of.
const QUICK_BYTES: usize = 1 << 20;

/// One long key. Clones are the same key; the last of them is dropped without a latch.
#[derive(Clone, Debug)]
pub(crate) struct LongKey(Arc<Kept>);

/// What is there once.
#[derive(Debug)]
pub(crate) struct Kept {
    bytes: Arc<[u8]>,
    hash: u64,
    /// Entries that have it, which make it data.
    entries: AtomicUsize,
    keys: Arc<LongKeys>,
}

/// Every long key that is held, by its hash.
#[derive(Debug)]
pub(crate) struct LongKeys {
    by_hash: Box<[Mutex<Stripe>]>,
    /// The longer ones by where their bytes lie.
    by_address: Mutex<HashMap<usize, Weak<Kept>>>,
}

/// Gives a key's bytes to be kept.
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

    /// Its keyed hash.
    pub(crate) fn hash(&self) -> u64 {
        self.0.hash
    }

    /// Its bytes, to be read with no latch held.
    pub(crate) fn bytes(&self) -> &Arc<[u8]> {
        &self.0.bytes
    }

    /// What identifies it while it is held.
    pub(crate) fn address(&self) -> *const Kept {
        Arc::as_ptr(&self.0)
    }

    /// Gives itself to an entry, which keeps the address.
    pub(crate) fn into_entry(self) -> *const Kept {
        if self.0.entries.fetch_add(1, Ordering::Relaxed) == 0 {
            accounting::keep(accounting::own_bytes(self.0.bytes.len()));
        }
        Arc::into_raw(self.0)
    }

    /// What an entry has, which still owns it.
    ///
    /// # Safety
    /// The address came from [`LongKey::into_entry`] and was not taken back.
    pub(crate) unsafe fn of_entry(address: *const Kept) -> ManuallyDrop<Self> {
        // SAFETY: the caller's promise.
        ManuallyDrop::new(LongKey(unsafe { Arc::from_raw(address) }))
    }

    /// Takes it back from an entry that has no more use for it.
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

    /// The one whose bytes these are, not only such as are equal to them.
    pub(crate) fn at(&self, bytes: &[u8]) -> Option<LongKey> {
        let kept = self.by_address.lock().get(&bytes.as_ptr().addr()).and_then(Weak::upgrade)?;
        (kept.bytes.len() == bytes.len()).then_some(LongKey(kept))
    }

    /// The one of these bytes, which have this hash; if there is none, one that has what `make`
    /// gives.
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
        // Other keys of the same hash, which are held so that their addresses stay theirs.
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

    /// Forgets those of a hash that are not held.
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

    /// How many there are.
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

/// Bytes that are read, copied or freed: within a latch that would be a fault.
pub(crate) fn note(bytes: usize) {
    holds::note(Work { bytes: bytes as u64, ..Work::default() });
}
