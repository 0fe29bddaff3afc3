//! Small requests at even intervals, independently of the server, on a separate thread.
//!
//! The latency of a request counts from its due time, so that waiting in the tool counts as well. A
//! request is sent even if earlier ones are unanswered; a request without an answer after ten
//! seconds is lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use nagi_client::{Connection, Outcome, Protocol, encode_command};
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

use super::server::Server;
use super::stops::Stops;
use super::written::Written;
use crate::clock::{SECOND, Timer, now_ns};
use crate::interrupt::Interrupt;
use crate::pace::{Arrivals, Curve, Pacer, Share, Timetable};
use crate::tally::Latencies;
use crate::target::Target;
use crate::wire::Wire;

/// How long a request may be unanswered before it counts as lost, in nanoseconds.
pub(crate) const LOST_NS: u64 = 10 * SECOND;

/// Requests slower than this are kept individually, so that stops can be subtracted from them.
const SLOW_NS: u64 = 2_000_000;

/// The maximum number of slow requests kept; the latencies of later ones are recorded without
/// subtracting stops.
const SLOW_KEPT: usize = 4_000_000;

/// Number of keys that the probe reads and writes.
pub(crate) const KEYS: u64 = 1000;

/// The prefix of all keys of the tool.
pub(crate) const PREFIX: &str = "calm:";

const VALUE: &[u8] = b"0123456789abcdef0123456789abcdef";
const TIMER: u64 = u64::MAX;
const READABLE: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);
const SCRATCH_BYTES: usize = 64 * 1024;
/// The time of the end of a probe that does not wait for outstanding answers.
const AT_ONCE: u64 = 0;
/// The interval in which the end of a probe checks for an interrupt, in nanoseconds.
const END_CHECK_NS: u64 = 5_000_000;
/// Time for the thread to start before the first request is due, in nanoseconds.
const HEAD_START_NS: u64 = 2_000_000;

/// The requests of a probe, their server and their rate.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) target: Target,
    pub(crate) connections: u32,
    pub(crate) rate: f64,
    /// Counts the probe's writes.
    pub(crate) written: Arc<Written>,
}

impl Plan {
    pub(crate) fn of(server: &Server, connections: u32, rate: f64) -> Self {
        let (target, written) = (server.target.clone(), Arc::clone(&server.written));
        Plan { target, connections, rate, written }
    }
}

/// The measurements of a probe.
#[derive(Debug)]
pub(crate) struct ProbeResult {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    fast: Latencies,
    /// The due time and the time of the answer of each slow request, in nanoseconds.
    slow: Vec<(u64, u64)>,
    pub(crate) lost: u64,
    pub(crate) errors: u64,
    /// The server's first error.
    pub(crate) first_error: Option<String>,
    /// Periods in which the probe itself was late.
    pub(crate) own_stops: Stops,
}

impl ProbeResult {
    fn new(start_ns: u64) -> Result<Self, String> {
        Ok(ProbeResult {
            start_ns,
            end_ns: start_ns,
            fast: histogram()?,
            slow: Vec::new(),
            lost: 0,
            errors: 0,
            first_error: None,
            own_stops: Stops::default(),
        })
    }

    fn record(&mut self, due_ns: u64, answered_ns: u64) {
        let latency_ns = answered_ns.saturating_sub(due_ns);
        if latency_ns > SLOW_NS && self.slow.len() < SLOW_KEPT {
            self.slow.push((due_ns, answered_ns));
        } else {
            self.fast.saturating_record(latency_ns.max(1));
        }
    }

    /// Returns all latencies minus the time within `stops`; a lost request counts as ten seconds.
    pub(crate) fn latencies(&self, stops: &Stops) -> Latencies {
        let mut all = self.fast.clone();
        for &(due_ns, answered_ns) in &self.slow {
            let stopped_ns = stops.within_ns(due_ns, answered_ns);
            all.saturating_record((answered_ns - due_ns - stopped_ns).max(1));
        }
        if self.lost > 0 {
            all.saturating_record_n(LOST_NS, self.lost);
        }
        all
    }

