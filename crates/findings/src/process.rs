//! Faults of the server's process and its resources.

use super::finding::{
    Evaluation, Evidence, Finding, is_delayed, is_late, logged, milliseconds, percent, pressure,
};
use super::network::{is_lossy, is_narrow};
use crate::observation::{BusyThread, Observation};

pub(crate) static FROZEN: Finding = Finding {
    name: "frozen",
    looks_at: "whether the process was stopped (T), and requests without an answer while the \
               kernel still accepts connections",
    threshold: "seen stopped and silent for 200 ms; or, if the process is not visible, silent for \
                a second without another cause",
    remedies: &[
        "kill -CONT, and find what stopped it: a debugger, a job control signal, a freezer of \
         containers, a live migration of the machine.",
        "Clients: a timeout of a few hundred milliseconds, so that one server's stop is not the \
         program's (socket_timeout in redis-py, soTimeout in Jedis, read_timeout in phpredis).",
    ],
    explained_by: &["slow-commands", "fork-stall", "slow-disk", "swapping", "cpu-throttled"],
    from_within: false,
    evaluate: frozen,
};

fn frozen(observation: &Observation) -> Evaluation {
    let pings = &observation.probes.pings;
    let Some(longest) = pings.max_us() else {
        return Evaluation::Unknown("requests of nagi doctor".to_owned());
    };
    let own = observation.probes.own_delays.max_us().unwrap_or(0);
    let stopped = observation.host.process.as_ref().map(|process| process.stopped_share);
    let verdict = match stopped {
        Some(share) if share > 0.0 => format!(
            "The server's process was stopped: in {} of all samples it was in state T, and \
             requests waited up to {}.",
            percent(share),
            milliseconds(longest)
        ),
        _ => format!(
            "The server was silent for {} while its kernel still accepted connections: its process \
             was stopped, or did not run.",
            milliseconds(longest)
        ),
    };
    let evidence = Evidence::new(verdict)
        .with("longest without an answer", milliseconds(longest))
        .with("share of samples in which it was stopped", stopped.map_or("-".to_owned(), percent))
        .with("own delay at most", milliseconds(own));
    if is_late(observation) {
        return Evaluation::Unknown("a host with time to measure".to_owned());
    }
    let takes_connections = observation.probes.connects.count() > 0;
    match stopped {
        Some(share) if share > 0.0 && longest >= 200_000 => Evaluation::Found(evidence),
        Some(_) => Evaluation::Healthy,
        // The values that the doctor transfers fill a narrow link and delay all other traffic. On a
        // lossy link, a segment that is lost several times takes more than a second.
        None if is_narrow(observation) || is_lossy(observation) => Evaluation::Healthy,
        None if longest >= 1_000_000 && takes_connections => {
            // With almost no answers, there are no usual round trips for a comparison.
            match pings.count() <= 2 || is_delayed(observation, 1_000_000) {
                true => Evaluation::Found(evidence),
                false => Evaluation::Healthy,
            }
        }
        None => Evaluation::Healthy,
    }
}

pub(crate) static CPU_THROTTLED: Finding = Finding {
    name: "cpu-throttled",
    looks_at: "cpu.stat of the process' control group: periods, and throttled periods",
    threshold: "5 % of the periods: in each the process is stopped for up to 100 ms, whatever \
                the average says",
    remedies: &[
        "Raise or remove the limit (docker --cpus, resources.limits.cpu in Kubernetes); for \
         caches, set only requests.cpu.",
        "Use fewer threads (io-threads, -t): they share one quota and then all wait.",
    ],
    explained_by: &[],
    from_within: false,
    evaluate: cpu_throttled,
};

fn cpu_throttled(observation: &Observation) -> Evaluation {
    let Some(process) = &observation.host.process else {
        return Evaluation::Unknown("the server's own host: cpu.stat of its group".to_owned());
    };
    let Some(throttling) = process.throttling else { return Evaluation::Healthy };
    let share = throttling.throttled_periods as f64 / throttling.periods.max(1) as f64;
    let verdict = format!(
        "A limit on processor time stops the server: in {} of the periods, {} within the run.",
        percent(share),
        milliseconds(throttling.throttled_us)
    );
    let evidence = Evidence::new(verdict)
        .with("periods", throttling.periods)
        .with("in which it was throttled", throttling.throttled_periods)
        .with("time it waited", milliseconds(throttling.throttled_us));
    match share {
        0.05.. if throttling.throttled_periods >= 2 => Evaluation::Found(evidence),
        share if share > 0.0 => Evaluation::Notice(evidence),
        _ => Evaluation::Healthy,
    }
}

