//! Records the work done while a latch is held, for benchmarks and tests that must distinguish long
//! holds with much work from preempted ones.
//!
//! Recording starts with [`watch`], and includes only timed holds. Each thread has its own records.

use crate::sync::ticks;
use std::cell::{Cell, RefCell};
use std::sync::OnceLock;
use std::time::Duration;

/// The durations from which a hold is counted in [`Holds::longer`].
pub const STEPS: [Duration; 4] = [
    Duration::from_micros(10),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_millis(1),
];

/// Holds longer than this are recorded individually.
pub const LONG: Duration = Duration::from_micros(100);

/// Kernel statistics of a thread since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probe {
    /// Page faults, without those that waited for a disk.
    pub faults: u64,
    /// How often it was scheduled.
    pub switches: u64,
    /// The CPU time of the thread, in nanoseconds.
    pub cpu_ns: u64,
}

impl Probe {
    /// Returns the difference from an earlier probe.
    #[must_use]
    pub fn since(self, before: Probe) -> Self {
        Probe {
            faults: self.faults.saturating_sub(before.faults),
            switches: self.switches.saturating_sub(before.switches),
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
        }
    }
}

/// The work done within one hold, or the maximum of several holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Entries moved to another segment or place.
    pub entries: u64,
    /// Entries read to compute their positions.
    pub hashed: u64,
    /// Keys compared beyond their buckets.
    pub compared: u64,
    /// Entries visited by a walk.
    pub visited: u64,
    /// Elements of directories that were filled.
    pub directory: u64,
    /// Bytes of entries and tables that were copied or filled.
    pub bytes: u64,
    /// Pages and arenas allocated from the store's pool, or freed.
    pub pages: u64,
    /// Requests to the kernel for memory, or to return some.
    pub requests: u64,
    /// The kernel statistics of that time.
    pub probe: Probe,
}

/// One hold of a latch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hold {
    /// The time from the start of timing to its end.
    pub took: Duration,
    /// The work done.
    pub work: Work,
}

/// The holds of one thread.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    /// The number of timed holds.
    pub count: u64,
    /// Their total duration.
    pub total: Duration,
    /// The number of holds longer than each of [`STEPS`].
    pub longer: [u64; STEPS.len()],
    /// The longest.
    pub longest: Hold,
    /// The longest hold during which the thread had no page fault and was not preempted.
    pub longest_alone: Hold,
    /// The maximum of each kind of work in any hold.
    pub most: Work,
    /// Page faults in all of them.
    pub faults: u64,
    /// The holds longer than [`LONG`].
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

    /// Whether the thread had no page fault and was not preempted meanwhile.
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
    /// Adds the holds of another measurement.
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

    /// Adds a hold.
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

/// Starts recording, for all threads and permanently. `probe` returns the kernel statistics of the
/// calling thread; its own time is excluded.
pub fn watch(probe: fn() -> Probe) {
    let _ = PROBE.set(probe);
}

/// Returns the records of this thread since the last call.
#[must_use]
pub fn take() -> Holds {
    HOLDS.take()
}

/// Returns the kernel statistics of this thread.
#[must_use]
pub fn probe() -> Probe {
    PROBE.get().map_or_else(Probe::default, |probe| probe())
}

/// Starts the timing of a hold. A nested hold is part of the outer one as well.
pub(crate) fn begin() {
    if PROBE.get().is_some() && !IS_TIMED.replace(true) {
        WORK.set(Work::default());
        BEFORE.set(probe());
    }
}

/// Discards the current timing.
pub(crate) fn forget() {
    IS_TIMED.set(false);
}

/// Records work within a hold.
pub(crate) fn note(work: Work) {
    if PROBE.get().is_some() {
        WORK.set(WORK.get().each(work, |sum, more| sum + more));
    }
}

/// Ends the timing of a hold of this many ticks.
pub(crate) fn end(took: u64) {
    if PROBE.get().is_some() {
        IS_TIMED.set(false);
        let took = ticks::duration(took);
        let work = Work { probe: probe().since(BEFORE.get()), ..WORK.get() };
        // Work during the destruction of thread-locals is not recorded.
        let _ = HOLDS.try_with(|holds| holds.borrow_mut().add(Hold { took, work }));
    }
}
