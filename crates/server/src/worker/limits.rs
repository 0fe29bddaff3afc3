//! Closes connections that are idle for too long, leave too much unread, take too much memory, are
//! unreachable, or were killed. Each of these is logged.

use super::{ConnectionSlot, Sessions, SlowReader};
use crate::net::driver::{Driver, Token};
use crate::net::listener;
use crate::protocols::session_state::SessionState;
use crate::state::mailbox::Reminders;
use crate::state::{client_limit, client_lines};
use nagi_commands::memcached::CloseReason;
use nagi_commands::{Class, Marks, Server as _, When};
use nagi_proto::Output;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How many slots are checked, ten times a second, for unreachable peers.
const CHECKED_SLOTS: usize = 100;

/// Rounds of housekeeping in which all connections are checked for idle clients.
const IDLE_ROUNDS: usize = 10;

/// How long messages are sent to subscribers before other clients have their turn.
const MESSAGES_SLICE: Duration = Duration::from_micros(500);

/// How long killed connections are closed before clients have their turn.
const CLOSING_SLICE: Duration = Duration::from_micros(500);

/// Clients that are never idle for too long.
const EXEMPT: Marks =
    Marks::MONITOR.union(Marks::WATCHER).union(Marks::PUBSUB).union(Marks::GATEWAY);

/// How long a request may wait to be woken after its client has ended its input.
const ENDED_WAIT: Duration = Duration::from_secs(5);

impl Sessions {
    /// Closes a connection at once, and drops its unread replies.
    pub(super) fn abort(&mut self, driver: &mut impl Driver, token: Token) {
        self.remove(token, CloseReason::Error);
        driver.abort(token);
    }

    /// Closes connections that other threads want closed, for a slice of time. They execute no
    /// more requests meanwhile.
    pub(super) fn close_killed(&mut self, driver: &mut impl Driver) {
        let began = Instant::now();
        while let Some(token) = self.killed.pop_front() {
            self.close_if_killed(driver, token);
            if began.elapsed() >= CLOSING_SLICE {
                break;
            }
        }
        if self.killed.is_empty() {
            self.killed = VecDeque::new();
        }
    }

    /// Closes a connection if it is marked as killed or evicted. The token may name another one if
    /// its client has moved.
    pub(super) fn close_if_killed(&mut self, driver: &mut impl Driver, token: Token) {
        let Some(slot) = self.slots.get_mut(token) else { return };
        let marks = slot.session.info().marks();
        if marks.contains(Marks::EVICTED) {
            self.evict(driver, token);
        } else if marks.contains(Marks::KILLED) {
            self.abort(driver, token);
        }
    }

    /// Logs why a connection is lost, unless its peer has closed it.
    pub(super) fn log_lost(&mut self, token: Token, error: Errno) {
        let Some(slot) = self.slots.get_mut(token) else { return };
        let is_told = !matches!(error, Errno::CONNRESET | Errno::PIPE);
        if is_told && client_lines::LOST.admit() {
            let info = slot.session.info();
            tracing::info!(
                client = info.id,
                address = %info.shown_address(),
                %error,
                "{}", client_lines::LOST.text()
            );
        }
    }

    /// Closes connections to unreachable peers that have unsent replies. Checks only some
    /// connections at a time, since each one with unacknowledged data takes a system call.
    pub(super) fn close_unreachable(&mut self, driver: &mut impl Driver) {
        let silence = Duration::from_secs(self.shared.config().tcp_keepalive_s.get());
        if silence.is_zero() {
            return;
        }
        let limit = listener::silence_before_loss(silence);
        let slots = self.slots.of_sockets(self.next_checked_slot, CHECKED_SLOTS);
        let mut is_gone = |slot: &&ConnectionSlot| driver.is_unreachable(slot.token, limit);
        let gone: Vec<Token> = slots.filter(|slot| is_gone(slot)).map(|slot| slot.token).collect();
        self.next_checked_slot += CHECKED_SLOTS;
        if self.next_checked_slot >= self.slots.socket_places() {
            self.next_checked_slot = 0;
        }
        for token in gone {
            self.log_lost(token, Errno::TIMEDOUT);
            self.abort(driver, token);
        }
    }

