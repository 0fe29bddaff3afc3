//! Timing of requests.
//!
//! A worker reads the clock when a wait ends, when it turns to a connection, after each batch, and
//! after each send; within a batch also between different commands, and after commands that are not
//! known to be fast. The reading after one batch is the start of the next, so that parsing is a
//! part of *execute*. All bytes that a wait has reported were there when it ended, so its end
//! counts as their arrival time; the time that a connection then waits for other connections is
//! *queue*.
//!
//! Execution time is recorded for each call of a command that may take long, and for a sample of
//! brief ones, which comprises all calls while they are few ([`crate::session::sampling`]). All
//! four phases are recorded for a sample, and for each request that exceeds a threshold of the slow
//! log.

use crate::protocols::environment::RequestEnvironment;
use crate::protocols::{Loggable, RequestKind};
use crate::session::sampling::Samplers;
use nagi_commands::admission::Restrictions;
use nagi_commands::phases::Phases;
use nagi_commands::{Client, Config, Entry, Flags, Server as _, SlowRequest, Statistics, Tally};
use nagi_store::accounting::{Charge, room_bytes};
use nagi_store::cpu_time::Mark;
use nagi_store::{since_1970, ticks};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Length of a reply from which sending it may take long.
const LARGE_REPLY_BYTES: usize = 64 * 1024;
/// With a threshold of the slow log below this, in microseconds, the clock is read after each
/// command.
const EXACT_BELOW_US: i64 = 1000;
/// How stale the time of day passed to requests may be, in microseconds.
const LATE_US: i64 = 100;

/// When the bytes of a session's next request arrived, in ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrivals {
    /// The first bytes that have not been executed.
    first: u64,
    /// The last bytes.
    last: u64,
}

/// A worker's clock, and its requests that have not been reported.
#[derive(Debug)]
pub(crate) struct Timing {
    /// When the current turn began, in ticks.
    turn: Cell<u64>,
    /// The latest reading after work of the worker, in ticks.
    latest: Cell<u64>,
    /// The point from which the worker's processor time is counted.
    mark: Cell<Mark>,
    /// The latest reading before or after requests, in ticks; 0 if the clock is off.
    since: Cell<u64>,
    /// The length of a tick in 2^-32 nanoseconds.
    tick: Cell<u64>,
    day: WallClock,
    settings: Cell<Settings>,
    bounds: Bounds,
    samplers: Samplers,
    /// Requests whose replies have not been passed to the driver.
    unsent: RefCell<Vec<Unsent>>,
    has_unsent: Cell<bool>,
}

/// A cached time of day, so that it is not read for every request.
#[derive(Debug, Default)]
struct WallClock {
    /// The time of day at the last reading, in milliseconds since 1970.
    now_ms: Cell<u64>,
    /// The time of that reading, and how long it is valid, in ticks.
    read_at: Cell<u64>,
    lasts: Cell<u64>,
}

/// The settings that determine what is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Settings {
    tracks: bool,
    execute_us: i64,
    total_us: i64,
    request_bytes: i64,
    reply_bytes: i64,
}

impl Settings {
    fn of(config: &Config) -> Self {
        Settings {
            tracks: config.latency_tracking.is_on(),
            execute_us: config.slowlog_log_slower_than_us.signed(),
            total_us: config.slowlog_total_slower_than_us.signed(),
            request_bytes: config.commandlog_request_larger_than.signed(),
            reply_bytes: config.commandlog_reply_larger_than.signed(),
        }
    }

    /// Whether a request of this kind belongs in the slow log.
    fn are_passed_by_request(self, kind: RequestKind, phases: Phases) -> bool {
        let passes = |ns: u64, us: i64| u64::try_from(us).is_ok_and(|us| ns / 1000 >= us);
        let skips = |entry: &Entry| entry.command.flags.contains(Flags::SKIP_SLOWLOG);
        // Commands of a transaction are logged separately.
        let (executed_ns, total) = match entry(kind).is_some_and(skips) {
            true => (None, Phases { queue_ns: 0, execute_ns: 0, ..phases }),
            false => (Some(phases.execute_ns), phases),
        };
        executed_ns.is_some_and(|ns| passes(ns, self.execute_us))
            || passes(total.total_ns(), self.total_us)
    }
}