    /// Returns the periods in which the machine must have stalled, because requests to an idle
    /// server took long.
    pub(crate) fn as_stops(&self) -> Stops {
        let mut stops = self.own_stops.clone();
        self.slow.iter().for_each(|&(due_ns, answered_ns)| stops.add(due_ns, answered_ns));
        stops
    }
}

fn histogram() -> Result<Latencies, String> {
    Latencies::new_with_bounds(1, 2 * LOST_NS, 3).map_err(|error| error.to_string())
}

/// A running probe.
#[derive(Debug)]
pub(crate) struct Probe {
    /// The time from which no request is sent, in nanoseconds, or `AT_ONCE`.
    until_ns: Arc<AtomicU64>,
    thread: JoinHandle<Result<ProbeResult, String>>,
}

impl Probe {
    /// Connects and starts the thread.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the password.
    pub(crate) fn start(plan: &Plan) -> Result<Self, String> {
        let mut driver = Driver::new(plan)?;
        let until_ns = Arc::new(AtomicU64::new(u64::MAX));
        let until = Arc::clone(&until_ns);
        let thread = thread::Builder::new()
            .name("probe".to_owned())
            .spawn(move || {
                // Otherwise a request is often late because the probe waits for a processor. Where
                // this is not possible, the probe of the idle server shows how late.
                let _ = nagi_scheduling::shorten_slice();
                driver.drive(&until)?;
                Ok(driver.result)
            })
            .map_err(|error| error.to_string())?;
        Ok(Probe { until_ns, thread })
    }

    /// Stops sending, and waits for outstanding answers unless the user interrupts the run.
    ///
    /// # Errors
    /// The connection to the server is lost, or the user has interrupted the run.
    pub(crate) fn stop(self, interrupt: &Interrupt) -> Result<ProbeResult, String> {
        self.until_ns.store(now_ns(), Ordering::Release);
        while !self.thread.is_finished() {
            if let Err(interrupted) = interrupt.sleep_until(now_ns() + END_CHECK_NS) {
                self.until_ns.store(AT_ONCE, Ordering::Release);
                // What was measured is incomplete, so an error of the thread does not matter.
                let _ = self.thread.join();
                return Err(interrupted);
            }
        }
        self.thread.join().map_err(|_| "the probe's thread panicked".to_owned())?
    }
}

/// A connection and the due times of its unanswered requests.
struct ProbeConnection {
    connection: Connection,
    due_ns: VecDeque<u64>,
    awaits_room: bool,
}

impl ProbeConnection {
    /// Whether no answer is outstanding: the last request was answered or given up.
    fn is_settled(&self) -> bool {
        self.due_ns.back().is_none_or(|due_ns| *due_ns == 0)
    }
}

struct Driver {
    plan: Plan,
    epoll: OwnedFd,
    timer: Timer,
    connections: Vec<ProbeConnection>,
    pacer: Pacer,
    sent: u64,
    result: ProbeResult,
    scratch: Vec<u8>,
    request: Vec<u8>,
}

impl Driver {
    fn new(plan: &Plan) -> Result<Self, String> {
        let text = |errno: Errno| errno.to_string();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(text)?;
        let timer = Timer::new().map_err(|error| error.to_string())?;
        epoll::add(&epoll, &timer, EventData::new_u64(TIMER), EventFlags::IN).map_err(text)?;
        let mut connections = Vec::new();
        for index in 0..plan.connections {
            let connection = open(plan)?;
            epoll::add(&epoll, &connection, EventData::new_u64(index.into()), READABLE)
                .map_err(text)?;
            connections.push(ProbeConnection {
                connection,
                due_ns: VecDeque::new(),
                awaits_room: false,
            });
        }
        let start_ns = now_ns() + HEAD_START_NS;
        let timetable = Timetable {
            start_ns,
            curve: Curve::even(plan.rate),
            arrivals: Arrivals::Uniform,
            connections: plan.connections.into(),
            requests: u64::MAX,
            end_ns: u64::MAX,
            seed: 0,
        };
        let share = Share { first: 0, stride: 1, len: plan.connections.into() };
        Ok(Driver {
            plan: plan.clone(),
            epoll,
            timer,
            connections,
            pacer: Pacer::new(timetable, share),
            sent: 0,
            result: ProbeResult::new(start_ns)?,
            scratch: vec![0; SCRATCH_BYTES],
            request: Vec::new(),
        })
    }

