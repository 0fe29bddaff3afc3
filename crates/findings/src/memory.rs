//! Faults of memory: the memory limit, swap, mass expiry, and clients that do not read their
//! replies.

use super::finding::{
    Evaluation, Evidence, Finding, bytes, in_time, is_delayed, logged, percent, pressure,
};
use crate::observation::Observation;

pub(crate) static AT_ITS_LIMIT: Finding = Finding {
    name: "memory-at-its-limit",
    looks_at: "memory in use and its limit, evictions, and writes refused for lack of memory",
    threshold: "one eviction a second or one refused write within the run; 95 % in use is a notice",
    remedies: &[
        "Give it more memory (maxmemory, memcached: -m), or spread the keys over more servers.",
        "Give keys a TTL that fits, and keep fewer and smaller values.",
        "If writes are refused: a policy that evicts (maxmemory-policy allkeys-lru) where all keys \
         may go.",
    ],
    explained_by: &[],
    from_within: true,
    evaluate: at_its_limit,
};

fn at_its_limit(observation: &Observation) -> Evaluation {
    let counters = &observation.server.counters;
    let number = |names: &[&str]| names.iter().find_map(|name| counters.number(name));
    let increase = |names: &[&str]| names.iter().find_map(|name| counters.increase(name));
    let used = number(&["used_memory", "bytes"]);
    let limit = number(&["maxmemory", "limit_maxbytes"]);
    let (Some(used), Some(limit)) = (used, limit) else {
        return Evaluation::Unknown("INFO memory".to_owned());
    };
    let evicted = increase(&["evicted_keys", "evictions"]).unwrap_or(0.0);
    // nagi has clients of both protocols, and counts their refusals separately, as Redis and
    // memcached do.
    let refused = counters.part_increase("errorstat_OOM", "count").unwrap_or(0.0)
        + counters.increase("store_no_memory").unwrap_or(0.0);
    let rate = evicted / observation.seconds.max(0.1);
    let share = if limit > 0.0 { used / limit } else { 0.0 };
    let verdict = match refused > 0.0 {
        true => format!(
            "Memory is at its limit and writes are refused: {refused} {}, {} of {} in use.",
            in_time(observation),
            bytes(used),
            bytes(limit)
        ),
        false => format!(
            "Memory is at its limit: {rate:.0} keys a second are evicted, {} of {} in use.",
            bytes(used),
            bytes(limit)
        ),
    };
    let policy = observation.server.settings.get("maxmemory-policy");
    let mut evidence = Evidence::new(verdict)
        .with("in use", bytes(used))
        .with("limit", bytes(limit))
        .with("share in use", percent(share))
        .with("evicted in that time", evicted)
        .with("writes refused in that time", refused);
    if let Some(policy) = policy {
        evidence = evidence.with("maxmemory-policy", policy);
    }
    match share {
        _ if refused > 0.0 || rate >= 1.0 => Evaluation::Found(evidence),
        0.95.. => Evaluation::Notice(evidence),
        _ => Evaluation::Healthy,
    }
}

/// Bytes of resident memory beyond the used memory from which fragmentation is reported.
const MUCH: f64 = 100e6;

pub(crate) static SWAPPING: Finding = Finding {
    name: "swapping",
    looks_at: "the process' memory in swap, pages read back from it, and resident memory compared \
               with used memory",
    threshold: "10 MB in swap while pages are read back, each as slow as the disk; or a resident \
                size of one and a half times the used memory, and 100 MB above it",
    remedies: &[
        "Swap: less on this host, a lower maxmemory, vm.swappiness=1. A cache in swap is slower \
         than the database behind it.",
        "Fragmentation: activedefrag yes where the server has it, or a restart after a save.",
    ],
    explained_by: &[],
    from_within: true,
    evaluate: swapping,
};

fn swapping(observation: &Observation) -> Evaluation {
    let counters = &observation.server.counters;
    let process = observation.host.process.as_ref();
    let swap = process.and_then(|it| it.swap_bytes).unwrap_or(0) as f64;
    let read_back = observation.host.swapped_in.unwrap_or(0);
    let faults = process.and_then(|it| it.major_faults).unwrap_or(0);
    if swap >= 10e6 {
        let verdict = format!(
            "The server is swapping: {} of it are in swap, and its process read pages back \
             {faults} times within the run.",
            bytes(swap)
        );
        let evidence = Evidence::new(verdict)
            .with("in swap", bytes(swap))
            .with("pages read back by this host", read_back)
            .with("major faults of the process", faults)
            .with(
                "time for which tasks of its host waited for memory",
                pressure(observation, |it| it.memory),
            );
        let is_slow = faults as f64 >= observation.seconds.max(1.0);
        return if is_slow { Evaluation::Found(evidence) } else { Evaluation::Notice(evidence) };
    }
    let sizes = counters.number("used_memory_rss").zip(counters.number("used_memory"));
    let Some((resident, used)) = sizes else {
        return match process {
            Some(_) => Evaluation::Healthy,
            None => Evaluation::Unknown("the server's own host, or INFO memory".to_owned()),
        };
    };
    let excess = resident - used;
    let verdict = format!(
        "Memory is fragmented: {} are resident for {} in use.",
        bytes(resident),
        bytes(used)
    );
    let evidence =
        Evidence::new(verdict).with("resident", bytes(resident)).with("in use", bytes(used));
    match excess >= MUCH && excess >= used / 2.0 {
        true => Evaluation::Found(evidence),
        false => Evaluation::Healthy,
    }
}

