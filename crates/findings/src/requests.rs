//! Faults of requests: expensive, large and unevenly distributed ones.

use super::finding::{
    Evaluation, Evidence, Finding, bytes, is_delayed, logged, milliseconds, percent,
};
use crate::observation::{Client, Observation};

/// The mean time from which a command is slow, in microseconds.
const SLOW_US: f64 = 5000.0;
/// The minimum share of the run that slow commands must take.
const SLOW_SHARE: f64 = 0.005;
/// With at most this many calls, a command counts only if each call takes at least `LONG_US`.
const FEW_CALLS: f64 = 4.0;
const LONG_US: f64 = 50_000.0;

pub(crate) static SLOW_COMMANDS: Finding = Finding {
    name: "slow-commands",
    looks_at: "the server's time for each command, its slow log, and whether the doctor's own \
               requests waited meanwhile",
    threshold: "5 ms a call on the average, 50 ms where there are at most four calls, and 0.5 % of \
                the run in all, while other requests were seen to wait: a server with one thread \
                answers none of them meanwhile",
    remedies: &[
        "KEYS, SMEMBERS, HGETALL, LRANGE 0 -1, SORT of large keys: use SCAN, SSCAN, HSCAN or \
         ranges of a few hundred elements instead.",
        "Scripts: do less per call; loops over keys belong in the program.",
        "Deny dangerous commands by ACL (ACL SETUSER app -@dangerous).",
        "Or use a server in which other clients do not wait for a long command, such as nagi.",
    ],
    explained_by: &["cpu-throttled", "swapping"],
    from_within: false,
    evaluate: slow_commands,
};

/// Commands that include a fork, which is a separate finding.
const FORK: [&str; 4] = ["bgsave", "bgrewriteaof", "psync", "sync"];

/// The calls of a command, and their time, within the run.
struct Cost<'a> {
    name: &'a str,
    calls: f64,
    us: f64,
}

fn slow_commands(observation: &Observation) -> Evaluation {
    if observation.server.is_memcached {
        return Evaluation::Healthy;
    }
    let counters = &observation.server.counters;
    let costs = counters.after.keys().filter_map(|key| {
        let name = key.strip_prefix("cmdstat_").filter(|name| !FORK.contains(name))?;
        let calls = counters.part_increase(key, "calls")?;
        Some(Cost { name, calls, us: counters.part_increase(key, "usec")? })
    });
    let costs: Vec<Cost<'_>> = costs.collect();
    if costs.is_empty() {
        return Evaluation::Unknown("INFO commandstats".to_owned());
    }
    let slow = costs.iter().filter(|cost| cost.calls >= 1.0).filter(|cost| {
        // If there are only a few calls, for instance the doctor's own, they may have been slow
        // because they waited for a processor.
        let is_heavy = cost.us >= SLOW_SHARE * observation.seconds * 1e6
            && (cost.calls > FEW_CALLS || cost.us >= cost.calls * LONG_US);
        cost.us / cost.calls >= SLOW_US && is_heavy
    });
    let Some(slowest) = slow.max_by(|one, other| one.us.total_cmp(&other.us)) else {
        return Evaluation::Healthy;
    };
    let mean_us = slowest.us / slowest.calls;
    let longest = observation.probes.pings.max_us().unwrap_or(0);
    let verdict = format!(
        "{} takes {} a call, {} calls in {:.0} s, and other requests wait for it: the doctor's \
         own took up to {}.",
        slowest.name.to_uppercase().replace('|', " "),
        milliseconds(mean_us as u64),
        slowest.calls,
        observation.seconds,
        milliseconds(longest)
    );
    let mut evidence = Evidence::new(verdict)
        .with("command", slowest.name)
        .with("calls", slowest.calls)
        .with("time a call", milliseconds(mean_us as u64))
        .with("share of the run", percent(slowest.us / 1e6 / observation.seconds.max(0.1)))
        .with("longest round trip", milliseconds(longest))
        .with("in the latency monitor", logged(observation, "command"));
    for request in observation.server.slow.iter().flatten().take(5) {
        evidence = evidence.with(
            "slow log",
            format_args!("{} {}", milliseconds(request.duration_us), request.what),
        );
    }
    match is_delayed(observation, (mean_us / 2.0) as u64) {
        true => Evaluation::Found(evidence),
        false => Evaluation::Notice(evidence),
    }
}

/// The mean size of requests or replies from which they are large, in bytes.
const LARGE: f64 = 64e3;
/// Maximum bytes of unread requests or unsent replies for a client not to count as having large
/// values.
const LARGE_BUFFER: f64 = 1e6;
/// Approximate number of the doctor's requests besides its probes, and of bytes per client in a
/// list of clients.
const OWN_REQUESTS: usize = 10;
const LISTED_BYTES: usize = 400;
/// The time in seconds after which the server's figures of recent buffers no longer include the
/// values that the doctor sent.
const FORGOTTEN_S: f64 = 12.0;

