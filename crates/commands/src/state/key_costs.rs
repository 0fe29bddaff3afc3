//! The cost of requests by key, from HOTKEYS START until HOTKEYS STOP or the end of its duration.
//! Each worker counts separately; reports merge the counts.

use crate::state::generator::Generator;
use crate::state::top_keys::TopKeys;
use crate::state::usage::Usage;
use nagi_store::accounting::Overhead;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of keys that a worker counts for each reported one.
const KEYS_PER_REPORTED: usize = 10;
/// Maximum bytes of a key that are kept.
pub(crate) const MAX_BYTES: usize = 1024;

/// The options of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyCostOptions {
    /// Whether to count execution time by key.
    pub(crate) cpu: bool,
    /// Whether to count bytes by key.
    pub(crate) net: bool,
    /// The number of reported keys.
    pub(crate) count: usize,
    /// The duration after which the session ends automatically.
    pub(crate) duration_ms: Option<u64>,
    /// One in this many requests is counted by its keys, and represents all of them.
    pub(crate) sample_ratio: u32,
}

/// The cost of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// The execution time in nanoseconds.
    pub(crate) ns: u64,
    /// The length of the request and its reply.
    pub(crate) bytes: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.ns = self.ns.saturating_add(other.ns);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// The time from a START until its end.
#[derive(Debug)]
struct Session {
    options: KeyCostOptions,
    /// The start, in milliseconds since 1970.
    began_ms: u64,
    /// When it ends automatically; [`u64::MAX`] is never.
    until_ms: u64,
    /// The resource usage of the process at the start.
    used: Option<Usage>,
    end: OnceLock<End>,
}

/// The end of a session.
#[derive(Clone, Copy, Debug)]
struct End {
    at_ms: u64,
    /// The resource usage of the process at the end.
    used: Option<Usage>,
}

impl Session {
    fn begin(options: KeyCostOptions, now_ms: u64) -> Self {
        let until_ms = options.duration_ms.map_or(u64::MAX, |ms| now_ms.saturating_add(ms));
        let (used, end) = (Usage::read(), OnceLock::new());
        Session { options, began_ms: now_ms, until_ms, used, end }
    }

    fn is_active(&self) -> bool {
        self.end.get().is_none()
    }

    fn end(&self, now_ms: u64) {
        let at_ms = now_ms.clamp(self.began_ms, self.until_ms);
        self.end.get_or_init(|| End { at_ms, used: Usage::read() });
    }
}

/// The counts of one worker. Only that worker adds, any thread may read.
#[derive(Debug, Default)]
pub(crate) struct WorkerCosts {
    counts: Mutex<Option<Box<Counts>>>,
    /// The time for which another thread has worked on the worker's current request, in
    /// nanoseconds.
    elsewhere_ns: AtomicU64,
}

#[derive(Debug)]
struct Counts {
    session: Arc<Session>,
    cpu: Option<TopKeys>,
    net: Option<TopKeys>,
    /// The cost of all requests with keys.
    all: Cost,
    /// Selects the requests that are counted by their keys.
    random: Generator,
    overhead: Overhead,
}

impl WorkerCosts {
    /// Counts a request with keys. `keys` are those of its keys that are counted. Does nothing
    /// after the end of the session.
    pub(crate) fn note(&self, cost: Cost, now_ms: u64, keys: &[&[u8]]) {
        let mut counts = self.counts.lock();
        let goes_on = |counts: &&mut Box<Counts>| {
            counts.session.is_active() && now_ms < counts.session.until_ms
        };
        if let Some(counts) = counts.as_mut().filter(goes_on) {
            counts.note(cost, keys);
        }
    }

    /// Records the time for which another thread has worked on the worker's current request.
    pub(crate) fn note_elsewhere(&self, worked: Duration) {
        let ns = u64::try_from(worked.as_nanos()).unwrap_or(u64::MAX);
        self.elsewhere_ns.store(ns, Ordering::Relaxed);
    }

