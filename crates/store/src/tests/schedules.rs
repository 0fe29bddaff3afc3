//! Stops a writer and the thread that makes the cut and walks at each of their steps, in all pairs:
//! one runs up to its n-th step, then the other up to its m-th, then both to the end. In every
//! order, the snapshot must equal the contents at the cut.

use super::Fixture;
use super::snapshot::{Contents, contents, facts};
use crate::sync::steps::{self, Step};
use crate::types::counter;
use crate::types::key::ExpireWhen;
use crate::types::string::{Condition, End, Expiry, SetOptions};
use crate::types::versioned::{Count, Fetch, Mode, Removal, Write};
use crate::{Counters, Database, Expirer, Scope, Store, WalkProgress, Walker};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

const SHARDS: usize = 2;
const START_MS: u64 = 1_000_000;
/// When the volatile keys expire, and the time of the operation that finds them expired.
const EXPIRY_MS: u64 = START_MS + 500;
const LATER_MS: u64 = START_MS + 1000;
const NO_LIMIT: usize = usize::MAX;
/// A string of more than one chunk.
const LONG: usize = 70_000;

/// One of the two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Writer,
    Saver,
}

impl Role {
    fn other(self) -> Role {
        if self == Role::Writer { Role::Saver } else { Role::Writer }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ThreadState {
    #[default]
    Going,
    Stopped,
    /// It waits for a latch that the other thread has.
    Blocked,
    Ended,
}

#[derive(Default)]
struct Script {
    stands: [ThreadState; 2],
    taken: [usize; 2],
    /// The number of steps after which each stops.
    allowed: [usize; 2],
    log: Vec<(Role, Step)>,
}

/// Lets only one of the threads run at a time.
#[derive(Default)]
struct Stage {
    script: Mutex<Script>,
    changed: Condvar,
}

impl Stage {
    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock()
    }

    /// Called by the threads at each of their steps.
    fn reach(&self, role: Role, step: Step) {
        let (mut script, own) = (self.lock(), role as usize);
        if step == Step::Blocked {
            // Once it has the latch, it waits for its turn.
            script.allowed[own] = script.taken[own];
            script.stands[own] = ThreadState::Blocked;
            self.changed.notify_all();
            return;
        }
        if step == Step::Idle {
            script.allowed[own] = script.taken[own];
        }
        script.log.push((role, step));
        while script.taken[own] >= script.allowed[own] {
            script.stands[own] = ThreadState::Stopped;
            self.changed.notify_all();
            self.changed.wait(&mut script);
        }
        script.stands[own] = ThreadState::Going;
        script.taken[own] += 1;
    }

    /// Lets a thread continue until it has taken this many steps in total, or is blocked.
    fn run(&self, role: Role, steps: usize) {
        let (mut script, own) = (self.lock(), role as usize);
        let stands = |script: &Script| (script.stands[own], script.stands[role.other() as usize]);
        // A thread that waits for a latch that has been released is about to take it.
        while stands(&script).0 == ThreadState::Going
            || stands(&script) == (ThreadState::Blocked, ThreadState::Ended)
            || stands(&script) == (ThreadState::Blocked, ThreadState::Blocked)
        {
            self.changed.wait(&mut script);
        }
        if script.stands[own] == ThreadState::Stopped && script.taken[own] < steps {
            script.allowed[own] = steps;
            script.stands[own] = ThreadState::Going;
            self.changed.notify_all();
            while script.stands[own] == ThreadState::Going {
                self.changed.wait(&mut script);
            }
        }
    }

    /// Lets both run to the end, `first` as far as it can before the other.
    fn finish(&self, first: Role) {
        while self.lock().stands != [ThreadState::Ended; 2] {
            self.run(first, usize::MAX);
            self.run(first.other(), usize::MAX);
        }
    }

    /// Whether the snapshot contains the writer's change. The word that the writer read before it
    /// reached the barrier tells, or the last word it read if it changed no existing entry.
    fn is_in_snapshot(&self) -> bool {
        let log = &self.lock().log;
        let at = |wanted| log.iter().position(|taken| *taken == wanted);
        let end = at((Role::Writer, Step::AtBarrier)).unwrap_or(log.len());
        let read = log[..end].iter().rposition(|taken| *taken == (Role::Writer, Step::WordRead));
        read.is_some_and(|read| read < at((Role::Saver, Step::Cut)).expect("a cut"))
    }
}

/// A thread's role, which ends with it even if it panics.
struct Part(Arc<Stage>, Role);

impl Part {
    fn begin(stage: &Arc<Stage>, role: Role) -> Self {
        let part = Part(Arc::clone(stage), role);
        let stage = Arc::clone(stage);
        steps::observe(move |step| stage.reach(role, step));
        // Neither thread does anything before it is allowed to, regardless of how long threads take
        // to start.
        steps::reach(Step::Idle);
        part
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.0.lock().stands[self.1 as usize] = ThreadState::Ended;
        self.0.changed.notify_all();
    }
}

/// An operation of a worker.
type Operation = (&'static str, fn(Database<'_>));

