//! An observation: plain values, filled in by readers and probes, or by tests.
//!
//! This module does no I/O. `None` is an unobserved value; an evaluation then reports that instead
//! of guessing.

use std::collections::BTreeMap;

/// All observations of a server in one run.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The duration of the run, in seconds.
    pub seconds: f64,
    /// What the server reports.
    pub server: Server,
    /// Measurements from outside.
    pub probes: Probes,
    /// Observations from the kernel.
    pub host: Host,
    /// The placement of keys by two client configurations, if requested.
    pub placement: Option<Placement>,
    /// One line for each thing that could not be observed.
    pub unseen: Vec<String>,
}

/// The placement of the same keys by two client configurations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// The first configuration.
    pub one: String,
    /// The second configuration.
    pub other: String,
    /// Keys that were compared.
    pub keys: u64,
    /// Keys placed on different servers.
    pub different: u64,
}

/// The server's own reports.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Such as `Redis 7.0.15`.
    pub name: String,
    /// Whether it speaks memcached's protocol.
    pub is_memcached: bool,
    /// Its statistics.
    pub counters: Counters,
    /// Settings by name, as far as CONFIG GET returns them.
    pub settings: BTreeMap<String, String>,
    /// Slow requests that ended within the run, the newest first.
    pub slow: Option<Vec<SlowRequest>>,
    /// Lists of clients, in the order in which they were read.
    pub clients: Vec<Vec<Client>>,
    /// Requests that were watched, if requested.
    pub sample: Option<Sample>,
    /// The cost of keys, if the server counts that.
    pub key_costs: Option<KeyCosts>,
    /// Large requests and replies within the run, if the server logs them.
    pub large: Vec<LargeRequest>,
    /// Events of its latency monitor within the run.
    pub latency: Vec<LatencyEvent>,
}

impl Server {
    /// The longest event of a kind whose name begins with `prefix`, in milliseconds.
    #[must_use]
    pub fn longest_event_ms(&self, prefix: &str) -> Option<u64> {
        let events = self.latency.iter().filter(|event| event.name.starts_with(prefix));
        events.map(|event| event.longest_ms).max()
    }
}

/// The server's time for commands within the run, and for the most expensive keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyCosts {
    /// The time of all commands, in microseconds.
    pub all_us: u64,
    /// Keys, or their hashes, and their time.
    pub keys: Vec<(String, u64)>,
}

/// A request logged for its size, or for that of its reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LargeRequest {
    /// The size.
    pub bytes: u64,
    /// The log that has it, its name and its number of arguments.
    pub what: String,
}

/// The latency monitor's events of one kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyEvent {
    /// The kind, such as `fork`.
    pub name: String,
    /// The number of seconds with such events.
    pub count: u64,
    /// The longest event, in milliseconds.
    pub longest_ms: u64,
}

/// INFO or `stats`, at the beginning and at the end.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// At the beginning.
    pub before: BTreeMap<String, String>,
    /// At the end.
    pub after: BTreeMap<String, String>,
}

impl Counters {
    /// The value of a number at the end.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.after.get(name)?.parse().ok()
    }

    /// The growth of a number. After a reset to zero, it is the value at the end.
    #[must_use]
    pub fn increase(&self, name: &str) -> Option<f64> {
        let after = self.number(name)?;
        let before: f64 = self.before.get(name).and_then(|it| it.parse().ok()).unwrap_or(0.0);
        Some(if after >= before { after - before } else { after })
    }

    /// The growth of a number in a list such as `calls=3,usec=17`.
    #[must_use]
    pub fn part_increase(&self, name: &str, part: &str) -> Option<f64> {
        let of = |fields: &BTreeMap<String, String>| part_of(fields.get(name)?, part);
        let after = of(&self.after)?;
        Some((after - of(&self.before).unwrap_or(0.0)).max(0.0))
    }
}

/// The number of a part in a list such as `calls=3,usec=17`.
#[must_use]
pub fn part_of(list: &str, part: &str) -> Option<f64> {
    list.split(',').find_map(|it| it.strip_prefix(part)?.strip_prefix('=')?.parse().ok())
}