/// Bounds for each batch, derived from the settings.
#[derive(Debug, Default)]
struct Bounds {
    /// Whether requests are timed at all.
    on: Cell<bool>,
    /// Whether the clock is read after each command.
    exact: Cell<bool>,
    /// Time from which a request may be slow, in ticks since its first byte.
    least: Cell<u64>,
    /// Length from which a request or a reply is large, in bytes.
    large_request: Cell<usize>,
    large_reply: Cell<usize>,
}

/// An executed request whose reply has not been sent.
#[derive(Debug)]
pub(crate) struct Unsent {
    kind: RequestKind,
    phases: Phases,
    /// When the request's execution ended, in ticks.
    at: u64,
    /// The end of the reply in the session's output; later, in all output of the connection.
    pub(crate) reply_end: u64,
    /// The number of requests that this one represents.
    weight: u64,
    /// The entry for the slow log, if the request may get one.
    request: Option<Arc<SlowRequest>>,
    /// Whether the slow log has the entry, or will not get it.
    logged: bool,
}

impl Unsent {
    /// The memory of this value in bytes, without an entry that it shares with the slow log.
    pub(crate) fn own_bytes(&self) -> usize {
        let request = self.request.as_ref().filter(|_| !self.logged);
        size_of::<Self>() + request.map_or(0, |request| request.own_bytes())
    }
}

/// The name under which the phases of requests are counted.
fn family(kind: RequestKind) -> &'static str {
    match kind {
        RequestKind::Command(entry) => entry.command.group.name(),
        RequestKind::Verb => "memcached",
    }
}

/// The command table's entry of a request, if it is a Redis command.
fn entry(kind: RequestKind) -> Option<&'static Entry> {
    match kind {
        RequestKind::Command(entry) => Some(entry),
        RequestKind::Verb => None,
    }
}

/// Whether no single request of this kind takes long.
#[inline]
pub(super) fn is_brief(kind: RequestKind) -> bool {
    match kind {
        RequestKind::Command(entry) => entry.is_brief,
        RequestKind::Verb => true,
    }
}

/// Whether a request has been queued for EXEC, which times and logs it when it runs.
fn is_queued(kind: RequestKind, client: &Client) -> bool {
    let is_for_later = |entry: &Entry| !entry.command.flags.contains(Flags::NOT_QUEUED);
    client.restrictions.contains(Restrictions::IN_TRANSACTION)
        && entry(kind).is_some_and(is_for_later)
}

#[inline]
fn are_alike(one: RequestKind, other: RequestKind) -> bool {
    match (one, other) {
        (RequestKind::Command(one), RequestKind::Command(other)) => std::ptr::eq(one, other),
        (RequestKind::Verb, RequestKind::Verb) => true,
        _ => false,
    }
}

/// An executed request, as far as timing needs it.
#[derive(Clone, Copy)]
pub(crate) struct Executed<'a> {
    pub(crate) kind: RequestKind,
    pub(crate) request: &'a dyn Loggable,
    /// The length of the request, in bytes.
    pub(crate) request_bytes: usize,
    /// The lengths of the session's output before and after its reply.
    pub(crate) replies: (usize, usize),
}

impl Executed<'_> {
    #[inline]
    fn reply_bytes(&self) -> usize {
        self.replies.1.saturating_sub(self.replies.0)
    }

    /// A cheap first test for [`Self::is_large`].
    #[inline]
    fn may_be_large(&self, bounds: &Bounds) -> bool {
        self.replies.1 >= bounds.large_reply.get()
            || self.request_bytes >= bounds.large_request.get()
    }

    /// Whether a log may record the request for its length, or sending its reply may take long.
    #[inline]
    fn is_large(&self, bounds: &Bounds) -> bool {
        self.reply_bytes() >= bounds.large_reply.get()
            || self.request_bytes >= bounds.large_request.get()
    }
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            turn: Cell::new(ticks::now()),
            latest: Cell::new(ticks::now()),
            mark: Cell::new(Mark::NONE),
            since: Cell::new(0),
            tick: Cell::new(1 << 32),
            day: WallClock::default(),
            settings: Cell::default(),
            bounds: Bounds::default(),
            samplers: Samplers::default(),
            unsent: RefCell::default(),
            has_unsent: Cell::new(false),
        }
    }
}