fn name(db: Database<'_>, key: &'static str) -> crate::Key<'static> {
    db.key(key.as_bytes())
}

fn write(mode: Mode) -> Write<'static> {
    Write {
        mode,
        value: b"stored".as_slice().into(),
        flags: 5,
        expiry: Expiry::Keep,
        expected: None,
        allow_older: false,
        vivify: None,
        version: None,
        versioned: true,
        limit_bytes: NO_LIMIT,
    }
}

const STRINGS: &[Operation] = &[
    ("set in place", |db| {
        let _ = db.set(name(db, "short"), b"SHORT", SetOptions::default());
    }),
    ("set longer", |db| {
        let _ = db.set(name(db, "short"), &[b'x'; 500], SetOptions::default());
    }),
    ("set a key that is new", |db| {
        let _ = db.set(name(db, "new"), b"new", SetOptions::default());
    }),
    ("set over a long one", |db| {
        let _ = db.set(name(db, "long"), b"brief", SetOptions::default());
    }),
    ("set a long one", |db| {
        let _ = db.set(name(db, "short"), &[b'y'; LONG], SetOptions::default());
    }),
    ("append", |db| {
        let _ = db.extend(name(db, "short"), b"+", End::Back, Condition::Always, NO_LIMIT);
    }),
    ("append to a long one", |db| {
        let _ = db.extend(name(db, "long"), b"+", End::Back, Condition::Always, NO_LIMIT);
    }),
    ("prepend", |db| {
        let _ = db.extend(name(db, "long"), b"+", End::Front, Condition::Always, NO_LIMIT);
    }),
    ("set range", |db| {
        let _ = db.set_range(name(db, "long"), 3, b"+", NO_LIMIT);
    }),
    ("set a bit", |db| {
        let _ = db.set_bit(name(db, "long"), 66_000 * 8, true);
    }),
    ("increment", |db| {
        let _ = db.increment(name(db, "number"), 1);
    }),
    ("get and delete", |db| db.get_and_delete(name(db, "short"), |_| ()).unwrap()),
];

const KEYS: &[Operation] = &[
    ("delete", |db| {
        let _ = db.delete(name(db, "long"));
    }),
    ("delete many", |db| {
        let _ = db.delete_many(&[name(db, "short"), name(db, "long"), name(db, "number")]);
    }),
    ("set many", |db| {
        let pairs = ["short", "number", "long", "new"].map(|key| (name(db, key), b"m".into()));
        let _ = db.set_many(pairs.into(), false);
    }),
    ("expire", |db| {
        let _ = db.expire(name(db, "short"), LATER_MS, ExpireWhen::default());
    }),
    ("expire later", |db| {
        let _ = db.expire(name(db, "volatile"), LATER_MS, ExpireWhen::default());
    }),
    ("expire at once", |db| {
        let _ = db.expire(name(db, "short"), 1, ExpireWhen::default());
    }),
    ("persist", |db| {
        let _ = db.persist(name(db, "volatile"));
    }),
    ("rename", |db| {
        let _ = db.rename(name(db, "short"), name(db, "number"), true);
    }),
    ("rename to a new one", |db| {
        let _ = db.rename(name(db, "long"), name(db, "new"), true);
    }),
    ("copy over", |db| {
        let _ = db.copy(name(db, "long"), 1, name(db, "short"), true);
    }),
    ("copy to a new one", |db| {
        let _ = db.copy(name(db, "number"), 0, name(db, "new"), false);
    }),
    ("move", |db| {
        let _ = db.move_to(name(db, "long"), 1);
    }),
    ("find expired", |db| {
        let db = Database { now_ms: LATER_MS, ..db };
        let _ = db.delete(name(db, "brief"));
    }),
];