    fn drive(&mut self, until: &AtomicU64) -> Result<(), String> {
        let mut events: Vec<Event> = Vec::with_capacity(64);
        let mut worked_from_ns = now_ns();
        loop {
            let now = now_ns();
            self.result.own_stops.add(worked_from_ns, now);
            let until_ns = until.load(Ordering::Acquire);
            while let Some((index, due_ns)) = self.take_due(now, until_ns) {
                self.send(index, due_ns)?;
            }
            let is_over = now >= until_ns;
            let is_settled = || self.connections.iter().all(ProbeConnection::is_settled);
            if until_ns == AT_ONCE || is_over && is_settled() {
                break;
            }
            let wake_ns = self.next_wake_ns(now, is_over);
            self.timer.arm(wake_ns).map_err(|error| error.to_string())?;
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.to_string()),
            }
            let woken_ns = now_ns();
            // The thread should have woken at `wake_ns`; a later wake-up is the tool's own delay.
            self.result.own_stops.add(wake_ns.max(now), woken_ns);
            worked_from_ns = woken_ns;
            for event in &events {
                let token = event.data.u64();
                if token != TIMER {
                    self.ready(token as usize)?;
                }
            }
            self.expire(now_ns());
        }
        self.result.end_ns = until.load(Ordering::Acquire);
        Ok(())
    }

    fn take_due(&mut self, now_ns: u64, until_ns: u64) -> Option<(usize, u64)> {
        self.pacer.next_due_ns().filter(|due_ns| *due_ns < until_ns)?;
        self.pacer.take_due(now_ns)
    }

    /// Returns the next time at which the thread has work even if no answer arrives.
    fn next_wake_ns(&self, now_ns: u64, is_over: bool) -> u64 {
        if is_over {
            return now_ns + 5_000_000;
        }
        self.pacer.next_due_ns().unwrap_or(now_ns + SECOND).min(now_ns + 5_000_000)
    }

    fn send(&mut self, index: usize, due_ns: u64) -> Result<(), String> {
        self.request.clear();
        self.sent += 1;
        encode(self.plan.target.protocol, self.sent, &mut self.request);
        if is_write(self.sent) {
            self.plan.written.probe_key((self.sent / 2).min(KEYS));
        }
        let Some(entry) = self.connections.get_mut(index) else { return Ok(()) };
        entry.due_ns.push_back(due_ns);
        match entry.connection.send(&self.request, 1) {
            Ok(()) => self.await_room(index),
            Err(error) => self.reopen(index, &error),
        }
    }

    fn ready(&mut self, index: usize) -> Result<(), String> {
        let Driver { plan, connections, scratch, result, .. } = self;
        let Some(entry) = connections.get_mut(index) else { return Ok(()) };
        let due_ns = &mut entry.due_ns;
        let now = now_ns();
        let received = entry.connection.receive(scratch, |outcome| {
            let Some(due_ns) = due_ns.pop_front() else { return };
            // Zero marks a request that has been given up.
            if due_ns != 0 {
                result.record(due_ns, now);
            }
            if let Outcome::Error(text) = outcome {
                result.errors += 1;
                // Only the probe's writes are refused in practice, for example for lack of memory.
                plan.written.refusal();
                let text = || String::from_utf8_lossy(text).into_owned();
                result.first_error.get_or_insert_with(text);
            }
        });
        let flushed = received.and_then(|_| {
            if entry.connection.has_unsent() { entry.connection.flush() } else { Ok(()) }
        });
        match flushed {
            Ok(()) => self.await_room(index),
            Err(error) => self.reopen(index, &error),
        }
    }

    fn await_room(&mut self, index: usize) -> Result<(), String> {
        let Some(entry) = self.connections.get_mut(index) else { return Ok(()) };
        let has_unsent = entry.connection.has_unsent();
        if has_unsent == entry.awaits_room {
            return Ok(());
        }
        entry.awaits_room = has_unsent;
        let flags = if has_unsent { READABLE | EventFlags::OUT } else { READABLE };
        epoll::modify(&self.epoll, &entry.connection, EventData::new_u64(index as u64), flags)
            .map_err(|errno| errno.to_string())
    }

    /// Gives up requests that have waited too long. Their entries become zero, since their answers
    /// may still arrive.
    fn expire(&mut self, now_ns: u64) {
        for entry in &mut self.connections {
            let late = entry.due_ns.iter_mut().take_while(|due_ns| **due_ns + LOST_NS <= now_ns);
            for due_ns in late {
                self.result.lost += u64::from(*due_ns != 0);
                *due_ns = 0;
            }
        }
    }

    /// Counts the unanswered requests of a broken connection as lost, and opens a new connection.
    fn reopen(&mut self, index: usize, why: &nagi_client::Error) -> Result<(), String> {
        let opened = open(&self.plan)
            .map_err(|error| format!("{} went away: {why}; {error}", self.plan.target.address))?;
        let Some(entry) = self.connections.get_mut(index) else { return Ok(()) };
        self.result.lost += entry.due_ns.iter().filter(|due_ns| **due_ns != 0).count() as u64;
        self.result.first_error.get_or_insert_with(|| why.to_string());
        entry.due_ns.clear();
        entry.awaits_room = false;
        entry.connection = opened;
        epoll::add(&self.epoll, &entry.connection, EventData::new_u64(index as u64), READABLE)
            .map_err(|errno| errno.to_string())
    }
}