    /// Takes the time recorded since the last call, in nanoseconds.
    pub(crate) fn take_elsewhere_ns(&self) -> u64 {
        self.elsewhere_ns.swap(0, Ordering::Relaxed)
    }
}

impl Counts {
    fn begin(session: &Arc<Session>, seed: u64) -> Self {
        let options = session.options;
        let top = || TopKeys::new(options.count * KEYS_PER_REPORTED, MAX_BYTES);
        Counts {
            session: Arc::clone(session),
            cpu: options.cpu.then(top),
            net: options.net.then(top),
            all: Cost::default(),
            random: Generator::new(seed),
            overhead: Overhead::default(),
        }
    }

    fn note(&mut self, cost: Cost, keys: &[&[u8]]) {
        self.all += cost;
        let ratio = u64::from(self.session.options.sample_ratio);
        let number = keys.len() as u64;
        if number == 0 || !self.is_sampled(ratio) {
            return;
        }
        for (top, cost) in [(&mut self.cpu, cost.ns), (&mut self.net, cost.bytes)] {
            if let Some(top) = top {
                let share = (cost / number).saturating_mul(ratio);
                keys.iter().for_each(|key| top.add(key, share));
            }
        }
        let tops = self.cpu.iter().chain(&self.net);
        self.overhead.set(tops.map(TopKeys::bytes).sum());
    }

    /// Whether the next request is the sampled one of `ratio`.
    fn is_sampled(&mut self, ratio: u64) -> bool {
        u64::from(self.random.next()) * ratio < 1 << 31
    }
}

/// The result of a session.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) options: KeyCostOptions,
    pub(crate) is_active: bool,
    /// The start, in milliseconds since 1970.
    pub(crate) began_ms: u64,
    pub(crate) duration_ms: u64,
    /// CPU time of the process, in user and kernel mode.
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// The cost of all requests with keys.
    pub(crate) all: Cost,
    /// Keys and nanoseconds, in descending order.
    pub(crate) by_cpu: Vec<Costly>,
    /// Keys and bytes, in descending order.
    pub(crate) by_net: Vec<Costly>,
}

/// A key, or the beginning of a long one, and a lower bound for the cost of its requests.
pub(crate) type Costly = (Arc<[u8]>, u64);

/// The latest session.
#[derive(Debug, Default)]
pub(crate) struct KeyCosts(Mutex<Option<Arc<Session>>>);

