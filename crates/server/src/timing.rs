//! Where the time of requests goes.
//!
//! A worker reads the clock when a wait is over, in front of each batch, behind it, and behind each
//! send; within a batch also where one command follows another, and behind those that are not
//! known to be fast. Everything that a wait has announced was there when it ended, so that its end
//! is the time at which bytes count as arrived: what a connection then waits for others is queue.
//!
//! How long commands run is counted for all. All four phases are kept of a sample, and of each
//! request that takes longer than the slow log's thresholds.

use nagi_commands::phases::Phases;
use nagi_commands::slowlog::{SlowRequest, kept};
use nagi_commands::table::Entry;
use nagi_commands::{Client, Config, Flags, Statistics, Tally};
use nagi_proto::Args;
use nagi_store::ticks;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A reply from which on its sending may take long.
const LARGE_REPLY_BYTES: usize = 64 * 1024;
/// Thresholds of the slow log below this, in microseconds, are worth a look at the clock behind
/// each command.
const EXACT_BELOW_US: i64 = 1000;
/// Samples that a worker takes between two settings of the pace.
const SAMPLES: u64 = 500;
/// When the bytes of a session's next request have arrived, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    /// The first that has not been executed.
    first: u64,
    /// The last.
    last: u64,
}

/// A worker's clock, and what it has yet to tell.
#[derive(Debug)]
pub(crate) struct Timing {
    /// When the present turn began, in ticks.
    turn: Cell<u64>,
    /// The latest reading behind something that held the worker, in ticks.
    latest: Cell<u64>,
    /// The length of a tick in 2^-32 nanoseconds.
    tick: Cell<u64>,
    bounds: Cell<Bounds>,
    /// Requests since the last sample, those that are to be, and how many they are on average.
    since_sample: Cell<u64>,
    next_sample: Cell<u64>,
    sample_every: Cell<u64>,
    /// Requests since the pace was set.
    requests: Cell<u64>,
    /// When the latest batch had been executed, in ticks.
    batch_end: Cell<u64>,
    /// Executed, and their replies not handed to the driver yet.
    executed: RefCell<Vec<Executed>>,
}

/// What is to be noticed.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// Whether the time is taken at all.
    on: bool,
    /// Whether it is counted command by command.
    tracks: bool,
    /// Whether the clock is read behind each command.
    exact: bool,
    /// From which execution on a request is slow, in nanoseconds.
    execute_ns: u64,
    /// From which total on a request is slow, in nanoseconds.
    total_ns: u64,
}

impl Bounds {
    fn of(config: &Config) -> Self {
        let tracks = config.latency_tracking.is_on();
        let execute_us = config.slowlog_log_slower_than_us.signed();
        let total_us = config.slowlog_total_slower_than_us.signed();
        let ns = |us: i64| u64::try_from(us).map_or(u64::MAX, |us| us.saturating_mul(1000));
        Bounds {
            on: tracks || execute_us >= 0 || total_us >= 0,
            tracks,
            exact: (0..EXACT_BELOW_US).contains(&execute_us),
            execute_ns: ns(execute_us),
            total_ns: ns(total_us),
        }
    }

    fn are_passed_by(&self, phases: Phases) -> bool {
        phases.execute_ns >= self.execute_ns || phases.total_ns() >= self.total_ns
    }
}

/// A request that has been executed, and whose reply is to be sent.
#[derive(Debug)]
pub(crate) struct Executed {
    family: &'static str,
    phases: Phases,
    /// When its execution ended, in ticks.
    at: u64,
    /// Where its reply ends in the session's output, counted from its beginning; in the end from
    /// the beginning of the connection's.
    pub(crate) reply_end: u64,
    /// How many requests it stands for.
    weight: u64,
    /// What the slow log would tell of it.
    request: Option<Arc<SlowRequest>>,
    logged: bool,
}

/// What a request was for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    /// One of Redis' commands.
    Command(&'static Entry),
    /// One of memcached's verbs.
    Verb,
}