/// Opens a connection, and sends the password if there is one.
fn open(plan: &Plan) -> Result<Connection, String> {
    let wire = Wire::open_within(&plan.target, &Interrupt::default(), LOST_NS)?;
    Connection::over(wire.into_socket(), plan.target.protocol.into())
        .map_err(|error| error.to_string())
}

/// Whether the probe's request `number` writes: reads and writes alternate.
fn is_write(number: u64) -> bool {
    number.is_multiple_of(2)
}

/// Appends the probe's request `number`.
pub(crate) fn encode(protocol: Protocol, number: u64, out: &mut Vec<u8>) {
    let key = format!("{PREFIX}probe:{}", number / 2 % KEYS);
    match (protocol, is_write(number)) {
        (Protocol::Resp, true) => encode_command(&[b"SET", key.as_bytes(), VALUE], out),
        (Protocol::Resp, false) => encode_command(&[b"GET", key.as_bytes()], out),
        (Protocol::Memcached, true) => {
            out.extend_from_slice(format!("set {key} 0 0 {}\r\n", VALUE.len()).as_bytes());
            out.extend_from_slice(VALUE);
            out.extend_from_slice(b"\r\n");
        }
        (Protocol::Memcached, false) => out.extend_from_slice(format!("get {key}\r\n").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The result of one request of half a millisecond, and one of 120 ms.
    fn probe_result() -> ProbeResult {
        let mut result = ProbeResult::new(SECOND).unwrap();
        result.record(SECOND, SECOND + MS / 2);
        result.record(SECOND + 10 * MS, SECOND + 130 * MS);
        result
    }

    #[test]
    fn time_in_stops_is_subtracted_from_latencies() {
        assert_eq!(probe_result().latencies(&Stops::default()).max() / MS, 120);
        let mut stops = Stops::default();
        stops.add(SECOND + 20 * MS, SECOND + 120 * MS);
        let latencies = probe_result().latencies(&stops);
        assert_eq!((latencies.max() / MS, latencies.len()), (20, 2));
        assert_eq!(probe_result().as_stops().within_ns(0, 2 * SECOND), 120 * MS);
    }

    #[test]
    fn lost_requests_count_as_ten_seconds() {
        let lost = ProbeResult { lost: 3, ..probe_result() };
        let latencies = lost.latencies(&Stops::default());
        assert_eq!((latencies.len(), latencies.max() / SECOND), (5, 10));
    }
}
