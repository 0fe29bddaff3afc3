//! Acquiring and releasing claims, a slice at a time.

use crate::claims::table::{Claims, Intent, Wait};
use crate::entry::key::Key;
use crate::memory::accounting::{self, Charge};
use crate::sync::quiescence::{GracePeriod, Quiescence};
use std::sync::Arc;
use std::task::Waker;

/// Failed tries after which a claimer holds newcomers back.
const MAX_FAILED_TRIES: u32 = 3;
/// Names between two looks at the clock.
const STRIDE: usize = 32;
/// What a name takes here and in the table, in bytes.
const NAME_BYTES: usize = 128;
/// How often the end of other batches is looked for before the worker does something else.
const GRACE_CHECKS: usize = if cfg!(loom) { 1 } else { 200 };

/// A claim that is being taken.
#[derive(Debug)]
pub struct Claiming {
    /// What to claim, in the order of the request; names may stand there twice.
    names: Vec<(u64, Intent)>,
    /// Whether everything is to be claimed, whatever the names are.
    is_whole: bool,
    claim: Claim,
    tries: u32,
    /// How many of the names have been seen to.
    next: usize,
    wait: Option<Wait>,
    grace: Option<GracePeriod>,
}

/// How far [`crate::Database::take_claims`] has come.
#[derive(Debug)]
pub enum ClaimProgress {
    /// The slice is over; there is more to do in the next.
    More,
    /// Another command comes first; the waker will be called.
    Wait,
    /// Everything is claimed, and no batch is under way that does not know.
    Held(Claim),
}

/// How far one more name of a claim that grows has come.
#[derive(Debug, Default)]
pub struct Growing {
    wait: Option<Wait>,
    grace: Option<GracePeriod>,
}

/// The answer to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Batches under way that do not know of it are waited for: it is worth another try at once.
    More,
    /// Another command holds the name; the waker will be called.
    Wait,
    /// The name is held, and no batch is under way that does not know.
    Held,
}

/// Names that are held, and given back when this is dropped.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    owner: u64,
    /// What has been taken, each name once for each time that it must be given back.
    taken: Vec<u64>,
    /// Whether it counts among the active.
    active: bool,
    /// For what all of this takes, which is not data.
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

    /// Adds a key to those that are to be claimed; it may be there already.
    pub fn add(&mut self, key: Key<'_>, intent: Intent) {
        if self.is_whole {
            return;
        }
        self.names.push((key.hash, intent));
        // Gathering may take many ticks, between which other threads ask how much is data.
        let room = accounting::room_bytes::<(u64, Intent)>(self.names.capacity());
        self.claim.charge.set(room);
    }

    /// Claims everything: no other request works on any key meanwhile.
    pub fn add_everything(&mut self) {
        self.is_whole = true;
        self.names.clear();
    }

    fn begin(&self, waker: &Waker) -> Result<(), Wait> {
        let Claim { claims, owner, .. } = &self.claim;
        match self.is_whole {
            true => claims.begin_whole(*owner, self.wait.as_ref(), waker),
            false => claims.begin(*owner, waker),
        }
    }

    /// Goes on until everything is claimed, something must be waited for, or `is_over` says that
    /// the slice is. `worker` is the one that calls, in the middle of a batch.
    pub(crate) fn step(
        &mut self,
        quiescence: &Quiescence,
        worker: usize,
        waker: &Waker,
        mut is_over: impl FnMut() -> bool,
    ) -> ClaimProgress {
        if !self.claim.active {
            self.claim.charge.set(self.names.len() * NAME_BYTES);
            // A claim to write includes one to read; taken later, it would wait for itself.
            self.names.sort_by_key(|(_, intent)| *intent == Intent::Read);
            match self.begin(waker) {
                Ok(()) => self.claim.active = true,
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
        let grace = self.grace.get_or_insert_with(|| quiescence.grace(Some(worker)));
        for _ in 0..GRACE_CHECKS {
            if quiescence.is_over(grace) {
                return ClaimProgress::Held(self.claim.hand_over());
            }
            std::hint::spin_loop();
        }
        ClaimProgress::More
    }

    /// Releases everything, since holding some while waiting for more is how deadlocks form.
    fn fail(&mut self, wait: Wait) -> ClaimProgress {
        self.next = 0;
        self.tries += 1;
        if self.tries >= MAX_FAILED_TRIES {
            self.claim.claims.take_ticket(self.claim.owner);
        }
        self.claim.give_back();
        self.wait(wait)
    }

    fn wait(&mut self, wait: Wait) -> ClaimProgress {
        self.wait = Some(wait);
        ClaimProgress::Wait
    }
}

impl Claim {
    /// Gives names back until none is left, which is what `true` means, or `is_over` says that
    /// the slice is.
    pub fn release(&mut self, mut is_over: impl FnMut() -> bool) -> bool {
        while let Some(name) = self.taken.pop() {
            self.claims.give(name);
            if self.taken.len().is_multiple_of(STRIDE) && is_over() {
                return self.taken.is_empty();
            }
        }
        true
    }

    /// A claim of the same owner for names that are to be held beside; what this one holds counts
    /// as held by it.
    #[must_use]
    pub fn joint(&self) -> Claim {
        let (claims, owner) = (Arc::clone(&self.claims), self.owner);
        Claim { claims, owner, taken: Vec::new(), active: false, charge: Charge::default() }
    }

    /// Takes one more name, or everything if that is none, ahead of all waiters. Only one claim in
    /// the process may grow at a time, and no holder of a claim may wait for it.
    /// `growing` begins empty with each name, and is kept until that is held.
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
                    self.charge.set(self.taken.len() * NAME_BYTES);
                    growing.grace = Some(quiescence.grace(Some(worker)));
                }
                Err(wait) => {
                    growing.wait = Some(wait);
                    return Growth::Wait;
                }
            }
        }
        let is_over = growing.grace.as_mut().is_none_or(|grace| quiescence.is_over(grace));
        if is_over { Growth::Held } else { Growth::More }
    }

    fn give_back(&mut self) {
        self.release(|| false);
        if self.active {
            self.active = false;
            self.claims.end(self.owner);
        }
    }

    /// The claim, of which nothing stays behind.
    #[must_use]
    pub fn hand_over(&mut self) -> Claim {
        let (taken, active) = (std::mem::take(&mut self.taken), self.active);
        self.active = false;
        let charge = std::mem::take(&mut self.charge);
        Claim { claims: Arc::clone(&self.claims), owner: self.owner, taken, active, charge }
    }
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
