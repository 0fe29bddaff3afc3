//! Loom tests of threads that use one store, in every interleaving with a limited number of
//! preemptions: `cargo xtask loom`.
//!
//! Operations, latches, claims, the cut, the walk, images and trees are the real ones. The thread
//! that makes the cut also walks, and without the reclaimer, values are freed by the thread that
//! drops them. Loom observes the counts of nodes, latches, claims and the store's word, and
//! (through [`crate::tree`]'s headers) accesses to nodes. Races on other data show only in the
//! values that are read.

mod growing_claims;
mod tree;

use crate::claims::model::Bell;
use crate::keyspace::snapshot::CutError;
use crate::{Clock, Database, EntryView, Side, Store, StoreOptions, StringValue, Value};
use crate::{WalkProgress, Walker};
use loom::thread;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

const START_MS: u64 = 1_000_000;
/// The stack of a thread: an operation needs more than loom provides by itself.
const STACK_WORDS: usize = 1 << 16;

/// The elements of lists by key; a string has one.
type Contents = BTreeMap<String, Vec<String>>;

struct World {
    store: Store,
    /// Numbers the steps of all threads in the order of execution. Loom does not see this counter,
    /// so it synchronizes nothing.
    steps: AtomicUsize,
}

/// A snapshot.
#[derive(Debug)]
struct Saved {
    contents: Contents,
    /// The step before the cut: operations that ended before it belong to the snapshot.
    before_cut: usize,
    /// The step at which the keys had been counted: operations that begin after it do not belong to
    /// the snapshot.
    counted: usize,
}

impl World {
    fn new() -> Arc<Self> {
        let clock = Clock::Manual(Arc::new(START_MS.into()));
        let workers = 3;
        let options =
            StoreOptions { databases: 1, shards: 1, clock, workers, ..StoreOptions::default() };
        Arc::new(World { store: Store::new(&options), steps: AtomicUsize::new(0) })
    }

    fn step(&self) -> usize {
        self.steps.fetch_add(1, Ordering::Relaxed)
    }

    /// Runs an operation in a batch of a worker.
    fn run<R>(&self, worker: usize, operation: impl FnOnce(Database<'_>) -> R) -> R {
        let counters = self.store.counters(worker);
        let _batch = self.store.batch(&counters);
        operation(self.store.database(0, &counters, START_MS))
    }

    /// Saves a snapshot.
    fn save(&self) -> Saved {
        let (bell, waker) = bell();
        let before_cut = self.step();
        let mut last = None;
        let mut snapshot = loop {
            match self.store.cut(usize::MAX, &waker) {
                Ok(snapshot) => break snapshot,
                Err(CutError::Claimed(wait)) => {
                    last = Some(wait);
                    bell.wait();
                }
                Err(CutError::Busy) => panic!("there is no other save"),
            }
        };
        drop(last);
        let (mut walker, mut saved) = (Walker::default(), Vec::new());
        assert_eq!(self.store.walk(&mut walker, || true), WalkProgress::More);
        let counted = self.step();
        while self.store.walk(&mut walker, || true) != WalkProgress::Done {}
        while let Some(images) = snapshot.take(Duration::ZERO) {
            saved.push(images);
        }
        let entries = saved.iter().flat_map(|images| images.entries());
        let mut contents = Contents::new();
        for entry in entries {
            let key = String::from_utf8_lossy(entry.key()).into_owned();
            let before = contents.insert(key, elements(&entry));
            assert_eq!(before, None, "an entry is saved once");
        }
        drop(saved);
        assert_eq!(snapshot.finish(), Ok(()));
        Saved { contents, before_cut, counted }
    }

    /// Returns the contents of the store.
    fn contents(&self) -> Contents {
        let under = |key: &'static str| {
            let look = |entry: Option<EntryView<'_>>| entry.map(|entry| elements(&entry));
            self.run(0, |db| db.get(db.key(key.as_bytes()), look))
        };
        ["a", "b"].into_iter().filter_map(|key| Some((key.to_owned(), under(key)?))).collect()
    }
}

fn elements(entry: &EntryView<'_>) -> Vec<String> {
    let mut elements = Vec::new();
    match entry.value() {
        Value::List(list) => {
            list.show(0, Side::End, list.len(), |it| elements.push(shown(it)));
        }
        Value::String(string) => elements.push(shown(string)),
        _ => panic!("there are lists and strings"),
    }
    elements
}

/// Returns an element without its padding.
fn shown(element: StringValue<'_>) -> String {
    let text = element.with_bytes(|it| String::from_utf8_lossy(it).into_owned());
    text.trim_end_matches('.').to_owned()
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Bell::new();
    (Arc::clone(&bell), Waker::from(bell))
}

fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> thread::JoinHandle<T> {
    thread::Builder::new().stack_size(STACK_WORDS).spawn(work).unwrap()
}

/// Runs a model with all interleavings that have at most `preemptions` preemptions.
fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    let model = Arc::new(model);
    builder.check(move || {
        let model = Arc::clone(&model);
        spawn(move || model()).join().unwrap();
    });
}