const VERSIONED: &[Operation] = &[
    ("assign a version number", |db| db.get_versioned(name(db, "short"), |_| ())),
    ("touch", |db| {
        let expiry = Expiry::AtMs(LATER_MS);
        db.fetch(name(db, "short"), &Fetch { expiry, ..Fetch::default() }, |_| ());
    }),
    ("count", |db| {
        let count = Count { versioned: true, ..Count::plain(counter::Arithmetic::Up(3)) };
        let _ = db.count(name(db, "number"), &count);
    }),
    ("store", |db| {
        let _ = db.store_versioned(name(db, "flagged"), write(Mode::Set));
    }),
    ("store a new one", |db| {
        let _ = db.store_versioned(name(db, "new"), write(Mode::Add));
    }),
    ("store behind", |db| {
        let _ = db.store_versioned(name(db, "flagged"), write(Mode::Append));
    }),
    ("invalidate", |db| {
        let (expected, clear, version) = (None, None, None);
        let expiry = Expiry::AtMs(LATER_MS);
        let removal = Removal { expected, invalidate: true, clear, expiry, version };
        let _ = db.remove_versioned(name(db, "flagged"), &removal);
    }),
];

/// Operations on whole databases, on expired entries, eviction, and a walk by another worker.
const WHOLE: &[Operation] = &[
    ("flush all", |db| db.flush(Scope::All)),
    ("flush one", |db| db.flush(Scope::Database(1))),
    ("swap", |db| db.store().swap(0, 1)),
    ("swap with an empty one", |db| db.store().swap(1, 2)),
    ("look for expired", |db| {
        let budget = Duration::from_secs(9);
        Expirer::new(0, 1).run(db.store(), db.counters, LATER_MS, budget);
    }),
    ("evict", |db| {
        let _ = db.evict_one();
    }),
    ("walk as well", |db| {
        let mut walker = Walker::default();
        for _ in 0..20 {
            if db.store().walk(&mut walker, || true) == WalkProgress::Done {
                break;
            }
        }
        // A worker must finish the shard that it has begun.
        while db.store().walk(&mut walker, || true) != WalkProgress::Done {
            steps::reach(Step::Idle);
        }
    }),
];

/// Stores keys of every kind in an empty store.
fn fill(fixture: &Fixture) {
    fixture.now_ms.store(START_MS, Ordering::Relaxed);
    let (first, second) = (fixture.db(0), fixture.db(1));
    let until = |at_ms| SetOptions { expiry: Expiry::AtMs(at_ms), ..Default::default() };
    first.set(name(first, "short"), b"short", SetOptions::default());
    first.set(name(first, "number"), b"41", SetOptions::default());
    first.set(name(first, "long"), &[b'l'; LONG], SetOptions::default());
    first.set(name(first, "brief"), b"brief", until(EXPIRY_MS));
    first.set(name(first, "volatile"), b"volatile", until(LATER_MS * 2));
    first.set(name(first, "flagged"), b"flagged", SetOptions { flags: 7, ..Default::default() });
    first.set(first.key(&[b'k'; 3000]), b"long key", SetOptions::default());
    second.set(name(second, "short"), b"elsewhere", SetOptions::default());
    second.set(name(second, "other"), b"other", SetOptions::default());
}

/// Executes a whole save on a thread that also walks. Returns the snapshot's contents.
fn save(store: &Store) -> Contents {
    let mut snapshot = store.cut(NO_LIMIT, Waker::noop()).unwrap();
    let (mut walker, mut seen) = (Walker::default(), Contents::new());
    loop {
        let is_walked = snapshot.is_walked();
        let (mut is_empty, mut has_worked) = (true, false);
        store.walk(&mut walker, || {
            has_worked = true;
            true
        });
        while let Some(images) = snapshot.take(Duration::ZERO) {
            is_empty = false;
            for entry in images.entries() {
                let key = (images.database(), entry.key().to_vec());
                let before = seen.insert(key, facts(&entry));
                assert_eq!(before, None, "an entry is saved once");
            }
        }
        if is_walked && is_empty {
            break;
        }
        // The other thread may be processing the shard that it has taken, also when counting.
        if is_empty && !has_worked && !snapshot.is_walked() {
            steps::reach(Step::Idle);
        }
    }
    assert_eq!(snapshot.finish(), Ok(()));
    seen
}

