//! An observation: plain values, filled in by readers and probes, or by tests.
//!
//! Nothing here reads anything. `None` stands for what could not be seen; an evaluation says so
//! then, and does not guess.

use std::collections::BTreeMap;

/// All that one run has seen of a server.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// For how long, in seconds.
    pub seconds: f64,
    /// What the server reports.
    pub server: Server,
    /// What was measured from outside.
    pub probes: Probes,
    /// What the kernel says.
    pub host: Host,
    /// Where two configurations of clients place keys, if that was asked for.
    pub placement: Option<Placement>,
    /// One line for each thing that could not be observed.
    pub unseen: Vec<String>,
}

/// How two configurations of clients place the same keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// The one configuration.
    pub one: String,
    /// The other one.
    pub other: String,
    /// Keys that were compared.
    pub keys: u64,
    /// Keys that they place on different servers.
    pub different: u64,
}

/// What the server reports of itself.
#[derive(Clone, Debug, Default)]
pub struct Server {
    /// Such as `Redis 7.0.15`.
    pub name: String,
    /// Whether it speaks memcached's protocol.
    pub is_memcached: bool,
    /// Its figures.
    pub counters: Counters,
    /// Settings by name, as far as CONFIG GET tells them.
    pub settings: BTreeMap<String, String>,
    /// Slow requests that ended within the run, the newest first.
    pub slow: Option<Vec<SlowRequest>>,
    /// Lists of clients, in the order in which they were read.
    pub clients: Vec<Vec<Client>>,
    /// Requests that were watched, if that was asked for.
    pub sample: Option<Sample>,
    /// What keys cost, where the server counts that.
    pub key_costs: Option<KeyCosts>,
    /// Large requests and replies within the run, where the server has logs of them.
    pub large: Vec<LargeRequest>,
    /// What its latency monitor noted within the run.
    pub latency: Vec<LatencyEvent>,
}

impl Server {
    /// The longest event of a kind whose name begins like this, in milliseconds.
    #[must_use]
    pub fn longest_event_ms(&self, prefix: &str) -> Option<u64> {
        let events = self.latency.iter().filter(|event| event.name.starts_with(prefix));
        events.map(|event| event.longest_ms).max()
    }
}

/// What the server spent on commands within the run, and on which keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyCosts {
    /// The time of all commands, in microseconds.
    pub all_us: u64,
    /// Keys, or what stands for them, and their time.
    pub keys: Vec<(String, u64)>,
}

/// A request that was logged for its size, or for that of its reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LargeRequest {
    /// The size.
    pub bytes: u64,
    /// Which log has it, its name and how many arguments it had.
    pub what: String,
}

/// What the latency monitor noted of one kind of event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyEvent {
    /// The kind, such as `fork`.
    pub name: String,
    /// In how many seconds there were any.
    pub count: u64,
    /// The longest, in milliseconds.
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
    /// A number at the end.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        self.after.get(name)?.parse().ok()
    }

    /// By how much a number has grown. What began again from zero has grown by what it is.
    #[must_use]
    pub fn increase(&self, name: &str) -> Option<f64> {
        let after = self.number(name)?;
        let before: f64 = self.before.get(name).and_then(|it| it.parse().ok()).unwrap_or(0.0);
        Some(if after >= before { after - before } else { after })
    }

    /// A number in a list such as `calls=3,usec=17`, by how much it has grown.
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

/// A request that the server's log of slow requests has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlowRequest {
    /// How long it took.
    pub duration_us: u64,
    /// Its name and how many arguments it had: nothing that might be secret.
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
    /// Bytes of requests that have arrived in part.
    pub input_bytes: u64,
}

/// Requests that were watched for a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// How many.
    pub requests: u64,
    /// Keys, or what stands for them, with how many of the requests named them first.
    pub keys: Vec<(String, u64)>,
}

/// The results of the doctor's own requests.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// Round trips of the smallest request.
    pub pings: Times,
    /// How long connections took.
    pub connects: Times,
    /// Connections that could not be made, by why.
    pub failures: BTreeMap<Failure, u64>,
    /// Values of growing size, there and back.
    pub transfers: Vec<Transfer>,
    /// Bytes of values that were sent; as many came back.
    pub sent_bytes: u64,
    /// Requests for that.
    pub sent_requests: u64,
    /// How late this program's own thread was, again and again.
    pub own_delays: Times,
}

/// Why a connection could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// No local port is left.
    NoPort,
    /// No descriptor is left, here.
    NoDescriptor,
    /// Nothing listens there.
    Refused,
    /// It was not established in time.
    TimedOut,
    /// The server said that it takes no more clients.
    TurnedAway,
    /// It was closed at the other end without an answer, whoever that is and for whatever reason.
    Closed,
    /// Any other reason.
    Other,
}

