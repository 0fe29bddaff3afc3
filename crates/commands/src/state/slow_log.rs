//! The slow log, with requests that took long in the server or on the network, and the logs of
//! large requests and of large replies.

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
    /// Its phases before its reply was sent.
    pub phases: Phases,
    /// The time to send the reply, in nanoseconds; 0 until it has been sent.
    pub send_ns: AtomicU64,
    /// The length of its arguments.
    pub request_bytes: usize,
    /// Its received bytes, including the encoding of the protocol, except for a request within a
    /// transaction.
    pub received_bytes: usize,
    /// The length of its reply.
    pub reply_bytes: usize,
    /// Its arguments, with long ones truncated and passwords omitted.
    pub arguments: Vec<Vec<u8>>,
    /// The client's address.
    pub address: String,
    /// The client's name.
    pub name: String,
}

impl SlowRequest {
    /// Its memory, in bytes, except for parts of a fixed size.
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
    /// In descending order of their numbers.
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
    /// Adds a request to its logs; `is_slow` is whether the slow log is one of them.
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

/// The thresholds of large requests and replies, and the lengths of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// Minimum length of a large request; `None` disables the log.
    pub large_request: Option<usize>,
    /// Minimum length of a large reply; `None` disables the log.
    pub large_reply: Option<usize>,
    /// Maximum length of the slow log.
    pub most_slow: usize,
    /// Maximum length of the log of large requests.
    pub most_large_requests: usize,
    /// Maximum length of the log of large replies.
    pub most_large_replies: usize,
}

impl LogLimits {
    /// Whether a request with these lengths is large, or its reply.
    #[must_use]
    pub fn are_passed_by(&self, request_bytes: usize, reply_bytes: usize) -> bool {
        self.large_request.is_some_and(|least| request_bytes >= least)
            || self.large_reply.is_some_and(|least| reply_bytes >= least)
    }
}

/// A request in a log. Its memory is not data: with a low threshold, every request is logged.
#[derive(Debug)]
struct Logged {
    id: u64,
    request: Arc<SlowRequest>,
    _overhead: Overhead,
}

impl SlowLog {
    /// Adds a request, and removes the oldest if there are more than `most`.
    pub fn add(&self, request: Arc<SlowRequest>, most: usize) {
        let mut log = self.lock();
        let id = log.next_id;
        log.next_id += 1;
        let overhead = Overhead::new(size_of::<Logged>() + request.own_bytes());
        log.requests.push_front(Logged { id, request, _overhead: overhead });
        log.requests.truncate(most);
    }

    /// The latest requests with their numbers, the latest first.
    pub(crate) fn latest(&self, count: usize) -> Vec<(u64, Arc<SlowRequest>)> {
        let latest = |logged: &Logged| (logged.id, Arc::clone(&logged.request));
        self.lock().requests.iter().take(count).map(latest).collect()
    }

    /// The number of requests in the log.
    pub(crate) fn len(&self) -> usize {
        self.lock().requests.len()
    }

    /// Removes all requests; numbers continue.
    pub(crate) fn clear(&self) {
        self.lock().requests.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.lock()
    }
}
