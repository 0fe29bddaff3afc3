//! What has been observed: plain values, which readers and probes fill in and tests make up.
//!
//! Nothing here reads anything. `None` stands for what could not be seen; an evaluation says so
//! then, and does not guess.

use std::collections::BTreeMap;

/// All that one run has seen of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observation {
    /// For how long, in seconds.
    pub(crate) seconds: f64,
    pub(crate) server: Server,
    pub(crate) probes: Probes,
    pub(crate) host: Host,
    /// Where two configurations of clients place keys, if that was asked for.
    pub(crate) placement: Option<Placement>,
    /// One line for each thing that could not be looked at.
    pub(crate) unseen: Vec<String>,
}

/// How two configurations of clients place the same keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Placement {
    pub(crate) one: String,
    pub(crate) other: String,
    pub(crate) keys: u64,
    /// Keys that they place on different servers.
    pub(crate) different: u64,
}

/// What the server reports of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    /// Such as `Redis 7.0.15`.
    pub(crate) name: String,
    pub(crate) is_memcached: bool,
    pub(crate) counters: Counters,
    /// Settings by name, as far as CONFIG GET tells them.
    pub(crate) settings: BTreeMap<String, String>,
    /// Slow requests that ended within the run, the newest first.
    pub(crate) slow: Option<Vec<SlowRequest>>,
    /// Lists of clients, in the order in which they were read.
    pub(crate) clients: Vec<Vec<Client>>,
    /// Requests that were watched, if that was asked for.
    pub(crate) sample: Option<Sample>,
}

/// INFO or `stats`, at the beginning and at the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) before: BTreeMap<String, String>,
    pub(crate) after: BTreeMap<String, String>,
}

impl Counters {
    /// A number at the end.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.after.get(name)?.parse().ok()
    }

    /// By how much a number has grown. What began again from zero has grown by what it is.
    pub(crate) fn increase(&self, name: &str) -> Option<f64> {
        let after = self.number(name)?;
        let before: f64 = self.before.get(name).and_then(|it| it.parse().ok()).unwrap_or(0.0);
        Some(if after >= before { after - before } else { after })
    }

    /// A number in a list such as `calls=3,usec=17`, by how much it has grown.
    pub(crate) fn part_increase(&self, name: &str, part: &str) -> Option<f64> {
        let of = |fields: &BTreeMap<String, String>| part_of(fields.get(name)?, part);
        let after = of(&self.after)?;
        Some((after - of(&self.before).unwrap_or(0.0)).max(0.0))
    }
}

/// The number of a part in a list such as `calls=3,usec=17`.
pub(crate) fn part_of(list: &str, part: &str) -> Option<f64> {
    list.split(',').find_map(|it| it.strip_prefix(part)?.strip_prefix('=')?.parse().ok())
}

/// A request that the server's log of slow requests has.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SlowRequest {
    pub(crate) duration_us: u64,
    /// Its name and how many arguments it had: nothing that might be secret.
    pub(crate) what: String,
}

/// A client as CLIENT LIST shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) flags: String,
    pub(crate) command: String,
    /// Bytes of replies that it has not read.
    pub(crate) output_bytes: u64,
    /// Bytes of requests that have arrived in part.
    pub(crate) input_bytes: u64,
}

/// Requests that were watched for a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) requests: u64,
    /// Keys, or what stands for them, with how many of the requests named them first.
    pub(crate) keys: Vec<(String, u64)>,
}

/// The results of the doctor's own requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    pub(crate) pings: Times,
    pub(crate) connects: Times,
    /// Connections that could not be made, by why.
    pub(crate) failures: BTreeMap<Failure, u64>,
    /// Values of growing size, there and back.
    pub(crate) transfers: Vec<Transfer>,
    /// Bytes of values that were sent, as many as came back, and the requests for that.
    pub(crate) sent_bytes: u64,
    pub(crate) sent_requests: u64,
    /// How late this program's own thread was, again and again.
    pub(crate) own_delays: Times,
}

/// Why a connection could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    /// No local port is left.
    NoPort,
    /// No descriptor is left, here.
    NoDescriptor,
    Refused,
    TimedOut,
    /// The server closed it, or said that it takes no more clients.
    TurnedAway,
    Other,
}