impl KeyCosts {
    /// Starts a session if none is running, and calls `on`; `false` if one is running.
    pub(crate) fn start<'w>(
        &self,
        options: KeyCostOptions,
        now_ms: u64,
        workers: impl Iterator<Item = &'w WorkerCosts>,
        on: impl FnOnce(),
    ) -> bool {
        let mut latest = self.0.lock();
        if latest.as_ref().is_some_and(|session| session.is_active()) {
            return false;
        }
        let session = Arc::new(Session::begin(options, now_ms));
        for (seed, worker) in (now_ms..).zip(workers) {
            *worker.counts.lock() = Some(Box::new(Counts::begin(&session, seed)));
        }
        *latest = Some(session);
        on();
        true
    }

    /// Ends the session and calls `off`; `false` if none is running.
    pub(crate) fn stop(&self, now_ms: u64, off: impl FnOnce()) -> bool {
        let latest = self.0.lock();
        let active = latest.as_ref().filter(|session| session.is_active());
        if let Some(session) = active {
            session.end(now_ms);
            off();
        }
        active.is_some()
    }

    /// Ends the session if its duration is over, and then calls `off`.
    pub(crate) fn end_if_over(&self, now_ms: u64, off: impl FnOnce()) {
        let latest = self.0.lock();
        let is_over = |session: &&Arc<Session>| session.is_active() && session.until_ms <= now_ms;
        if let Some(session) = latest.as_ref().filter(is_over) {
            session.end(now_ms);
            off();
        }
    }

    /// When the session ends automatically, in milliseconds since 1970; [`u64::MAX`] is never.
    pub(crate) fn until_ms(&self) -> u64 {
        let latest = self.0.lock();
        let active = latest.as_ref().filter(|session| session.is_active());
        active.map_or(u64::MAX, |session| session.until_ms)
    }

    /// Removes the counts; `false` if a session is running.
    pub(crate) fn reset<'w>(&self, workers: impl Iterator<Item = &'w WorkerCosts>) -> bool {
        let mut latest = self.0.lock();
        if latest.as_ref().is_some_and(|session| session.is_active()) {
            return false;
        }
        *latest = None;
        workers.for_each(|worker| *worker.counts.lock() = None);
        true
    }

    /// The result of the session; `None` if there was none.
    pub(crate) fn report<'w>(
        &self,
        now_ms: u64,
        workers: impl Iterator<Item = &'w WorkerCosts>,
    ) -> Option<Report> {
        let latest = self.0.lock();
        let session = latest.as_ref()?;
        let (mut all, mut by_cpu, mut by_net) = (Cost::default(), Sums::new(), Sums::new());
        for worker in workers {
            let counts = worker.counts.lock();
            let Some(counts) = &*counts else { continue };
            all += counts.all;
            counts.cpu.iter().for_each(|top| add(&mut by_cpu, top));
            counts.net.iter().for_each(|top| add(&mut by_net, top));
        }
        let is_active = session.is_active();
        let end = session.end.get().copied();
        let end = end.unwrap_or_else(|| End { at_ms: now_ms, used: Usage::read() });
        let since = |of: fn(Usage) -> Duration| {
            let [begin, end] = [session.used, end.used].map(|used| used.map(of));
            end.unwrap_or_default().saturating_sub(begin.unwrap_or_default())
        };
        Some(Report {
            options: session.options,
            is_active,
            began_ms: session.began_ms,
            duration_ms: end.at_ms.saturating_sub(session.began_ms),
            user: since(|used| used.user),
            system: since(|used| used.system),
            all,
            by_cpu: costliest(by_cpu, session.options.count),
            by_net: costliest(by_net, session.options.count),
        })
    }
}

type Sums = HashMap<Arc<[u8]>, u64>;

fn add(sums: &mut Sums, top: &TopKeys) {
    for (key, certain) in top.certain() {
        let sum = sums.entry(Arc::clone(key)).or_default();
        *sum = sum.saturating_add(certain);
    }
}