impl Failure {
    /// In words.
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

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The time that this share of all does not pass.
    #[must_use]
    pub fn quantile_us(&self, share: f64) -> Option<u64> {
        let last = self.0.len().checked_sub(1)?;
        let place = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(place.saturating_sub(1).min(last)).copied()
    }

    /// Which share of all took this long or longer.
    #[must_use]
    pub fn share_from(&self, least_us: u64) -> f64 {
        let below = self.0.partition_point(|time| *time < least_us);
        (self.0.len() - below) as f64 / self.0.len().max(1) as f64
    }

    /// The shortest.
    #[must_use]
    pub fn min_us(&self) -> Option<u64> {
        self.0.first().copied()
    }

    /// The longest.
    #[must_use]
    pub fn max_us(&self) -> Option<u64> {
        self.0.last().copied()
    }
}

/// A value that went to the server and came back.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Transfer {
    /// Its size.
    pub bytes: u64,
    /// Until the server had acknowledged all of it and begun its reply.
    pub up_us: u64,
    /// From then on until all of it had come back.
    pub down_us: u64,
}

/// What the kernel says, of this host.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Whether the server runs on this host, in this network namespace.
    pub has_server: bool,
    /// Local ports, where the table of sockets can be read.
    pub ports: Option<Ports>,
    /// Connections that the kernel turned away since a queue of this namespace was full.
    pub listen_overflows: Option<u64>,
    /// Connections that wait to be accepted by the server, if it listens here.
    pub accept_queue: Option<AcceptQueue>,
    /// The server's process, if it can be seen.
    pub process: Option<Process>,
    /// Pages that came back from swap within the run.
    pub swapped_in: Option<u64>,
    /// `always`, `madvise` or `never`.
    pub huge_pages: Option<String>,
    /// `vm.overcommit_memory`.
    pub overcommit: Option<u64>,
    /// For how much of the run tasks of this host had to wait, where the kernel counts that.
    pub pressure: Option<Pressure>,
    /// Queue disciplines that held packets back within the run.
    pub disciplines: Vec<QueueDiscipline>,
    /// Connections with the server that cross a network, where the kernel tells of them.
    pub tcp: Option<TcpConnections>,
    /// Network devices that gave something up within the run.
    pub devices: Vec<DeviceLosses>,
}

/// What TCP counted on connections with the server within the run (TCP_INFO).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TcpConnections {
    /// Connections that were seen.
    pub connections: u64,
    /// Segments with data that were sent on them.
    pub segments: u64,
    /// Those that were sent again.
    pub retransmitted: u64,
    /// Those that were sent again though they had arrived, as the other end said: the answer to
    /// them was lost or late.
    pub duplicates: u64,
    /// The shortest round trip of all, in microseconds.
    pub least_round_trip_us: Option<u64>,
    /// The middle one of the connections' latest, in microseconds.
    pub round_trip_us: Option<u64>,
}

/// What a network device gave up within the run, of all that was on it.
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
    /// The rate that it allows, where it is a token bucket.
    pub bytes_per_second: Option<u64>,
    /// Packets that it dropped.
    pub dropped: u64,
    /// How often it held packets back.
    pub held_back: u64,
}

/// For which share of the run some task of the host waited (pressure stall information).
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
    /// The most that were seen waiting at one of its sockets.
    pub waiting: u64,
    /// How many may wait at that one, where the kernel tells.
    pub length: Option<u64>,
    /// Whether as many as may were seen waiting.
    pub was_full: bool,
    /// Connections that were dropped at its sockets within the run, where the kernel tells.
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
    /// The most that were seen in TIME_WAIT, from that address to the server's.
    pub time_wait: u64,
    /// The most that were seen in all states.
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
    /// The share of looks at which one of its threads waited for a disk (D), and which.
    pub disk_share: f64,
    /// Its busiest thread.
    pub busiest: Option<BusyThread>,
    /// Descriptors that it has.
    pub open_files: Option<u64>,
    /// How many it may have.
    pub max_files: Option<u64>,
    /// Its memory in swap.
    pub swap_bytes: Option<u64>,
    /// Pages that it had to wait for within the run.
    pub major_faults: Option<u64>,
    /// What a limit on its processor time did.
    pub throttling: Option<Throttling>,
}

/// The thread that wanted a processor most.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BusyThread {
    /// Its name.
    pub name: String,
    /// The share of the run for which it had one.
    pub used: f64,
    /// The share for which it waited for one, where the kernel says so.
    pub waited: f64,
}

/// What a control group's limit on processor time did within the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throttling {
    /// Periods of the limit.
    pub periods: u64,
    /// Those at whose end the group had to wait.
    pub throttled_periods: u64,
    /// How long it waited in all.
    pub throttled_us: u64,
}
