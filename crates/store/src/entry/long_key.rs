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
//! To join, hash and compare a key of many megabytes takes a while, which a thread does while the
//! key's worker goes on ([`Interning`]). The bytes that come of it are known by where they lie.
//!
//! Of equal bytes there is never more than one [`LongKey`] that anybody holds. So within a latch
//! two long keys are equal if they are the same one, however long they are, and even if everything
//! that was worked out from their bytes is equal.

use crate::claims::Unhashed;
use crate::entry::key::{Hasher, Key};
use crate::memory::accounting;
use crate::sync::holds::{self, Work};
use crate::sync::reclaim;
use crate::sync::shared_thread::SharedThread;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;

/// The longest key that stands in its entry. With it, any value that is no rope has room in an
/// arena.
pub(crate) const INLINE_KEY_BYTES: usize = 2048;

/// The shortest key that is known by where its bytes lie.
pub(crate) const INTERNED_BYTES: usize = 128 * 1024;

/// Parts of the table, each with a lock of its own, which is held for microseconds.
const STRIPES: usize = 256;
/// Keys that are freed where they are let go of.
const QUICK_BYTES: usize = 1 << 20;

/// One long key. Clones are the same key; whoever drops the last of them holds no latch.
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

/// Every long key that anybody holds, by its hash.
#[derive(Debug)]
pub(crate) struct LongKeys {
    by_hash: Box<[Mutex<Stripe>]>,
    /// The longer ones by where their bytes lie.
    by_address: Mutex<HashMap<usize, Weak<Kept>>>,
}

/// Gives a key's bytes to be kept.
type Make<'a> = &'a dyn Fn() -> Arc<[u8]>;

type Stripe = HashMap<u64, Vec<Weak<Kept>>, BuildHasherDefault<Unhashed>>;

impl LongKey {
    fn new(bytes: Arc<[u8]>, hash: u64, keys: &Arc<LongKeys>) -> Self {
        note(bytes.len());
        let (entries, keys) = (AtomicUsize::new(0), Arc::clone(keys));
        let kept = Arc::new(Kept { bytes, hash, entries, keys });
        if kept.bytes.len() >= INTERNED_BYTES {
            lock(&kept.keys.by_address).insert(kept.bytes.as_ptr().addr(), Arc::downgrade(&kept));
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

    /// What tells it from all others while anybody holds it.
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
            lock(&self.keys.by_address).remove(&self.bytes.as_ptr().addr());
        }
        self.keys.forget(self.hash);
        if len > QUICK_BYTES {
            reclaim::free_elsewhere(vec![std::mem::take(&mut self.bytes)]);
        }
    }
}

impl LongKeys {
    pub(crate) fn new() -> Arc<Self> {
        let by_hash = (0..STRIPES).map(|_| Mutex::default()).collect();
        Arc::new(LongKeys { by_hash, by_address: Mutex::default() })
    }

    /// The one of a key that is long, made if there is none; nothing for others. No latch may be
    /// held.
    #[inline]
    pub(crate) fn made(self: &Arc<Self>, key: Key<'_>) -> Option<LongKey> {
        if key.bytes.len() <= INLINE_KEY_BYTES {
            return None;
        }
        self.look_up(key, Some(&|| key.bytes.into()))
    }

    /// The same, but if there is none then no entry has the key.
    #[inline]
    pub(crate) fn found(self: &Arc<Self>, key: Key<'_>) -> Option<LongKey> {
        if key.bytes.len() <= INLINE_KEY_BYTES { None } else { self.look_up(key, None) }
    }

    /// The one whose bytes these are, not only such as are equal to them.
    pub(crate) fn at(&self, bytes: &[u8]) -> Option<LongKey> {
        let kept = lock(&self.by_address).get(&bytes.as_ptr().addr()).and_then(Weak::upgrade)?;
        (kept.bytes.len() == bytes.len()).then_some(LongKey(kept))
    }

    #[cold]
    fn look_up(self: &Arc<Self>, key: Key<'_>, make: Option<Make<'_>>) -> Option<LongKey> {
        if key.bytes.len() >= INTERNED_BYTES
            && let Some(long) = self.at(key.bytes)
        {
            return Some(long);
        }
        let mut made = None;
        // Others of the same hash, which are held so that their addresses stay theirs.
        let mut others: Vec<LongKey> = Vec::new();
        loop {
            let is_new = |it: &LongKey| others.iter().all(|other| other.address() != it.address());
            let mut stripe = lock(self.stripe(key.hash));
            let known = stripe.get(&key.hash).into_iter().flatten();
            let new: Vec<_> = known.filter_map(Weak::upgrade).map(LongKey).filter(is_new).collect();
            if new.is_empty()
                && let Some(made) = made
            {
                let LongKey(kept) = &made;
                stripe.entry(key.hash).or_default().push(Arc::downgrade(kept));
                return Some(made);
            }
            drop(stripe);
            for candidate in new {
                if is_equal(candidate.bytes(), key.bytes) {
                    return Some(candidate);
                }
                others.push(candidate);
            }
            let make = make?;
            made = made.or_else(|| Some(LongKey::new(make(), key.hash, self)));
        }
    }

    /// Forgets those of a hash that nobody holds.
    fn forget(&self, hash: u64) {
        let mut stripe = lock(self.stripe(hash));
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
        self.by_hash.iter().map(|stripe| lock(stripe).values().map(Vec::len).sum::<usize>()).sum()
    }
}

/// A long key that a thread is looking up.
#[derive(Debug)]
pub struct Interning(Arc<OnceLock<LongKey>>);

