//! Faults of connections: failed ones, and too many of them.

use super::finding::{Evaluation, Evidence, Finding, in_time};
use crate::observation::{Failure, Observation};

/// The calls that reuse connections in common clients, and the settings that limit their number.
const REDIS_PY: &str = "redis-py: one redis.ConnectionPool(max_connections=N) for each process, \
                        made at its start and given to every redis.Redis(connection_pool=pool), \
                        with N its threads; redis.BlockingConnectionPool(max_connections=N, \
                        timeout=1) waits for a free one instead of failing.";
const JEDIS: &str = "Jedis: one JedisPool for each process, by JedisPoolConfig with setMaxTotal(N) \
                     and setMaxIdle(N), N its threads (8 unless set), and \
                     setBlockWhenExhausted(true); close() of a Jedis gives it back.";
const PHPREDIS: &str = "phpredis: $redis->pconnect(host, port) instead of connect(), with \
                        redis.pconnect.pooling_enabled=1 in php.ini; each worker of php-fpm keeps \
                        one, so pm.max_children bounds them.";
const HIREDIS: &str = "hiredis: keep the redisContext of redisConnect() for the thread's life, and \
                       redisReconnect() it after an error, instead of redisFree() after each \
                       request.";

pub(crate) static PORTS_USED_UP: Finding = Finding {
    name: "ports-used-up",
    looks_at: "local ports of this host towards the server, by state, beside ip_local_port_range",
    threshold: "a connection fails for lack of a port, or 80 % of them are in use: at the rate \
                that fills 80 % within TIME_WAIT's 60 seconds, the rest lasts 15 seconds",
    remedies: &[
        "Keep connections open, one per thread or worker: nothing else removes the cause. The \
         calls of common clients follow.",
        REDIS_PY,
        JEDIS,
        PHPREDIS,
        HIREDIS,
        "If the program cannot keep any: the HTTP gateway of nagi (http-port), behind a web \
         server that keeps its connections; or twemproxy on this host, which the program reaches \
         by a Unix socket (listen: /run/twemproxy.sock) and which keeps its own to the server.",
        "For the moment: sysctl net.ipv4.ip_local_port_range=\"10240 65535\", and \
         net.ipv4.tcp_tw_reuse=1, which lets a port in TIME_WAIT be used again after a second. \
         Not tcp_tw_recycle: it broke clients behind NAT and Linux 4.12 removed it.",
    ],
    explained_by: &[],
    from_within: false,
    evaluate: ports_used_up,
};

fn ports_used_up(observation: &Observation) -> Evaluation {
    let failed = failures(observation, Failure::NoPort);
    let Some(ports) = &observation.host.ports else {
        if failed > 0 {
            let verdict = format!(
                "Requests fail because no local port is left: {failed} of the doctor's own \
                 connections could not be made."
            );
            return Evaluation::Found(Evidence::new(verdict).with("no port left", failed));
        }
        return Evaluation::Unknown("the sockets of this host (/proc/net/tcp)".to_owned());
    };
    let share = ports.used as f64 / ports.range.max(1) as f64;
    let rate = (increase(observation, CONNECTIONS) / observation.seconds.max(0.1)).round();
    let wording = match failed {
        0 if share < 0.8 => "fill up",
        _ => "are used up",
    };
    let attempts = own_attempts(observation);
    let failing = failing_rate(rate, failed, attempts);
    let fail = match failing {
        _ if failed == 0 => "none of the doctor's own failed yet".to_owned(),
        Some(failing) => {
            format!("about {failing} fail, as did {failed} of the doctor's own {attempts}")
        }
        None => format!("all {failed} of the doctor's own failed"),
    };
    let verdict = format!(
        "Local ports from {} to {} {wording}: {} of {} are in TIME_WAIT, {} in use in all; {rate} \
         connections a second succeed and {fail}. Clients open connections and close them instead \
         of keeping them.",
        ports.local, ports.remote, ports.time_wait, ports.range, ports.used
    );
    let reuse = ports.reuse.map_or("not readable".to_owned(), |reuse| reuse.to_string());
    let failing = failing.map_or("unknown".to_owned(), |failing| failing.to_string());
    let evidence = Evidence::new(verdict)
        .with("in TIME_WAIT", ports.time_wait)
        .with("in use", ports.used)
        .with("ports that may be used", ports.range)
        .with("connections a second", rate)
        .with("that fail a second, about", failing)
        .with("own connections that failed", failed)
        .with("of own connections in all", attempts)
        .with("net.ipv4.tcp_tw_reuse", reuse);
    match share {
        _ if failed > 0 => Evaluation::Found(evidence),
        0.8.. => Evaluation::Found(evidence),
        0.5.. => Evaluation::Notice(evidence),
        _ => Evaluation::Healthy,
    }
}