impl What {
    /// Under what name its phases are counted.
    fn family(self) -> &'static str {
        match self {
            What::Command(entry) => entry.command.group.name(),
            What::Verb => "memcached",
        }
    }

    /// Its row, if it is one of Redis' commands.
    fn entry(self) -> Option<&'static Entry> {
        match self {
            What::Command(entry) => Some(entry),
            What::Verb => None,
        }
    }

    /// Whether no single request of this kind takes long.
    #[inline]
    fn is_fast(self) -> bool {
        match self {
            What::Command(entry) => entry.command.flags.contains(Flags::FAST),
            What::Verb => true,
        }
    }

    #[inline]
    fn is_like(self, other: What) -> bool {
        match (self, other) {
            (What::Command(one), What::Command(other)) => std::ptr::eq(one, other),
            (What::Verb, What::Verb) => true,
            _ => false,
        }
    }
}

/// A request that has been executed, as far as it matters here.
#[derive(Clone, Copy)]
pub(crate) struct Ran<'a> {
    pub(crate) what: What,
    pub(crate) args: Args<'a>,
    /// Where its reply is in the session's output: from one length of that to another.
    pub(crate) replies: (usize, usize),
}

impl Ran<'_> {
    #[inline]
    fn reply_bytes(&self) -> usize {
        self.replies.1.saturating_sub(self.replies.0)
    }

    /// Whether sending its reply may take long.
    #[inline]
    fn is_large(&self) -> bool {
        self.reply_bytes() >= LARGE_REPLY_BYTES
    }
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            turn: Cell::new(ticks::now()),
            latest: Cell::new(ticks::now()),
            tick: Cell::new(1 << 32),
            bounds: Cell::default(),
            since_sample: Cell::new(0),
            next_sample: Cell::new(1),
            sample_every: Cell::new(1),
            requests: Cell::new(0),
            batch_end: Cell::new(0),
            executed: RefCell::default(),
        }
    }
}

impl Timing {
    /// A wait is over.
    pub(crate) fn begin_turn(&self, config: &Config) {
        self.bounds.set(Bounds::of(config));
        let now = ticks::now();
        self.turn.set(now);
        self.latest.set(now);
    }

    /// Sets the pace of samples by how many requests there have been since the last time, and the
    /// length of a tick; to be called ten times a second.
    pub(crate) fn set_pace(&self) {
        self.sample_every.set((self.requests.replace(0) / SAMPLES).max(1));
        let length = ticks::duration(1 << 32).as_nanos();
        self.tick.set(u64::try_from(length).unwrap_or(u64::MAX));
    }

