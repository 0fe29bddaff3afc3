//! Claims: what a command holds that works on its keys for longer than one slice, and the queues
//! of those who need the same keys meanwhile.
//!
//! A claim holds no latch. It stands in a table that a request looks at before it runs, and only
//! if anything is claimed at all; a request that meets a claim waits in the queue of the key, and
//! its session is woken when its turn has come.
//!
//! ```text
//!  a long command                         everyone else, at the start of a batch
//!  active + 1                             enters the batch (`quiescence`)
//!  takes its names, all or none           active = 0: nothing to look for
//!  waits out the batches under way        otherwise: meets a name? waits, and is woken
//!  works, slice by slice
//!  gives its names back, active - 1
//! ```
//!
//! Who takes claims holds none while it waits, so nobody waits in a circle. A queue is served in
//! order: whoever wants to claim a name lets those go first who came before. A claimer that has
//! failed several times takes the ticket, which holds new claimers back until it has what it
//! needs. A command on the whole keyspace waits until nothing is claimed, and holds new claimers
//! back as well.
//!
//! Names are hashes of keys, whatever their database. Two keys of one hash exclude each other
//! without need, and nothing worse.

mod claiming;
#[cfg(all(test, loom))]
mod model;
mod queue;
#[cfg(all(test, not(loom)))]
mod tests;

pub use claiming::{Claim, Claiming, Step};

use queue::{Kind, Queue};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::task::Waker;

#[cfg(loom)]
use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
#[cfg(not(loom))]
use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

/// Parts of the table, each with a lock of its own.
const STRIPES: usize = if cfg!(loom) { 1 } else { 256 };

/// Names for which an empty part keeps room.
const KEPT_NAMES: usize = 16;

/// What is done with a key that is claimed, or met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Reading, beside others who read.
    Read,
    /// Changing, alone.
    Write,
}

/// Everything that is claimed.
#[derive(Debug)]
pub(crate) struct Claims {
    /// How many are held or being taken. Nobody looks further while it is 0.
    active: AtomicU64,
    last_owner: AtomicU64,
    stripes: Box<[Mutex<Stripe>]>,
    entrance: Mutex<Entrance>,
}

type Stripe = HashMap<u64, Name, BuildHasherDefault<Unhashed>>;

/// A name that is claimed, or that somebody waits for.
#[derive(Debug, Default)]
struct Name {
    hold: Hold,
    queue: Queue,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Hold {
    #[default]
    Nobody,
    Readers(u32),
    Writer(u64),
}

/// Where claimers begin, or are held back.
#[derive(Debug, Default)]
struct Entrance {
    /// The claimer that has failed too often to let others begin before it.
    ticket: Option<u64>,
    /// Claimers that may not begin yet.
    held_back: Queue,
    /// Those who wait until nothing is claimed.
    whole: Queue,
}

/// Where somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Name(u64),
    Entrance,
    Whole,
}

/// A place in a queue, which is left when this is dropped. To be kept until what waited has been
/// done: those behind in the queue come afterwards.
#[derive(Debug)]
pub struct Wait {
    claims: Arc<Claims>,
    place: Place,
    number: u64,
}