impl Timing {
    /// Starts a turn, after a wait has ended.
    pub(crate) fn begin_turn(&self, config: &Config) {
        let settings = Settings::of(config);
        if settings != self.settings.get() {
            self.apply_settings(settings);
        }
        let now = ticks::now();
        self.turn.set(now);
        self.begin_slice(now);
    }

    /// Ends a turn, before a wait.
    pub(crate) fn end_turn(&self, tally: &Tally) {
        tally.turns.add(1);
        tally.turn_ticks.add(ticks::now().saturating_sub(self.turn.get()));
    }

    /// Starts a slice at `now`, in ticks.
    #[inline]
    fn begin_slice(&self, now: u64) {
        self.latest.set(now);
        if self.bounds.on.get() && self.mark.get().is_old(now) {
            self.mark.set(Mark::new(now));
        }
    }

    /// Ends work of the worker at `now`, in ticks.
    #[inline]
    fn end_slice(&self, now: u64, tally: &Tally) {
        let since = self.latest.get();
        let slice = now.saturating_sub(since);
        tally.longest_slice.note(slice);
        if slice > tally.longest_slice_on_cpu.ticks() {
            tally.longest_slice_on_cpu.note(self.mark.get().most_ticks(since, now));
        }
    }

    #[cold]
    fn apply_settings(&self, settings: Settings) {
        let Settings { tracks, execute_us, total_us, request_bytes, reply_bytes } = settings;
        let ticks = |us: i64| {
            let bound = u64::try_from(us).ok().map(|us| (u128::from(us) * 1000) << 32);
            let ticks = bound.map(|bound| bound / u128::from(self.tick.get().max(1)));
            ticks.and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(u64::MAX)
        };
        self.day.lasts.set(ticks(LATE_US));
        self.settings.set(settings);
        let bytes = |least: i64| usize::try_from(least).unwrap_or(usize::MAX);
        self.bounds.large_request.set(bytes(request_bytes));
        self.bounds.large_reply.set(bytes(reply_bytes).min(LARGE_REPLY_BYTES));
        let thresholds = [execute_us, total_us, request_bytes, reply_bytes];
        self.bounds.on.set(tracks || thresholds.iter().any(|least| *least >= 0));
        self.bounds.exact.set((0..EXACT_BELOW_US).contains(&execute_us));
        self.bounds.least.set(ticks(execute_us).min(ticks(total_us)));
    }

    /// Adjusts the sampling rates and the length of a tick; to be called ten times a second.
    pub(crate) fn adjust_sampling(&self) {
        self.samplers.set();
        let length = ticks::duration(1 << 32).as_nanos();
        self.tick.set(u64::try_from(length).unwrap_or(u64::MAX));
        self.apply_settings(self.settings.get());
    }

    /// Starts work on a connection. Returns the time in milliseconds since 1970, at most slightly
    /// stale; `read` reads that clock.
    #[inline]
    pub(crate) fn begin(&self, read: impl FnOnce() -> u64) -> u64 {
        let (now, day) = (ticks::now(), &self.day);
        self.since.set(if self.bounds.on.get() { now } else { 0 });
        if now.wrapping_sub(day.read_at.get()) >= day.lasts.get() {
            day.read_at.set(now);
            day.now_ms.set(read());
        }
        day.now_ms.get()
    }

