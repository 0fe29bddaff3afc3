//! An observation: plain values, filled in by readers and probes, or by tests.
//!
//! This module does no I/O. `None` means that a value was not observed; an evaluation then says so
//! instead of guessing.

use std::collections::BTreeMap;

/// All observations of a server in one run.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The duration of the run, in seconds.
    pub seconds: f64,
    /// The server's own reports.
    pub server: Server,
    /// Measurements from outside.
    pub probes: Probes,
    /// Observations from the kernel.
    pub host: Host,
    /// The placement of keys by two client configurations, if requested.
    pub placement: Option<Placement>,
    /// Descriptions of everything that could not be observed, one line each.
    pub unseen: Vec<String>,
}

/// The placement of the same keys by two client configurations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// The name of the first configuration.
    pub one: String,
    /// The name of the second configuration.
    pub other: String,
    /// Number of keys that were compared.
    pub keys: u64,
    /// Number of keys that the configurations place on different servers.
    pub different: u64,
}

/// The server's own reports.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Name and version, such as `Redis 7.0.15`.
    pub name: String,
    /// Whether the server speaks memcached's protocol.
    pub is_memcached: bool,
    /// The statistics at the beginning and at the end of the run.
    pub counters: Counters,
    /// Settings by name, as far as CONFIG GET returns them.
    pub settings: BTreeMap<String, String>,
    /// Slow requests that ended within the run, the newest first.
    pub slow: Option<Vec<SlowRequest>>,
    /// Lists of clients, in the order in which they were read.
    pub clients: Vec<Vec<Client>>,
    /// Requests that were watched for a moment, if requested.
    pub sample: Option<Sample>,
    /// The time that keys took, if the server counts it.
    pub key_costs: Option<KeyCosts>,
    /// Large requests and replies within the run, if the server logs them.
    pub large: Vec<LargeRequest>,
    /// Events of the server's latency monitor within the run.
    pub latency: Vec<LatencyEvent>,
}

impl Server {
    /// Returns the duration of the longest event whose kind begins with `prefix`, in milliseconds.
    #[must_use]
    pub fn longest_event_ms(&self, prefix: &str) -> Option<u64> {
        let events = self.latency.iter().filter(|event| event.name.starts_with(prefix));
        events.map(|event| event.longest_ms).max()
    }
}

/// The time of the commands within the run: in total, and for the most expensive keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyCosts {
    /// The time of all commands, in microseconds.
    pub all_us: u64,
    /// Keys, or their hashes, with their time in microseconds.
    pub keys: Vec<(String, u64)>,
}

/// A request that was logged for its own size or the size of its reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LargeRequest {
    /// The size in bytes.
    pub bytes: u64,
    /// The name of the log, the command, and its number of arguments.
    pub what: String,
}

/// The events of one kind in the server's latency monitor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyEvent {
    /// The kind, such as `fork`.
    pub name: String,
    /// The number of seconds that had such an event.
    pub count: u64,
    /// The longest event, in milliseconds.
    pub longest_ms: u64,
}

/// The fields of INFO or `stats` at the beginning and at the end of the run.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    /// The fields at the beginning.
    pub before: BTreeMap<String, String>,
    /// The fields at the end.
    pub after: BTreeMap<String, String>,
}

impl Counters {
    /// Returns the value of a numeric field at the end.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.after.get(name)?.parse().ok()
    }

    /// Returns the growth of a numeric field; `None` if the fields at the beginning are missing. If
    /// the field was reset to zero, returns its value at the end.
    #[must_use]
    pub fn increase(&self, name: &str) -> Option<f64> {
        let after = self.number(name).filter(|_| !self.before.is_empty())?;
        let before: f64 = self.before.get(name).and_then(|it| it.parse().ok()).unwrap_or(0.0);
        Some(if after >= before { after - before } else { after })
    }

    /// Returns the growth of a number within a field such as `calls=3,usec=17`; `None` if the
    /// fields at the beginning are missing.
    #[must_use]
    pub fn part_increase(&self, name: &str, part: &str) -> Option<f64> {
        let of = |fields: &BTreeMap<String, String>| part_of(fields.get(name)?, part);
        let after = of(&self.after).filter(|_| !self.before.is_empty())?;
        Some((after - of(&self.before).unwrap_or(0.0)).max(0.0))
    }
}

/// Returns the number named `part` in text such as `calls=3,usec=17`.
#[must_use]
pub fn part_of(list: &str, part: &str) -> Option<f64> {
    list.split(',').find_map(|it| it.strip_prefix(part)?.strip_prefix('=')?.parse().ok())
}

