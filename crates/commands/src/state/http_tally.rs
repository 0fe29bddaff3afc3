//! Counters of the HTTP server, written by its only thread: responses, refusals because of limits,
//! and current connections.

use nagi_store::Counter;
use parking_lot::Mutex;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Statuses of refusals because of a limit: too many requests of a client, or no capacity for
/// further ones.
const REFUSALS: [u16; 2] = [429, 503];

/// The counters since the process started. Any thread may read them.
#[derive(Debug, Default)]
pub struct HttpTally {
    responses: [Counter; 5],
    refusals: [Counter; 2],
    connections: AtomicUsize,
    web_sockets: AtomicUsize,
    idle: Mutex<Vec<HttpConnection>>,
}

/// A connection that awaits its next request.
#[derive(Clone, Copy, Debug)]
pub struct HttpConnection {
    /// Its number, unique over the life of the process, also among connections of workers.
    pub id: u64,
    /// The peer's address.
    pub address: SocketAddr,
    /// The time since it was opened, in seconds.
    pub age_s: u64,
    /// The time since its last response, in seconds.
    pub idle_s: u64,
    /// Its requests so far.
    pub requests: u64,
}

/// The counters since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpTotals {
    /// Responses by the first digit of their status, from 1.
    pub(crate) responses: [u64; 5],
    /// Refusals, by status.
    pub(crate) refusals: [u64; 2],
    /// Connections now, without WebSockets.
    pub(crate) connections: usize,
    /// WebSockets now.
    pub(crate) web_sockets: usize,
}

impl HttpTally {
    /// Counts a response with this status. Pages are never refused because of a limit.
    pub fn count_response(&self, status: u16, is_page: bool) {
        let class = usize::from(status / 100).checked_sub(1);
        if let Some(count) = class.and_then(|class| self.responses.get(class)) {
            count.add(1);
        }
        if !is_page {
            self.count_refusal(status);
        }
    }

    /// Counts a refusal with this status that may not have been sent as a response.
    pub fn count_refusal(&self, status: u16) {
        let counted = REFUSALS.iter().zip(&self.refusals).filter(|(known, _)| **known == status);
        counted.for_each(|(_, count)| count.add(1));
    }

    /// Records how many connections there are, without WebSockets.
    pub fn set_connections(&self, connections: usize) {
        self.connections.store(connections, Ordering::Relaxed);
    }

    /// Records how many WebSockets there are.
    pub fn set_web_sockets(&self, web_sockets: usize) {
        self.web_sockets.store(web_sockets, Ordering::Relaxed);
    }

    /// Records which connections await a request.
    pub fn set_idle(&self, idle: Vec<HttpConnection>) {
        *self.idle.lock() = idle;
    }

    /// The connections that awaited a request within the last second.
    pub(crate) fn idle(&self) -> Vec<HttpConnection> {
        self.idle.lock().clone()
    }

    /// The current values minus those of `baseline`.
    pub(crate) fn since(&self, baseline: &HttpTotals) -> HttpTotals {
        let mut totals = HttpTotals {
            responses: self.responses.each_ref().map(Counter::get),
            refusals: self.refusals.each_ref().map(Counter::get),
            connections: self.connections.load(Ordering::Relaxed),
            web_sockets: self.web_sockets.load(Ordering::Relaxed),
        };
        let counts = totals.responses.iter_mut().chain(&mut totals.refusals);
        let before = baseline.responses.iter().chain(&baseline.refusals);
        counts.zip(before).for_each(|(count, before)| *count = count.wrapping_sub(*before));
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_counted_by_class_and_refusals_by_status() {
        let tally = HttpTally::default();
        for (status, is_page) in
            [(200, true), (204, false), (101, false), (429, false), (503, false), (503, true)]
        {
            tally.count_response(status, is_page);
        }
        for status in [0, 99, 600, 999] {
            tally.count_response(status, false);
        }
        tally.set_connections(3);
        let totals = tally.since(&HttpTotals::default());
        assert_eq!((totals.responses, totals.refusals), ([1, 2, 0, 1, 2], [1, 1]));
        tally.count_refusal(503);
        let later = tally.since(&totals);
        assert_eq!((later.responses, later.refusals, later.connections), ([0; 5], [0, 1], 3));
    }
}
