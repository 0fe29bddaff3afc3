//! Connections that cannot be made, and too many of them.

use super::finding::{Evaluation, Evidence, Finding, in_time};
use crate::observation::{Failure, Observation};

pub(crate) static PORTS_USED_UP: Finding = Finding {
    name: "ports-used-up",
    looks_at: "local ports of this host towards the server, by state, beside ip_local_port_range",
    threshold: "a connection fails for want of a port, or 80 % of them are in use: at the rate \
                that fills 80 % within TIME_WAIT's 60 seconds, the rest lasts 15 seconds",
    remedies: &[
        "Keep connections: redis-py's ConnectionPool, JedisPool, phpredis' pconnect, one hiredis \
         context a thread, a pool in the web server's module. Nothing else removes the cause.",
        "Where the program cannot keep any: the HTTP gateway of nagi behind a web server that \
         keeps its own, or twemproxy on this host with a Unix socket.",
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
    let verdict = format!(
        "Local ports from {} to {} {wording}: {} of {} are in TIME_WAIT, {} in use in all; {rate} \
         connections a second succeed, and {failed} of the doctor's own failed for want of a port. \
         Clients open connections and close them instead of keeping them.",
        ports.local, ports.remote, ports.time_wait, ports.range, ports.used
    );
    let reuse = ports.reuse.map_or("not readable".to_owned(), |reuse| reuse.to_string());
    let evidence = Evidence::new(verdict)
        .with("in TIME_WAIT", ports.time_wait)
        .with("in use", ports.used)
        .with("ports that may be used", ports.range)
        .with("connections a second", rate)
        .with("own connections that failed", failed)
        .with("net.ipv4.tcp_tw_reuse", reuse);
    match share {
        _ if failed > 0 => Evaluation::Found(evidence),
        0.8.. => Evaluation::Found(evidence),
        0.5.. => Evaluation::Notice(evidence),
        _ => Evaluation::Healthy,
    }
}

pub(crate) static CLIENTS_REFUSED: Finding = Finding {
    name: "clients-refused",
    looks_at: "clients beside maxclients, refused ones, and the process' descriptors beside its \
               limit",
    threshold: "a client was refused within the run, or 95 % of the places or descriptors are \
                taken",
    remedies: &[
        "Find the clients that hold them: CLIENT LIST by address and name (memcached: stats \
         conns). A pool for each process times the number of processes is often more than \
         expected.",
        "Give pools a limit: max_connections in redis-py, maxTotal in Jedis, pool_size elsewhere; \
         close idle ones with the server's timeout setting.",
        "Raise maxclients (memcached: -c), and with it the limit on descriptors (ulimit -n, \
         LimitNOFILE= of systemd), if so many are meant to be there.",
    ],
    explained_by: &["frozen"],
    from_within: true,
    evaluate: clients_refused,
};

fn clients_refused(observation: &Observation) -> Evaluation {
    let counters = &observation.server.counters;
    let turned = failures(observation, Failure::TurnedAway);
    let refused = increase(observation, &["rejected_connections"]);
    let disabled = increase(observation, &["listen_disabled_num"]);
    let clients = first(observation, &["connected_clients", "curr_connections"]);
    let most = first(observation, &["maxclients", "max_connections"]);
    let files = observation.host.process.as_ref().and_then(|it| it.open_files.zip(it.most_files));
    let place = |(some, all): (f64, f64)| if all > 0.0 { some / all } else { 0.0 };
    let share = clients.zip(most).map_or(0.0, place);
    let file_share = files.map_or(0.0, |(open, most)| place((open as f64, most as f64)));
    if counters.after.is_empty() && turned == 0 {
        return Evaluation::Unknown("the server's own figures".to_owned());
    }
    let shown = |number: Option<f64>| number.map_or("unknown".to_owned(), |it| it.to_string());
    let what = match file_share >= 0.95 && share < 0.95 {
        true => "descriptors of the server's process",
        false => "places for clients",
    };
    let verdict = format!(
        "Clients are refused or soon will be, since the {what} are taken: {} of {} clients, {} \
         refused {}.",
        shown(clients),
        shown(most),
        refused.max(turned as f64),
        in_time(observation)
    );
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
    looks_at: "new connections beside requests, both as the server counts them",
    threshold: "20 connections a second or more, and one for every five requests or fewer: then \
                setting up connections costs more than the requests",
    remedies: &[
        "Keep connections: redis-py's ConnectionPool, JedisPool, phpredis' pconnect, one hiredis \
         context a thread, mod_proxy's and nginx' keepalive.",
        "Where programs are short (CGI, PHP without pconnect): twemproxy or the HTTP gateway of \
         nagi on this host, by a Unix socket or behind the web server.",
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
    let pings = observation.probes.pings.count() as f64;
    let requests = (increase(observation, REQUESTS) - pings - own).max(0.0);
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

/// New connections a second that are many.
const MANY_CONNECTIONS: f64 = 20.0;

/// The doctor's own.
fn own_connections(observation: &Observation) -> f64 {
    observation.probes.connects.count() as f64 + 8.0
}

/// What counts new connections, with Redis and with memcached.
const CONNECTIONS: &[&str] = &["total_connections_received", "total_connections"];
/// What counts requests.
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

/// By how much these have grown together, as far as there are such.
fn increase(observation: &Observation, names: &[&str]) -> f64 {
    names.iter().filter_map(|name| observation.server.counters.increase(name)).sum()
}

fn first(observation: &Observation, names: &[&str]) -> Option<f64> {
    names.iter().find_map(|name| observation.server.counters.number(name))
}

fn failures(observation: &Observation, failure: Failure) -> u64 {
    observation.probes.failures.get(&failure).copied().unwrap_or(0)
}