    #[inline]
    fn ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.tick.get())) >> 32) as u64
    }

    /// Notes that bytes have arrived, behind others or not.
    #[inline]
    pub(crate) fn arrive(&self, arrivals: &mut Arrivals, behind_others: bool) {
        arrivals.last = self.turn.get();
        if !behind_others {
            arrivals.first = arrivals.last;
        }
    }

    /// A batch of so many requests is about to be executed.
    #[inline]
    pub(crate) fn begin_batch(&self, arrivals: &mut Arrivals, requests: usize) -> Stopwatch<'_> {
        let bounds = self.bounds.get();
        let since = if bounds.on && requests > 0 { ticks::now() } else { 0 };
        let batch = *arrivals;
        if requests > 0 {
            // What stays behind came with the last bytes.
            arrivals.first = arrivals.last;
        }
        Stopwatch { timing: self, bounds, arrivals: batch, since, count: 0 }
    }

    /// The time, in ticks; 0 if it is not taken.
    pub(crate) fn now(&self) -> u64 {
        if self.bounds.get().on { ticks::now() } else { 0 }
    }

    /// Something that held the worker is over.
    #[inline]
    pub(crate) fn lap(&self, tally: &Tally) {
        if self.bounds.get().on {
            let now = ticks::now();
            let since = self.latest.replace(now);
            tally.longest_slice.note(self.ns(now.saturating_sub(since)));
        }
    }

    /// The same where replies have been handed to the driver.
    #[inline]
    pub(crate) fn sent(&self, tally: &Tally) {
        self.lap(tally);
        let began = self.batch_end.get();
        tally.longest_send.note(self.ns(self.latest.get().saturating_sub(began)));
    }

    /// Whether requests have been executed that are to be told of.
    #[inline]
    pub(crate) fn has_executed(&self) -> bool {
        !self.executed.borrow().is_empty()
    }

    /// Takes those whose replies have just been handed to the driver.
    pub(crate) fn take_executed(&self) -> Vec<Executed> {
        std::mem::take(&mut self.executed.borrow_mut())
    }

    /// Tells of a request whose reply the kernel has taken as a whole.
    pub(crate) fn finish(&self, executed: Executed, audience: &Audience<'_>) {
        let Executed { family, mut phases, at, weight, request, logged, .. } = executed;
        phases.send_ns = self.ns(ticks::now().saturating_sub(at));
        if let Some(request) = request {
            request.send_ns.store(phases.send_ns, Ordering::Relaxed);
            if !logged && phases.total_ns() >= self.bounds.get().total_ns {
                audience.log(request);
            }
        }
        audience.tally.phases.add(family, phases, weight);
    }

    /// Counts requests. Whether a sample is due.
    #[inline]
    fn count(&self, requests: u64) -> bool {
        self.requests.set(self.requests.get() + requests);
        self.since_sample.set(self.since_sample.get() + requests);
        self.since_sample.get() >= self.next_sample.get()
    }

    /// How many requests the sample that is taken now stands for.
    fn take_sample(&self) -> u64 {
        let every = self.sample_every.get();
        // Not every so many: pipelines have their own rhythm.
        self.next_sample.set(every / 2 + ticks::now() % every + 1);
        self.since_sample.replace(0)
    }
}

/// Where what is noticed is told.
#[derive(Clone, Copy)]
pub(crate) struct Audience<'a> {
    pub(crate) tally: &'a Tally,
    pub(crate) statistics: &'a Statistics,
    pub(crate) config: &'a Config,
}

impl Audience<'_> {
    fn log(&self, request: Arc<SlowRequest>) {
        self.statistics.slow_log.add(request, self.config.slowlog_max_len.bytes());
    }
}

/// Takes the time of a batch.
pub(crate) struct Stopwatch<'t> {
    timing: &'t Timing,
    bounds: Bounds,
    arrivals: Arrivals,
    /// The latest reading, in ticks; 0 if the time is not taken.
    since: u64,
    /// Requests that have been executed since.
    count: u64,
}

impl Stopwatch<'_> {
    /// A request has been executed; `next` is what the one behind it in the batch is for.
    #[inline]
    pub(crate) fn ran(
        &mut self,
        ran: Ran<'_>,
        next: Option<What>,
        client: &Client,
        audience: &Audience<'_>,
    ) {
        if self.since == 0 {
            return;
        }
        self.count += 1;
        let came_at_once = self.arrivals.first == self.arrivals.last;
        let goes_on = next.is_some_and(|next| next.is_like(ran.what))
            && ran.what.is_fast()
            && came_at_once
            && !self.bounds.exact
            && !ran.is_large();
        if !goes_on {
            self.read(ran, client, audience);
        }
    }

    /// The last request goes on as a job.
    pub(crate) fn suspend(&mut self, ran: Ran<'_>, client: &Client) -> Option<Box<Underway>> {
        if self.since == 0 {
            return None;
        }
        let timing = self.timing;
        let now = ticks::now();
        let phases = Phases {
            receive_ns: timing.ns(self.arrivals.last.saturating_sub(self.arrivals.first)),
            execute_ns: timing.ns(now.saturating_sub(self.since)),
            ..Phases::default()
        };
        let request = describe(ran, phases, client);
        Some(Box::new(Underway { what: ran.what, arrived: self.arrivals.last, phases, request }))
    }

    /// Counts the requests since the last reading.
    fn read(&mut self, ran: Ran<'_>, client: &Client, audience: &Audience<'_>) {
        let (timing, bounds) = (self.timing, &self.bounds);
        let now = ticks::now();
        timing.batch_end.set(now);
        let ran_ns = timing.ns(now.saturating_sub(self.since));
        let total_ns = timing.ns(now.saturating_sub(self.arrivals.first));
        if let Some(entry) = ran.what.entry().filter(|_| bounds.tracks) {
            audience.tally.time_calls(entry.index, self.count, ran_ns);
        }
        let sampled = timing.count(self.count) && bounds.tracks;
        let slow = ran_ns >= bounds.execute_ns || total_ns >= bounds.total_ns;
        if sampled || slow || ran.is_large() {
            let phases = Phases {
                receive_ns: timing.ns(self.arrivals.last.saturating_sub(self.arrivals.first)),
                queue_ns: timing.ns(self.since.saturating_sub(self.arrivals.last)),
                execute_ns: ran_ns / self.count.max(1),
                send_ns: 0,
            };
            timing.keep(ran, phases, sampled, client, audience);
        }
        self.arrivals.first = self.arrivals.last;
        self.since = now;
        self.count = 0;
    }
}