/// An entry of the server's slow log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlowRequest {
    /// The execution time in microseconds.
    pub duration_us: u64,
    /// The command and its number of arguments. The arguments may be secret and are omitted.
    pub what: String,
}

/// A client in the output of CLIENT LIST.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Client {
    /// The client's ID.
    pub id: u64,
    /// The client's flags, such as `O` for MONITOR.
    pub flags: String,
    /// The client's last command.
    pub command: String,
    /// Bytes of replies that the client has not read.
    pub output_bytes: u64,
    /// Bytes of incomplete requests.
    pub input_bytes: u64,
}

/// A sample of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The number of requests.
    pub requests: u64,
    /// Keys, or their hashes, with the number of requests whose first key they are.
    pub keys: Vec<(String, u64)>,
}

/// The results of the doctor's own requests.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// Round trips of the smallest request.
    pub pings: Times,
    /// Times to establish a connection.
    pub connects: Times,
    /// Failed connections, by reason.
    pub failures: BTreeMap<Failure, u64>,
    /// Round trips of values of growing size.
    pub transfers: Vec<Transfer>,
    /// Bytes of values sent to the server; the same number was received.
    pub sent_bytes: u64,
    /// Number of requests that sent these values.
    pub sent_requests: u64,
    /// How late the doctor's own thread woke up, measured repeatedly.
    pub own_delays: Times,
}

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// No local port is left.
    NoPort,
    /// No file descriptor is left in this process.
    NoDescriptor,
    /// No socket listens at the address.
    Refused,
    /// The connection was not established in time.
    TimedOut,
    /// The server replied that it accepts no more clients.
    TurnedAway,
    /// The peer closed the connection without an answer, for an unknown reason.
    Closed,
    /// Any other reason.
    Other,
}

impl Failure {
    /// Describes the reason in words.
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
    /// Sorts times given in any order.
    #[must_use]
    pub fn new(mut times_us: Vec<u64>) -> Self {
        times_us.sort_unstable();
        Times(times_us)
    }

    /// Returns the number of events.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the time that a `share` of the events does not exceed, in microseconds.
    #[must_use]
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let last = self.0.len().checked_sub(1)?;
        let place = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(place.saturating_sub(1).min(last)).copied()
    }

    /// Returns the share of events that took at least `least_us` microseconds.
    #[must_use]
    pub fn share_from(&self, least_us: u64) -> f64 {
        let below = self.0.partition_point(|time| *time < least_us);
        (self.0.len() - below) as f64 / self.0.len().max(1) as f64
    }

    /// Returns the shortest time in microseconds.
    #[must_use]
    pub fn min_us(&self) -> Option<u64> {
        self.0.first().copied()
    }

    /// Returns the longest time in microseconds.
    #[must_use]
    pub fn max_us(&self) -> Option<u64> {
        self.0.last().copied()
    }
}

/// The transfer of a value to the server and back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfer {
    /// The size of the value in bytes.
    pub bytes: u64,
    /// Time until the server had received the whole value and begun its reply.
    pub up_us: u64,
    /// Time from the beginning of the reply until all of it had arrived.
    pub down_us: u64,
}

/// The kernel's reports on this host.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Whether the server runs on this host and in this network namespace.
    pub has_server: bool,
    /// The use of local ports, if the table of sockets can be read.
    pub ports: Option<Ports>,
    /// Connections that the kernel dropped because a queue in this network namespace was full.
    pub listen_overflows: Option<u64>,
    /// The server's accept queue, if the server listens in this namespace.
    pub accept_queue: Option<AcceptQueue>,
    /// The server's process, if it is visible.
    pub process: Option<Process>,
    /// Number of pages read back from swap within the run.
    pub swapped_in: Option<u64>,
    /// The setting of transparent huge pages: `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// The value of `vm.overcommit_memory`.
    pub overcommit: Option<u64>,
    /// The share of the run for which tasks of this host had to wait, if the kernel counts it.
    pub pressure: Option<Pressure>,
    /// Queue disciplines that held packets back within the run.
    pub disciplines: Vec<QueueDiscipline>,
    /// TCP's figures of connections with the server that cross a network, if the kernel reports
    /// them.
    pub tcp: Option<TcpConnections>,
    /// Network devices with errors or drops within the run.
    pub devices: Vec<DeviceLosses>,
}