    #[inline]
    fn ns(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.tick.get())) >> 32) as u64
    }

    /// Records the arrival of bytes; `follows_input` if they follow input that has not been
    /// executed.
    #[inline]
    pub(crate) fn arrive(&self, arrivals: &mut Arrivals, follows_input: bool) {
        arrivals.last = self.turn.get();
        if !follows_input {
            arrivals.first = arrivals.last;
        }
    }

    /// Prepares the execution of a batch.
    #[inline]
    pub(crate) fn begin_batch(&self, arrivals: &mut Arrivals, requests: usize) -> Stopwatch<'_> {
        let batch = *arrivals;
        if requests > 0 {
            // The remaining input arrived with the last bytes.
            arrivals.first = arrivals.last;
        }
        let joins = requests > 1 && batch.first == batch.last && !self.bounds.exact.get();
        Stopwatch { timing: self, arrivals: batch, joins, counted: 0 }
    }

    /// The time, in ticks; 0 if the clock is off.
    pub(crate) fn now(&self) -> u64 {
        if self.bounds.on.get() { ticks::now() } else { 0 }
    }

    /// The latest reading after work of the worker, in ticks.
    #[inline]
    pub(crate) fn latest(&self) -> u64 {
        self.latest.get()
    }

    /// Ends work of the worker.
    #[inline]
    pub(crate) fn lap(&self, tally: &Tally) {
        if self.bounds.on.get() {
            let now = ticks::now();
            self.end_slice(now, tally);
            self.begin_slice(now);
        }
    }

    /// Ends work of the worker after replies have been passed to the driver. Returns whether there
    /// are requests to report.
    #[inline]
    pub(crate) fn sent(&self, tally: &Tally) -> bool {
        if !self.bounds.on.get() {
            return false;
        }
        let now = ticks::now();
        self.end_slice(now, tally);
        tally.longest_send.note(now.saturating_sub(self.since.get()));
        self.begin_slice(now);
        self.has_unsent.get()
    }

    /// Takes the requests whose replies have just been passed to the driver.
    pub(crate) fn take_unsent(&self) -> Vec<Unsent> {
        self.has_unsent.set(false);
        std::mem::take(&mut self.unsent.borrow_mut())
    }

    /// Reports a request after the kernel has taken its whole reply.
    pub(crate) fn finish(&self, unsent: Unsent, metrics: &Metrics<'_>) {
        let Unsent { kind, mut phases, at, weight, request, logged, .. } = unsent;
        phases.send_ns = self.ns(ticks::now().saturating_sub(at));
        if let Some(request) = request {
            request.send_ns.store(phases.send_ns, Ordering::Relaxed);
            if !logged && self.settings.get().are_passed_by_request(kind, phases) {
                metrics.log_slow(request);
            }
        }
        metrics.tally.phases.add(family(kind), phases, weight);
    }
}

/// The destinations of reported times.
#[derive(Clone, Copy)]
pub(crate) struct Metrics<'a> {
    pub(crate) tally: &'a Tally,
    pub(crate) statistics: &'a Statistics,
    pub(crate) config: &'a Config,
}

impl<'a> Metrics<'a> {
    /// The destinations for a worker.
    pub(crate) fn of(environment: &RequestEnvironment<'a>) -> Self {
        let shared = environment.shared;
        Metrics {
            tally: environment.tally,
            statistics: shared.statistics(),
            config: shared.config(),
        }
    }

    /// Counts the time of `calls` requests of a kind, of `ns` nanoseconds each.
    fn time(&self, kind: RequestKind, calls: u64, ns: u64) {
        match kind {
            RequestKind::Command(entry) => self.tally.time_calls(entry.index, calls, ns),
            RequestKind::Verb => self.tally.time_verbs(calls, ns),
        }
    }

    fn log(&self, request: &Arc<SlowRequest>, is_slow: bool) {
        self.statistics.command_logs.add(request, is_slow, self.config.log_limits());
    }

    /// Logs a request that has turned out to be slow.
    fn log_slow(&self, request: Arc<SlowRequest>) {
        self.statistics.command_logs.slow.add(request, self.config.slowlog_max_len.bytes());
    }
}

/// Times a batch.
pub(crate) struct Stopwatch<'t> {
    timing: &'t Timing,
    arrivals: Arrivals,
    /// Whether requests of the same kind may share a reading.
    joins: bool,
    /// Requests of the batch that had been executed at the latest reading, and those left out
    /// since.
    counted: usize,
}