/// The thread that runs first, its last step, and the last step that the other one runs then.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    first: Role,
    steps: [usize; 2],
}

/// Executes a schedule. Returns the total number of steps of each thread.
fn follow(fixture: &Fixture, operation: Operation, schedule: Schedule) -> [usize; 2] {
    fill(fixture);
    let (before, stage) = (contents(fixture), Arc::new(Stage::default()));
    let seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            let _part = Part::begin(&stage, Role::Writer);
            let counters = Counters::default();
            operation.1(fixture.store.database(0, &counters, START_MS));
        });
        let saver = scope.spawn(|| {
            let _part = Part::begin(&stage, Role::Saver);
            save(&fixture.store)
        });
        let Schedule { first, steps } = schedule;
        stage.run(first, steps[first as usize]);
        stage.run(first.other(), steps[first.other() as usize]);
        stage.finish(first);
        saver.join().unwrap()
    });
    let expected = if stage.is_in_snapshot() { contents(fixture) } else { before };
    let log = || stage.lock().log.clone();
    let (operation, lacks) = (operation.0, differences(&expected, &seen));
    assert!(lacks.is_empty(), "{operation}, {schedule:?}: {lacks:?}\n{:?}", log());
    let barrier = fixture.store.word.read();
    for shard in &fixture.store.shards {
        for table in shard.lock().tables_mut() {
            assert_eq!(table.progress().unsaved(), 0, "{operation}, {schedule:?}");
            assert!(!table.has_older(barrier), "{operation}, {schedule:?}: all are stamped");
        }
    }
    let held = fixture.store.snapshot_memory();
    assert_eq!((held.pre_image_bytes, held.walked_bytes), (0, 0), "{operation}, {schedule:?}");
    fixture.store.flush(Scope::All);
    stage.lock().taken
}

/// Returns the keys that differ.
fn differences(expected: &Contents, seen: &Contents) -> Vec<(usize, String)> {
    let keys = expected.keys().chain(seen.keys());
    let differs = |key: &&(usize, Vec<u8>)| expected.get(key) != seen.get(key);
    keys.filter(differs).map(|(db, key)| (*db, String::from_utf8_lossy(key).into_owned())).collect()
}

/// Executes every schedule of some operations.
fn enumerate(operations: &[Operation]) {
    let fixture = Fixture::new(SHARDS);
    let mut schedules = 0;
    for operation in operations {
        let whole = Schedule { first: Role::Saver, steps: [usize::MAX; 2] };
        let other = Schedule { first: Role::Writer, ..whole };
        let [one, two] = [whole, other].map(|whole| follow(&fixture, *operation, whole));
        let mut most = [one[0].max(two[0]), one[1].max(two[1])];
        // During a walk, the writer may have more to do.
        for saver in 0..=most[1] {
            let midway = Schedule { first: Role::Saver, steps: [usize::MAX, saver] };
            most[0] = most[0].max(follow(&fixture, *operation, midway)[0]);
        }
        for first in [Role::Writer, Role::Saver] {
            for writer in 0..=most[0] {
                for saver in 0..=most[1] {
                    follow(&fixture, *operation, Schedule { first, steps: [writer, saver] });
                    schedules += 1;
                }
            }
        }
    }
    assert!(schedules > 1000, "{schedules}");
}

#[test]
fn changes_of_strings_interrupted_at_every_step() {
    enumerate(STRINGS);
}

#[test]
fn changes_of_keys_interrupted_at_every_step() {
    enumerate(KEYS);
}

#[test]
fn changes_of_versions_interrupted_at_every_step() {
    enumerate(VERSIONED);
}

#[test]
fn changes_of_databases_interrupted_at_every_step() {
    enumerate(WHOLE);
}
