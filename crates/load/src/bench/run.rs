//! One phase of a run on one thread: it sends requests at their times and records the results.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use nagi_client::Error;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event, EventFlags};
use rustix::io::Errno;

use super::arrival::Arrival;
use super::mix::{Kind, Mix, Pick};
use super::save::{Marks, Windows};
use super::verified::Verified;
use super::worker::{Flight, Link, Load, TIMER, Worker, encode};
use crate::clock::{SECOND, now_ns, thread_cpu_ns};
use crate::interrupt::{Interrupt, POLL_INTERVAL};
use crate::pace::{Pacer, Share, Timetable};
use crate::tally::Tally;

/// Maximum number of events returned by one wait.
const EVENTS: usize = 256;

/// The first pause before a lost connection is reopened. The pause doubles with each failed
/// attempt, so that a restarting server is not kept busy by refusing connections.
const FIRST_PAUSE_NS: u64 = SECOND / 50;
const LONGEST_PAUSE_NS: u64 = SECOND / 2;

/// Maximum number of requests that a session may fail at once in a closed loop because their server
/// is lost.
const LOST_TRIES: usize = 64;

/// The error of a request that came due while it had no connection.
const NOT_SENT: &str = "not sent: its connection was lost";

/// The plan of a phase of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) work: Work,
    /// Maximum number of requests in flight on one connection.
    pub(crate) depth: usize,
    /// When measuring begins, in nanoseconds. Requests begun earlier are not part of the results.
    pub(crate) measure_ns: u64,
    /// When the run ends, in nanoseconds, unless the number of requests is limited. No request
    /// begins afterwards.
    pub(crate) end_ns: u64,
    /// The number of measured requests that all threads together may still begin, if it is limited.
    pub(crate) budget: Option<Arc<AtomicU64>>,
    /// The due times of paced requests.
    pub(crate) timetable: Option<Timetable>,
    /// How long to wait for replies after the last request has begun, in nanoseconds.
    pub(crate) reply_timeout_ns: u64,
    /// The save during which latencies are recorded separately.
    pub(crate) marks: Option<Arc<Marks>>,
    /// The number of requests after which a session reopens its connections.
    pub(crate) reconnect_every: Option<u64>,
    /// Ctrl-C, which ends the run in the same way as its time limit.
    pub(crate) interrupt: Interrupt,
    /// Ends the run without waiting for replies, because its result is already known.
    pub(crate) stop: Interrupt,
}

/// The requests of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Each key is written once.
    Fill { keys: u64 },
    /// The load that is to be measured.
    Load,
}

/// The results of a thread up to the end of a second. All threads share the boundaries of seconds.
#[derive(Debug)]
pub(crate) struct Interval {
    /// The end of the second, in nanoseconds; the same for all threads.
    pub(crate) end_ns: u64,
    /// When the last reply so far arrived. In the last report, the requested end if that is later.
    pub(crate) reached_ns: u64,
    pub(crate) tally: Tally,
    /// Whether this is the thread's last report.
    pub(crate) last: bool,
    /// In the last report: the latencies of the whole run before, during and after the save.
    pub(crate) windows: Option<Windows>,
    /// In the last report: the results of --verify.
    pub(crate) verified: Verified,
}

/// A phase in progress.
pub(crate) struct Run<'a> {
    worker: &'a mut Worker,
    plan: &'a Plan,
    reports: &'a Sender<Interval>,
    pacer: Option<Pacer>,
    /// Keys that remain to be filled.
    fill: Range<u64>,
    tally: Tally,
    /// Latencies before, during and after the save, if one is planned.
    windows: Option<Windows>,
    /// The results of --verify.
    verified: Verified,
    /// When the run ends, as far as known.
    end_ns: u64,
    /// The number of lost connections.
    lost_links: usize,
    /// When to reopen the first of the lost connections, in nanoseconds.
    next_retry_ns: u64,
    /// Number of requests that are due and not answered, over all open sessions.
    unanswered_requests: u64,
    next_tick_ns: u64,
    /// When to check next for Ctrl-C, in nanoseconds.
    next_look_ns: u64,
    /// When the last reply arrived; at the end of the run, the requested end if that is later.
    reached_ns: u64,
    /// The thread's processor time when the last second was reported.
    cpu_ns: u64,
    /// Indices of sessions with a request that has come due.
    ready: Vec<usize>,
    /// The replies of the last wake-up, kept to reuse its buffers.
    arrival: Arrival,
}

