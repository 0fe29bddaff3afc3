//! All claims: the claimed names, in stripes, and the order in which claimers begin.

use crate::claims::queue::{Kind, Queue};
use crate::claims::stripe::{Hold, Intent, Stripe};
use crate::sync::barrier;
use crate::sync::primitives::Mutex;
use crate::sync::primitives::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::Waker;

/// The number of stripes, each with its own lock.
const STRIPES: usize = if cfg!(loom) { 1 } else { 256 };

/// Set in the count of active claims while claims are announced.
pub(super) const ANNOUNCED: u64 = 1 << 63;
/// Set once every batch in progress has seen [`ANNOUNCED`].
pub(super) const SEEN: u64 = 1 << 62;

/// All claims.
#[derive(Debug)]
pub(crate) struct Claims {
    /// The number of claims that are held or being acquired, with [`ANNOUNCED`] and [`SEEN`]. While
    /// it is 0, nothing else needs to be read.
    pub(super) active: AtomicU64,
    /// The claim on the whole keyspace, which is then the only active one; 0 for none.
    exclusive: AtomicU64,
    last_owner: AtomicU64,
    stripes: Box<[Stripe]>,
    entrance: Mutex<Entrance>,
}

/// State that decides whether claims may begin.
#[derive(Debug, Default)]
struct Entrance {
    /// A claimer that has failed so often that no other claimer may begin before it.
    ticket: Option<u64>,
    /// A claim that is being extended to the whole keyspace; no other claim begins until that is
    /// done.
    growing: Option<u64>,
    /// Claimers that may not begin yet.
    held_back: Queue,
    /// Claimers that wait until nothing is claimed.
    whole: Queue,
}

impl Entrance {
    /// Wakes the claimers that were held back, unless a claimer waits for the whole keyspace. This
    /// is also needed while there is a ticket: its holder may be among them, and may begin.
    fn wake_held_back(&mut self) {
        if self.whole.is_empty() {
            self.held_back.wake_all();
        }
    }
}

/// The target of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitingFor {
    Name(u64),
    Entrance,
    Whole,
}

/// A place in a queue. Dropping this leaves the queue. Keep it until the waiting operation has been
/// performed; then the next waiter proceeds.
#[derive(Debug)]
pub struct Wait {
    claims: Arc<Claims>,
    target: WaitingFor,
    number: u64,
}