impl Interning {
    pub(crate) fn begin(
        keys: &Arc<LongKeys>,
        hasher: Hasher,
        chunks: Vec<Arc<[u8]>>,
        waker: Waker,
    ) -> Self {
        let (keys, found) = (Arc::clone(keys), Arc::new(OnceLock::new()));
        let place = Arc::clone(&found);
        let task: Task = Box::new(move || {
            let bytes = joined(&chunks);
            let key = hasher.key(&bytes);
            if let Some(long) = keys.look_up(key, Some(&|| Arc::clone(&bytes))) {
                let _ = place.set(long);
            }
            // What nobody has asked for any more is let go of here.
            drop((chunks, place));
            waker.wake();
        });
        THREAD.hand(task);
        Interning(found)
    }

    /// Its bytes, once it has been found.
    #[must_use]
    pub fn found(&self) -> Option<Arc<dyn AsRef<[u8]> + Send + Sync>> {
        self.0.get().map(|long| Arc::new(long.clone()) as Arc<_>)
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// Where long keys are joined, hashed and looked up.
static THREAD: SharedThread<Task> = SharedThread::new("long keys", |task| task());

/// Ends the thread that does this, until the next long key.
pub(crate) fn end() {
    THREAD.end();
}

/// All of them in one piece.
fn joined(chunks: &[Arc<[u8]>]) -> Arc<[u8]> {
    let len = chunks.iter().map(|chunk| chunk.len()).sum();
    let mut joined: Arc<[u8]> = std::iter::repeat_n(0, len).collect();
    let mut rest = Arc::get_mut(&mut joined).unwrap_or_default();
    for chunk in chunks {
        let Some((place, behind)) = rest.split_at_mut_checked(chunk.len()) else { break };
        place.copy_from_slice(chunk);
        rest = behind;
    }
    joined
}

fn is_equal(kept: &[u8], bytes: &[u8]) -> bool {
    if kept.len() != bytes.len() {
        return false;
    }
    note(bytes.len());
    kept == bytes
}

/// Nothing that is done under these locks can leave them half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that somebody looks at, copies or frees: within a latch that would be a fault.
pub(crate) fn note(bytes: usize) {
    holds::note(Work { bytes: bytes as u64, ..Work::default() });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: &[u8], hash: u64) -> Key<'_> {
        Key { bytes, hash, long: None }
    }

    #[test]
    fn equal_bytes_have_one_address_and_equal_hashes_do_not() {
        let keys = LongKeys::new();
        let (a, b) = (vec![b'a'; 3000], vec![b'b'; 3000]);
        assert!(keys.made(key(&a[..INLINE_KEY_BYTES], 7)).is_none(), "it stands in its entry");
        assert!(keys.found(key(&a, 7)).is_none());
        let first = keys.made(key(&a, 7)).unwrap();
        let second = keys.made(key(&b, 7)).unwrap();
        assert_ne!(first.address(), second.address());
        for again in [keys.made(key(&a.clone(), 7)), keys.found(key(&a.clone(), 7))] {
            assert_eq!(again.unwrap().address(), first.address());
        }
        drop(first);
        assert!(keys.found(key(&a, 7)).is_none(), "nobody holds it");
        assert_eq!((keys.found(key(&b, 7)).is_some(), keys.len()), (true, 1));
    }

    /// What a thread has found is a key by where its bytes lie, and nothing looks at them again.
    #[test]
    fn what_was_interned_is_known_by_its_address() {
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let _lease = crate::sync::shared_thread::Lease::new();
        let keys = LongKeys::new();
        let hasher = Hasher::new(7);
        let chunks: Vec<Arc<[u8]>> = vec![vec![b'a'; 100_000].into(), vec![b'b'; 100_000].into()];
        let bytes = chunks.concat();
        let intern = || {
            let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
            let interning = Interning::begin(&keys, hasher, chunks.clone(), waker);
            loop {
                match interning.found() {
                    Some(found) => break found,
                    None => std::thread::park(),
                }
            }
        };
        let [first, second] = [intern(), intern()];
        let of = |found: &Arc<dyn AsRef<[u8]> + Send + Sync>| (**found).as_ref().as_ptr();
        assert!((*first).as_ref() == bytes);
        assert_eq!(of(&first), of(&second), "there is one");
        let kept = keys.at((*first).as_ref()).unwrap();
        assert_eq!(kept.hash(), hasher.key(&bytes).hash);
        assert!(keys.at(&bytes).is_none(), "equal bytes elsewhere are looked at");
        assert!(keys.at(&(*first).as_ref()[..150_000]).is_none(), "nor is a part the key");
        assert_eq!(keys.made(hasher.key(&bytes)).unwrap().address(), kept.address());
        drop((first, second, kept));
        assert_eq!(keys.len(), 0);
    }

    /// Whoever holds a key at the same time as others has the same one.
    #[test]
    fn threads_that_make_and_drop_agree() {
        let keys = LongKeys::new();
        let rounds = if cfg!(miri) { 20 } else { 20_000 };
        let names = [vec![b'x'; 2500], vec![b'y'; 2500]];
        let held = names.each_ref().map(|_| Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let (keys, names, held) = (&keys, &names, &held);
                scope.spawn(move || {
                    for round in 0..rounds {
                        let which = (thread + round) % 2;
                        let made = keys.made(key(&names[which], 1)).unwrap();
                        let mut held = lock(&held[which]);
                        let is_same = |it: &LongKey| it.address() == made.address();
                        assert!(held.iter().all(is_same));
                        if round % 3 == 0 {
                            held.push(made);
                        } else {
                            let gone = std::mem::take(&mut *held);
                            drop((held, made, gone));
                        }
                    }
                });
            }
        });
        drop(held);
        assert_eq!(keys.len(), 0);
    }
}