    /// Closes a connection to save memory.
    pub(super) fn evict(&mut self, driver: &mut impl Driver, token: Token) {
        let Some(slot) = self.slots.get_mut(token) else { return };
        let info = slot.session.info();
        client_limit::log_closed(info);
        self.tally.evicted_clients.add(1);
        self.abort(driver, token);
    }

    /// Sends monitors their lines; a monitor that does not read is closed.
    pub(super) fn send_to_monitors(&mut self, driver: &mut impl Driver) {
        for (slot, lines) in self.shared.hooks.monitors.take(self.worker) {
            let mut output = Output::default();
            output.push(&lines);
            self.send_unsolicited(driver, Token::from_u64(slot), output);
        }
    }

    /// Sends subscribers their messages, for a slice of time. Returns whether there are more.
    pub(super) fn send_messages(&mut self, driver: &mut impl Driver) -> bool {
        let began = Instant::now();
        let has_departed = self.shared.pubsub().forget_departed(self.worker);
        let has_invalidations = self.send_invalidations(driver, began);
        while let Some((connection_token, output)) = self.shared.pubsub().next_messages(self.worker)
        {
            self.send_unsolicited(driver, Token::from_u64(connection_token), output);
            if began.elapsed() >= MESSAGES_SLICE {
                return true;
            }
        }
        has_departed || has_invalidations
    }

    /// Sends clients invalidations of keys that they have read, for half of a slice of time. Those
    /// of a client that has moved are left to its new worker. Returns whether there are more, or
    /// some for clients in transit to this worker.
    fn send_invalidations(&mut self, driver: &mut impl Driver, began: Instant) -> bool {
        let tracking = &Arc::clone(&self.shared).hooks.tracking;
        let mut in_transit = Vec::new();
        let has_more = loop {
            let (pushes, has_more) = tracking.take_pushes(self.worker);
            // The pushes to a client are sent together.
            let mut outputs = BTreeMap::<u64, Output>::new();
            for push in pushes {
                let client = &push.client;
                let token = Token::from_u64(client.connection_token());
                let slot = self.slots.get_mut(token);
                let worker = client.worker();
                if slot.is_some_and(|slot| slot.session.info().id == client.id) {
                    push.encode(outputs.entry(token.to_u64()).or_default());
                } else if worker != self.worker {
                    tracking.put_into_outbox(worker, push);
                    self.shared.remind(worker, Reminders::MESSAGES);
                } else if client.marks().contains(Marks::MOVING) {
                    in_transit.push(push);
                }
            }
            for (token, output) in outputs.into_iter().filter(|(_, output)| !output.is_empty()) {
                self.send_unsolicited(driver, Token::from_u64(token), output);
            }
            if !has_more || began.elapsed() >= MESSAGES_SLICE / 2 {
                break has_more;
            }
        };
        let is_moving = !in_transit.is_empty();
        in_transit.into_iter().for_each(|push| tracking.put_into_outbox(self.worker, push));
        has_more || is_moving
    }

    /// Sends a client messages of other clients, after the current reply if there is one. A client
    /// that leaves too much of this unread is closed.
    pub(super) fn send_unsolicited(
        &mut self,
        driver: &mut impl Driver,
        token: Token,
        mut output: Output,
    ) {
        let Some(slot) = self.slots.get_mut(token) else { return };
        if slot.session.is_replying() {
            slot.session.hold(&output);
        } else {
            let info = slot.session.info();
            if driver.unsent_bytes(token) == 0 && info.resp.load(Ordering::Relaxed) > 0 {
                // A client that has received all earlier messages is not idle, as with Redis.
                info.active_at_ms.store(self.shared.store.now_ms(), Ordering::Relaxed);
            }
            slot.replied_bytes += output.len() as u64;
            info.sent_bytes.add(output.len() as u64);
            self.tally.output_bytes.add(output.len() as u64);
            self.send_held(driver, token);
            driver.send(token, &mut output);
        }
        let unread = self.unread_bytes(driver, token);
        if unread > 0
            && !self.note_unread(driver, token, unread)
            && unread > self.shared.unsent_limit
            && !self.has_hard_limit(token)
        {
            if client_lines::MONITOR.admit() {
                tracing::warn!(token.index, "{}", client_lines::MONITOR.text());
            }
            self.abort(driver, token);
        }
    }