impl Claims {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Claims {
            active: AtomicU64::new(0),
            exclusive: AtomicU64::new(0),
            last_owner: AtomicU64::new(0),
            stripes: (0..STRIPES).map(|_| Stripe::default()).collect(),
            entrance: Mutex::new(Entrance::default()),
        })
    }

    /// Returns a unique number for a claimer.
    pub(super) fn new_owner(&self) -> u64 {
        self.last_owner.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Whether there is any claim, or claims are announced: requests must look for their keys.
    /// Call this within a batch, before each request.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.active.load(Ordering::Acquire) != 0
    }

    /// Orders the beginning of a batch before its reads of claimed names, if there are claims. Call
    /// this once the batch has begun; [`Quiescence::grace_of_fenced`] relies on it.
    ///
    /// [`Quiescence::grace_of_fenced`]: crate::sync::quiescence::Quiescence::grace_of_fenced
    #[inline]
    pub(crate) fn begin_batch(&self) {
        if self.any() {
            barrier::full();
        }
    }

    /// Whether any claim is held or being acquired. Announcements do not count.
    pub(crate) fn is_anything_claimed(&self) -> bool {
        self.count() > 0
    }

    /// Returns the number of claims that are held or being acquired.
    fn count(&self) -> u64 {
        self.active.load(Ordering::SeqCst) & (SEEN - 1)
    }

    /// Whether `name` is claimed.
    pub(crate) fn holds(&self, name: u64) -> bool {
        self.is_exclusive()
            || self.stripe(name).lock().get(&name).is_some_and(|found| found.hold != Hold::Free)
    }

    /// Returns `None` if a request with this `intent` for `name` may proceed. Otherwise returns a
    /// place in the queue, and `waker` is called when another try is worthwhile.
    pub(crate) fn meet(self: &Arc<Self>, name: u64, intent: Intent, waker: &Waker) -> Option<Wait> {
        if self.is_exclusive() {
            return self.unheld(waker);
        }
        let stripe = self.stripe(name);
        if stripe.is_empty() {
            return None;
        }
        let mut stripe = stripe.lock();
        let found = stripe.get_mut(&name)?;
        if found.hold.admits(intent) {
            return None;
        }
        let number = found.queue.push(Kind::Request, waker);
        drop(stripe);
        Some(self.wait(WaitingFor::Name(name), number))
    }

    /// The same as [`Claims::meet`] for a request on the whole keyspace.
    pub(crate) fn meet_any(self: &Arc<Self>, waker: &Waker) -> Option<Wait> {
        self.unclaimed(waker, || ())
    }

    /// Runs `work`, which must be short, while nothing is claimed and no claim can begin. If
    /// something is claimed, `work` does not run, and `waker` is called when another try is
    /// worthwhile.
    pub(crate) fn unclaimed(self: &Arc<Self>, waker: &Waker, work: impl FnOnce()) -> Option<Wait> {
        let mut entrance = self.entrance.lock();
        if self.count() == 0 {
            work();
            return None;
        }
        let number = entrance.whole.push(Kind::Request, waker);
        drop(entrance);
        Some(self.wait(WaitingFor::Whole, number))
    }

    fn is_exclusive(&self) -> bool {
        self.exclusive.load(Ordering::Acquire) != 0
    }

    /// Waits until no claim holds the whole keyspace, if one does.
    #[cold]
    fn unheld(self: &Arc<Self>, waker: &Waker) -> Option<Wait> {
        let mut entrance = self.entrance.lock();
        if !self.is_exclusive() {
            return None;
        }
        let number = entrance.whole.push(Kind::Request, waker);
        drop(entrance);
        Some(self.wait(WaitingFor::Whole, number))
    }

    fn wait(self: &Arc<Self>, target: WaitingFor, number: u64) -> Wait {
        Wait { claims: Arc::clone(self), target, number }
    }

    /// Lets a claimer begin, unless it is held back. Returns whether every batch has seen that
    /// there are claims.
    pub(super) fn begin(self: &Arc<Self>, owner: u64, waker: &Waker) -> Result<bool, Wait> {
        let mut entrance = self.entrance.lock();
        let must_wait =
            entrance.ticket.is_some_and(|holder| holder != owner) || entrance.growing.is_some();
        if must_wait || self.is_exclusive() || !entrance.whole.is_empty() {
            let number = entrance.held_back.push(Kind::Claimer, waker);
            drop(entrance);
            return Err(self.wait(WaitingFor::Entrance, number));
        }
        let before = self.active.fetch_add(1, Ordering::SeqCst);
        Ok(before & SEEN != 0)
    }

    /// Lets a claimer of the whole keyspace begin, once nothing else is claimed. `ahead` is its
    /// place in the queue, if it has one.
    pub(super) fn begin_whole(
        self: &Arc<Self>,
        owner: u64,
        ahead: Option<&Wait>,
        waker: &Waker,
    ) -> Result<(), Wait> {
        let mut entrance = self.entrance.lock();
        let own = ahead.filter(|wait| wait.target == WaitingFor::Whole).map(|wait| wait.number);
        if self.count() == 0 && entrance.whole.is_first(own) {
            self.active.fetch_add(1, Ordering::SeqCst);
            self.exclusive.store(owner, Ordering::SeqCst);
            return Ok(());
        }
        let number = entrance.whole.push(Kind::Claimer, waker);
        drop(entrance);
        Err(self.wait(WaitingFor::Whole, number))
    }

    /// Unregisters a claimer that no longer holds any names.
    pub(super) fn end(&self, owner: u64) {
        let mut entrance = self.entrance.lock();
        if entrance.growing == Some(owner) {
            entrance.growing = None;
            entrance.held_back.wake_all();
        }
        self.active.fetch_sub(1, Ordering::SeqCst);
        let left = self.count();
        if left == 0 {
            self.exclusive.store(0, Ordering::SeqCst);
            entrance.whole.wake_next();
            entrance.wake_held_back();
        } else if left == 1 && entrance.growing.is_some() {
            // The claim that is being extended is at the front of the queue.
            entrance.whole.wake_next();
        }
    }

    /// Acquires `name` for a claim that holds other names, ahead of all waiters. Returns whether it
    /// was not held before. Waiters for a name hold no claim, so there is no deadlock as long as
    /// only one claim at a time grows.
    pub(super) fn take_more(
        self: &Arc<Self>,
        (name, intent): (u64, Intent),
        owner: u64,
        waker: &Waker,
    ) -> Result<bool, Wait> {
        if self.exclusive.load(Ordering::Acquire) == owner {
            return Ok(false);
        }
        let mut stripe = self.stripe(name).lock();
        let found = stripe.entry(name).or_default();
        if found.hold == Hold::Writer(owner) {
            return Ok(false);
        }
        if found.hold.admits(intent) {
            found.hold = found.hold.with(intent, owner);
            return Ok(true);
        }
        let number = found.queue.push_first(Kind::Claimer, waker);
        drop(stripe);
        Err(self.wait(WaitingFor::Name(name), number))
    }

    /// Extends a claim to the whole keyspace, once nothing else is claimed, ahead of all waiters.
    /// Returns whether the claim did not hold the whole keyspace before.
    pub(super) fn take_all(self: &Arc<Self>, owner: u64, waker: &Waker) -> Result<bool, Wait> {
        let mut entrance = self.entrance.lock();
        if self.exclusive.load(Ordering::Acquire) == owner {
            return Ok(false);
        }
        if self.count() == 1 {
            self.exclusive.store(owner, Ordering::SeqCst);
            entrance.growing = None;
            return Ok(true);
        }
        entrance.growing = Some(owner);
        let number = entrance.whole.push_first(Kind::Claimer, waker);
        drop(entrance);
        Err(self.wait(WaitingFor::Whole, number))
    }

    /// Acquires `name` for `owner`. Returns whether it was not held before. `ahead` is the number
    /// of the owner's place in the queue, if it has one.
    pub(super) fn take(
        self: &Arc<Self>,
        (name, intent): (u64, Intent),
        owner: u64,
        ahead: Option<&Wait>,
        waker: &Waker,
    ) -> Result<bool, Wait> {
        let mut stripe = self.stripe(name).lock();
        let found = stripe.entry(name).or_default();
        if found.hold == Hold::Writer(owner) {
            return Ok(false);
        }
        let own =
            ahead.filter(|wait| wait.target == WaitingFor::Name(name)).map(|wait| wait.number);
        if found.hold.admits(intent) && found.queue.is_first(own) {
            found.hold = found.hold.with(intent, owner);
            return Ok(true);
        }
        let number = found.queue.push(Kind::Claimer, waker);
        drop(stripe);
        Err(self.wait(WaitingFor::Name(name), number))
    }

    /// Releases one hold of `name`, and wakes the next waiter if no hold is left.
    pub(super) fn release(&self, name: u64) {
        let mut stripe = self.stripe(name).lock();
        if let Some(found) = stripe.get_mut(&name) {
            found.hold = match found.hold {
                Hold::Readers(readers) if readers > 1 => Hold::Readers(readers - 1),
                _ => Hold::Free,
            };
            stripe.tidy(name);
        }
    }

    /// Lets no other claimer begin until `owner` has acquired all its names.
    pub(super) fn take_ticket(&self, owner: u64) {
        self.entrance.lock().ticket.get_or_insert(owner);
    }

    pub(super) fn give_ticket(&self, owner: u64) {
        let mut entrance = self.entrance.lock();
        if entrance.ticket == Some(owner) {
            entrance.ticket = None;
            entrance.held_back.wake_all();
        }
    }

    fn leave(&self, target: WaitingFor, number: u64) {
        match target {
            WaitingFor::Name(name) => {
                let mut stripe = self.stripe(name).lock();
                if let Some(found) = stripe.get_mut(&name) {
                    found.queue.remove(number);
                    stripe.tidy(name);
                }
            }
            WaitingFor::Entrance => self.entrance.lock().held_back.remove(number),
            WaitingFor::Whole => {
                let mut entrance = self.entrance.lock();
                entrance.whole.remove(number);
                if !entrance.whole.is_empty() && self.count() == 0 {
                    entrance.whole.wake_next();
                }
                entrance.wake_held_back();
            }
        }
    }

    /// Whether nothing is claimed, and there are no waiters.
    #[cfg(test)]
    pub(super) fn is_forgotten(&self) -> bool {
        let entrance = self.entrance.lock();
        !self.any()
            && self.stripes.iter().all(|stripe| stripe.lock().is_empty())
            && entrance.ticket.is_none()
            && entrance.growing.is_none()
            && entrance.held_back.is_empty()
            && entrance.whole.is_empty()
    }

    #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of stripes")]
    fn stripe(&self, name: u64) -> &Stripe {
        &self.stripes[name as usize % STRIPES]
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.claims.leave(self.target, self.number);
    }
}
