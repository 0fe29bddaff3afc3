//! Tests a claim that grows by a key or to the whole keyspace, concurrently with a cut and
//! FLUSHALL.

use super::{Contents, World, bell, check, spawn};
use crate::types::string::SetOptions;
use crate::{Claim, ClaimProgress, Database, Growing, Growth, Intent, Scope};
use loom::thread;
use std::sync::Arc;

/// Enough for each of two threads to preempt the other between any two steps.
const PREEMPTIONS: usize = 3;
/// For three threads, because more preemptions would take hours.
const FEW_PREEMPTIONS: usize = 2;

const BEFORE: &str = "before";
const SCRIPT: &str = "script";

fn set(db: Database<'_>, key: &str, value: &str) {
    db.set(db.key(key.as_bytes()), value.as_bytes(), SetOptions::default());
}

fn both(value: &str) -> Contents {
    ["a", "b"].map(|key| (key.to_owned(), vec![value.to_owned()])).into()
}

impl World {
    fn filled() -> Arc<Self> {
        let world = World::new();
        world.run(0, |db| ["a", "b"].into_iter().for_each(|key| set(db, key, BEFORE)));
        world
    }

    /// Takes a claim of one key, as the script thread does for a declared key.
    fn claim(&self, key: &str) -> Claim {
        let (bell, waker) = bell();
        let counters = self.store.counters(0);
        let db = self.store.database(0, &counters, super::START_MS);
        let mut claiming = self.store.claiming();
        claiming.add(db.key(key.as_bytes()), Intent::Write);
        loop {
            match db.take_claims(&mut claiming, &waker, || false) {
                ClaimProgress::Held(claim) => return claim,
                ClaimProgress::More => thread::yield_now(),
                ClaimProgress::Wait => bell.wait(),
            }
        }
    }

    /// Adds a key, or the whole keyspace, as the script thread does when a script uses it.
    fn grow(&self, claim: &mut Claim, key: Option<&str>) {
        let (bell, waker) = bell();
        let counters = self.store.counters(0);
        let db = self.store.database(0, &counters, super::START_MS);
        let key = key.map(|key| (db.key(key.as_bytes()), Intent::Write));
        let mut growing = Growing::default();
        loop {
            match db.grow_claim(claim, key, &mut growing, &waker) {
                Growth::Held => return,
                Growth::More => thread::yield_now(),
                Growth::Wait => bell.wait(),
            }
        }
    }

    /// Executes a script that sets both keys and has declared one.
    fn script(&self) {
        let mut claim = self.claim("a");
        self.run(0, |db| set(db, "a", SCRIPT));
        self.grow(&mut claim, Some("b"));
        self.run(0, |db| set(db, "b", SCRIPT));
    }

    /// Executes a script that calls FLUSHALL between its writes.
    fn script_that_flushes(&self) {
        let mut claim = self.claim("a");
        self.run(0, |db| set(db, "a", SCRIPT));
        self.grow(&mut claim, None);
        self.run(0, |db| db.flush(Scope::All));
        ["a", "b"].into_iter().for_each(|key| self.run(0, |db| set(db, key, SCRIPT)));
    }

    /// Executes a client's FLUSHALL. Returns the number of removed keys.
    fn flush_all(&self, worker: usize) -> u64 {
        let (bell, waker) = bell();
        let mut last = None;
        loop {
            let removed = self.run(worker, |db| {
                let wait = self.store.has_claims().then(|| self.store.meets_any_claim(&waker));
                match wait.flatten() {
                    Some(wait) => Err(wait),
                    None => Ok(db.store().flush(Scope::All)),
                }
            });
            match removed {
                Ok(removed) => {
                    drop(last);
                    return removed;
                }
                Err(wait) => last = Some(wait),
            }
            bell.wait();
        }
    }
}

#[test]
fn a_cut_sees_all_or_nothing_of_a_claim_that_grows() {
    check(PREEMPTIONS, || {
        let world = World::filled();
        let script = {
            let world = Arc::clone(&world);
            spawn(move || world.script())
        };
        let saved = world.save().contents;
        script.join().unwrap();
        assert!(saved == both(BEFORE) || saved == both(SCRIPT), "{saved:?}");
        assert_eq!(world.contents(), both(SCRIPT));
        assert!(!world.store.has_claims());
    });
}

#[test]
fn a_cut_sees_all_or_nothing_of_a_claim_that_grows_to_everything() {
    check(PREEMPTIONS, || {
        let world = World::filled();
        let script = {
            let world = Arc::clone(&world);
            spawn(move || world.script_that_flushes())
        };
        let saved = world.save().contents;
        script.join().unwrap();
        assert!(saved == both(BEFORE) || saved == both(SCRIPT), "{saved:?}");
        assert_eq!(world.contents(), both(SCRIPT));
        assert!(!world.store.has_claims());
    });
}

#[test]
fn flushall_removes_all_or_nothing_of_a_claim_that_grows() {
    check(PREEMPTIONS, || {
        let world = World::new();
        let script = {
            let world = Arc::clone(&world);
            spawn(move || world.script())
        };
        let removed = world.flush_all(1);
        script.join().unwrap();
        let left = world.contents();
        assert!(
            (removed, &left) == (0, &both(SCRIPT)) || (removed, &left) == (2, &Contents::new())
        );
        assert!(!world.store.has_claims());
    });
}

#[test]
fn a_cut_beside_flushall_and_a_claim_that_grows() {
    check(FEW_PREEMPTIONS, || {
        let world = World::filled();
        let [script, flush] = [0, 1].map(|number| {
            let world = Arc::clone(&world);
            spawn(move || match number {
                0 => {
                    world.script();
                    0
                }
                _ => world.flush_all(1),
            })
        });
        let saved = world.save().contents;
        script.join().unwrap();
        assert_eq!(flush.join().unwrap(), 2, "it comes before or after the script");
        let states = [both(BEFORE), both(SCRIPT), Contents::new()];
        assert!(states.contains(&saved), "{saved:?}");
        let left = world.contents();
        assert!(left == both(SCRIPT) || left.is_empty(), "{left:?}");
        assert!(!world.store.has_claims());
    });
}