impl<'a> Run<'a> {
    /// Prepares the worker's connections to run `plan`.
    pub(crate) fn new(
        worker: &'a mut Worker,
        plan: &'a Plan,
        reports: &'a Sender<Interval>,
    ) -> io::Result<Self> {
        for session in &mut worker.sessions {
            (session.due, session.sent, session.answered) = (0, 0, 0);
            session.due_ns.clear();
        }
        let fill = match plan.work {
            Work::Fill { keys } => share_of_keys(keys, worker.share),
            Work::Load => 0..0,
        };
        let start_ns = now_ns();
        Ok(Run {
            pacer: plan.timetable.map(|timetable| Pacer::new(timetable, worker.share)),
            next_tick_ns: next_tick_ns(start_ns, plan.measure_ns),
            next_look_ns: start_ns,
            lost_links: worker.prepare_lost(start_ns),
            next_retry_ns: start_ns,
            worker,
            plan,
            reports,
            fill,
            tally: Tally::new().map_err(io::Error::other)?,
            windows: match plan.marks {
                Some(_) => Some(Windows::new().map_err(io::Error::other)?),
                None => None,
            },
            verified: Verified::default(),
            end_ns: plan.end_ns,
            unanswered_requests: 0,
            reached_ns: start_ns,
            cpu_ns: thread_cpu_ns(),
            ready: Vec::new(),
            arrival: Arrival::default(),
        })
    }