/// Returns the number of connections that the doctor attempted.
fn own_attempts(observation: &Observation) -> u64 {
    let failed: u64 =
        observation.probes.failures.values().fold(0, |all, it| all.saturating_add(*it));
    failed.saturating_add(observation.probes.connects.count() as u64)
}

/// Estimates how many connections fail per second. Kernels do not count them. A lack of ports
/// affects all connections to the same address equally, so the share of failed connections is the
/// same as among the doctor's own. If all of the doctor's failed, the number cannot be estimated.
fn failing_rate(succeeding: f64, failed: u64, attempts: u64) -> Option<f64> {
    let succeeded = attempts.checked_sub(failed).filter(|succeeded| *succeeded > 0)?;
    Some((succeeding * failed as f64 / succeeded as f64).round())
}

pub(crate) static CLIENTS_REFUSED: Finding = Finding {
    name: "clients-refused",
    looks_at: "clients and maxclients, refused clients but those of protected mode, and the \
               process' descriptors and their limit",
    threshold: "a client was refused within the run, by the server's counter or error, or 95 % of \
                maxclients or of the descriptors are in use. A closed connection alone is no \
                evidence: something in between may have closed it",
    remedies: &[
        "Find the clients that hold them: CLIENT LIST by address and name (memcached: stats \
         conns). A pool for each process times the number of processes is often more than \
         expected.",
        "Give pools a limit, N, with N times all processes below maxclients: \
         redis.BlockingConnectionPool(max_connections=N) of redis-py (its ConnectionPool has none \
         unless set), JedisPoolConfig.setMaxTotal(N) of Jedis, pm.max_children=N where phpredis \
         uses pconnect, one redisContext a thread with hiredis.",
        "Close idle connections: the server's timeout setting (CONFIG SET timeout 300), \
         memcached's -o idle_timeout=300.",
        "Raise maxclients (memcached: -c), and with it the limit on descriptors (ulimit -n, \
         LimitNOFILE= of systemd), if so many clients are intended.",
    ],
    explained_by: &["frozen"],
    from_within: true,
    evaluate: clients_refused,
};

