//! Work done while a latch is held, for benches and tests that need to know why a hold was long:
//! because it had much to do, or because the thread was preempted.
//!
//! Nothing is noted before [`watch`] was called, and only holds are noted that are timed.
//! Each thread has its own notes.

use crate::sync::ticks;
use std::cell::{Cell, RefCell};
use std::sync::OnceLock;
use std::time::Duration;

/// How long a hold must be to be counted in the places of [`Holds::longer`].
pub const STEPS: [Duration; 4] = [
    Duration::from_micros(10),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_millis(1),
];

/// Holds longer than this are remembered one by one.
pub const LONG: Duration = Duration::from_micros(100);

/// What the kernel has done for a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Page faults, without those that waited for a disk.
    pub faults: u64,
    /// How often it was given a processor.
    pub switches: u64,
    /// For how long it had one, in nanoseconds.
    pub cpu_ns: u64,
}

impl Probe {
    /// What was done between two moments.
    #[must_use]
    pub fn since(self, before: Probe) -> Self {
        Probe {
            faults: self.faults.saturating_sub(before.faults),
            switches: self.switches.saturating_sub(before.switches),
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
        }
    }
}

/// What was done within one hold, or at most within any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Entries moved to another segment or place.
    pub entries: u64,
    /// Entries read to learn where they belong.
    pub hashed: u64,
    /// Keys compared beyond their buckets.
    pub compared: u64,
    /// Entries that a walk came by.
    pub visited: u64,
    /// Places of directories that were filled.
    pub directory: u64,
    /// Bytes of entries and tables that were copied or filled.
    pub bytes: u64,
    /// Pages and arenas taken from the store's pool, or given back to it.
    pub pages: u64,
    /// Requests to the kernel for memory, or to take some back.
    pub requests: u64,
    /// What the kernel did meanwhile.
    pub probe: Probe,
}

/// One hold of a latch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hold {
    /// From where it was timed to its end.
    pub took: Duration,
    /// What was done.
    pub work: Work,
}

/// The holds of one thread.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    /// How many were timed.
    pub count: u64,
    /// How long they were together.
    pub total: Duration,
    /// How many were longer than each of [`STEPS`].
    pub longer: [u64; STEPS.len()],
    /// The longest.
    pub longest: Hold,
    /// The longest of those during which the kernel did nothing for this thread, nor let another
    /// one run in its place.
    pub longest_alone: Hold,
    /// The most of each kind of work that any of them did.
    pub most: Work,
    /// Page faults in all of them.
    pub faults: u64,
    /// Those longer than [`LONG`].
    pub long: Vec<Hold>,
}

impl Work {
    fn each(self, other: Work, of: fn(u64, u64) -> u64) -> Work {
        let (ours, theirs) = (self.probe, other.probe);
        Work {
            entries: of(self.entries, other.entries),
            hashed: of(self.hashed, other.hashed),
            compared: of(self.compared, other.compared),
            visited: of(self.visited, other.visited),
            directory: of(self.directory, other.directory),
            bytes: of(self.bytes, other.bytes),
            pages: of(self.pages, other.pages),
            requests: of(self.requests, other.requests),
            probe: Probe {
                faults: of(ours.faults, theirs.faults),
                switches: of(ours.switches, theirs.switches),
                cpu_ns: of(ours.cpu_ns, theirs.cpu_ns),
            },
        }
    }

    /// Whether the kernel did nothing for the thread meanwhile, nor let another one run.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.requests == 0 && self.probe.faults == 0 && self.probe.switches == 0
    }
}

impl Hold {
    fn longer(self, other: Hold) -> Hold {
        if other.took > self.took { other } else { self }
    }
}

impl Holds {
    /// Adds those of another time.
    pub fn merge(&mut self, other: &Holds) {
        self.count += other.count;
        self.total += other.total;
        for (count, more) in self.longer.iter_mut().zip(other.longer) {
            *count += more;
        }
        self.longest = self.longest.longer(other.longest);
        self.longest_alone = self.longest_alone.longer(other.longest_alone);
        self.most = self.most.each(other.most, u64::max);
        self.faults += other.faults;
        self.long.extend_from_slice(&other.long);
    }

    /// Adds one.
    pub fn add(&mut self, hold: Hold) {
        self.count += 1;
        self.total += hold.took;
        for (count, step) in self.longer.iter_mut().zip(STEPS) {
            *count += u64::from(hold.took > step);
        }
        self.most = self.most.each(hold.work, u64::max);
        self.faults += hold.work.probe.faults;
        self.longest = self.longest.longer(hold);
        if hold.work.is_alone() {
            self.longest_alone = self.longest_alone.longer(hold);
        }
        if hold.took > LONG {
            self.long.push(hold);
        }
    }
}

static PROBE: OnceLock<fn() -> Probe> = OnceLock::new();

thread_local! {
    static IS_TIMED: Cell<bool> = const { Cell::new(false) };
    static BEFORE: Cell<Probe> = Cell::default();
    static WORK: Cell<Work> = Cell::default();
    static HOLDS: RefCell<Holds> = RefCell::default();
}

/// Begins to note what is done in holds, by all threads and for good. `probe` says what the kernel
/// has done for the thread that calls it; its own time is not counted.
pub fn watch(probe: fn() -> Probe) {
    let _ = PROBE.set(probe);
}

/// What this thread has noted since it last asked.
#[must_use]
pub fn take() -> Holds {
    HOLDS.take()
}

/// What the kernel has done for this thread, as the watcher measures it.
#[must_use]
pub fn probe() -> Probe {
    PROBE.get().map_or_else(Probe::default, |probe| probe())
}

/// A hold begins to be timed; one that includes another counts for both.
pub(crate) fn begin() {
    if PROBE.get().is_some() && !IS_TIMED.replace(true) {
        WORK.set(Work::default());
        BEFORE.set(probe());
    }
}

/// What began was no hold.
pub(crate) fn forget() {
    IS_TIMED.set(false);
}

/// Notes work within a hold.
pub(crate) fn note(work: Work) {
    if PROBE.get().is_some() {
        WORK.set(WORK.get().each(work, |sum, more| sum + more));
    }
}

/// A hold has ended, which took so many ticks.
pub(crate) fn end(took: u64) {
    if PROBE.get().is_some() {
        IS_TIMED.set(false);
        let took = ticks::duration(took);
        let work = Work { probe: probe().since(BEFORE.get()), ..WORK.get() };
        // What a thread does while it ends is not noted.
        let _ = HOLDS.try_with(|holds| holds.borrow_mut().add(Hold { took, work }));
    }
}