pub(crate) static ONE_THREAD_BUSY: Finding = Finding {
    name: "one-thread-busy",
    looks_at: "processor time of the server's busiest thread",
    threshold: "90 % of one processor, used or waited for: beyond that requests queue, and each \
                further one makes all wait longer",
    remedies: &[
        "Fewer and larger requests: pipelines, MGET; fewer expensive ones (INFO commandstats).",
        "Spread keys over several servers, or take one that uses several processors for one \
         keyspace.",
    ],
    explained_by: &[
        "slow-commands",
        "no-keep-alive",
        "monitor-running",
        "cpu-throttled",
        "hot-key",
        "mass-expiry",
    ],
    from_within: true,
    evaluate: one_thread_busy,
};

/// The minimum share of the time for which a thread must run before its waiting for a processor
/// counts: an almost idle thread also waits when other threads occupy all processors.
const MIN_USED: f64 = 1.0 / 3.0;

fn one_thread_busy(observation: &Observation) -> Evaluation {
    let observed = observation.host.process.as_ref().and_then(|process| process.busiest.clone());
    let Some(thread) = observed.or_else(|| busiest_reported(observation)) else {
        return Evaluation::Unknown("the server's own host, or INFO cpu".to_owned());
    };
    let wanted = thread.used + thread.waited;
    let waits = match thread.waited {
        0.1.. => format!(
            ", and waits for one {} of the time, which other programs of its host use",
            percent(thread.waited)
        ),
        _ => String::new(),
    };
    let verdict = format!(
        "One thread of the server ({}) is saturated: it uses {} of a processor{waits}.",
        thread.name,
        percent(thread.used.min(1.0))
    );
    let evidence = Evidence::new(verdict)
        .with("busiest thread", &thread.name)
        .with("busy", percent(thread.used))
        .with("waiting for a processor", percent(thread.waited))
        .with("time for which tasks of its host did", pressure(observation, |it| it.cpu));
    match wanted {
        0.9.. if thread.used >= MIN_USED => Evaluation::Found(evidence),
        0.7.. => Evaluation::Notice(evidence),
        _ => Evaluation::Healthy,
    }
}

/// The busiest thread according to the server itself.
fn busiest_reported(observation: &Observation) -> Option<BusyThread> {
    let counters = &observation.server.counters;
    let share = |user: &str, system: &str| {
        let used = counters.increase(user)? + counters.increase(system)?;
        Some(used / observation.seconds.max(0.1))
    };
    let thread = |name: &str, used| BusyThread { name: name.to_owned(), used, waited: 0.0 };
    let main = share("used_cpu_user_main_thread", "used_cpu_sys_main_thread");
    let of_all = || {
        let threads = counters.number("threads").unwrap_or(1.0).max(1.0);
        Some(thread("each of all", share("rusage_user", "rusage_system")? / threads))
    };
    main.map(|used| thread("main", used)).or_else(of_all)
}

/// The longest fork that is not a finding, in microseconds.
const LONG_FORK_US: f64 = 10_000.0;

pub(crate) static FORK_STALL: Finding = Finding {
    name: "fork-stall",
    looks_at: "forks for saves (INFO's latest_fork_usec), and huge pages",
    threshold: "a fork of 10 ms within the run, by INFO or the latency monitor: nothing is \
                answered meanwhile; an older one is a notice",
    remedies: &[
        "Turn huge pages off: echo never > /sys/kernel/mm/transparent_hugepage/enabled. With them \
         each first write after a fork copies 2 MB.",
        "Save on a replica, or less often; smaller instances fork faster (about 10 ms a GB).",
        "Or use a server that saves without a fork, such as nagi.",
    ],
    explained_by: &[],
    from_within: false,
    evaluate: fork_stall,
};

fn fork_stall(observation: &Observation) -> Evaluation {
    let counters = &observation.server.counters;
    if observation.server.is_memcached {
        return Evaluation::Healthy;
    }
    let Some(latest_us) = counters.number("latest_fork_usec") else {
        return Evaluation::Unknown("INFO stats".to_owned());
    };
    let logged_ms = observation.server.longest_event_ms("fork").unwrap_or(0);
    // Servers that do not count forks may log them.
    let forks = counters.increase("total_forks").unwrap_or(0.0).max((logged_ms > 0).into());
    let latest_us = latest_us.max(logged_ms as f64 * 1e3);
    let when = if forks > 0.0 { "within the run" } else { "before the run" };
    let pages = observation.host.huge_pages.as_deref().unwrap_or("not readable from here");
    let overcommit = observation.host.overcommit.map_or("-".to_owned(), |it| it.to_string());
    let verdict = format!(
        "A fork for a save stops the server: the last one, {when}, took {}.",
        milliseconds(latest_us as u64)
    );
    let evidence = Evidence::new(verdict)
        .with("latest fork", milliseconds(latest_us as u64))
        .with("forks within the run", forks)
        .with("in the latency monitor", logged(observation, "fork"))
        .with("transparent huge pages", pages)
        .with("vm.overcommit_memory", overcommit)
        .with("longest round trip", milliseconds(observation.probes.pings.max_us().unwrap_or(0)));
    match latest_us >= LONG_FORK_US {
        true if forks > 0.0 => Evaluation::Found(evidence),
        true => Evaluation::Notice(evidence),
        false => Evaluation::Healthy,
    }
}