    /// Sends the replies that a connection holds.
    pub(super) fn send_held(&mut self, driver: &mut impl Driver, token: Token) {
        let Some(slot) = self.slots.get_mut(token) else { return };
        let mut output = Output::default();
        if slot.held_replies.move_to(&mut output) > 0 {
            self.tally.writes.add(1);
            driver.send(token, &mut output);
        }
    }

    /// Sends all replies, if the first have been held for `least`.
    pub(super) fn send_all_held(&mut self, driver: &mut impl Driver, least: Duration) {
        for token in self.holding.take_due(least) {
            self.send_held(driver, token);
            if let Some(slot) = self.slots.get_mut(token) {
                slot.held_replies.is_listed = false;
            }
        }
    }

    /// Whether a setting limits how much a client may leave unread.
    fn has_hard_limit(&mut self, token: Token) -> bool {
        let class =
            self.slots.get_mut(token).map_or(Class::Normal, |slot| slot.session.info().class());
        self.shared.config().output_limit(class).hard_bytes > 0
    }

    /// Unread bytes of a client: those that its socket has no room for, and those held until its
    /// reply is complete.
    fn unread_bytes(&mut self, driver: &impl Driver, token: Token) -> usize {
        let held = self.slots.get_mut(token).map_or(0, |slot| slot.session.held_bytes());
        driver.unsent_bytes(token) + held
    }

    /// Sends memcached's watchers their lines, once they have read the earlier ones. Lines that do
    /// not fit into their buffer meanwhile are dropped.
    pub(super) fn send_to_watchers(&mut self, driver: &mut impl Driver) {
        let has_taken = |slot| driver.unsent_bytes(Token::from_u64(slot)) == 0;
        for (slot, lines) in self.shared.hooks.watchers.take(self.worker, has_taken) {
            let mut output = Output::default();
            output.push(lines.as_bytes());
            self.send_unsolicited(driver, Token::from_u64(slot), output);
        }
    }

    /// Records that a client has unread replies. Returns whether it has been closed for having too
    /// many.
    #[cold]
    pub(super) fn note_unread(
        &mut self,
        driver: &mut impl Driver,
        token: Token,
        unsent: usize,
    ) -> bool {
        let Some(slot) = self.slots.get_mut(token) else { return false };
        let class = slot.session.info().class();
        if !std::mem::replace(&mut slot.is_slow_reader, true) {
            self.slow_readers.push(SlowReader {
                token,
                over_soft_limit_since_ms: None,
                unacknowledged: unsent,
            });
        }
        let passed = self.shared.config().output_limit(class).is_passed(unsent as u64);
        if passed {
            self.close_slow_reader(driver, token, unsent);
            return true;
        }
        let takes_too_much = self.takes_too_much(driver, token);
        if takes_too_much {
            self.evict(driver, token);
        }
        takes_too_much
    }

    /// Whether a client with its unread replies takes more memory than all clients may take.
    fn takes_too_much(&mut self, driver: &impl Driver, token: Token) -> bool {
        let shared = Arc::clone(&self.shared);
        if shared.config().client_memory_limit() == 0 {
            return false;
        }
        let kept = driver.kept_bytes(token);
        let Some(slot) = self.slots.get_mut(token) else { return false };
        let info = slot.session.info();
        info.kept_output_bytes.store(kept, Ordering::Relaxed);
        client_limit::is_passed_by(info, shared.config())
    }

    fn close_slow_reader(&mut self, driver: &mut impl Driver, token: Token, unsent: usize) {
        let Some(slot) = self.slots.get_mut(token) else { return };
        let info = slot.session.info();
        if client_lines::UNREAD.admit() {
            tracing::warn!(
                client = info.id,
                address = %info.shown_address(),
                bytes = unsent,
                "{}", client_lines::UNREAD.text()
            );
        }
        self.tally.output_limit_disconnections.add(1);
        self.abort(driver, token);
    }