impl Claims {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Claims {
            active: AtomicU64::new(0),
            last_owner: AtomicU64::new(0),
            stripes: (0..STRIPES).map(|_| Mutex::new(Stripe::default())).collect(),
            entrance: Mutex::new(Entrance::default()),
        })
    }

    /// Whether anything is claimed: to be asked within a batch, before each request.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.active.load(Ordering::Acquire) != 0
    }

    /// Whether a request may go ahead that does something with `name`. If not, `waker` is called
    /// once it is worth another try.
    pub(crate) fn meet(self: &Arc<Self>, name: u64, intent: Intent, waker: &Waker) -> Option<Wait> {
        let mut stripe = self.stripe(name);
        let found = stripe.get_mut(&name)?;
        if found.hold.admits(intent) {
            return None;
        }
        let number = found.queue.push(Kind::Request, waker);
        drop(stripe);
        Some(self.wait(Place::Name(name), number))
    }

    /// Whether a request on the whole keyspace may go ahead; see [`Claims::meet`].
    pub(crate) fn meet_any(self: &Arc<Self>, waker: &Waker) -> Option<Wait> {
        self.unclaimed(waker, || ())
    }

    /// Does `work`, which must be over in no time, while nothing is claimed and nobody can begin
    /// to; or it is not done, and `waker` is called once it is worth another try.
    pub(crate) fn unclaimed(self: &Arc<Self>, waker: &Waker, work: impl FnOnce()) -> Option<Wait> {
        let mut entrance = lock(&self.entrance);
        if !self.any() {
            work();
            return None;
        }
        let number = entrance.whole.push(Kind::Request, waker);
        drop(entrance);
        Some(self.wait(Place::Whole, number))
    }

    fn wait(self: &Arc<Self>, place: Place, number: u64) -> Wait {
        Wait { claims: Arc::clone(self), place, number }
    }

    /// Lets a claimer begin, unless it is held back.
    fn begin(self: &Arc<Self>, owner: u64, waker: &Waker) -> Result<(), Wait> {
        let mut entrance = lock(&self.entrance);
        let others_first = entrance.ticket.is_some_and(|holder| holder != owner);
        if others_first || !entrance.whole.is_empty() {
            let number = entrance.held_back.push(Kind::Claimer, waker);
            drop(entrance);
            return Err(self.wait(Place::Entrance, number));
        }
        self.active.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// A claimer holds nothing any more.
    fn end(&self) {
        let mut entrance = lock(&self.entrance);
        if self.active.fetch_sub(1, Ordering::SeqCst) == 1 {
            entrance.whole.wake_next();
        }
    }

    /// Takes `name` for `owner`; the answer tells whether that is new. `ahead` is the number of
    /// the owner's place in the queue, if it has one.
    fn take(
        self: &Arc<Self>,
        (name, intent): (u64, Intent),
        owner: u64,
        ahead: Option<&Wait>,
        waker: &Waker,
    ) -> Result<bool, Wait> {
        let mut stripe = self.stripe(name);
        let found = stripe.entry(name).or_default();
        if found.hold == Hold::Writer(owner) {
            return Ok(false);
        }
        let own = ahead.filter(|wait| wait.place == Place::Name(name)).map(|wait| wait.number);
        if found.hold.admits(intent) && found.queue.is_first(own) {
            found.hold = match (intent, found.hold) {
                (Intent::Write, _) => Hold::Writer(owner),
                (Intent::Read, Hold::Readers(readers)) => Hold::Readers(readers + 1),
                (Intent::Read, _) => Hold::Readers(1),
            };
            return Ok(true);
        }
        let number = found.queue.push(Kind::Claimer, waker);
        drop(stripe);
        Err(self.wait(Place::Name(name), number))
    }

    /// Gives `name` back.
    fn give(&self, name: u64) {
        let mut stripe = self.stripe(name);
        if let Some(found) = stripe.get_mut(&name) {
            found.hold = match found.hold {
                Hold::Readers(readers) if readers > 1 => Hold::Readers(readers - 1),
                _ => Hold::Nobody,
            };
            tidy(&mut stripe, name);
        }
    }

    /// Lets nobody else begin until `owner` has what it needs.
    fn take_ticket(&self, owner: u64) {
        lock(&self.entrance).ticket.get_or_insert(owner);
    }

    fn give_ticket(&self, owner: u64) {
        let mut entrance = lock(&self.entrance);
        if entrance.ticket == Some(owner) {
            entrance.ticket = None;
            entrance.held_back.wake_all();
        }
    }

    fn leave(&self, place: Place, number: u64) {
        match place {
            Place::Name(name) => {
                let mut stripe = self.stripe(name);
                if let Some(found) = stripe.get_mut(&name) {
                    found.queue.remove(number);
                    tidy(&mut stripe, name);
                }
            }
            Place::Entrance => lock(&self.entrance).held_back.remove(number),
            Place::Whole => {
                let mut entrance = lock(&self.entrance);
                entrance.whole.remove(number);
                if entrance.whole.is_empty() && entrance.ticket.is_none() {
                    entrance.held_back.wake_all();
                }
            }
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the remainder is below the number of stripes")]
    fn stripe(&self, name: u64) -> MutexGuard<'_, Stripe> {
        lock(&self.stripes[name as usize % STRIPES])
    }
}

/// Wakes whoever comes next for a name that has changed hands, and forgets a name that nobody
/// holds or waits for.
fn tidy(stripe: &mut Stripe, name: u64) {
    let Some(found) = stripe.get_mut(&name) else { return };
    if found.hold != Hold::Nobody {
        return;
    }
    if found.queue.is_empty() {
        stripe.remove(&name);
        if stripe.is_empty() {
            stripe.shrink_to(KEPT_NAMES);
        }
    } else {
        found.queue.wake_next();
    }
}

impl Hold {
    fn admits(self, intent: Intent) -> bool {
        match self {
            Hold::Nobody => true,
            Hold::Readers(_) => intent == Intent::Read,
            Hold::Writer(_) => false,
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.claims.leave(self.place, self.number);
    }
}

/// Names are hashes already.
#[derive(Debug, Default)]
pub(crate) struct Unhashed(u64);

impl Hasher for Unhashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, name: u64) {
        // The stripe has used the low bits.
        self.0 = name.rotate_right(8);
    }
}

/// Nothing that is done under these locks can leave them half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