impl Stopwatch<'_> {
    /// Whether the request that has just been executed shares the reading after the next one: both
    /// are of the same brief kind, and this one and its reply are short (their lengths in bytes).
    #[inline]
    pub(crate) fn joins_next(
        &self,
        kind: RequestKind,
        next: Option<RequestKind>,
        (request_bytes, reply_bytes): (usize, usize),
    ) -> bool {
        self.joins
            && next.is_some_and(|next| are_alike(next, kind))
            && is_brief(kind)
            && reply_bytes < self.timing.bounds.large_reply.get()
            && request_bytes < self.timing.bounds.large_request.get()
    }

    /// Leaves a request out, which was refused before it ran: as in Redis it is in no log, which
    /// clients that have not logged in could otherwise fill.
    #[inline]
    pub(crate) fn leave_out(&mut self) {
        self.counted += 1;
    }

    /// Records the execution of the request at `place` of the batch, and of those before it that
    /// share its reading. `is_last` tells whether no other follows.
    pub(crate) fn ran(
        &mut self,
        place: usize,
        executed: Executed<'_>,
        is_last: bool,
        client: &Client,
        environment: &RequestEnvironment<'_>,
    ) {
        if self.timing.since.get() == 0 {
            return;
        }
        self.read(place + 1, executed, client, environment);
        if !is_last {
            self.counted = place + 1;
            self.arrivals.first = self.arrivals.last;
        }
    }

    /// Records that the request at `place`, the last one, continues as a job.
    pub(crate) fn suspend(
        &mut self,
        place: usize,
        executed: Executed<'_>,
        client: &Client,
        environment: &RequestEnvironment<'_>,
    ) -> Option<Box<RunningRequest>> {
        if self.timing.since.get() == 0 {
            return None;
        }
        if place > self.counted {
            // The requests of the same kind before it, after which the clock was not read.
            self.read(place, executed, client, environment);
            self.arrivals.first = self.arrivals.last;
        }
        let worked = ticks::now();
        let phases = Phases { queue_ns: 0, ..self.phases(worked, 1) };
        let request = describe(executed, phases, client);
        let mut charge = Charge::default();
        charge.set(room_bytes::<RunningRequest>(1) + request.own_bytes() - size_of_val(&request));
        Some(Box::new(RunningRequest {
            kind: executed.kind,
            arrived: self.arrivals.last,
            worked,
            phases,
            request,
            _charge: charge,
        }))
    }

    /// The phases of a request just executed, one of `count` since the last reading.
    fn phases(&self, now: u64, count: u64) -> Phases {
        let (timing, Arrivals { first, last }) = (self.timing, self.arrivals);
        let since = timing.since.get();
        Phases {
            receive_ns: timing.ns(last.saturating_sub(first)),
            queue_ns: timing.ns(since.saturating_sub(last)),
            execute_ns: timing.ns(now.saturating_sub(since)) / count.max(1),
            send_ns: 0,
        }
    }

    /// Counts the requests since the last reading, up to the one before `place`.
    #[inline]
    fn read(
        &self,
        place: usize,
        executed: Executed<'_>,
        client: &Client,
        environment: &RequestEnvironment<'_>,
    ) {
        let timing = self.timing;
        let now = ticks::now();
        let count = place.saturating_sub(self.counted) as u64;
        if count == 0 {
            return timing.since.set(now);
        }
        if timing.samplers.count(entry(executed.kind), count)
            || now.wrapping_sub(self.arrivals.first) >= timing.bounds.least.get()
            || executed.may_be_large(&timing.bounds)
        {
            self.report(now, count, executed, client, &Metrics::of(environment));
        }
        timing.since.set(now);
    }

    /// Reports the last of `count` requests: for itself if it is slow or takes long to send, or, if
    /// a sample is due, for all requests that it represents.
    #[cold]
    fn report(
        &self,
        now: u64,
        count: u64,
        executed: Executed<'_>,
        client: &Client,
        metrics: &Metrics<'_>,
    ) {
        let (timing, settings) = (self.timing, self.timing.settings.get());
        let sampler = timing.samplers.of(entry(executed.kind), count);
        let phases = self.phases(now, count);
        let all = Phases { execute_ns: phases.execute_ns * count, ..phases };
        let is_queued = is_queued(executed.kind, client);
        let is_slow = !is_queued && settings.are_passed_by_request(executed.kind, all);
        let is_large = executed.is_large(&timing.bounds);
        let weight = if is_slow || is_large {
            sampler.leave_out(count);
            count
        } else if sampler.is_due() {
            sampler.take()
        } else {
            0
        };
        // Each call that may take long is counted.
        let calls = if is_brief(executed.kind) { weight } else { count };
        if settings.tracks && calls > 0 && !is_queued {
            metrics.time(executed.kind, calls, phases.execute_ns);
        }
        if weight > 0 && (settings.tracks || is_slow || is_large) {
            timing.keep(executed, (phases, now), weight, client, metrics);
        }
    }
}

