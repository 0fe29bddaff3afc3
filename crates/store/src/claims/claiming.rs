//! Acquires and releases claims, a slice at a time.

use crate::claims::stripe::Intent;
use crate::claims::table::{Claims, Wait};
use crate::entry::key::Key;
use crate::memory::accounting::{self, Charge};
use crate::sync::quiescence::{GracePeriod, Quiescence};
use std::sync::Arc;
use std::task::Waker;

/// The number of failed tries after which a claimer holds new claimers back.
const MAX_FAILED_TRIES: u32 = 3;
/// The number of names between two checks of the clock.
const STRIDE: usize = 32;
/// The memory of a name in the table, in bytes.
const NAME_BYTES: usize = 104;
/// How often the end of other batches is checked before the worker continues with other work.
const GRACE_CHECKS: usize = if cfg!(loom) { 1 } else { 200 };

/// A claim that is being taken.
#[derive(Debug)]
pub struct Claiming {
    /// The names to claim, in the order of the request; a name may occur more than once.
    names: Vec<(u64, Intent)>,
    /// Whether the whole keyspace is to be claimed, regardless of the names.
    is_whole: bool,
    claim: Claim,
    tries: u32,
    /// The number of names processed.
    next: usize,
    wait: Option<Wait>,
    grace: Option<GracePeriod>,
}

/// The progress of [`crate::Database::take_claims`].
#[derive(Debug)]
pub enum ClaimProgress {
    /// The slice has ended; the next one continues.
    More,
    /// Another command holds a name or goes first; the waker will be called.
    Wait,
    /// All names are claimed, and every batch that did not see the claim has ended.
    Held(Claim),
}

/// The progress of adding one name to a claim.
#[derive(Debug, Default)]
pub struct Growing {
    wait: Option<Wait>,
    grace: Option<GracePeriod>,
}

/// The result of one step of adding a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Batches that have not seen the claim are still running; try again at once.
    More,
    /// Another command holds the name; the waker will be called.
    Wait,
    /// The name is held, and every batch that did not see the claim has ended.
    Held,
}

/// The names that are held. Dropping this releases them.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    owner: u64,
    /// The acquired names; each occurs as often as it must be released.
    taken: Vec<u64>,
    /// Whether the claim counts as active.
    active: bool,
    /// Whether every batch that begins sees that there are claims, passes a fence and looks for its
    /// keys among the claimed names. Then no thread needs to be interrupted.
    is_seen: bool,
    /// The memory of the claim, which is not data.
    charge: Charge,
}

impl Claiming {
    pub(crate) fn new(claims: &Arc<Claims>) -> Self {
        let owner = claims.new_owner();
        let claim = Claim {
            claims: Arc::clone(claims),
            owner,
            taken: Vec::new(),
            active: false,
            is_seen: false,
            charge: Charge::default(),
        };
        Claiming {
            names: Vec::new(),
            is_whole: false,
            claim,
            tries: 0,
            next: 0,
            wait: None,
            grace: None,
        }
    }

    /// Reserves memory for `names` names at once: moving a long list of names takes too long for
    /// one slice.
    pub fn reserve(&mut self, names: usize) {
        self.names.reserve(names);
    }

    /// Adds a key to be claimed; it may have been added before.
    pub fn add(&mut self, key: Key<'_>, intent: Intent) {
        if self.is_whole {
            return;
        }
        self.names.push((key.hash, intent));
        // Gathering names may take many ticks, during which other threads read the size of data.
        self.count_memory(0);
    }

    /// Accounts for the lists of names, and for this many names in the table.
    fn count_memory(&mut self, in_table: usize) {
        let lists = accounting::room_bytes::<(u64, Intent)>(self.names.capacity())
            + accounting::room_bytes::<u64>(self.claim.taken.capacity());
        self.claim.charge.set(lists + in_table * NAME_BYTES);
    }

    /// Claims the whole keyspace: no other request accesses any key meanwhile.
    pub fn add_everything(&mut self) {
        self.is_whole = true;
        self.names.clear();
    }

    fn begin(&mut self, waker: &Waker) -> Result<(), Wait> {
        let Claim { claims, owner, is_seen, .. } = &mut self.claim;
        match self.is_whole {
            true => claims.begin_whole(*owner, self.wait.as_ref(), waker)?,
            false => *is_seen = claims.begin(*owner, waker)?,
        }
        Ok(())
    }