    /// Records how much is left unread, and closes clients that leave too much for too long.
    pub(super) fn check_unread(&mut self, driver: &mut impl Driver) {
        let limit_of = |class| self.shared.config().output_limit(class);
        let limits = (limit_of(Class::Normal), limit_of(Class::PubSub));
        let now_ms = self.shared.store.now_ms();
        let mut slow = std::mem::take(&mut self.slow_readers);
        slow.retain_mut(|client| {
            let unsent = self.unread_bytes(driver, client.token);
            let Some(slot) = self.slots.get_mut(client.token) else { return false };
            let (info, kept) = (slot.session.info(), driver.kept_bytes(client.token));
            info.output_bytes.store(unsent, Ordering::Relaxed);
            let unacknowledged = driver.unacknowledged_bytes(client.token);
            if unacknowledged < std::mem::replace(&mut client.unacknowledged, unacknowledged) {
                // It is not idle while it reads.
                info.active_at_ms.store(now_ms, Ordering::Relaxed);
            }
            info.kept_output_bytes.store(kept, Ordering::Relaxed);
            slot.is_slow_reader = unsent > 0;
            let limit = if info.class() == Class::PubSub { limits.1 } else { limits.0 };
            if limit.is_neared(unsent as u64) {
                client.over_soft_limit_since_ms.get_or_insert(now_ms);
            } else {
                client.over_soft_limit_since_ms = None;
            }
            let neared_ms =
                client.over_soft_limit_since_ms.map_or(0, |at_ms| now_ms.saturating_sub(at_ms));
            let has_passed = limit.is_passed(unsent as u64)
                || client.over_soft_limit_since_ms.is_some() && neared_ms > limit.soft_ms;
            if has_passed {
                self.close_slow_reader(driver, client.token, unsent);
            }
            unsent > 0 && !has_passed
        });
        self.slow_readers = slow;
    }

    /// Closes connections that have been idle for too long. Checks a tenth of all sockets at a
    /// time, so that each is checked once a second.
    pub(super) fn close_idle(&mut self, driver: &mut impl Driver) {
        let timeout_ms = match self.shared.config().timeout_s.get() {
            0 => return,
            seconds => seconds.saturating_mul(1000),
        };
        let now_ms = self.shared.store.now_ms();
        let is_idle = |slot: &&ConnectionSlot| {
            let active_at_ms = slot.session.info().active_at_ms.load(Ordering::Relaxed);
            let is_shown = slot.session.info().marks().intersects(EXEMPT);
            let waits_for_client = slot.state.is_for_bytes()
                || slot.state == SessionState::Pending(When::RoomForReplies);
            !is_shown && waits_for_client && now_ms.saturating_sub(active_at_ms) > timeout_ms
        };
        let places = self.slots.socket_places();
        let checked = places.div_ceil(IDLE_ROUNDS);
        let slots = self.slots.of_sockets(self.next_idle_slot, checked);
        let idle: Vec<Token> = slots.filter(is_idle).map(|slot| slot.token).collect();
        self.next_idle_slot += checked;
        if self.next_idle_slot >= places {
            self.next_idle_slot = 0;
        }
        for token in idle {
            if let Some(slot) = self.slots.get_mut(token)
                && client_lines::IDLE.admit()
            {
                let info = slot.session.info();
                tracing::info!(
                    client = info.id,
                    address = %info.shown_address(),
                    "{}", client_lines::IDLE.text()
                );
            }
            self.tally.idle_disconnections.add(1);
            self.remove(token, CloseReason::Idle);
            // Replies that its client has not read for that long are dropped.
            driver.abort(token);
        }
    }

    /// Closes connections whose clients have ended their input and whose requests then waited for
    /// long to be woken, for a slow script in particular. A client that has only shut down its
    /// sending side gets replies that take less time; a client that has disconnected must not keep
    /// its place.
    pub(super) fn close_ended(&mut self, driver: &mut impl Driver) {
        for token in std::mem::take(&mut self.ended) {
            let Some(slot) = self.slots.get_mut(token) else { continue };
            let since =
                slot.ended_wait.filter(|_| slot.state == SessionState::Pending(When::Woken));
            match since.map(|since| since.elapsed()) {
                None => slot.ended_wait = None,
                Some(waited) if waited < ENDED_WAIT => self.ended.push(token),
                Some(_) => {
                    self.close(driver, token, CloseReason::Normal);
                }
            }
        }
    }
}