impl Failure {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Failure::NoPort => "cannot assign requested address",
            Failure::NoDescriptor => "too many open files here",
            Failure::Refused => "connection refused",
            Failure::TimedOut => "timed out",
            Failure::TurnedAway => "turned away by the server",
            Failure::Other => "other errors",
        }
    }
}

/// Times of many events, in microseconds, in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Times(Vec<u64>);

impl Times {
    pub(crate) fn new(mut times_us: Vec<u64>) -> Self {
        times_us.sort_unstable();
        Times(times_us)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that this share of all does not pass.
    pub(crate) fn quantile_us(&self, share: f64) -> Option<u64> {
        let last = self.0.len().checked_sub(1)?;
        let place = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(place.saturating_sub(1).min(last)).copied()
    }

    /// Which share of all took this long or longer.
    pub(crate) fn share_from(&self, least_us: u64) -> f64 {
        let below = self.0.partition_point(|time| *time < least_us);
        (self.0.len() - below) as f64 / self.0.len().max(1) as f64
    }

    pub(crate) fn min_us(&self) -> Option<u64> {
        self.0.first().copied()
    }

    pub(crate) fn max_us(&self) -> Option<u64> {
        self.0.last().copied()
    }
}

/// A value that went to the server and came back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Transfer {
    pub(crate) bytes: u64,
    /// Until the server had acknowledged all of it and begun its reply.
    pub(crate) up_us: u64,
    pub(crate) down_us: u64,
}

/// What the kernel says, of this host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    /// Whether the server runs on this host, in this network namespace.
    pub(crate) has_server: bool,
    pub(crate) ports: Option<Ports>,
    /// Connections that the kernel turned away since a queue of this namespace was full.
    pub(crate) listen_overflows: Option<u64>,
    /// Connections that wait to be accepted by the server, if it listens here.
    pub(crate) accept_queue: Option<AcceptQueue>,
    pub(crate) process: Option<Process>,
    /// Pages that came back from swap within the run.
    pub(crate) swapped_in: Option<u64>,
    /// `always`, `madvise` or `never`.
    pub(crate) huge_pages: Option<String>,
    pub(crate) overcommit: Option<u64>,
}

/// The queue of connections that the server has to accept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AcceptQueue {
    /// The most that were seen waiting at one of its sockets.
    pub(crate) waiting: u64,
    /// How many may wait at that one, where the kernel tells.
    pub(crate) length: Option<u64>,
    /// Whether as many as may were seen waiting.
    pub(crate) was_full: bool,
    /// Connections that were dropped at its sockets within the run, where the kernel tells.
    pub(crate) drops: Option<u64>,
    /// Sockets of the same network namespace that listen for other servers.
    pub(crate) other_listeners: Option<u64>,
}

/// Local ports of connections to the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ports {
    pub(crate) local: String,
    pub(crate) remote: String,
    /// Ports that the kernel may choose.
    pub(crate) range: u64,
    /// The most that were seen in TIME_WAIT, from that address to the server's.
    pub(crate) time_wait: u64,
    /// The most that were seen in all states.
    pub(crate) used: u64,
    /// `net.ipv4.tcp_tw_reuse`.
    pub(crate) reuse: Option<u64>,
}

/// The server's process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) id: u32,
    /// The share of looks at which it was stopped (T).
    pub(crate) stopped_share: f64,
    /// The share of looks at which one of its threads waited for a disk (D), and which.
    pub(crate) disk_share: f64,
    pub(crate) busiest: Option<BusyThread>,
    pub(crate) open_files: Option<u64>,
    pub(crate) most_files: Option<u64>,
    pub(crate) swap_bytes: Option<u64>,
    pub(crate) major_faults: Option<u64>,
    pub(crate) throttling: Option<Throttling>,
}

/// The thread that wanted a processor most.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BusyThread {
    pub(crate) name: String,
    /// The share of the run for which it had one.
    pub(crate) used: f64,
    /// The share for which it waited for one, where the kernel says so.
    pub(crate) waited: f64,
}

/// What a control group's limit on processor time did within the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Throttling {
    pub(crate) periods: u64,
    pub(crate) throttled_periods: u64,
    pub(crate) throttled_us: u64,
}