/// A request that runs over several ticks.
#[derive(Debug)]
pub(crate) struct RunningRequest {
    kind: RequestKind,
    /// When its last byte arrived, in ticks.
    arrived: u64,
    /// When it last ran, in ticks.
    worked: u64,
    phases: Phases,
    request: SlowRequest,
    /// Accounts for its memory.
    _charge: Charge,
}

impl RunningRequest {
    /// Excludes the time since the last slice, until `began`, in ticks: a wait for other clients is
    /// intended by a blocking command and does not count.
    pub(crate) fn leave_out_wait(&mut self, began: u64) {
        self.arrived += began.saturating_sub(self.worked);
    }

    /// Adds a slice that began at `began`, in ticks, and wrote `reply_bytes` of the reply.
    pub(crate) fn add_slice(&mut self, began: u64, reply_bytes: usize, timing: &Timing) {
        let now = ticks::now();
        timing.since.set(now);
        self.worked = now;
        self.phases.execute_ns += timing.ns(now.saturating_sub(began));
        self.request.reply_bytes += reply_bytes;
    }

    /// Adds work of another thread.
    pub(crate) fn add_work(&mut self, elsewhere: Duration) {
        self.phases.execute_ns += u64::try_from(elsewhere.as_nanos()).unwrap_or(u64::MAX);
    }
}

impl Timing {
    /// Keeps a request until its reply has been sent. `at` is the time at which its execution
    /// ended, in ticks.
    fn keep(
        &self,
        executed: Executed<'_>,
        (phases, at): (Phases, u64),
        weight: u64,
        client: &Client,
        metrics: &Metrics<'_>,
    ) {
        // The settings are read again, since the request itself may have changed them: the change
        // applies to it, as in Redis.
        let settings = Settings::of(metrics.config);
        let is_queued = is_queued(executed.kind, client);
        let slow = !is_queued && settings.are_passed_by_request(executed.kind, phases);
        let is_large = executed.is_large(&self.bounds);
        let request = (slow || is_large).then(|| Arc::new(describe(executed, phases, client)));
        if let Some(request) = &request {
            metrics.log(request, slow);
        }
        self.has_unsent.set(true);
        self.unsent.borrow_mut().push(Unsent {
            kind: executed.kind,
            phases,
            at,
            reply_end: executed.replies.1 as u64,
            weight,
            request,
            logged: slow || is_queued,
        });
    }

    /// Ends a request that ran over several ticks; its reply ends at `reply_end` in the session's
    /// output.
    pub(crate) fn end(&self, underway: RunningRequest, reply_end: usize, metrics: &Metrics<'_>) {
        let RunningRequest { kind, arrived, mut phases, mut request, .. } = underway;
        let (now, settings) = (ticks::now(), self.settings.get());
        let since_ns = self.ns(now.saturating_sub(arrived));
        phases.queue_ns = since_ns.saturating_sub(phases.execute_ns);
        request.phases = phases;
        if settings.tracks {
            metrics.time(kind, 1, phases.execute_ns);
        }
        let slow = settings.are_passed_by_request(kind, phases);
        let request = Arc::new(request);
        metrics.log(&request, slow);
        self.since.set(now);
        self.has_unsent.set(true);
        self.unsent.borrow_mut().push(Unsent {
            kind,
            phases,
            at: now,
            reply_end: reply_end as u64,
            weight: 1,
            request: Some(request),
            logged: slow,
        });
    }
}

/// The entry of a request in the slow log.
fn describe(executed: Executed<'_>, phases: Phases, client: &Client) -> SlowRequest {
    let now = since_1970();
    let since_ns = phases.execute_ns;
    SlowRequest {
        at_s: now.saturating_sub(Duration::from_nanos(since_ns)).as_secs(),
        phases,
        send_ns: AtomicU64::new(0),
        request_bytes: executed.request.request_bytes(),
        received_bytes: executed.request_bytes,
        reply_bytes: executed.reply_bytes(),
        arguments: executed.request.kept_arguments(entry(executed.kind)),
        address: client.info.shown_address().into_owned(),
        name: client.info.name(),
    }
}