/// A request that works over several ticks.
#[derive(Debug)]
pub(crate) struct Underway {
    what: What,
    /// When its last byte had arrived, in ticks.
    arrived: u64,
    phases: Phases,
    request: SlowRequest,
}

impl Underway {
    /// It has worked since `began`, in ticks, and written so much of its reply.
    pub(crate) fn went_on(&mut self, began: u64, reply_bytes: usize, timing: &Timing) {
        self.phases.execute_ns += timing.ns(ticks::now().saturating_sub(began));
        self.request.reply_bytes += reply_bytes;
    }
}

impl Timing {
    /// Keeps a request until its reply has been sent.
    #[cold]
    fn keep(
        &self,
        ran: Ran<'_>,
        phases: Phases,
        sampled: bool,
        client: &Client,
        audience: &Audience<'_>,
    ) {
        // The request itself may have changed them, which Redis heeds as well.
        let slow = Bounds::of(audience.config).are_passed_by(phases);
        let request = (slow || ran.is_large()).then(|| Arc::new(describe(ran, phases, client)));
        if let Some(request) = request.as_ref().filter(|_| slow) {
            audience.log(Arc::clone(request));
        }
        self.executed.borrow_mut().push(Executed {
            family: ran.what.family(),
            phases,
            at: self.batch_end.get(),
            reply_end: ran.replies.1 as u64,
            weight: if sampled { self.take_sample() } else { 1 },
            request,
            logged: slow,
        });
    }

    /// A request that worked over several ticks is over; its reply ends there in the session's
    /// output.
    pub(crate) fn end(&self, underway: Underway, reply_end: usize, audience: &Audience<'_>) {
        let Underway { what, arrived, mut phases, mut request } = underway;
        let (now, bounds) = (ticks::now(), self.bounds.get());
        let since_ns = self.ns(now.saturating_sub(arrived));
        phases.queue_ns = since_ns.saturating_sub(phases.execute_ns);
        request.phases = phases;
        if let Some(entry) = what.entry().filter(|_| bounds.tracks) {
            audience.tally.time_calls(entry.index, 1, phases.execute_ns);
        }
        let slow = bounds.are_passed_by(phases);
        let request = Arc::new(request);
        if slow {
            audience.log(Arc::clone(&request));
        }
        self.batch_end.set(now);
        self.executed.borrow_mut().push(Executed {
            family: what.family(),
            phases,
            at: now,
            reply_end: reply_end as u64,
            weight: 1,
            request: Some(request),
            logged: slow,
        });
    }
}

/// What the slow log tells of a request.
fn describe(ran: Ran<'_>, phases: Phases, client: &Client) -> SlowRequest {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since_ns = phases.execute_ns;
    SlowRequest {
        at_s: now.saturating_sub(Duration::from_nanos(since_ns)).as_secs(),
        phases,
        send_ns: AtomicU64::new(0),
        request_bytes: (0..ran.args.len()).map(|index| ran.args.len_of(index)).sum(),
        reply_bytes: ran.reply_bytes(),
        arguments: kept(ran.what.entry(), ran.args),
        address: client.info.address.clone(),
        name: client.info.name(),
    }
}