    /// Runs until the plan is complete, and reports every second.
    ///
    /// # Errors
    /// The event loop itself fails. Failures of connections are counted instead, and lost
    /// connections are reopened.
    pub(crate) fn drive(mut self) -> io::Result<()> {
        let mut now = now_ns();
        if self.pacer.is_none() {
            for index in 0..self.worker.sessions.len() {
                self.send(index, now);
                now = now_ns();
            }
        }
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        while !self.is_finished(now) {
            let due_ns = self.next_due_ns();
            let end_ns = Some(self.end_ns).filter(|&end_ns| now < end_ns).unwrap_or(u64::MAX);
            let wake_ns = self.next_tick_ns.min(self.next_look_ns).min(self.next_retry_ns);
            self.worker.timer.arm(wake_ns.min(due_ns.unwrap_or(end_ns)))?;
            events.clear();
            match epoll::wait(&self.worker.epoll, spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for event in &events {
                if event.data.u64() != TIMER {
                    self.serve(event.data.u64() as usize, event.flags)?;
                }
            }
            now = now_ns();
            self.look_for_the_end(now);
            self.tick(now)?;
            self.retry(now);
            self.take_due(now);
        }
        if now >= self.end_ns {
            self.reached_ns = self.reached_ns.max(self.end_ns);
        } else if self.unanswered_requests > 0 || self.lost_links > 0 {
            // The wait for a server that stalls is a part of a run without a given end.
            self.reached_ns = self.reached_ns.max(now);
        }
        self.give_up(now);
        self.report(self.next_tick_ns, true)
    }

    /// Ends the run early if a save or the user has requested it.
    fn look_for_the_end(&mut self, now: u64) {
        if let Some(marks) = &self.plan.marks {
            self.end_ns = self.end_ns.min(marks.stop_ns());
        }
        if now >= self.next_look_ns {
            self.next_look_ns = now + POLL_INTERVAL.as_nanos() as u64;
            let is_over = self.plan.interrupt.is_set() || self.plan.stop.is_set();
            if self.end_ns > now && is_over {
                self.end_ns = now;
            }
        }
    }

    /// Returns the time at which the next paced request is due; `None` after the last one.
    fn next_due_ns(&self) -> Option<u64> {
        let due_ns = self.pacer.as_ref()?.next_due_ns()?;
        (due_ns < self.end_ns).then_some(due_ns)
    }

    fn is_finished(&self, now: u64) -> bool {
        let end_ns = self.end_ns;
        let timed = end_ns != u64::MAX;
        let idle_since_ns = if timed { end_ns } else { self.reached_ns };
        let given_up = now.saturating_sub(idle_since_ns) > self.plan.reply_timeout_ns
            || self.plan.stop.is_set();
        let more_to_come = match &self.pacer {
            Some(_) => self.next_due_ns().is_some() || (timed && now < end_ns),
            None => self.lost_links > 0 && now < end_ns && self.has_more_to_send() && !given_up,
        };
        !more_to_come && (self.unanswered_requests == 0 || given_up)
    }

    /// Whether a closed loop would send more requests if a lost connection were reopened.
    fn has_more_to_send(&self) -> bool {
        match (&self.plan.work, &self.plan.budget) {
            (Work::Fill { .. }, _) => !self.fill.is_empty(),
            (_, Some(budget)) => budget.load(Ordering::Relaxed) > 0,
            (_, None) => true,
        }
    }

    /// Receives replies on connection `index`, and sends the next requests.
    fn serve(&mut self, index: usize, flags: EventFlags) -> io::Result<()> {
        let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let mut arrival = std::mem::take(&mut self.arrival);
        arrival.clear();
        let mut result = self.worker.receive(index, hung_up, &mut arrival, &mut self.tally.errors);
        let session = self.worker.session_of(index);
        let now = now_ns();
        if arrival.replies > 0 {
            self.tally.reconnects += u64::from(self.worker.is_back(index));
            self.record(session, &arrival, now)?;
        }
        self.verified.add(&arrival.verified);
        self.arrival = arrival;
        if result.is_ok() && flags.contains(EventFlags::OUT) {
            result = self.worker.flush(index);
        }
        if let Err(error) = result {
            self.close_failed(index, &error, now);
        }
        self.send(session, now);
        Ok(())
    }

    /// Records the latencies of answered requests of session `index`.
    fn record(&mut self, index: usize, arrival: &Arrival, now: u64) -> io::Result<()> {
        self.tick(now)?;
        self.reached_ns = now;
        self.unanswered_requests = self.unanswered_requests.saturating_sub(arrival.replies);
        let Some(session) = self.worker.sessions.get_mut(index) else { return Ok(()) };
        session.answered += arrival.replies;
        let sent_ns = session.sent_ns;
        let measured = if !arrival.begun_ns.is_empty() {
            self.record_each(arrival.begun_ns.iter().copied(), now)
        } else if self.pacer.is_some() {
            let mut dues = std::mem::take(&mut session.due_ns);
            let answered = dues.drain(..dues.len().min(arrival.replies as usize));
            let measured = self.record_each(answered, now);
            if let Some(session) = self.worker.sessions.get_mut(index) {
                session.due_ns = dues;
            }
            measured
        } else if self.is_measured(sent_ns, now) {
            self.record_latency(sent_ns, now, arrival.replies);
            arrival.replies
        } else {
            0
        };
        if measured > 0 {
            self.tally.requests += measured;
            self.tally.hits += arrival.hits;
            self.tally.misses += arrival.misses;
            self.tally.received_bytes += arrival.bytes;
        }
        Ok(())
    }

    /// Whether a request counts: it does unless it began during the warm-up and was answered after
    /// the warm-up.
    fn is_measured(&self, begun_ns: u64, now: u64) -> bool {
        begun_ns >= self.plan.measure_ns || now < self.plan.measure_ns
    }

    /// Records requests that ended at `now`, if they count. Returns how many count.
    fn record_each(&mut self, begun_ns: impl Iterator<Item = u64>, now: u64) -> u64 {
        let mut measured = 0;
        for begun_ns in begun_ns {
            if self.is_measured(begun_ns, now) {
                self.record_latency(begun_ns, now, 1);
                measured += 1;
            }
        }
        measured
    }

    /// Records that `times` requests that began at `begun_ns` ended at `now`.
    fn record_latency(&mut self, begun_ns: u64, now: u64, times: u64) {
        self.tally.latencies.saturating_record_n(now.saturating_sub(begun_ns), times);
        if let (Some(windows), Some(marks)) = (&mut self.windows, &self.plan.marks)
            && now >= self.plan.measure_ns
        {
            windows.record(marks, begun_ns, now, times);
        }
    }

    /// Sends all requests that session `index` may send now.
    fn send(&mut self, index: usize, now: u64) {
        self.reconnect(index, now);
        for _ in 0..LOST_TRIES {
            let count = self.claim(index, now);
            // In a closed loop, the next request replaces a request that cannot be sent.
            if count == 0 || self.send_claimed(index, count, now) > 0 || self.pacer.is_some() {
                return;
            }
        }
    }

    /// Sends `count` requests of session `index`. Returns the number of requests whose connection
    /// was open.
    fn send_claimed(&mut self, index: usize, count: u64, now: u64) -> u64 {
        for batch in &mut self.worker.batches {
            batch.bytes.clear();
            batch.requests = 0;
        }
        if let Some(session) = self.worker.sessions.get_mut(index) {
            session.sent_ns = now;
            session.sent += count;
            session.sent_since_opening += count;
        }
        let unsent = match self.worker.load.mixed() {
            None => {
                self.encode_plain(count);
                0
            }
            Some(mix) => self.encode_mixed(index, count, now, &mix),
        };
        if unsent > 0 {
            self.end_unanswered(index, unsent);
            self.tally.errors.count(NOT_SENT, unsent);
        }
        for (server, link) in self.worker.links_of(index).enumerate() {
            let worker = &mut *self.worker;
            let Some(batch) = worker.batches.get(server).filter(|it| it.requests > 0) else {
                continue;
            };
            self.tally.sent_bytes += batch.bytes.len() as u64;
            let connection = worker.links.get_mut(link).and_then(|link| link.connection.as_mut());
            let Some(connection) = connection else { continue };
            let sent = connection.send(&batch.bytes, batch.requests);
            if let Err(error) = sent.and_then(|()| worker.await_room(link)) {
                self.close_failed(link, &error, now);
            }
        }
        count - unsent
    }

    /// Ends `count` requests of session `index` that will not be answered.
    fn end_unanswered(&mut self, index: usize, count: u64) {
        if let Some(session) = self.worker.sessions.get_mut(index) {
            session.answered += count;
            self.unanswered_requests = self.unanswered_requests.saturating_sub(count);
        }
    }

    /// Reopens the connections of session `index` if they have sent their number of requests and
    /// all are answered.
    fn reconnect(&mut self, index: usize, now: u64) {
        let Some(every) = self.plan.reconnect_every else { return };
        let Some(session) = self.worker.sessions.get_mut(index) else { return };
        if session.open_links == 0
            || session.sent_since_opening < every
            || session.sent != session.answered
        {
            return;
        }
        session.sent_since_opening = 0;
        for link in self.worker.links_of(index) {
            let was_lost = self.worker.is_lost(link);
            match self.worker.reopen(link) {
                Ok(()) => self.lost_links -= usize::from(was_lost),
                Err(error) => self.close_failed(link, &error, now),
            }
        }
        self.tally.reconnects += 1;
    }

    /// Reopens the lost connections that are due.
    fn retry(&mut self, now: u64) {
        if now < self.next_retry_ns {
            return;
        }
        self.next_retry_ns = u64::MAX;
        if self.lost_links == 0 || now >= self.end_ns {
            return;
        }
        for index in 0..self.worker.links.len() {
            let Some(link) = self.worker.links.get_mut(index) else { continue };
            if link.connection.is_some() {
                continue;
            }
            if link.retry_ns > now {
                self.next_retry_ns = self.next_retry_ns.min(link.retry_ns);
            } else if self.worker.reopen(index).is_ok() {
                self.lost_links -= 1;
                self.send(self.worker.session_of(index), now);
            } else {
                self.postpone(index, now);
            }
        }
    }

    /// Schedules the reopening of the lost connection `index`, after a longer pause than the last
    /// one.
    fn postpone(&mut self, index: usize, now: u64) {
        if let Some(link) = self.worker.links.get_mut(index) {
            link.pause_ns = (link.pause_ns * 2).clamp(FIRST_PAUSE_NS, LONGEST_PAUSE_NS);
            link.retry_ns = now + link.pause_ns;
            self.next_retry_ns = self.next_retry_ns.min(link.retry_ns);
        }
    }

    fn encode_plain(&mut self, count: u64) {
        let Worker { load, keys, random, batches, .. } = &mut *self.worker;
        let (Load::Plain { requests, gets, sets }, Some(batch)) = (load, batches.first_mut())
        else {
            return;
        };
        batch.requests = count as usize;
        match self.plan.work {
            Work::Fill { .. } => {
                for key in self.fill.by_ref().take(count as usize) {
                    requests.set(key, &mut batch.bytes);
                }
            }
            Work::Load => {
                encode(requests, (*gets, *sets), count, (keys, random), &mut batch.bytes);
            }
        }
    }

    /// Encodes requests into the batches of their servers. Returns the number of requests whose
    /// server is not connected.
    fn encode_mixed(&mut self, index: usize, count: u64, now: u64, mix: &Mix) -> u64 {
        let worker = &mut *self.worker;
        let links = worker.links_of(index);
        let mut lost = 0;
        for _ in 0..count {
            let pick = match self.plan.work {
                Work::Fill { .. } => {
                    Pick { kind: Kind::Set, number: self.fill.next().unwrap_or_default() }
                }
                Work::Load => mix.pick(&mut worker.keys, &mut worker.random),
            };
            let due_ns =
                worker.sessions.get_mut(index).and_then(|session| session.due_ns.pop_front());
            if let Some(parts) = mix.split(pick, &mut worker.keys, &mut worker.random) {
                let begun = (pick, due_ns.unwrap_or(now));
                lost += u64::from(!worker.encode_parts(links.start, begun, &parts, mix));
                continue;
            }
            let server = mix.server(pick, &mut worker.key);
            let link = worker.links.get_mut(links.start + server);
            let link = link.filter(|link| link.connection.is_some());
            let Some((batch, link)) = worker.batches.get_mut(server).zip(link) else {
                lost += 1;
                continue;
            };
            let ticket = mix.begin(pick, now, &mut worker.key);
            let (keys, random) = (&mut worker.keys, &mut worker.random);
            mix.append(pick, ticket.sequence, server, keys, random, &mut batch.bytes);
            batch.requests += 1;
            let begun_ns = due_ns.unwrap_or(now);
            link.flights.push_back(Flight { pick, ticket, begun_ns, part: None });
        }
        lost
    }

    /// Returns the number of requests that session `index` may send now, and counts them as due.
    fn claim(&mut self, index: usize, now: u64) -> u64 {
        let Some(session) = self.worker.sessions.get_mut(index) else { return 0 };
        let mut depth = self.plan.depth as u64;
        if let Some(every) = self.plan.reconnect_every {
            depth = depth.min(every.saturating_sub(session.sent_since_opening));
        }
        if self.pacer.is_some() {
            let in_flight = session.sent - session.answered;
            return (session.due - session.sent).min(depth.saturating_sub(in_flight));
        }
        if session.sent > session.answered || session.open_links == 0 || now >= self.end_ns {
            return 0;
        }
        let count = match (&self.plan.work, &self.plan.budget) {
            (Work::Fill { .. }, _) => depth.min(self.fill.end - self.fill.start),
            (_, Some(budget)) if now >= self.plan.measure_ns => draw(budget, depth),
            _ => depth,
        };
        session.due += count;
        self.unanswered_requests += count;
        count
    }

    /// Sends the paced requests that have come due.
    fn take_due(&mut self, now: u64) {
        let Some(pacer) = &mut self.pacer else { return };
        // No request begins after the end, which a save or the user may have moved forward
        // meanwhile.
        while let Some((index, due_ns)) = pacer.take_due(now.min(self.end_ns - 1)) {
            let Some(session) = self.worker.sessions.get_mut(index) else { continue };
            if session.open_links == 0 {
                self.tally.errors.count(NOT_SENT, 1);
                continue;
            }
            // The delay is recorded even if the connection is busy. Suppose the client stalls for a
            // second: the server must then answer the requests of that second one after another,
            // and this waiting is not the server's delay.
            if due_ns >= self.plan.measure_ns {
                self.tally.delays.saturating_record(now - due_ns);
            }
            session.due += 1;
            session.due_ns.push_back(due_ns);
            self.unanswered_requests += 1;
            self.ready.push(index);
        }
        let mut ready = std::mem::take(&mut self.ready);
        for index in ready.drain(..) {
            self.send(index, now);
        }
        self.ready = ready;
    }

    /// Closes connection `index` for a while. Each of its unanswered requests counts as failed.
    fn close_failed(&mut self, index: usize, error: &Error, now: u64) {
        let is_plain = self.worker.load.mixed().is_none();
        let session_index = self.worker.session_of(index);
        let Some((session, link)) = self
            .worker
            .sessions
            .get_mut(session_index)
            .zip(self.worker.links.get_mut(index).filter(|link| link.connection.is_some()))
        else {
            return;
        };
        session.open_links -= 1;
        self.lost_links += 1;
        let flights = std::mem::take(&mut link.flights);
        let was_open = link.pause_ns == 0;
        *link = Link { pause_ns: link.pause_ns, ..Link::default() };
        // If no connection is left, the due requests that are not sent yet have failed too.
        let is_last = session.open_links == 0;
        let mut unanswered = self.worker.forget(&flights);
        if let Some(session) = self.worker.sessions.get_mut(session_index)
            && (is_plain || is_last)
        {
            session.sent = session.due;
            session.due_ns.clear();
            unanswered = session.due - session.answered;
        }
        self.end_unanswered(session_index, unanswered);
        self.postpone(index, now);
        // Later failed attempts to reconnect are not counted themselves, only the unanswered
        // requests.
        self.tally.errors.count(&error.to_string(), unanswered.max(u64::from(was_open)));
    }

    /// Counts the unanswered requests as errors, with the time that they have waited as their
    /// latency.
    fn give_up(&mut self, now: u64) {
        for index in 0..self.worker.sessions.len() {
            let links = self.worker.links_of(index);
            let Some(session) = self.worker.sessions.get_mut(index) else { continue };
            let unanswered = session.due - session.answered;
            if unanswered == 0 {
                continue;
            }
            self.tally.errors.count("no reply", unanswered);
            let mut begun_ns: Vec<u64> = session.due_ns.drain(..).collect();
            let sent_ns = session.sent_ns;
            for link in self.worker.links.get(links).into_iter().flatten() {
                let splits = &mut self.worker.splits;
                let failed = link.flights.iter().filter(|flight| {
                    // A multi-get counts once, not once per part.
                    flight.part.is_none_or(|part| splits.fail(part))
                });
                begun_ns.extend(failed.map(|flight| flight.begun_ns));
            }
            if begun_ns.is_empty() {
                self.record_latency(sent_ns, now, unanswered);
            }
            self.record_each(begun_ns.into_iter(), now);
        }
    }

    /// Reports the seconds that have completed.
    fn tick(&mut self, now: u64) -> io::Result<()> {
        while now >= self.next_tick_ns {
            let end_ns = self.next_tick_ns;
            self.report(end_ns, false)?;
            self.next_tick_ns = next_tick_ns(end_ns, self.plan.measure_ns);
        }
        Ok(())
    }

    fn report(&mut self, end_ns: u64, last: bool) -> io::Result<()> {
        let mut tally = std::mem::replace(&mut self.tally, Tally::new().map_err(io::Error::other)?);
        let cpu_ns = thread_cpu_ns();
        tally.cpu_ns = cpu_ns - self.cpu_ns;
        self.cpu_ns = cpu_ns;
        let (mut windows, mut verified) = (None, Verified::default());
        if last {
            (windows, verified) = (self.windows.take(), std::mem::take(&mut self.verified));
        }
        let reached_ns = self.reached_ns;
        let interval = Interval { end_ns, reached_ns, tally, last, windows, verified };
        self.reports.send(interval).map_err(io::Error::other)
    }
}

/// Takes up to `wanted` requests from `budget`. Returns the number taken.
fn draw(budget: &AtomicU64, wanted: u64) -> u64 {
    let taken = budget
        .try_update(Ordering::Relaxed, Ordering::Relaxed, |left| Some(left.saturating_sub(wanted)));
    taken.unwrap_or_default().min(wanted)
}

/// Returns the keys that the thread of `share` fills.
fn share_of_keys(keys: u64, share: Share) -> Range<u64> {
    let bound = |part: u64| (u128::from(keys) * u128::from(part) / u128::from(share.stride)) as u64;
    bound(share.first)..bound(share.first + 1)
}

/// Returns the first time after `now_ns` that is a whole number of seconds away from `measure_ns`.
fn next_tick_ns(now_ns: u64, measure_ns: u64) -> u64 {
    if now_ns < measure_ns {
        measure_ns - (measure_ns - now_ns - 1) / SECOND * SECOND
    } else {
        measure_ns + ((now_ns - measure_ns) / SECOND + 1) * SECOND
    }
}