pub(crate) static SLOW_DISK: Finding = Finding {
    name: "slow-disk",
    looks_at: "an append-only file's delayed fsyncs, and threads of the process that wait for a \
               disk (D)",
    threshold: "with an append-only file: one fsync that was waited for, 10 ms of writing it in \
                the latency monitor, 10 % of all samples with a waiting thread, or appendfsync \
                always and requests that wait 10 ms",
    remedies: &[
        "appendfsync everysec instead of always, no-appendfsync-on-rewrite yes, or no \
         append-only file for what is only a cache.",
        "A disk of its own: a log, a backup or a container's layer may share it.",
    ],
    explained_by: &[],
    from_within: false,
    evaluate: slow_disk,
};

fn slow_disk(observation: &Observation) -> Evaluation {
    let counters = &observation.server.counters;
    if observation.server.is_memcached || counters.number("aof_enabled") == Some(0.0) {
        return Evaluation::Healthy;
    }
    if counters.number("aof_enabled").is_none() {
        return Evaluation::Unknown("INFO persistence".to_owned());
    }
    let delayed = counters.increase("aof_delayed_fsync").unwrap_or(0.0);
    let pending = counters.number("aof_pending_bio_fsync").unwrap_or(0.0);
    let waiting = observation.host.process.as_ref().map_or(0.0, |process| process.disk_share);
    let policy = observation.server.settings.get("appendfsync").map_or("unknown", String::as_str);
    let longest = observation.probes.pings.max_us().unwrap_or(0);
    let verdict = format!(
        "The disk is slow at fsync, and the server waits for it (appendfsync {policy}): {delayed} \
         delayed within the run, a thread waiting in {} of all samples, requests up to {}.",
        percent(waiting),
        milliseconds(longest)
    );
    let evidence = Evidence::new(verdict)
        .with("delayed fsyncs within the run", delayed)
        .with("pending", pending)
        .with("samples in which a thread waited for a disk", percent(waiting))
        .with("time for which tasks of its host did", pressure(observation, |it| it.io))
        .with("in the latency monitor", logged(observation, "aof-"))
        .with("appendfsync", policy)
        .with("longest round trip", milliseconds(longest));
    // With `always`, every write waits for the disk; no counter shows these waits.
    let waits_always = policy == "always" && is_delayed(observation, 10_000);
    let is_logged = observation.server.longest_event_ms("aof-") >= Some(10);
    match delayed > 0.0 || waiting >= 0.1 || waits_always || is_logged {
        true => Evaluation::Found(evidence),
        false => Evaluation::Healthy,
    }
}

pub(crate) static FAILED_SAVES: Finding = Finding {
    name: "failed-saves",
    looks_at: "the results of the last save, and of the last rewrite and write of the append-only \
               file",
    threshold: "one of them failed: changes since then are lost with the process, and with \
                stop-writes-on-bgsave-error every write is answered with MISCONF",
    remedies: &[
        "Read the reason in the server's log: a full disk, a folder (CONFIG GET dir) that its user \
         may not write to, or a fork without memory (vm.overcommit_memory=1).",
        "After the repair, run BGSAVE: INFO persistence shows ok again after a successful save.",
        "For what is only a cache: no saves at all (save \"\", appendonly no).",
    ],
    explained_by: &[],
    from_within: true,
    evaluate: failed_saves,
};

/// The fields that contain the status of saves, with descriptions.
const SAVES: [(&str, &str); 3] = [
    ("rdb_last_bgsave_status", "the last save"),
    ("aof_last_bgrewrite_status", "the last rewrite of the append-only file"),
    ("aof_last_write_status", "the last write of the append-only file"),
];

fn failed_saves(observation: &Observation) -> Evaluation {
    let counters = &observation.server.counters;
    if observation.server.is_memcached {
        return Evaluation::Healthy;
    }
    if !counters.after.contains_key("rdb_last_bgsave_status") {
        return Evaluation::Unknown("INFO persistence".to_owned());
    }
    let has_failed = |name: &str| counters.after.get(name).is_some_and(|status| status != "ok");
    let failed = SAVES.iter().filter(|(name, _)| has_failed(name));
    let failed: Vec<&str> = failed.map(|(_, what)| *what).collect();
    if failed.is_empty() {
        return Evaluation::Healthy;
    }
    let unsaved = counters.number("rdb_changes_since_last_save").unwrap_or(0.0);
    let verdict = format!(
        "Saving fails: {} failed, and {unsaved} changes would be lost with the process.",
        failed.join(" and ")
    );
    let mut evidence = Evidence::new(verdict).with("changes that are not saved", unsaved);
    for (name, _) in SAVES {
        if let Some(status) = counters.after.get(name) {
            evidence = evidence.with(name, status);
        }
    }
    Evaluation::Found(evidence)
}