pub(crate) static LARGE_VALUES: Finding = Finding {
    name: "large-values",
    looks_at: "bytes per request, client buffers, logs of large requests (COMMANDLOG), and the \
               spread of small requests' latency",
    threshold: "64 KB a request on the average, or a buffer of 1 MB, while small requests were \
                seen to take five times as long as quick ones, and 2 ms at least",
    remedies: &[
        "Find them: redis-cli --bigkeys and --memkeys, memcached's stats items and sizes.",
        "Split or compress them, or give them connections and a server of their own: everything \
         after one on its connection waits for it, and with a single thread all other requests \
         too.",
    ],
    explained_by: &["narrow-link", "slow-reader", "slow-commands", "cpu-throttled", "frozen"],
    from_within: false,
    evaluate: large_values,
};

fn large_values(observation: &Observation) -> Evaluation {
    let counters = &observation.server.counters;
    let increase = |names: &[&str]| {
        names.iter().filter_map(|name| counters.increase(name)).fold(0.0, |all, it| all + it)
    };
    let requests = increase(&["total_commands_processed", "cmd_get", "cmd_set"]);
    if requests < 1.0 {
        return Evaluation::Unknown("requests, and the server's count of them".to_owned());
    }
    let probes = &observation.probes;
    let own_pings = match observation.server.is_memcached {
        true => 0,
        false => probes.pings.count() + probes.connects.count() + OWN_REQUESTS,
    };
    let foreign = requests - own_pings as f64 - probes.sent_requests as f64;
    let listed: usize = observation.server.clients.iter().map(Vec::len).sum();
    let own_bytes = 1.1 * probes.sent_bytes as f64 + (listed * LISTED_BYTES) as f64;
    let each = |names: &[&str]| match foreign {
        5.0.. => (increase(names) - own_bytes).max(0.0) / foreign,
        _ => 0.0,
    };
    let up = each(&["total_net_input_bytes", "bytes_read"]);
    let down = each(&["total_net_output_bytes", "bytes_written"]);
    let buffer = |client: &Client| client.output_bytes.max(client.input_bytes);
    let largest = observation.server.clients.iter().flatten().map(buffer).max().unwrap_or(0);
    let recent = ["client_recent_max_input_buffer", "client_recent_max_output_buffer"];
    let recent = recent.iter().filter_map(|name| counters.number(name)).fold(0.0, f64::max);
    let recent = if observation.seconds >= FORGOTTEN_S { recent } else { 0.0 };
    let mut large: Vec<_> = observation.server.large.iter().collect();
    large.sort_by_key(|request| std::cmp::Reverse(request.bytes));
    let largest_logged = large.first().map_or(0, |request| request.bytes);
    let largest = recent.max(largest as f64);
    let longest = observation.probes.pings.max_us().unwrap_or(0);
    let verdict = format!(
        "Large values delay small ones: requests have {} on the average and replies {}, and a \
         request of a few bytes took up to {}, where {} is usual.",
        bytes(up),
        bytes(down),
        milliseconds(longest),
        milliseconds(observation.probes.pings.quantile_us(0.5).unwrap_or(0))
    );
    let mut evidence = Evidence::new(verdict)
        .with("bytes a request", bytes(up))
        .with("bytes a reply", bytes(down))
        .with("largest buffer of a client", bytes(largest))
        .with("longest round trip", milliseconds(longest));
    for request in large.iter().take(5) {
        let shown = format!("{} {}", bytes(request.bytes as f64), request.what);
        evidence = evidence.with("log of large ones", shown);
    }
    let largest = largest.max(largest_logged as f64);
    match up.max(down) >= LARGE || largest >= LARGE_BUFFER {
        true if is_delayed(observation, 2000) => Evaluation::Found(evidence),
        true => Evaluation::Notice(evidence),
        false => Evaluation::Healthy,
    }
}

pub(crate) static HOT_KEY: Finding = Finding {
    name: "hot-key",
    looks_at: "the keys of requests in a sample of 200 ms, or by the server's HOTKEYS",
    threshold: "a fifth of at least 100 requests use one key, or its commands take a fifth of the \
                time of all and a tenth of a processor: one key cannot be spread over servers or \
                processors",
    remedies: &[
        "Cache it in the program briefly: CLIENT TRACKING notifies of changes.",
        "Spread it: store the same value under several keys, of which each client chooses one.",
    ],
    explained_by: &[],
    from_within: true,
    evaluate: hot_key,
};

/// The share of requests, or of the time for requests, from which a key is hot.
const HOT: f64 = 0.2;
/// The minimum share of a processor that a hot key takes.
const HOT_PROCESSOR: f64 = 0.1;

