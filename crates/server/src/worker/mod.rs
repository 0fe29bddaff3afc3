//! A worker: one thread with an event loop and the sessions that it owns.

mod arrivals;
mod closing;
mod departed;
pub(crate) mod handovers;
mod held_replies;
mod limits;
mod piped;
mod relocation;
mod slots;

use crate::net::address::Peer;
use crate::net::driver::{Driver, Sink, Token, Wanted};
use crate::net::link::Link;
use crate::net::outgoing::OUTPUT_ROOM_BYTES;
use crate::net::protocol::Protocol;
use crate::net::receive_buffer::ReceiveBuffer;
use crate::net::refusal::Refusal;
use crate::persistence::throttle;
use crate::protocols::SpanRoom;
use crate::protocols::environment::RequestEnvironment;
use crate::protocols::session_state::SessionState;
use crate::session::batch::SliceContext;
use crate::session::conversation::{SLICE_BYTES, Session};
use crate::session::timing::{Metrics, Timing};
use crate::state::descriptors::RESERVED_CONNECTIONS;
use crate::state::mailbox::{ConnectionTask, NewConnection, Reminders};
use crate::state::shared::Shared;
use crate::worker::handovers::{AskedBefore, Handovers, Leaving};
use crate::worker::held_replies::{HOLD, Holding};
use crate::worker::slots::{ClosingConnection, ConnectionSlot, Slots};
use nagi_commands::memcached::CloseReason;
use nagi_commands::{HookFlags, Marks, Server as _, Tally, When, notification};
use nagi_proto::Output;
use nagi_store::accounting::{self, Overhead};
use nagi_store::{Ageing, Compactor, Counters, Expirer, Scope, WalkProgress, Walker, ticks};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::{Duration, Instant};

/// How long a stopping worker executes received requests, and then sends replies while sockets have
/// room. Like Redis, it does not wait for clients that do not read.
const STOP_EXECUTING: Duration = Duration::from_secs(1);
const STOP_SENDING: Duration = Duration::from_secs(1);
/// How many idle ticks in a row end the shutdown: a driver may need two turns to close.
const STOP_IDLE_TICKS: usize = 3;

/// Runs worker `index` until the server stops, and calls `report` once it is ready.
pub(crate) fn run(
    index: usize,
    shared: &Arc<Shared>,
    handovers: &Arc<Handovers>,
    driver: &mut impl Driver,
    report: impl FnOnce(),
) {
    let mut sessions = Sessions::new(index, Arc::clone(shared), Arc::clone(handovers));
    accounting::note_startup();
    report();
    while !shared.is_stopping() {
        let pause = least(sessions.expire(), sessions.walk());
        if let Err(error) = sessions.tick(driver, pause) {
            tracing::error!(worker = index, %error, "a worker cannot wait for its sockets");
            shared.stop();
        }
    }
    sessions.stop_serving(driver);
}

/// The length of an expiry slice, and the pause before the next one if there are more expired keys:
/// a quarter of the worker's time at most.
const EXPIRY_SLICE: Duration = Duration::from_micros(500);
const EXPIRY_PAUSE: Duration = Duration::from_micros(1500);

/// The length of a walk slice for a snapshot, and the pause after it in multiples of the slice, for
/// clients and other threads. Without pauses the walk would delay them, although the saver is
/// slower than two walking workers.
const WALK_SLICE: Duration = Duration::from_micros(60);
const WALK_PAUSES: u32 = 2;
/// The length of a walk slice while pre-images are near their limit, so that writers need not wait.
const URGENT_WALK_SLICE: Duration = Duration::from_millis(1);
/// How long a worker that has stopped serving waits for the disk during a snapshot.
const DISK_PAUSE: Duration = Duration::from_millis(1);

/// Unread reply bytes of a client that has not logged in above which nothing is received from it.
const UNAUTHENTICATED_UNSENT_BYTES: usize = 1024;
/// Maximum timed requests of a connection that wait for their replies to be sent.
const MAX_UNSENT: usize = 1024;

/// The shorter of two waits; `None` is unlimited.
fn least(first: Option<Duration>, second: Option<Duration>) -> Option<Duration> {
    first.into_iter().chain(second).min()
}