/// An entry of the server's slow log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlowRequest {
    /// How long it took.
    pub duration_us: u64,
    /// Its name and its number of arguments: nothing that might be secret.
    pub what: String,
}

/// A client as CLIENT LIST shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    /// Its number.
    pub id: u64,
    /// Its kind in letters, such as `O` for MONITOR.
    pub flags: String,
    /// Its last command.
    pub command: String,
    /// Bytes of replies that it has not read.
    pub output_bytes: u64,
    /// Bytes of partial requests.
    pub input_bytes: u64,
}

/// Requests that were watched for a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The number of requests.
    pub requests: u64,
    /// Keys, or their hashes, with the number of requests that have them as the first key.
    pub keys: Vec<(String, u64)>,
}

/// The results of the doctor's own requests.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// Round trips of the smallest request.
    pub pings: Times,
    /// Times to connect.
    pub connects: Times,
    /// Failed connections, by reason.
    pub failures: BTreeMap<Failure, u64>,
    /// Round trips of values of growing size.
    pub transfers: Vec<Transfer>,
    /// Bytes of values sent; the same number came back.
    pub sent_bytes: u64,
    /// The requests for these.
    pub sent_requests: u64,
    /// Repeated measurements of how late this program's own thread was.
    pub own_delays: Times,
}

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// No local port is left.
    NoPort,
    /// No descriptor is left, here.
    NoDescriptor,
    /// No socket listens there.
    Refused,
    /// It was not established in time.
    TimedOut,
    /// The server reported that it accepts no more clients.
    TurnedAway,
    /// The other end closed it without an answer, for an unknown reason.
    Closed,
    /// Any other reason.
    Other,
}

impl Failure {
    /// The reason in words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Failure::NoPort => "cannot assign requested address",
            Failure::NoDescriptor => "too many open files here",
            Failure::Refused => "connection refused",
            Failure::TimedOut => "timed out",
            Failure::TurnedAway => "turned away by the server",
            Failure::Closed => "closed without an answer",
            Failure::Other => "other errors",
        }
    }
}

/// Times of many events, in microseconds, in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times(Vec<u64>);

impl Times {
    /// Times in any order.
    #[must_use]
    pub fn new(mut times_us: Vec<u64>) -> Self {
        times_us.sort_unstable();
        Times(times_us)
    }

    /// The number of events.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that this share of the events does not exceed.
    #[must_use]
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let last = self.0.len().checked_sub(1)?;
        let place = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(place.saturating_sub(1).min(last)).copied()
    }

    /// The share of events that took at least this long.
    #[must_use]
    pub fn share_from(&self, least_us: u64) -> f64 {
        let below = self.0.partition_point(|time| *time < least_us);
        (self.0.len() - below) as f64 / self.0.len().max(1) as f64
    }

    /// The shortest time.
    #[must_use]
    pub fn min_us(&self) -> Option<u64> {
        self.0.first().copied()
    }

    /// The longest time.
    #[must_use]
    pub fn max_us(&self) -> Option<u64> {
        self.0.last().copied()
    }
}

/// The transfer of a value to the server and back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfer {
    /// Its size.
    pub bytes: u64,
    /// Time until the server had acknowledged all of it and begun its reply.
    pub up_us: u64,
    /// Time from then until all of it had come back.
    pub down_us: u64,
}

/// The kernel's reports on this host.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Whether the server runs on this host, in this network namespace.
    pub has_server: bool,
    /// Local ports, if the table of sockets can be read.
    pub ports: Option<Ports>,
    /// Connections that the kernel dropped because a queue of this namespace was full.
    pub listen_overflows: Option<u64>,
    /// The server's queue of connections to accept, if it listens here.
    pub accept_queue: Option<AcceptQueue>,
    /// The server's process, if it can be seen.
    pub process: Option<Process>,
    /// Pages read back from swap within the run.
    pub swapped_in: Option<u64>,
    /// `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// `vm.overcommit_memory`.
    pub overcommit: Option<u64>,
    /// How long tasks of this host had to wait, as a share of the run, if the kernel counts that.
    pub pressure: Option<Pressure>,
    /// Queue disciplines that held packets back within the run.
    pub disciplines: Vec<QueueDiscipline>,
    /// Connections with the server that cross a network, if the kernel reports them.
    pub tcp: Option<TcpConnections>,
    /// Network devices with errors or drops within the run.
    pub devices: Vec<DeviceLosses>,
}

