//! Who is let go: who is silent for too long, leaves too much unread, takes too much memory, has
//! vanished, or was killed. Each is told of in the log.

use super::{Behind, Seat, Sessions};
use crate::net::driver::{Driver, Token};
use crate::net::listener;
use nagi_commands::memcached::Parting;
use nagi_commands::{Marks, Server as _};
use nagi_proto::Output;
use rustix::io::Errno;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How many seats are looked at, ten times a second, for peers that have vanished.
const LOOKS: usize = 100;

impl Sessions {
    /// Lets go of a connection, with what it has left unread.
    fn cut(&mut self, driver: &mut impl Driver, token: Token) {
        self.leave(token, Parting::Error);
        driver.cut(token);
    }

    /// Closes the connections that have been marked as killed.
    pub(super) fn close_killed(&mut self, driver: &mut impl Driver) {
        let is_killed = |seat: &&Seat| seat.session.info().marks().contains(Marks::KILLED);
        let seats = self.seats.iter().flatten();
        let killed: Vec<Token> = seats.filter(is_killed).map(|seat| seat.token).collect();
        for token in killed {
            self.cut(driver, token);
        }
    }

    /// Says why a connection is lost, unless its peer has closed it.
    pub(super) fn say_lost(&mut self, token: Token, error: Errno) {
        let Some(seat) = self.seat_of(token) else { return };
        if !matches!(error, Errno::CONNRESET | Errno::PIPE) {
            let info = seat.session.info();
            tracing::info!(
                client = info.id,
                address = %info.address,
                %error,
                "closed: the network has lost the peer"
            );
        }
    }

    /// Lets go of peers that have vanished while replies wait for them. Only some connections have
    /// their turn at a time, since each that has been sent something is a call of the kernel.
    pub(super) fn let_go_of_vanished(&mut self, driver: &mut impl Driver) {
        let silence = Duration::from_secs(self.shared.config().tcp_keepalive_s.get());
        if silence.is_zero() {
            return;
        }
        let patience = listener::patience(silence);
        let seats = self.seats.iter().skip(self.next_look).take(LOOKS).flatten();
        let mut is_gone = |seat: &&Seat| driver.has_vanished(seat.token, patience);
        let gone: Vec<Token> = seats.filter(|seat| is_gone(seat)).map(|seat| seat.token).collect();
        self.next_look += LOOKS;
        if self.next_look >= self.seats.len() {
            self.next_look = 0;
        }
        for token in gone {
            self.say_lost(token, Errno::TIMEDOUT);
            self.cut(driver, token);
        }
    }

    /// Closes a connection to save memory.
    pub(super) fn evict(&mut self, driver: &mut impl Driver, token: Token) {
        let Some(seat) = self.seat_of(token) else { return };
        let info = seat.session.info();
        tracing::warn!(
            client = info.id,
            address = %info.address,
            bytes = info.memory_bytes(),
            "closed: clients take more than maxmemory-clients"
        );
        self.tally.evicted_clients.add(1);
        self.cut(driver, token);
    }

    /// Sends monitors what they see; one that does not read is let go.
    pub(super) fn show(&mut self, driver: &mut impl Driver) {
        for (seat, lines) in self.shared.attention.monitors.take(self.worker) {
            let token = Token::from_u64(seat);
            if self.seat_of(token).is_none() {
                continue;
            }
            let mut output = Output::default();
            output.push(&lines);
            self.tally.output_bytes.add(lines.len() as u64);
            driver.send(token, &mut output);
            let unsent = driver.unsent_bytes(token);
            if unsent > 0
                && !self.falls_behind(driver, token, unsent)
                && unsent > self.shared.unsent_limit
            {
                tracing::warn!(token.index, "closed: a monitor that does not read");
                self.cut(driver, token);
            }
        }
    }