/// TCP's counts (`TCP_INFO`) on connections with the server within the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TcpConnections {
    /// The number of observed connections.
    pub connections: u64,
    /// Number of segments with data that were sent.
    pub segments: u64,
    /// Number of retransmitted segments.
    pub retransmitted: u64,
    /// Number of segments that were retransmitted although they had arrived, as the peer reported:
    /// their acknowledgment was lost or late.
    pub duplicates: u64,
    /// The shortest round trip of all connections, in microseconds.
    pub least_round_trip_us: Option<u64>,
    /// The median of the connections' latest round trips, in microseconds.
    pub round_trip_us: Option<u64>,
}

/// Errors and drops of a network device within the run, over all of its traffic.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceLosses {
    /// The name of the device.
    pub device: String,
    /// Number of packets with errors.
    pub errors: u64,
    /// Number of packets that were dropped.
    pub dropped: u64,
}

/// A queue discipline of a network device of this host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueDiscipline {
    /// The name of the device.
    pub device: String,
    /// The kind of the discipline, such as `tbf`.
    pub kind: String,
    /// The rate that the discipline allows, if it is a token bucket.
    pub bytes_per_second: Option<u64>,
    /// Number of packets that the discipline dropped.
    pub dropped: u64,
    /// How often the discipline delayed packets.
    pub held_back: u64,
}

/// The share of the run for which some task of the host waited, from the kernel's pressure stall
/// information (PSI).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// For a processor.
    pub cpu: f64,
    /// For memory.
    pub memory: f64,
    /// For a disk.
    pub io: f64,
}

/// The accept queue of the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AcceptQueue {
    /// The largest number of connections that waited at one of the server's sockets.
    pub waiting: u64,
    /// The capacity of that socket's accept queue, if the kernel reports it.
    pub length: Option<u64>,
    /// Whether a queue was full in some sample.
    pub was_full: bool,
    /// Number of connections dropped at the server's sockets within the run, if the kernel reports
    /// it.
    pub drops: Option<u64>,
    /// Number of sockets in the same network namespace that listen for other servers.
    pub other_listeners: Option<u64>,
}

/// Local ports of connections to the server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ports {
    /// The address of this host.
    pub local: String,
    /// The address and port of the server.
    pub remote: String,
    /// Number of local ports that the kernel may choose from.
    pub range: u64,
    /// The largest number of ports in TIME_WAIT, from `local` to `remote`.
    pub time_wait: u64,
    /// The largest number of ports in any state.
    pub used: u64,
    /// The value of `net.ipv4.tcp_tw_reuse`.
    pub reuse: Option<u64>,
}

/// The server's process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The process ID.
    pub id: u32,
    /// The share of samples in which the process was stopped (state T).
    pub stopped_share: f64,
    /// The share of samples in which one of the threads waited for a disk (state D).
    pub disk_share: f64,
    /// The busiest thread of the process.
    pub busiest: Option<BusyThread>,
    /// Number of open file descriptors.
    pub open_files: Option<u64>,
    /// The limit on file descriptors.
    pub max_files: Option<u64>,
    /// Bytes of the process in swap.
    pub swap_bytes: Option<u64>,
    /// Number of major page faults within the run.
    pub major_faults: Option<u64>,
    /// The effect of the control group's limit on processor time.
    pub throttling: Option<Throttling>,
}

/// The thread with the highest demand for a processor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BusyThread {
    /// The name of the thread.
    pub name: String,
    /// The share of the run for which the thread ran.
    pub used: f64,
    /// The share of the run for which the thread waited for a processor, if the kernel reports it.
    pub waited: f64,
}

/// The effect of a control group's limit on processor time within the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throttling {
    /// Number of periods of the limit.
    pub periods: u64,
    /// Number of periods in which the group was throttled.
    pub throttled_periods: u64,
    /// The total time for which the group was throttled, in microseconds.
    pub throttled_us: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_unknown_without_figures_from_the_beginning() {
        let fields = |text: &str| -> BTreeMap<String, String> {
            let pairs = text.split(' ').filter_map(|pair| pair.split_once(':'));
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        let of = |before: &str, after: &str| {
            let counters = Counters { before: fields(before), after: fields(after) };
            (counters.increase("evicted"), counters.part_increase("get", "calls"))
        };
        assert_eq!(of("", "evicted:9 get:calls=7"), (None, None));
        assert_eq!(of("evicted:4 get:calls=3", "evicted:9 get:calls=7"), (Some(5.0), Some(4.0)));
        // The command was not called before.
        assert_eq!(of("evicted:10", "evicted:9 get:calls=7"), (Some(9.0), Some(7.0)));
        assert_eq!(of("evicted:4", ""), (None, None));
    }
}