/// The sessions of one worker, and what they share.
struct Sessions {
    worker: usize,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
    tally: Arc<Tally>,
    expirer: Expirer,
    ageing: Ageing,
    compactor: Compactor,
    /// When to continue with expired keys, if the last slice did not handle them all.
    expire_at: Option<Instant>,
    /// The worker's part in the walk for a snapshot.
    walker: Walker,
    walks: bool,
    /// When the last slice of the walk ended, and how long it took.
    walked: Option<(Instant, Duration)>,
    slots: Slots,
    /// Sessions with work left from the last tick.
    turns: Vec<Token>,
    /// The number of ticks so far.
    ticks: u64,
    /// Sessions of disconnected clients whose current request must be completed.
    orphans: Vec<Session>,
    /// Whether there may be messages for subscribers.
    has_messages: bool,
    /// Whether connections are accepted; `false` during shutdown.
    takes_connections: bool,
    /// A session's replies, until they are passed to the driver.
    output: Output,
    output_overhead: Overhead,
    holding: Holding,
    spans: SpanRoom,
    timing: Timing,
    /// Connections with unsent replies of timed requests.
    unsent: Vec<Token>,
    /// Connections whose clients have left replies unread.
    slow_readers: Vec<SlowReader>,
    /// Connections that are closed once their replies have been sent.
    closing: Vec<ClosingConnection>,
    /// Connections whose clients have ended their input while a request waits to be woken.
    ended: Vec<Token>,
    /// Accounts for the memory of the lists of connections above.
    lists_overhead: Overhead,
    /// The next slot to check for an unreachable peer.
    next_checked_slot: usize,
    /// The next slot to check for an idle client.
    next_idle_slot: usize,
    /// Connections that other threads want closed.
    killed: VecDeque<Token>,
    /// Connections between workers.
    handovers: Arc<Handovers>,
    /// Connections that are about to move to other workers.
    leaving: Vec<Leaving>,
    /// The load of connections when another worker last relieved this one.
    asked_before: AskedBefore,
    /// Room for pipes that the worker was notified of.
    notified: Vec<Token>,
}

/// A connection with unread replies.
struct SlowReader {
    token: Token,
    /// The time since which the replies exceed the soft limit, in milliseconds since 1970.
    over_soft_limit_since_ms: Option<u64>,
    /// Bytes that it had not acknowledged at the last check.
    unacknowledged: usize,
}

/// Bytes after a waiting request above which nothing more is received.
const MAX_BYTES_BEHIND: usize = 64 * 1024;

/// What to receive while a session waits. A driver does not report the end of a connection that it
/// does not receive from, but a blocked client's disconnect must be noticed. A request in the state
/// `Woken` mostly waits briefly: to stop receiving and start again costs as much as a small script.
fn wanted(state: SessionState) -> Wanted {
    match state {
        SessionState::Bytes | SessionState::Pending(When::Served | When::Woken) => Wanted::Bytes,
        SessionState::LargeArgument => Wanted::IntoBuffer,
        SessionState::Pending(_) | SessionState::Closing => Wanted::Nothing,
    }
}

impl Sessions {
    fn new(worker: usize, shared: Arc<Shared>, handovers: Arc<Handovers>) -> Self {
        let output = Output::with_room(OUTPUT_ROOM_BYTES);
        Sessions {
            worker,
            counters: shared.store.counters(worker),
            tally: shared.statistics().worker(worker),
            expirer: Expirer::new(worker, shared.process().workers),
            ageing: Ageing::new(worker, shared.process().workers),
            compactor: Compactor::new(worker, shared.process().workers),
            expire_at: None,
            walker: Walker::default(),
            walks: false,
            walked: None,
            shared,
            slots: Slots::default(),
            turns: Vec::new(),
            ticks: 0,
            orphans: Vec::new(),
            has_messages: false,
            takes_connections: true,
            output_overhead: Overhead::new(output.own_bytes()),
            output,
            holding: Holding::default(),
            spans: SpanRoom::default(),
            timing: Timing::default(),
            unsent: Vec::new(),
            slow_readers: Vec::new(),
            closing: Vec::new(),
            ended: Vec::new(),
            lists_overhead: Overhead::default(),
            next_checked_slot: 0,
            next_idle_slot: 0,
            killed: VecDeque::new(),
            handovers,
            leaving: Vec::new(),
            asked_before: AskedBefore::default(),
            notified: Vec::new(),
        }
    }

