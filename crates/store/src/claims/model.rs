//! Tests all interleavings of claimers and requests with loom: `cargo xtask loom`.

use super::announcement::Announcement;
use super::claiming::*;
use super::stripe::Intent;
use super::table::*;
use crate::entry::key::Key;
use crate::sync::quiescence::Quiescence;
use loom::cell::UnsafeCell;
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::Arc;
use std::task::{Wake, Waker};

/// Lets a thread sleep until it is woken.
pub(crate) struct Bell {
    rung: Mutex<bool>,
    sleeper: Condvar,
}

impl Bell {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Bell { rung: Mutex::new(false), sleeper: Condvar::new() })
    }

    pub(crate) fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.sleeper.wait(rung).unwrap();
        }
        *rung = false;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        *self.rung.lock().unwrap() = true;
        self.sleeper.notify_one();
    }
}

/// A store's claims, and two values under the names 1 and 2.
struct Fixture {
    claims: Arc<Claims>,
    quiescence: Quiescence,
    values: [UnsafeCell<u32>; 2],
}

// SAFETY: the model verifies that only one thread at a time accesses the values.
unsafe impl Sync for Fixture {}
// SAFETY: as above.
unsafe impl Send for Fixture {}

impl Fixture {
    fn new() -> Arc<Self> {
        let values = [UnsafeCell::new(0), UnsafeCell::new(0)];
        Arc::new(Fixture { claims: Claims::new(), quiescence: Quiescence::new(2), values })
    }

    fn add_one(&self, name: u64) {
        // SAFETY: loom fails the model if another thread accesses the value at the same time.
        self.values[name as usize - 1].with_mut(|value| unsafe { *value += 1 });
    }

    /// Executes a long command on `worker`.
    fn claim(&self, worker: usize, names: [u64; 2]) {
        let mut claiming = Claiming::new(&self.claims);
        for hash in names {
            claiming.add(Key { bytes: b"", hash, long: None }, Intent::Write);
        }
        self.work(worker, claiming, names);
    }

    /// Executes a long command that claims the whole keyspace.
    fn claim_everything(&self, worker: usize) {
        let mut claiming = Claiming::new(&self.claims);
        claiming.add_everything();
        self.work(worker, claiming, [1, 2]);
    }

    fn work(&self, worker: usize, mut claiming: Claiming, names: [u64; 2]) {
        let bell = Bell::new();
        let waker = Waker::from(Arc::clone(&bell));
        let claim = self.held(worker, &mut claiming, (&bell, &waker));
        names.into_iter().for_each(|name| self.add_one(name));
        drop(claim);
    }

    /// Executes a script that claims the second name while it holds the first.
    fn claim_growing(&self, worker: usize, first: u64, second: u64) {
        let mut claiming = Claiming::new(&self.claims);
        claiming.add(Key { bytes: b"", hash: first, long: None }, Intent::Write);
        let bell = Bell::new();
        let waker = Waker::from(Arc::clone(&bell));
        let mut claim = self.held(worker, &mut claiming, (&bell, &waker));
        self.add_one(first);
        let (name, place) = (Some((second, Intent::Write)), (&self.quiescence, worker));
        let mut growing = Growing::default();
        loop {
            match claim.grow(name, &mut growing, place, &waker) {
                Growth::Held => break,
                Growth::Wait => bell.wait(),
                Growth::More => thread::yield_now(),
            }
        }
        self.add_one(second);
    }

    fn held(
        &self,
        worker: usize,
        claiming: &mut Claiming,
        (bell, waker): (&Bell, &Waker),
    ) -> Claim {
        loop {
            match claiming.step(&self.quiescence, worker, waker, || false) {
                ClaimProgress::Held(claim) => return claim,
                ClaimProgress::Wait => bell.wait(),
                ClaimProgress::More => thread::yield_now(),
            }
        }
    }

    /// Executes a short command on `worker`.
    fn request(&self, worker: usize, name: u64) {
        let bell = Bell::new();
        let waker = Waker::from(Arc::clone(&bell));
        let mut last = None;
        loop {
            let batch = self.quiescence.enter(worker);
            self.claims.begin_batch();
            let wait = if self.claims.any() {
                self.claims.meet(name, Intent::Write, &waker)
            } else {
                None
            };
            if wait.is_none() {
                self.add_one(name);
                drop(batch);
                drop(last);
                return;
            }
            drop(batch);
            last = wait;
            bell.wait();
        }
    }

    fn values(&self) -> [u32; 2] {
        // SAFETY: the other threads have ended.
        [0, 1].map(|index| self.values[index].with(|value| unsafe { *value }))
    }
}

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    // Enough for each thread to be preempted by the other between any two of its steps.
    builder.preemption_bound = Some(2);
    builder.check(model);
}

#[test]
fn two_claimers_in_opposite_orders_both_succeed() {
    check(|| {
        let world = Fixture::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.claim(1, [2, 1]))
        };
        world.claim(0, [1, 2]);
        other.join().unwrap();
        assert_eq!(world.values(), [2, 2]);
        assert!(!world.claims.any());
    });
}

#[test]
fn request_runs_before_or_after_a_claim_but_not_during_it() {
    check(|| {
        let world = Fixture::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.request(1, 1);
                world.request(1, 2);
            })
        };
        world.claim(0, [1, 2]);
        other.join().unwrap();
        assert_eq!(world.values(), [2, 2]);
    });
}

#[test]
fn whole_keyspace_claim_and_claim_on_names_exclude_each_other() {
    check(|| {
        let world = Fixture::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.claim(1, [2, 1]))
        };
        world.claim_everything(0);
        other.join().unwrap();
        assert_eq!(world.values(), [2, 2]);
        assert!(!world.claims.any());
    });
}

#[test]
fn two_whole_keyspace_claims_exclude_each_other() {
    check(|| {
        let world = Fixture::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.claim_everything(1))
        };
        world.claim_everything(0);
        other.join().unwrap();
        assert_eq!(world.values(), [2, 2]);
        assert!(!world.claims.any());
    });
}

#[test]
fn request_does_not_run_during_a_whole_keyspace_claim() {
    check(|| {
        let world = Fixture::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.request(1, 2))
        };
        world.claim_everything(0);
        other.join().unwrap();
        assert_eq!(world.values(), [1, 2]);
    });
}

#[test]
fn a_request_is_never_within_a_claim_that_was_announced() {
    check(|| {
        let world = Fixture::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.request(1, 1))
        };
        let announcement = Announcement::new(&world.claims, &world.quiescence);
        world.claim(0, [1, 2]);
        drop(announcement);
        other.join().unwrap();
        assert_eq!(world.values(), [2, 1]);
        assert!(!world.claims.any());
    });
}

#[test]
fn a_request_is_never_within_a_claim_that_outlives_its_announcement() {
    check(|| {
        let world = Fixture::new();
        let announcement = Announcement::new(&world.claims, &world.quiescence);
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.request(1, 1))
        };
        let ending = thread::spawn(move || drop(announcement));
        world.claim(0, [1, 2]);
        [other, ending].into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(world.values(), [2, 1]);
        assert!(!world.claims.any());
    });
}

/// A script's claim grows like this when the script uses an undeclared key.
#[test]
fn a_request_is_never_within_a_claim_that_grows() {
    check(|| {
        let world = Fixture::new();
        let other = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.request(1, 2))
        };
        world.claim_growing(0, 1, 2);
        other.join().unwrap();
        assert_eq!(world.values(), [1, 2]);
    });
}
