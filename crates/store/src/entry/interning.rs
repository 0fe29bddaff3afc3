//! Looks up long keys: in the operation itself, or on a thread if they are very long.
//!
//! Joining, hashing and comparing a key of many megabytes takes long, so a thread does it while the
//! worker continues with other requests. The result is identified by its address.

use crate::entry::key::{Hasher, Key};
use crate::entry::long_key::{INLINE_KEY_BYTES, LongKey, LongKeys};
use crate::sync::shared_thread::SharedThread;
use nagi_chunk::Chunk;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

impl LongKeys {
    /// Returns the [`LongKey`] of a key, which is created if there is none; `None` for a short key.
    /// No latch may be held.
    #[inline]
    pub(crate) fn made(self: &Arc<Self>, key: Key<'_>) -> Option<LongKey> {
        if key.bytes.len() <= INLINE_KEY_BYTES {
            return None;
        }
        self.look_up(key.bytes, key.hash, Some(&|| key.bytes.into()))
    }

    /// Returns the [`LongKey`] of a key without creating one; `None` for a short key, or if no
    /// entry has the key.
    #[inline]
    pub(crate) fn found(self: &Arc<Self>, key: Key<'_>) -> Option<LongKey> {
        if key.bytes.len() <= INLINE_KEY_BYTES {
            return None;
        }
        self.look_up(key.bytes, key.hash, None)
    }
}

/// A long key that a thread is looking up.
#[derive(Debug)]
pub struct Interning(Arc<OnceLock<LongKey>>);

impl Interning {
    pub(crate) fn begin(
        keys: &Arc<LongKeys>,
        hasher: Hasher,
        chunks: Vec<Chunk>,
        waker: Waker,
    ) -> Self {
        let (keys, found) = (Arc::clone(keys), Arc::new(OnceLock::new()));
        let place = Arc::clone(&found);
        let task: Task = Box::new(move || {
            let bytes = joined(&chunks);
            let key = hasher.key(&bytes);
            if let Some(long) = keys.look_up(key.bytes, key.hash, Some(&|| Arc::clone(&bytes))) {
                let _ = place.set(long);
            }
            // Lookups that were abandoned are dropped here.
            drop((chunks, place));
            waker.wake();
        });
        THREAD.hand(task);
        Interning(found)
    }

    /// Returns the key's bytes, once it has been found.
    #[must_use]
    pub fn found(&self) -> Option<Arc<dyn AsRef<[u8]> + Send + Sync>> {
        self.0.get().map(|long| Arc::new(long.clone()) as Arc<_>)
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// The thread that joins, hashes and looks up long keys.
static THREAD: SharedThread<Task> = SharedThread::new("long keys", |task| task());

/// Ends the thread; the next long key starts it again.
pub(crate) fn end() {
    THREAD.end();
}

/// Joins the chunks into one allocation.
fn joined(chunks: &[Chunk]) -> Arc<[u8]> {
    let len = chunks.iter().map(|chunk| chunk.len()).sum();
    let mut joined: Arc<[u8]> = std::iter::repeat_n(0, len).collect();
    let mut rest = Arc::get_mut(&mut joined).unwrap_or_default();
    for chunk in chunks {
        let Some((place, after)) = rest.split_at_mut_checked(chunk.len()) else { break };
        place.copy_from_slice(chunk);
        rest = after;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

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
        assert!(keys.found(key(&a, 7)).is_none(), "it is not held");
        assert_eq!((keys.found(key(&b, 7)).is_some(), keys.len()), (true, 1));
    }

    /// The key that a thread has found is identified by the address of its bytes, which are not
    /// read again.
    #[test]
    fn interned_key_is_found_by_its_address() {
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let _lease = crate::sync::shared_thread::Lease::new(end);
        let keys = LongKeys::new();
        let hasher = Hasher::new(7);
        let chunks: Vec<Chunk> = vec![vec![b'a'; 100_000].into(), vec![b'b'; 100_000].into()];
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

    /// Threads that hold an equal key at the same time share one `LongKey`.
    #[test]
    fn threads_share_one_long_key() {
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
                        let mut held = held[which].lock();
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