    /// Removes expired keys, if it is time. Returns the longest wait until the next time.
    fn expire(&mut self) -> Option<Duration> {
        let left = self.expire_at?.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            return Some(left);
        }
        let pause = self.expire_keys();
        self.timing.lap(&self.tally);
        pause
    }

    /// Continues the walk for a snapshot, if there is one. Returns the longest wait until the next
    /// slice.
    fn walk(&mut self) -> Option<Duration> {
        if !self.walks {
            return None;
        }
        let started = Instant::now();
        let left = self.left_of_pause(started);
        if !left.is_zero() {
            return Some(left);
        }
        let is_urgent = self.shared.store.snapshot_pressure() >= throttle::URGENT_PRESSURE;
        let slice = if is_urgent { URGENT_WALK_SLICE } else { WALK_SLICE };
        let pace = self.shared.store.walk(&mut self.walker, || started.elapsed() >= slice);
        self.walks = pace == WalkProgress::More;
        self.timing.lap(&self.tally);
        let ended = Instant::now();
        self.walked = Some((ended, ended - started));
        if self.walks {
            throttle::note_pause_after(&self.shared, ended - started);
        }
        self.walks.then(|| self.left_of_pause(ended))
    }

    /// The wait until the next slice of a walk, or until the pause is computed again, since its
    /// cause may change meanwhile.
    fn left_of_pause(&self, now: Instant) -> Duration {
        let Some((ended, took)) = self.walked else { return Duration::ZERO };
        let is_urgent = self.shared.store.snapshot_pressure() >= throttle::URGENT_PRESSURE;
        let yielding = if is_urgent { Duration::ZERO } else { took * WALK_PAUSES };
        let pause = throttle::pause_after(&self.shared, took).max(yielding);
        (ended + pause).saturating_duration_since(now).min(throttle::LONGEST_WAIT)
    }

    /// Completes the walk during shutdown.
    fn end_walk(&mut self) {
        while self.shared.store.is_saving()
            && self.shared.store.walk(&mut self.walker, || false) != WalkProgress::Done
        {
            std::thread::sleep(DISK_PAUSE);
        }
    }

    fn expire_keys(&mut self) -> Option<Duration> {
        let store = &self.shared.store;
        let now_ms = store.now_ms();
        if !self.shared.hooks.expires_actively(now_ms) {
            self.expire_at = None;
            return None;
        }
        if notification::is_behind(&*self.shared) {
            self.expire_at = Some(Instant::now() + EXPIRY_PAUSE);
            return Some(EXPIRY_PAUSE);
        }
        let latency = &self.shared.hooks.latency;
        let counters = &self.counters;
        let mut expire = || self.expirer.run(store, counters, now_ms, EXPIRY_SLICE);
        let began = ticks::now();
        let expires_more = latency.time("expire-cycle", &mut expire);
        self.tally.expiry_ticks.add(ticks::now().saturating_sub(began));
        let more = expires_more
            || latency.time("eviction-cycle", || {
                store.database(0, counters, now_ms).evict_between_commands()
            });
        self.expire_at = more.then(|| Instant::now() + EXPIRY_PAUSE);
        more.then_some(EXPIRY_PAUSE)
    }

    /// Handles events, and continues sessions that have work left.
    fn tick<D: Driver>(
        &mut self,
        driver: &mut D,
        timeout: Option<Duration>,
    ) -> std::io::Result<usize> {
        self.ticks += 1;
        // Publishes events, including those of expired keys.
        notification::publish(&*self.shared);
        notification::end_lost_waits(&*self.shared, &self.shared.store, &self.counters);
        let idle = self.turns.is_empty()
            && !driver.pipes().has_turns()
            && self.orphans.iter().all(Session::is_to_be_woken)
            && !self.has_messages
            && self.killed.is_empty()
            && !self.shared.hooks.notifications.is_pending()
            && !self.shared.hooks.tracking.must_publish();
        let timeout = if idle { timeout } else { Some(Duration::ZERO) };
        let timeout = least(timeout, self.holding.longest_wait());
        let mut turns = std::mem::take(&mut self.turns);
        self.timing.end_turn(&self.tally);
        let happened = driver.turn(timeout, self)? + turns.len();
        for token in turns.drain(..) {
            driver.flush();
            self.feed(driver, token, &mut []);
        }
        if self.turns.is_empty() {
            self.turns = turns;
        }
        self.run_pipe_turns(driver);
        self.run_orphans();
        self.send_all_held(driver, HOLD);
        if !self.killed.is_empty() {
            self.close_killed(driver);
        }
        if self.has_messages {
            self.has_messages = false;
            // Clients that are closed meanwhile may leave subscriptions.
            let has_more = self.send_messages(driver);
            self.has_messages |= has_more;
        }
        if !self.leaving.is_empty() {
            self.hand_over_leaving(driver);
        }
        driver.pipes_mut().notify();
        self.measure_lists();
        if self.shared.client_memory.comes_due(|| self.shared.store.client_bytes()) {
            self.shared.check_timers();
        }
        Ok(happened + self.killed.len() + usize::from(self.has_messages))
    }

    /// Accounts for the lists of connections: with thousands of clients, their memory would cause
    /// evictions if it counted as data.
    fn measure_lists(&mut self) {
        let bytes = accounting::room_bytes::<Token>(self.turns.capacity())
            + accounting::room_bytes::<Token>(self.unsent.capacity())
            + accounting::room_bytes::<Session>(self.orphans.capacity())
            + self.holding.room_bytes()
            + accounting::room_bytes::<SlowReader>(self.slow_readers.capacity())
            + accounting::room_bytes::<ClosingConnection>(self.closing.capacity())
            + accounting::room_bytes::<Token>(self.ended.capacity())
            + accounting::room_bytes::<Token>(self.killed.capacity());
        self.lists_overhead.set(bytes);
    }

    /// Executes received requests, sends the replies and closes all connections.
    fn stop_serving(&mut self, driver: &mut impl Driver) {
        driver.stop_listening();
        let started = Instant::now();
        while started.elapsed() < STOP_EXECUTING
            && self.tick(driver, Some(Duration::ZERO)).is_ok_and(|happened| happened > 0)
        {}
        self.takes_connections = false;
        self.send_all_held(driver, Duration::ZERO);
        let tokens: Vec<Token> = self.slots.all().map(|slot| slot.token).collect();
        for token in tokens {
            self.remove(token, CloseReason::Shutdown);
            driver.close(token);
        }
        let (started, mut idle) = (Instant::now(), 0);
        while driver.connections() > 0 && started.elapsed() < STOP_SENDING && idle < STOP_IDLE_TICKS
        {
            match self.tick(driver, Some(Duration::ZERO)) {
                Ok(0) => idle += 1,
                Ok(_) => idle = 0,
                Err(_) => break,
            }
        }
        driver.pipes_mut().notify();
        self.complete_orphans();
        self.end_walk();
    }

    /// Lets a session execute a slice of its input, and sends the replies.
    fn feed<D: Driver>(&mut self, driver: &mut D, token: Token, received: &mut [u8]) {
        let Some(slot) = self.slots.get_mut(token) else { return };
        if slot.session.info().marks().intersects(Marks::KILLED | Marks::EVICTED) {
            return self.close_if_killed(driver, token);
        }
        let before = self.timing.latest();
        let environment = RequestEnvironment {
            shared: &self.shared,
            counters: &self.counters,
            tally: &self.tally,
            now_ms: self.timing.begin(|| self.shared.store.now_ms()),
        };
        let mut slice = SliceContext {
            environment,
            timing: &self.timing,
            spans: &mut self.spans,
            output_overhead: &mut self.output_overhead,
        };
        let held = slot.held_replies.move_to(&mut self.output);
        let state = slot.session.feed(received, &mut slice, &mut self.output);
        // Events are published before the reply is sent.
        notification::publish(&*self.shared);
        if !self.output.is_empty() {
            let bytes = self.output.len() as u64;
            let added = bytes - held as u64;
            self.tally.output_bytes.add(added);
            slot.replied_bytes += added;
            slot.session.info().sent_bytes.add(added);
            if !self.holding.hold((token, &mut slot.held_replies), state, &mut self.output) {
                self.tally.writes.add(1);
                driver.send(token, &mut self.output);
            }
            self.output_overhead.set(self.output.own_bytes());
            let has_unsent = self.timing.sent(&self.tally);
            slot.session.info().busy_ticks.add(self.timing.latest().wrapping_sub(before));
            if has_unsent {
                self.keep_until_sent(driver, token, bytes);
            }
        } else {
            self.timing.lap(&self.tally);
            slot.session.info().busy_ticks.add(self.timing.latest().wrapping_sub(before));
        }
        self.apply_state(driver, token, state);
    }

    /// Keeps timed requests until the kernel has taken the last of their `bytes` of replies, which
    /// were just passed to the driver. If there are too many, reports them at once.
    #[cold]
    fn keep_until_sent(&mut self, driver: &impl Driver, token: Token, bytes: u64) {
        let metrics = Metrics {
            tally: &self.tally,
            statistics: self.shared.statistics(),
            config: self.shared.config(),
        };
        let Some(slot) = self.slots.get_mut(token) else { return };
        for mut executed in self.timing.take_unsent() {
            if slot.unsent.len() >= MAX_UNSENT {
                self.timing.finish(executed, &metrics);
                continue;
            }
            executed.reply_end += slot.replied_bytes - bytes;
            slot.unsent_charge.set(slot.unsent_charge.bytes() + executed.own_bytes());
            slot.unsent.push(executed);
        }
        self.unsent.push(token);
        self.report_sent(driver, token);
    }

    /// Reports requests whose replies the kernel has taken in full. Returns whether any are left.
    #[cold]
    fn report_sent(&mut self, driver: &impl Driver, token: Token) -> bool {
        let metrics = Metrics {
            tally: &self.tally,
            statistics: self.shared.statistics(),
            config: self.shared.config(),
        };
        let Some(slot) = self.slots.get_mut(token) else { return false };
        let unsent = driver.unsent_bytes(token) + slot.held_replies.len();
        let sent = slot.replied_bytes - unsent as u64;
        let taken = slot.unsent.partition_point(|executed| executed.reply_end <= sent);
        for executed in slot.unsent.drain(..taken) {
            slot.unsent_charge.set(slot.unsent_charge.bytes() - executed.own_bytes());
            self.timing.finish(executed, &metrics);
        }
        if slot.unsent.is_empty() {
            slot.unsent = Vec::new();
        }
        !slot.unsent.is_empty()
    }

    /// Reports the requests whose replies the kernel has taken in full, of all connections with
    /// unsent replies.
    fn report_all_sent(&mut self, driver: &impl Driver) {
        let mut tokens = std::mem::take(&mut self.unsent);
        tokens.sort_unstable_by_key(|token| token.to_u64());
        tokens.dedup();
        tokens.retain(|token| self.report_sent(driver, *token));
        self.unsent = tokens;
    }

    /// Acts on a session's new state.
    fn apply_state(&mut self, driver: &mut impl Driver, token: Token, state: SessionState) {
        let unsent = driver.unsent_bytes(token);
        if unsent > 0 && self.note_unread(driver, token, unsent) {
            return;
        }
        let Some(slot) = self.slots.get_mut(token) else { return };
        let shown = &slot.session.info().output_bytes;
        if shown.load(Ordering::Relaxed) != unsent {
            shown.store(unsent, Ordering::Relaxed);
        }
        let is_for_bytes = state == SessionState::Bytes && slot.state == SessionState::Bytes;
        if is_for_bytes && unsent == 0 && !slot.ended {
            // The common case: the session keeps waiting.
            return;
        }
        let is_unauthenticated = slot.session.must_log_in(self.shared.config());
        let most = if is_unauthenticated {
            UNAUTHENTICATED_UNSENT_BYTES
        } else {
            self.shared.unsent_limit
        };
        let is_refused = state == SessionState::Closing && !slot.session.has_quit();
        let why = if is_refused { CloseReason::Error } else { CloseReason::Normal };
        let state = match state {
            SessionState::Pending(When::Served) if slot.ended => SessionState::Closing,
            SessionState::Pending(When::NextTick | When::Woken | When::Served)
            | SessionState::Closing => state,
            _ if unsent > most => SessionState::Pending(When::RoomForReplies),
            // There is room for replies.
            SessionState::Pending(When::RoomForReplies) => SessionState::Pending(When::NextTick),
            SessionState::Bytes | SessionState::LargeArgument if slot.ended => {
                SessionState::Closing
            }
            SessionState::Bytes | SessionState::LargeArgument => state,
        };
        if state == SessionState::Closing {
            return self.close(driver, token, why);
        }
        slot.state = state;
        if slot.ended && state == SessionState::Pending(When::Woken) {
            slot.note_ended(&mut self.ended);
        }
        // From a blocked client, everything up to `client-query-buffer-limit` is received, as by
        // Redis: its disconnect would not be noticed otherwise.
        let is_full = state == SessionState::Pending(When::Woken)
            && slot.session.waiting_bytes() > MAX_BYTES_BEHIND;
        let wanted = if is_full { Wanted::Nothing } else { wanted(state) };
        if wanted != std::mem::replace(&mut slot.wanted, wanted) {
            driver.receive(token, wanted);
        }
        if state == SessionState::Pending(When::NextTick) {
            self.turns.push(token);
        }
    }

    /// Handles reminders from other threads.
    fn run_reminders(&mut self, reminders: Reminders, driver: &mut impl Driver) {
        if reminders.contains(Reminders::LISTENERS)
            && let Err(error) = driver.listen_to(&self.shared.listeners.get())
        {
            tracing::error!(%error, "a worker cannot watch new listening sockets");
        }
        if reminders.contains(Reminders::MONITORS) {
            self.send_to_monitors(driver);
        }
        self.has_messages |= reminders.contains(Reminders::MESSAGES);
        if reminders.contains(Reminders::WATCHERS) {
            self.send_to_watchers(driver);
        }
        if reminders.contains(Reminders::FLUSH) {
            self.flush();
        }
        self.walks |= reminders.contains(Reminders::WALK);
        if reminders.contains(Reminders::MOVED) {
            self.take_all_moved(driver);
        }
        if reminders.contains(Reminders::ACTIVE) {
            self.follow_active();
        }
        if reminders.contains(Reminders::VALUES) {
            self.check_values();
        }
        if reminders.contains(Reminders::HOUSEKEEPING) {
            self.run_housekeeping(driver);
        }
    }

    /// Looks up some of the recorded large values again before pages show them, and continues in
    /// the next tick. The first worker does so for the script thread too, which may be busy.
    fn check_values(&self) {
        let store = &self.shared.store;
        let _batch = store.batch(&self.counters);
        let now_ms = store.now_ms();
        let database = |index| store.database(index, &self.counters, now_ms);
        let mut has_more = self.tally.large_values.check(database, now_ms);
        if self.worker == 0 {
            let scripts = self.shared.statistics().worker(self.shared.process().workers);
            has_more |= scripts.large_values.check(database, now_ms);
        }
        if has_more {
            self.shared.remind(self.worker, Reminders::VALUES);
        }
    }

    /// Runs the work that is due ten times a second.
    fn run_housekeeping(&mut self, driver: &mut impl Driver) {
        self.timing.adjust_sampling();
        self.report_all_sent(driver);
        self.close_idle(driver);
        self.close_ended(driver);
        self.check_unread(driver);
        self.check_closing(driver);
        self.close_unreachable(driver);
        self.retire();
        self.expire_keys();
        self.shared.store.rest();
        self.ageing.run(&self.shared.store, self.shared.store.now_ms());
        self.compactor.run(&self.shared.store);
    }

    /// Empties database 0, or defers that if a job has claimed some of its keys.
    fn flush(&mut self) {
        let store = &self.shared.store;
        let _batch = store.batch(&self.counters);
        let db = store.database(0, &self.counters, store.now_ms());
        if store.unclaimed(Waker::noop(), || db.flush(Scope::Database(0))).is_some() {
            self.shared.postpone_flush(store.now_ms() + 1);
        }
    }
}