/// TCP's counts on connections with the server within the run (TCP_INFO).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TcpConnections {
    /// The number of observed connections.
    pub connections: u64,
    /// Segments with data sent on them.
    pub segments: u64,
    /// Retransmitted segments.
    pub retransmitted: u64,
    /// Segments that were retransmitted although they had arrived, as the other end reported: their
    /// acknowledgment was lost or late.
    pub duplicates: u64,
    /// The shortest round trip of all, in microseconds.
    pub least_round_trip_us: Option<u64>,
    /// The median of the connections' latest round trips, in microseconds.
    pub round_trip_us: Option<u64>,
}

/// Errors and drops of a network device within the run, for all its traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceLosses {
    /// The device.
    pub device: String,
    /// Packets with errors.
    pub errors: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}

/// A queue discipline of a network device of this host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueDiscipline {
    /// The device.
    pub device: String,
    /// Its kind, such as `tbf`.
    pub kind: String,
    /// The rate that it allows, if it is a token bucket.
    pub bytes_per_second: Option<u64>,
    /// Packets that it dropped.
    pub dropped: u64,
    /// How often it delayed packets.
    pub held_back: u64,
}

/// The share of the run for which some task of the host waited (pressure stall information).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// For a processor.
    pub cpu: f64,
    /// For memory.
    pub memory: f64,
    /// For a disk.
    pub io: f64,
}

/// The queue of connections that the server has to accept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AcceptQueue {
    /// The maximum observed at one of its sockets.
    pub waiting: u64,
    /// The capacity of that socket's queue, if the kernel reports it.
    pub length: Option<u64>,
    /// Whether a queue was observed full.
    pub was_full: bool,
    /// Connections dropped at its sockets within the run, if the kernel reports them.
    pub drops: Option<u64>,
    /// Sockets of the same network namespace that listen for other servers.
    pub other_listeners: Option<u64>,
}

/// Local ports of connections to the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ports {
    /// This host's address.
    pub local: String,
    /// The server's address and port.
    pub remote: String,
    /// Ports that the kernel may choose.
    pub range: u64,
    /// The maximum observed in TIME_WAIT, from that address to the server's.
    pub time_wait: u64,
    /// The maximum observed in all states.
    pub used: u64,
    /// `net.ipv4.tcp_tw_reuse`.
    pub reuse: Option<u64>,
}

/// The server's process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its number.
    pub id: u32,
    /// The share of samples in which it was stopped (T).
    pub stopped_share: f64,
    /// The share of samples in which one of its threads waited for a disk (D).
    pub disk_share: f64,
    /// Its busiest thread.
    pub busiest: Option<BusyThread>,
    /// Its open descriptors.
    pub open_files: Option<u64>,
    /// Its limit on descriptors.
    pub max_files: Option<u64>,
    /// Its memory in swap.
    pub swap_bytes: Option<u64>,
    /// Its major page faults within the run.
    pub major_faults: Option<u64>,
    /// The effect of a limit on its processor time.
    pub throttling: Option<Throttling>,
}

/// The thread with the highest demand for a processor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BusyThread {
    /// Its name.
    pub name: String,
    /// The share of the run for which it ran.
    pub used: f64,
    /// The share for which it waited for a processor, if the kernel reports that.
    pub waited: f64,
}

/// The effect of a control group's limit on processor time within the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throttling {
    /// Periods of the limit.
    pub periods: u64,
    /// Periods in which the group was throttled.
    pub throttled_periods: u64,
    /// The total time for which it was throttled.
    pub throttled_us: u64,
}