pub(crate) static MASS_EXPIRY: Finding = Finding {
    name: "mass-expiry",
    looks_at: "expiring keys, and the time that the server spends on them",
    threshold: "500 keys a second, while the server used up the time slot for expiry, or spent 5 % \
                of its time on it",
    remedies: &[
        "Spread the times: a TTL of 3600 plus a random part of 600 seconds, instead of one moment \
         for all (midnight, the end of a deployment's first hour).",
        "If they must expire together: hz and active-expire-effort trade delay against memory.",
    ],
    explained_by: &[],
    from_within: true,
    evaluate: mass_expiry,
};

fn mass_expiry(observation: &Observation) -> Evaluation {
    let counters = &observation.server.counters;
    if observation.server.is_memcached {
        // memcached frees expired items when they are requested or when it needs the memory, so a
        // mass expiry does not stall it.
        return Evaluation::Healthy;
    }
    let Some(expired) = counters.increase("expired_keys") else {
        return Evaluation::Unknown("INFO stats".to_owned());
    };
    let rate = expired / observation.seconds.max(0.1);
    let capped = counters.increase("expired_time_cap_reached_count").unwrap_or(0.0);
    let spent_ms = counters.increase("expire_cycle_cpu_milliseconds").unwrap_or(0.0);
    let share = spent_ms / 1e3 / observation.seconds.max(0.1);
    let verdict = format!(
        "Many keys expire at once: {rate:.0} a second. The server spent {} of its time on them, \
         and used up its time slot {capped} times.",
        percent(share)
    );
    let evidence = Evidence::new(verdict)
        .with("expired in that time", expired)
        .with("times that the time for it ran out", capped)
        .with("time spent", format_args!("{spent_ms} ms"))
        .with("in the latency monitor", logged(observation, "expire"));
    let is_logged = observation.server.longest_event_ms("expire") >= Some(5);
    match rate {
        500.0.. if capped > 0.0 || share >= 0.05 || is_logged => Evaluation::Found(evidence),
        500.0.. if is_delayed(observation, 5000) => Evaluation::Found(evidence),
        5000.0.. => Evaluation::Notice(evidence),
        _ => Evaluation::Healthy,
    }
}

/// The number of unread bytes from which a client counts as slow.
pub const UNREAD_BYTES: u64 = 1 << 20;

pub(crate) static SLOW_READER: Finding = Finding {
    name: "slow-reader",
    looks_at: "replies that clients have not read (omem in CLIENT LIST), and clients closed for it",
    threshold: "1 MB for the same client in every list of the run, or one closed within it",
    remedies: &[
        "Find the program by the client's address and name in CLIENT LIST: it sends requests or \
         subscribes, and does not read.",
        "client-output-buffer-limit closes such clients before they use up the server's memory.",
    ],
    explained_by: &["narrow-link"],
    from_within: true,
    evaluate: slow_reader,
};

fn slow_reader(observation: &Observation) -> Evaluation {
    let server = &observation.server;
    let closed =
        server.counters.increase("client_output_buffer_limit_disconnections").unwrap_or(0.0);
    let Some(last) = server.clients.last() else {
        if closed > 0.0 {
            let verdict = format!("{closed} clients that did not read their replies were closed.");
            return Evaluation::Found(Evidence::new(verdict).with("closed", closed));
        }
        let needed = match server.is_memcached {
            true => "a list of clients with what they have not read, which memcached has not",
            false => "CLIENT LIST (at most 1,000 clients are listed)",
        };
        return Evaluation::Unknown(needed.to_owned());
    };
    let is_lagging = |id: u64| {
        let holds =
            |it: &crate::observation::Client| it.id == id && it.output_bytes >= UNREAD_BYTES;
        server.clients.len() >= 2 && server.clients.iter().all(|list| list.iter().any(holds))
    };
    let lagging: Vec<_> = last.iter().filter(|client| is_lagging(client.id)).collect();
    let unread = lagging.iter().fold(0_u64, |all, it| all.saturating_add(it.output_bytes));
    let verdict = format!(
        "{} clients do not read their replies: {} of unread replies are in the server's memory, \
         and {closed} clients were closed for it {}.",
        lagging.len(),
        bytes(unread as f64),
        in_time(observation)
    );
    let mut evidence = Evidence::new(verdict)
        .with("clients", lagging.len())
        .with("unread", bytes(unread as f64))
        .with("closed in that time", closed);
    if let Some(first) = lagging.first() {
        evidence =
            evidence.with("number of the first", first.id).with("its command", &first.command);
    }
    match lagging.is_empty() && closed == 0.0 {
        true => Evaluation::Healthy,
        false => Evaluation::Found(evidence),
    }
}