impl<D: Driver> Sink<D> for Sessions {
    fn wait_ended(&mut self) {
        self.timing.begin_turn(self.shared.config());
    }

    fn accepted(&mut self, driver: &mut D, protocol: Protocol, socket: OwnedFd) {
        let most = usize::try_from(self.shared.config().maxclients.get()).unwrap_or(usize::MAX);
        let mut assigned = self.shared.registry.assign(self.worker, most);
        let is_reserved =
            assigned.is_none() && protocol == Protocol::Resp && Peer::of(&socket).is_local();
        if is_reserved {
            assigned = self.shared.registry.assign(self.worker, most + RESERVED_CONNECTIONS);
        }
        let link = Link::Socket(socket);
        let connection = NewConnection { link, protocol, is_reserved, gateway: None };
        match assigned {
            Some(worker) if worker == self.worker => self.take_connection(driver, connection),
            Some(worker) => self.shared.post(worker, ConnectionTask::Serve(connection)),
            None => {
                self.tally.refused_connections.add(1);
                connection.link.refuse(protocol, Refusal::TooMany);
            }
        }
    }

    #[inline]
    fn received(&mut self, driver: &mut D, token: Token, bytes: &mut [u8]) {
        self.tally.input_bytes.add(bytes.len() as u64);
        self.tally.reads.add(1);
        let ticks = self.ticks;
        let Some(slot) = self.slots.get_mut(token) else { return };
        if slot.fed_at != ticks {
            (slot.fed_at, slot.fed_bytes) = (ticks, 0);
        }
        slot.fed_bytes += bytes.len();
        slot.session.info().received_bytes.add(bytes.len() as u64);
        if slot.state.is_for_bytes() && slot.fed_bytes <= SLICE_BYTES {
            self.feed(driver, token, bytes);
            if self.shared.hooks.relocates() {
                self.leave_for_next(token);
            }
        } else {
            slot.session.keep(bytes, &self.timing);
            match slot.state {
                state @ SessionState::Pending(When::Served | When::Woken) => {
                    let environment = RequestEnvironment {
                        shared: &self.shared,
                        counters: &self.counters,
                        tally: &self.tally,
                        now_ms: self.shared.store.now_ms(),
                    };
                    let state = slot.session.note_kept(state, &environment);
                    self.apply_state(driver, token, state);
                }
                state if state.is_for_bytes() => {
                    self.apply_state(driver, token, SessionState::NEXT_SLICE);
                }
                _ => {}
            }
        }
    }

