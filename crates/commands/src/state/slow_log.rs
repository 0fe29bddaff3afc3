//! The slow log: requests that took long, whether in the server or on the network. Beside it the
//! logs of requests that were large, or whose replies were.

use crate::state::phases::Phases;
use nagi_store::accounting::Overhead;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A request that took long.
#[derive(Debug, Default)]
pub struct SlowRequest {
    /// When it began to run, in seconds since 1970.
    pub at_s: u64,
    /// Where its time went before its reply was sent.
    pub phases: Phases,
    /// How long that took, in nanoseconds; 0 as long as it is going on.
    pub send_ns: AtomicU64,
    /// How long it was.
    pub request_bytes: usize,
    /// How many bytes it was read from, with what its protocol adds; of one within a transaction,
    /// without.
    pub received_bytes: usize,
    /// How long its reply was.
    pub reply_bytes: usize,
    /// Its arguments, long ones cut off and passwords left out.
    pub arguments: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: String,
}

impl SlowRequest {
    /// Its memory, in bytes, as far as it grows with the request.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        let of_argument = |argument: &Vec<u8>| size_of::<Vec<u8>>() + argument.capacity();
        let arguments: usize = self.arguments.iter().map(of_argument).sum();
        size_of::<Self>() + arguments + self.address.capacity() + self.name.capacity()
    }

    pub(crate) fn phases(&self) -> Phases {
        Phases { send_ns: self.send_ns.load(Ordering::Relaxed), ..self.phases }
    }
}

/// The latest requests that took long.
#[derive(Debug, Default)]
pub struct SlowLog(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    /// By ascending numbers; the latest first.
    requests: VecDeque<Logged>,
    next_id: u64,
}

/// The logs that requests may be in.
#[derive(Debug, Default)]
pub struct CommandLogs {
    /// Requests that took long.
    pub slow: SlowLog,
    /// Requests that were large.
    pub large_requests: SlowLog,
    /// Requests with large replies.
    pub large_replies: SlowLog,
}

impl CommandLogs {
    /// Takes a request into those logs where it belongs; `is_slow` says whether that is one of
    /// them.
    pub fn add(&self, request: &Arc<SlowRequest>, is_slow: bool, limits: LogLimits) {
        if is_slow {
            self.slow.add(Arc::clone(request), limits.most_slow);
        }
        if limits.large_request.is_some_and(|least| request.received_bytes >= least) {
            self.large_requests.add(Arc::clone(request), limits.most_large_requests);
        }
        if limits.large_reply.is_some_and(|least| request.reply_bytes >= least) {
            self.large_replies.add(Arc::clone(request), limits.most_large_replies);
        }
    }
}

/// What is large, and how many requests each log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// From how many bytes on a request is large; nothing if none is.
    pub large_request: Option<usize>,
    /// The same of a reply.
    pub large_reply: Option<usize>,
    /// Requests in the slow log.
    pub most_slow: usize,
    /// Requests in the log of large ones.
    pub most_large_requests: usize,
    /// Requests in the log of those with large replies.
    pub most_large_replies: usize,
}

impl LogLimits {
    /// Whether a request of these lengths is large, or its reply is.
    #[must_use]
    pub fn are_passed_by(&self, request_bytes: usize, reply_bytes: usize) -> bool {
        self.large_request.is_some_and(|least| request_bytes >= least)
            || self.large_reply.is_some_and(|least| reply_bytes >= least)
    }
}

/// A request in the log, which is not data: the threshold may be such that each request is one.
#[derive(Debug)]
struct Logged {
    id: u64,
    request: Arc<SlowRequest>,
    _overhead: Overhead,
}

impl SlowLog {
    /// Takes a request in, and forgets the oldest if there are more than `most` then.
    pub fn add(&self, request: Arc<SlowRequest>, most: usize) {
        let mut log = self.lock();
        let id = log.next_id;
        log.next_id += 1;
        let overhead = Overhead::new(size_of::<Logged>() + request.own_bytes());
        log.requests.push_front(Logged { id, request, _overhead: overhead });
        log.requests.truncate(most);
    }

    /// The latest ones, each with its number, the latest first.
    pub(crate) fn latest(&self, count: usize) -> Vec<(u64, Arc<SlowRequest>)> {
        let latest = |logged: &Logged| (logged.id, Arc::clone(&logged.request));
        self.lock().requests.iter().take(count).map(latest).collect()
    }

    /// How many requests it holds.
    pub(crate) fn len(&self) -> usize {
        self.lock().requests.len()
    }

    /// Forgets all of them; numbers go on.
    pub(crate) fn clear(&self) {
        self.lock().requests.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock()
    }
}