fn hot_key(observation: &Observation) -> Evaluation {
    if let Some(costly) = costly_key(observation) {
        return Evaluation::Found(costly);
    }
    let Some(sample) = &observation.server.sample else {
        return match observation.server.key_costs {
            Some(_) => Evaluation::Healthy,
            None => {
                let needed = "HOTKEYS, or the requests themselves: give --sample-commands";
                Evaluation::Unknown(needed.to_owned())
            }
        };
    };
    let top = sample.keys.iter().max_by_key(|(_, count)| *count);
    let Some((key, count)) = top.filter(|_| sample.requests >= 100) else {
        return Evaluation::Unknown(format!("more requests: the sample has {}", sample.requests));
    };
    let share = *count as f64 / sample.requests as f64;
    let verdict =
        format!("One key is hot: {} of the requests in the sample use {key}.", percent(share));
    let evidence = Evidence::new(verdict)
        .with("requests in the sample", sample.requests)
        .with("that use this key", count);
    if share >= HOT { Evaluation::Found(evidence) } else { Evaluation::Healthy }
}

/// Returns evidence for the key that takes too much of the server's time, according to the server.
fn costly_key(observation: &Observation) -> Option<Evidence> {
    let costs = observation.server.key_costs.as_ref()?;
    let (key, us) = costs.keys.iter().max_by_key(|(_, us)| *us)?;
    let share = *us as f64 / costs.all_us.max(1) as f64;
    let processor = *us as f64 / 1e6 / observation.seconds.max(0.1);
    let verdict = format!(
        "One key is hot: commands on {key} take {} of the time of all commands, and {} of a \
         processor.",
        percent(share.min(1.0)),
        percent(processor)
    );
    let evidence = Evidence::new(verdict)
        .with("time of commands on it", milliseconds(*us))
        .with("time of all commands", milliseconds(costs.all_us));
    (share >= HOT && processor >= HOT_PROCESSOR).then_some(evidence)
}

pub(crate) static CLIENTS_DIFFER: Finding = Finding {
    name: "clients-hash-differently",
    looks_at: "the servers on which two client configurations place the same 10,000 keys",
    threshold: "one key that they place differently: what one stores there the other misses",
    remedies: &[
        "Give all clients one hash and one distribution: php's LIBKETAMA_COMPATIBLE, \
         pylibmc's ketama_weighted and twemproxy's md5 with ketama are alike; modula and ketama \
         never are, nor is pylibmc's ketama without weights.",
        "Name the servers identically, in the same order and with the same ports and weights: \
         names are hashed, so a host name and its address are different servers.",
        "nagi client ring --compare A B shows the share for keys of your own.",
    ],
    explained_by: &[],
    from_within: false,
    evaluate: clients_differ,
};

fn clients_differ(observation: &Observation) -> Evaluation {
    let Some(placement) = &observation.placement else {
        return Evaluation::Unknown("two configurations of clients: give --clients A B".to_owned());
    };
    let share = placement.different as f64 / placement.keys.max(1) as f64;
    let verdict = format!(
        "Two clients place keys differently: {:.1} % of all keys are on other servers with {} than \
         with {}, and what one stores there the other misses.",
        share * 100.0,
        placement.other,
        placement.one
    );
    let evidence = Evidence::new(verdict)
        .with("keys compared", placement.keys)
        .with("placed differently", placement.different);
    if placement.different > 0 { Evaluation::Found(evidence) } else { Evaluation::Healthy }
}

pub(crate) static MONITOR: Finding = Finding {
    name: "monitor-running",
    looks_at: "clients that run MONITOR (flag O in CLIENT LIST)",
    threshold: "one such client: with a single thread it halves the server's throughput, and it \
                sees every key and value",
    remedies: &[
        "Close it: CLIENT KILL ID with the number below.",
        "Use LATENCY, SLOWLOG, COMMANDLOG and INFO commandstats instead.",
    ],
    explained_by: &[],
    from_within: true,
    evaluate: monitor,
};

fn monitor(observation: &Observation) -> Evaluation {
    if observation.server.is_memcached {
        return Evaluation::Unknown("memcached does not list its watchers".to_owned());
    }
    let Some(clients) = observation.server.clients.last() else {
        return Evaluation::Unknown("CLIENT LIST (at most 1,000 clients are listed)".to_owned());
    };
    let watchers: Vec<&Client> =
        clients.iter().filter(|client| client.flags.contains('O')).collect();
    let Some(watcher) = watchers.first() else { return Evaluation::Healthy };
    let verdict = format!(
        "MONITOR has been left running by {} of the clients: each request is copied to it.",
        watchers.len()
    );
    Evaluation::Found(
        Evidence::new(verdict)
            .with("clients that run MONITOR", watchers.len())
            .with("number of the first", watcher.id)
            .with("replies it has not read", bytes(watcher.output_bytes as f64)),
    )
}