    fn lend_buffer(&mut self, token: Token) -> Option<ReceiveBuffer> {
        self.slots.get_mut(token)?.session.lend_buffer()
    }

    fn received_into(&mut self, driver: &mut D, token: Token, buffer: ReceiveBuffer) {
        let Some(slot) = self.slots.get_mut(token) else { return };
        let bytes = slot.session.take_back(buffer, &self.timing);
        slot.session.info().received_bytes.add(bytes as u64);
        self.tally.input_bytes.add(bytes as u64);
        self.tally.reads.add(1);
        self.feed(driver, token, &mut []);
    }

    fn drained(&mut self, driver: &mut D, token: Token) {
        self.report_sent(driver, token);
        let Some(slot) = self.slots.get_mut(token) else { return };
        if slot.state == SessionState::Pending(When::RoomForReplies) {
            self.feed(driver, token, &mut []);
        } else {
            let info = slot.session.info();
            info.output_bytes.store(0, Ordering::Relaxed);
            info.kept_output_bytes.store(0, Ordering::Relaxed);
            if info.marks().contains(Marks::WATCHER) {
                self.send_to_watchers(driver);
            }
        }
    }

    fn ended(&mut self, driver: &mut D, token: Token) {
        let Some(slot) = self.slots.get_mut(token) else { return };
        slot.ended = true;
        if slot.state == SessionState::Pending(When::Woken) {
            slot.note_ended(&mut self.ended);
        }
        if slot.state.is_for_bytes() || slot.state == SessionState::Pending(When::Served) {
            self.close(driver, token, CloseReason::Normal);
        }
    }

    fn lost(&mut self, _: &mut D, token: Token, error: Errno) {
        self.log_lost(token, error);
        self.remove(token, CloseReason::Error);
    }

    fn may_yield(&self) -> bool {
        !self.shared.hooks.reasons().contains(HookFlags::SAVING)
    }

    fn woken(&mut self, driver: &mut D) {
        let (reminders, tasks) = self.shared.collect(self.worker);
        for task in tasks {
            match task {
                ConnectionTask::Serve(connection) => self.take_connection(driver, connection),
                ConnectionTask::Close(token) => self.killed.push_back(token),
                ConnectionTask::Relieve(worker, share) => self.relieve(worker, share),
                ConnectionTask::Wake(token) => {
                    let waits = SessionState::Pending;
                    if self.slots.get_mut(token).is_some_and(|slot| {
                        [waits(When::Woken), waits(When::Served)].contains(&slot.state)
                    }) {
                        self.feed(driver, token, &mut []);
                    }
                }
            }
        }
        if reminders.contains(Reminders::PIPES) {
            self.run_notified_pipes(driver);
        }
        self.run_reminders(reminders, driver);
        self.timing.lap(&self.tally);
    }
}

#[cfg(test)]
mod tests;