fn clients_refused(observation: &Observation) -> Evaluation {
    let counters = &observation.server.counters;
    let turned = failures(observation, Failure::TurnedAway);
    // `rejected_connections` of Redis' INFO includes clients that protected mode refused, which are
    // not due to the limit. nagi also counts these separately.
    let of_protected_mode = increase(observation, &["rejected_by_protected_mode"]);
    let refused = (increase(observation, &["rejected_connections"]) - of_protected_mode).max(0.0);
    let disabled = increase(observation, &["listen_disabled_num"]);
    let clients = first(observation, &["connected_clients", "curr_connections"]);
    let most = first(observation, &["maxclients", "max_connections"]);
    let files = observation.host.process.as_ref().and_then(|it| it.open_files.zip(it.max_files));
    let place = |(some, all): (f64, f64)| if all > 0.0 { some / all } else { 0.0 };
    let share = clients.zip(most).map_or(0.0, place);
    let file_share = files.map_or(0.0, |(open, most)| place((open as f64, most as f64)));
    if counters.after.is_empty() && turned == 0 {
        return Evaluation::Unknown("the server's own figures".to_owned());
    }
    let shown = |number: Option<f64>| number.map_or("unknown".to_owned(), |it| it.to_string());
    let places = clients.zip(most).filter(|(_, most)| *most > 0.0);
    let taken = match (files, places) {
        (Some((open, most)), _) if file_share >= 0.95 && share < 0.95 => {
            format!("{open} of {most} descriptors of its process are in use")
        }
        (_, Some((clients, most))) => format!("{clients} of {most} allowed clients are connected"),
        (_, None) => "it reports that the maximum number of clients is reached".to_owned(),
    };
    let verdict = match refused.max(disabled).max(turned as f64) {
        count if count > 0.0 => {
            format!("The server refuses clients, {count} {}: {taken}.", in_time(observation))
        }
        _ => format!("The server will soon refuse clients: {taken}."),
    };
    let mut evidence = Evidence::new(verdict)
        .with("clients", shown(clients))
        .with("most clients", shown(most))
        .with("refused in that time", refused)
        .with("own connections turned away", turned);
    if let Some((open, most)) = files {
        evidence = evidence.with("descriptors", open).with("most descriptors", most);
    }
    match share.max(file_share) {
        _ if turned > 0 || refused > 0.0 || disabled > 0.0 => Evaluation::Found(evidence),
        0.95.. => Evaluation::Found(evidence),
        0.8.. => Evaluation::Notice(evidence),
        _ => Evaluation::Healthy,
    }
}

pub(crate) static ACCEPT_QUEUE: Finding = Finding {
    name: "accept-queue",
    looks_at: "connections that wait to be accepted, those that the kernel dropped at the server's \
               own sockets, and its count of full queues, which is the whole network namespace's",
    threshold: "a connection was turned away within the run and it was this server's: dropped at \
                its socket, or its queue was seen full, or no other server listens there. Its \
                client waits a second, three, seven, until the kernel tries again",
    remedies: &[
        "Raise the queue's length on both sides: net.core.somaxconn, and tcp-backlog of the server \
         (memcached: -b).",
        "Keep connections instead of opening one for each request.",
        "Find what keeps the server from accepting: a stop, a slow command, a full processor.",
    ],
    explained_by: &["frozen", "slow-commands", "cpu-throttled", "one-thread-busy"],
    from_within: false,
    evaluate: accept_queue,
};

fn accept_queue(observation: &Observation) -> Evaluation {
    let Some(overflows) = observation.host.listen_overflows.filter(|_| observation.host.has_server)
    else {
        let needed =
            "the server's own host: its kernel counts full queues (nstat, ListenOverflows)";
        return Evaluation::Unknown(needed.to_owned());
    };
    let queue = observation.host.accept_queue.clone().unwrap_or_default();
    let connections = increase(observation, CONNECTIONS) - own_connections(observation);
    let rate = (connections / observation.seconds.max(0.1)).max(0.0).round();
    let shown = |count: Option<u64>| count.map_or("unknown".to_owned(), |it| it.to_string());
    let evidence = |verdict| {
        Evidence::new(verdict)
            .with("turned away at this server", shown(queue.drops))
            .with("turned away in this network namespace", overflows)
            .with("seen waiting", queue.waiting)
            .with("may wait", shown(queue.length))
            .with("other servers' sockets that listen", shown(queue.other_listeners))
            .with("connections a second", rate)
    };
    let is_its = match queue.drops {
        Some(drops) => drops > 0,
        None => queue.was_full || queue.other_listeners == Some(0),
    };
    if overflows == 0 || queue.drops == Some(0) {
        return Evaluation::Healthy;
    }
    if !is_its {
        return Evaluation::Notice(evidence(format!(
            "Connections were turned away in this network namespace because a queue of those to be \
             accepted was full, {overflows} within the run. Whether they were this server's cannot \
             be said: it is not the only one that listens here, and at most {} were seen waiting \
             for it.",
            queue.waiting
        )));
    }
    Evaluation::Found(evidence(format!(
        "Connections are turned away because the queue of those to be accepted is full: {} within \
         the run; up to {} were seen waiting for this server, and it accepted {rate} a second.",
        queue.drops.unwrap_or(overflows).min(overflows),
        queue.waiting
    )))
}