    /// Sends those who watch what they are shown, once they have taken what they were sent before:
    /// what does not fit in their room meanwhile is left out.
    pub(super) fn show_watchers(&mut self, driver: &mut impl Driver) {
        let has_taken = |seat| driver.unsent_bytes(Token::from_u64(seat)) == 0;
        for (seat, lines) in self.shared.attention.watchers.take(self.worker, has_taken) {
            let token = Token::from_u64(seat);
            let mut output = Output::default();
            output.push(lines.as_bytes());
            self.tally.output_bytes.add(lines.len() as u64);
            driver.send(token, &mut output);
            let unsent = driver.unsent_bytes(token);
            if unsent > 0 {
                self.falls_behind(driver, token, unsent);
            }
        }
    }

    /// Notes that replies wait for a client. Whether it has been let go, since they are too many.
    #[cold]
    pub(super) fn falls_behind(
        &mut self,
        driver: &mut impl Driver,
        token: Token,
        unsent: usize,
    ) -> bool {
        let Some(seat) = self.seat_of(token) else { return false };
        if !std::mem::replace(&mut seat.is_behind, true) {
            self.behind.push(Behind { token, neared_at_ms: None });
        }
        let passed = self.shared.config().output_limit().is_passed(unsent as u64);
        if passed {
            self.cut_behind(driver, token, unsent);
        }
        passed
    }

    fn cut_behind(&mut self, driver: &mut impl Driver, token: Token, unsent: usize) {
        let Some(seat) = self.seat_of(token) else { return };
        let info = seat.session.info();
        tracing::warn!(
            client = info.id,
            address = %info.address,
            bytes = unsent,
            "closed: unread replies pass client-output-buffer-limit"
        );
        self.tally.output_limit_disconnections.add(1);
        self.cut(driver, token);
    }

    /// Shows others how much is left unread, and lets go of those who leave too much for too long.
    pub(super) fn see_to_those_behind(&mut self, driver: &mut impl Driver) {
        let limit = self.shared.config().output_limit();
        let now_ms = self.shared.store.now_ms();
        let mut behind = std::mem::take(&mut self.behind);
        behind.retain_mut(|client| {
            let unsent = driver.unsent_bytes(client.token);
            let Some(seat) = self.seat_of(client.token) else { return false };
            let (info, kept) = (seat.session.info(), driver.kept_bytes(client.token));
            info.output_bytes.store(unsent, Ordering::Relaxed);
            info.kept_output_bytes.store(kept, Ordering::Relaxed);
            seat.is_behind = unsent > 0;
            if limit.is_neared(unsent as u64) {
                client.neared_at_ms.get_or_insert(now_ms);
            } else {
                client.neared_at_ms = None;
            }
            let neared_ms = client.neared_at_ms.map_or(0, |at_ms| now_ms.saturating_sub(at_ms));
            let has_passed = limit.is_passed(unsent as u64)
                || client.neared_at_ms.is_some() && neared_ms > limit.soft_ms;
            if has_passed {
                self.cut_behind(driver, client.token, unsent);
            }
            unsent > 0 && !has_passed
        });
        self.behind = behind;
    }

    /// Closes the connections that have been silent for too long.
    pub(super) fn close_idle(&mut self, driver: &mut impl Driver) {
        let timeout_ms = match self.shared.config().timeout_s.get() {
            0 => return,
            seconds => seconds.saturating_mul(1000),
        };
        let now_ms = self.shared.store.now_ms();
        let is_idle = |seat: &&Seat| {
            let active_at_ms = seat.session.info().active_at_ms.load(Ordering::Relaxed);
            let is_shown = seat.session.info().marks().intersects(Marks::MONITOR | Marks::WATCHER);
            !is_shown
                && seat.state.is_for_bytes()
                && now_ms.saturating_sub(active_at_ms) > timeout_ms
        };
        let seats = self.seats.iter().flatten();
        let idle: Vec<Token> = seats.filter(is_idle).map(|seat| seat.token).collect();
        for token in idle {
            if let Some(seat) = self.seat_of(token) {
                let info = seat.session.info();
                tracing::info!(
                    client = info.id,
                    address = %info.address,
                    "closed: silent for longer than timeout"
                );
            }
            self.tally.idle_disconnections.add(1);
            self.leave(token, Parting::Idle);
            driver.close(token);
        }
    }
}