fn costliest(sums: Sums, count: usize) -> Vec<Costly> {
    let mut costly: Vec<Costly> = sums.into_iter().collect();
    costly.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    costly.truncate(count);
    costly
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: KeyCostOptions =
        KeyCostOptions { cpu: true, net: true, count: 2, duration_ms: None, sample_ratio: 1 };

    /// A session, and the counts of two workers.
    struct Fixture {
        costs: KeyCosts,
        workers: [WorkerCosts; 2],
    }

    impl Fixture {
        fn start(options: KeyCostOptions) -> Self {
            let fixture = Fixture { costs: KeyCosts::default(), workers: Default::default() };
            assert!(fixture.costs.start(options, 1000, fixture.workers.iter(), || ()));
            fixture
        }

        /// Counts a request for two keys on one worker, and for one of these on the other.
        fn note(&self, now_ms: u64) {
            self.workers[0].note(Cost { ns: 100, bytes: 30 }, now_ms, &[b"a", b"b"]);
            self.workers[1].note(Cost { ns: 70, bytes: 10 }, now_ms, &[b"b"]);
        }

        fn report(&self, now_ms: u64) -> Report {
            self.costs.report(now_ms, self.workers.iter()).unwrap()
        }
    }

    fn named(costly: &[Costly]) -> Vec<(&str, u64)> {
        costly.iter().map(|(key, cost)| (std::str::from_utf8(key).unwrap(), *cost)).collect()
    }

    #[test]
    fn keys_share_the_cost_of_a_request_and_workers_are_put_together() {
        let fixture = Fixture::start(BOTH);
        (0..10).for_each(|_| fixture.note(1000));
        let report = fixture.report(1500);
        assert_eq!(named(&report.by_cpu), [("b", 1200), ("a", 500)]);
        assert_eq!(named(&report.by_net), [("b", 250), ("a", 150)]);
        assert_eq!(report.all, Cost { ns: 1700, bytes: 400 });
        assert_eq!((report.is_active, report.began_ms, report.duration_ms), (true, 1000, 500));
        let fixture = Fixture::start(KeyCostOptions { cpu: false, count: 1, ..BOTH });
        fixture.note(1000);
        let report = fixture.report(1500);
        assert_eq!((named(&report.by_cpu), named(&report.by_net)), (vec![], vec![("b", 25)]));
    }

    #[test]
    fn nothing_is_counted_after_the_end() {
        let fixture = Fixture::start(BOTH);
        fixture.note(1000);
        let Fixture { costs, workers } = &fixture;
        assert!(!costs.start(BOTH, 1100, workers.iter(), || ()), "one goes on");
        assert!(!costs.reset(workers.iter()), "one goes on");
        assert!(costs.stop(1200, || ()) && !costs.stop(1300, || ()));
        fixture.note(1100);
        let report = fixture.report(2000);
        assert_eq!(report.all, Cost { ns: 170, bytes: 40 });
        assert_eq!((report.is_active, report.duration_ms), (false, 200));
        assert!(costs.start(BOTH, 3000, workers.iter(), || ()));
        assert_eq!(fixture.report(3000).all, Cost::default());
        assert!(costs.stop(3000, || ()) && costs.reset(workers.iter()));
        assert!(costs.report(3000, workers.iter()).is_none());
        fixture.note(3000);
        assert!(
            workers.iter().all(|worker| worker.counts.lock().is_none()),
            "memory is given back"
        );
    }

    #[test]
    fn a_session_is_over_when_its_time_has_come() {
        let fixture = Fixture::start(KeyCostOptions { duration_ms: Some(500), ..BOTH });
        assert_eq!(fixture.costs.until_ms(), 1500);
        fixture.note(1499);
        fixture.note(1500);
        fixture.costs.end_if_over(1499, || panic!("it is not over"));
        // Ending it may be late.
        fixture.costs.end_if_over(1600, || ());
        assert!(!fixture.costs.stop(1600, || ()));
        let report = fixture.report(9000);
        assert_eq!((report.duration_ms, report.all.bytes), (500, 40));
        assert_eq!(fixture.costs.until_ms(), u64::MAX);
    }

    #[test]
    fn some_requests_represent_all() {
        let fixture = Fixture::start(KeyCostOptions { sample_ratio: 10, ..BOTH });
        (0..100_000).for_each(|_| fixture.note(1000));
        let report = fixture.report(1000);
        assert_eq!(report.all.bytes, 4_000_000);
        for ((_, cost), exact) in report.by_net.iter().zip([2_500_000, 1_500_000]) {
            assert_eq!(cost % 10, 0);
            assert!((exact * 9 / 10..exact * 11 / 10).contains(cost), "{cost} for {exact}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let fixture = Fixture::start(BOTH);
        for number in 0..1000 {
            let key = format!("{number:0<5000}").into_bytes();
            fixture.workers[0].note(Cost { ns: 1, bytes: 1 }, 1000, &[&key]);
        }
        let report = fixture.report(1000);
        assert!(report.by_cpu.iter().all(|(key, _)| key.len() == MAX_BYTES));
        let counts = fixture.workers[0].counts.lock();
        let tops = counts.iter().flat_map(|it| it.cpu.iter().chain(&it.net));
        let bytes: usize = tops.map(TopKeys::bytes).sum();
        assert!((40 * MAX_BYTES..50 * MAX_BYTES).contains(&bytes), "{bytes}");
    }
}