pub(crate) static NO_KEEP_ALIVE: Finding = Finding {
    name: "no-keep-alive",
    looks_at: "new connections and requests, both by the server's counters",
    threshold: "20 connections a second or more, and one for every five requests or fewer: then \
                setting up connections costs more than the requests",
    remedies: &[
        "Keep connections open, one per thread or worker. The calls of common clients follow.",
        REDIS_PY,
        JEDIS,
        PHPREDIS,
        HIREDIS,
        "A web server's module or proxy: keepalive 16 in nginx' upstream, with proxy_http_version \
         1.1 and an empty Connection header; mod_proxy's enablereuse=On max=16.",
        "For short-lived programs (CGI, PHP without pconnect): twemproxy on this host, which they \
         reach by a Unix socket (listen: /run/twemproxy.sock) and which keeps its connections to \
         the server; or the HTTP gateway of nagi (http-port), behind a web server that keeps its \
         own.",
    ],
    explained_by: &["ports-used-up"],
    from_within: true,
    evaluate: no_keep_alive,
};

fn no_keep_alive(observation: &Observation) -> Evaluation {
    let counters = &observation.server.counters;
    if counters.after.is_empty() {
        return Evaluation::Unknown("the server's own figures".to_owned());
    }
    let own = own_connections(observation);
    let connections = (increase(observation, CONNECTIONS) - own).max(0.0);
    let requests = (increase(observation, REQUESTS) - own_requests(observation)).max(0.0);
    let rate = connections / observation.seconds.max(0.1);
    let verdict = format!(
        "Clients open a connection for every {:.1} requests: {rate:.0} connections a second.",
        requests / connections.max(1.0)
    );
    let evidence = Evidence::new(verdict)
        .with("connections a second", rate.round())
        .with("requests a second", (requests / observation.seconds.max(0.1)).round());
    match rate >= MANY_CONNECTIONS && requests < connections * 5.0 {
        true => Evaluation::Found(evidence),
        false => Evaluation::Healthy,
    }
}

/// The number of new connections per second that counts as many.
const MANY_CONNECTIONS: f64 = 20.0;

/// Returns the number of connections that the doctor opened.
fn own_connections(observation: &Observation) -> f64 {
    observation.probes.connects.count() as f64 + 8.0
}

/// Returns the number of the doctor's own requests that the server counts. memcached counts neither
/// `version`, which the pings use, nor `stats`.
fn own_requests(observation: &Observation) -> f64 {
    let pings = match observation.server.is_memcached {
        true => 0.0,
        false => observation.probes.pings.count() as f64 + own_connections(observation),
    };
    pings + observation.probes.sent_requests as f64
}

/// The counters of new connections in Redis and memcached.
const CONNECTIONS: &[&str] = &["total_connections_received", "total_connections"];
/// The counters of requests in Redis and memcached.
const REQUESTS: &[&str] = &[
    "total_commands_processed",
    "cmd_get",
    "cmd_set",
    "cmd_touch",
    "cmd_meta",
    "delete_hits",
    "delete_misses",
    "incr_hits",
    "incr_misses",
    "decr_hits",
    "decr_misses",
];

/// Sums the growth of those counters that the server has.
fn increase(observation: &Observation, names: &[&str]) -> f64 {
    let increases = names.iter().filter_map(|name| observation.server.counters.increase(name));
    // Starting from 0 avoids -0, the sum of an empty iterator.
    increases.fold(0.0, |all, it| all + it)
}

fn first(observation: &Observation, names: &[&str]) -> Option<f64> {
    names.iter().find_map(|name| observation.server.counters.number(name))
}

fn failures(observation: &Observation, failure: Failure) -> u64 {
    observation.probes.failures.get(&failure).copied().unwrap_or(0)
}