    /// Continues until everything is claimed, the claimer must wait, or `is_over` reports the end
    /// of the slice. `worker` is the calling worker, which is in a batch.
    pub(crate) fn step(
        &mut self,
        quiescence: &Quiescence,
        worker: usize,
        waker: &Waker,
        mut is_over: impl FnMut() -> bool,
    ) -> ClaimProgress {
        if !self.claim.active {
            // Writes come first: a write claim includes a read claim of the same name, but would
            // wait forever for one that was taken before it.
            self.names.sort_by_key(|(_, intent)| *intent == Intent::Read);
            match self.begin(waker) {
                Ok(()) => {
                    self.claim.active = true;
                    self.claim.taken.reserve(self.names.len());
                    self.count_memory(self.names.len());
                }
                Err(wait) => return self.wait(wait),
            }
        }
        while let Some(name) = self.names.get(self.next) {
            let Claim { claims, owner, .. } = &self.claim;
            match claims.take(*name, *owner, self.wait.as_ref(), waker) {
                Ok(true) => self.claim.taken.push(name.0),
                Ok(false) => {}
                Err(wait) => return self.fail(wait),
            }
            self.next += 1;
            if self.next.is_multiple_of(STRIDE) && is_over() {
                return ClaimProgress::More;
            }
        }
        self.wait = None;
        self.claim.claims.give_ticket(self.claim.owner);
        let is_seen = self.claim.is_seen;
        let grace = self.grace.get_or_insert_with(|| match is_seen {
            true => quiescence.grace_of_fenced(Some(worker)),
            false => quiescence.grace(Some(worker)),
        });
        if !wait_briefly(quiescence, grace) {
            return ClaimProgress::More;
        }
        self.claim.is_seen = !self.is_whole;
        ClaimProgress::Held(self.claim.hand_over())
    }

    /// Releases everything, since holding some names while waiting for more could cause deadlocks.
    fn fail(&mut self, wait: Wait) -> ClaimProgress {
        self.next = 0;
        self.tries += 1;
        if self.tries >= MAX_FAILED_TRIES {
            self.claim.claims.take_ticket(self.claim.owner);
        }
        self.claim.give_back();
        self.count_memory(0);
        self.wait(wait)
    }

    fn wait(&mut self, wait: Wait) -> ClaimProgress {
        self.wait = Some(wait);
        ClaimProgress::Wait
    }
}

impl Claim {
    /// Releases names until none is left, which returns `true`, or `is_over` reports the end of the
    /// slice.
    pub fn release(&mut self, mut is_over: impl FnMut() -> bool) -> bool {
        while let Some(name) = self.taken.pop() {
            self.claims.release(name);
            if self.taken.len().is_multiple_of(STRIDE) && is_over() {
                return self.taken.is_empty();
            }
        }
        true
    }

    /// Releases the names of a claim that has been extended to the whole keyspace, which includes
    /// them. Every batch must have seen the extension ([`Growth::Held`]).
    pub fn release_names(&mut self) {
        self.release(|| false);
        self.taken = Vec::new();
        self.charge.set(0);
    }

    /// Returns a claim of the same owner for additional names. Names held by this claim count as
    /// held by it.
    #[must_use]
    pub fn joint(&self) -> Claim {
        Claim {
            claims: Arc::clone(&self.claims),
            owner: self.owner,
            taken: Vec::new(),
            active: false,
            is_seen: self.is_seen,
            charge: Charge::default(),
        }
    }

    /// Acquires one more name, or the whole keyspace if it is `None`, ahead of all waiters. Only
    /// one claim in the process may grow at a time, and no holder of a claim may wait for it.
    /// `growing` is empty at first for each name, and is kept until the name is held.
    pub(crate) fn grow(
        &mut self,
        name: Option<(u64, Intent)>,
        growing: &mut Growing,
        (quiescence, worker): (&Quiescence, usize),
        waker: &Waker,
    ) -> Growth {
        if growing.grace.is_none() {
            let taken = match name {
                Some(name) => self.claims.take_more(name, self.owner, waker),
                None => self.claims.take_all(self.owner, waker),
            };
            growing.wait = None;
            match taken {
                Ok(false) => return Growth::Held,
                Ok(true) => {
                    self.taken.extend(name.map(|(name, _)| name));
                    let list = accounting::room_bytes::<u64>(self.taken.capacity());
                    self.charge.set(list + self.taken.len() * NAME_BYTES);
                    growing.grace = Some(match name {
                        Some(_) if self.is_seen => quiescence.grace_of_fenced(Some(worker)),
                        _ => quiescence.grace(Some(worker)),
                    });
                }
                Err(wait) => {
                    growing.wait = Some(wait);
                    return Growth::Wait;
                }
            }
        }
        let is_over = growing.grace.as_mut().is_none_or(|grace| wait_briefly(quiescence, grace));
        if is_over { Growth::Held } else { Growth::More }
    }

    fn give_back(&mut self) {
        self.release(|| false);
        if self.active {
            self.active = false;
            self.claims.end(self.owner);
        }
    }

    /// Moves the claim out and leaves one without names.
    #[must_use]
    pub fn hand_over(&mut self) -> Claim {
        Claim {
            claims: Arc::clone(&self.claims),
            owner: self.owner,
            taken: std::mem::take(&mut self.taken),
            active: std::mem::take(&mut self.active),
            is_seen: self.is_seen,
            charge: std::mem::take(&mut self.charge),
        }
    }
}

/// Whether all batches of a grace period end within a few microseconds.
fn wait_briefly(quiescence: &Quiescence, grace: &mut GracePeriod) -> bool {
    for _ in 0..GRACE_CHECKS {
        if quiescence.is_over(grace) {
            return true;
        }
        std::hint::spin_loop();
    }
    false
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Drop for Claiming {
    fn drop(&mut self) {
        self.claim.claims.give_ticket(self.claim.owner);
    }
}
