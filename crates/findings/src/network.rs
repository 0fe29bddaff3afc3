//! Faults of the network between this host and the server.

use super::finding::{Evaluation, Evidence, Finding, bytes, is_late, milliseconds};
use crate::observation::{Observation, TcpConnections, Transfer};

/// Rate in bytes per second below which a link is narrow: 100 Mbit/s.
const NARROW: f64 = 12.5e6;

pub(crate) static NARROW_LINK: Finding = Finding {
    name: "narrow-link",
    looks_at: "how the time of values of 1 KB to 1 MB grows with their size, up and down",
    threshold: "less than 12.5 MB (100 Mbit) a second: a value of 1 MB takes 80 ms or more, and \
                everything after it on its connection waits as long",
    remedies: &[
        "Look at the network of both instances: small types have a few Mbit/s once their credit is \
         spent. A larger type, or one with a guaranteed rate.",
        "Make values smaller: compress them (pylibmc, phpredis and Jedis can), split them, or keep \
         large ones out of the cache.",
        "Give large values connections of their own, so that small requests do not wait for them.",
    ],
    explained_by: &[],
    from_within: false,
    evaluate: narrow_link,
};

/// Whether the link is narrow; `false` if no values were transferred over it.
pub(crate) fn is_narrow(observation: &Observation) -> bool {
    matches!(narrow_link(observation), Evaluation::Found(_))
}

fn narrow_link(observation: &Observation) -> Evaluation {
    let transfers = &observation.probes.transfers;
    let [.., smaller, larger] = transfers.as_slice() else {
        let needed = match observation.server.is_memcached {
            true => "values to send: give --probe-writes",
            false => "replies to ECHO",
        };
        return Evaluation::Unknown(needed.to_owned());
    };
    let [smallest, ..] = transfers.as_slice() else { return Evaluation::Healthy };
    // The higher of two estimates is used, because an unrelated delay of one value lowers an
    // estimate.
    let between = |less: &Transfer, more: &Transfer, time: fn(&Transfer) -> u64| {
        let taken_us = time(more).saturating_sub(time(less)).max(1);
        more.bytes.saturating_sub(less.bytes) as f64 * 1e6 / taken_us as f64
    };
    let rate = |time: fn(&Transfer) -> u64| {
        between(smaller, larger, time).max(between(smallest, larger, time))
    };
    let (up, down) = (rate(|it| it.up_us), rate(|it| it.down_us));
    let (narrower, way) = if up <= down { (up, "to the server") } else { (down, "from it") };
    let verdict = format!(
        "The link is narrow: {} a second {way} ({:.1} Mbit/s), so a value of 1.3 MB takes {}. {}",
        bytes(narrower),
        narrower * 8.0 / 1e6,
        milliseconds((1.3e12 / narrower) as u64),
        match observation.server.counters.after.contains_key("nagi_version") {
            true => "SLOWLOG PHASES has it as time to receive.",
            false =>
                "Neither the slow log nor MONITOR shows that, since the server waits for the \
                 bytes.",
        }
    );
    let mut evidence = Evidence::new(verdict)
        .with("bytes a second up", bytes(up))
        .with("bytes a second down", bytes(down))
        .with("largest value sent", bytes(larger.bytes as f64))
        .with("its time up", milliseconds(larger.up_us))
        .with("its time down", milliseconds(larger.down_us));
    for it in &observation.host.disciplines {
        let rate = it.bytes_per_second.map(|rate| format!(" ({} a second)", bytes(rate as f64)));
        let did = format!("held back {} times, dropped {}", it.held_back, it.dropped);
        let shown = format!("{} on {}{}: {did}", it.kind, it.device, rate.unwrap_or_default());
        evidence = evidence.with("queue discipline of this host", shown);
    }
    evidence = with_network(evidence, observation);
    match narrower < NARROW && !is_late(observation) {
        true => Evaluation::Found(evidence),
        false => Evaluation::Healthy,
    }
}

/// Adds the kernel's counts of the connections to the server to the evidence.
fn with_network(mut evidence: Evidence, observation: &Observation) -> Evidence {
    if let Some(tcp) = &observation.host.tcp {
        let us = |time: Option<u64>| time.map_or("not measured".to_owned(), milliseconds);
        evidence = evidence
            .with("connections over the network", tcp.connections)
            .with("segments with data sent", tcp.segments)
            .with("segments sent again", tcp.retransmitted)
            .with("of these, had arrived", tcp.duplicates)
            .with("shortest round trip of TCP", us(tcp.least_round_trip_us))
            .with("middle round trip of TCP", us(tcp.round_trip_us));
    }
    for it in &observation.host.devices {
        let gave_up = format!("{} with errors, {} dropped", it.errors, it.dropped);
        evidence = evidence.with(&format!("packets on {}, of all hosts", it.device), gave_up);
    }
    evidence
}

/// The share of retransmitted segments from which a link is lossy, and the number of segments that
/// are needed, since fewer may be chance.
const LOSSY: f64 = 0.01;
const FEWEST_LOST: u64 = 5;
/// The share and the number for a notice.
const NOTEWORTHY: f64 = 0.001;
const FEWEST_NOTEWORTHY: u64 = 3;

pub(crate) static LOSSY_LINK: Finding = Finding {
    name: "lossy-link",
    looks_at: "segments that TCP retransmitted on connections between clients and the server \
               (sock_diag, TCP_INFO), and packets that network devices dropped",
    threshold: "1 % of the segments with data, and five at least: a small request is one segment \
                with none after it that would reveal its loss, so that one of a hundred waits for \
                the kernel's timeout, 200 ms and more. 0.1 % and three are a notice",
    remedies: &[
        "Check both hosts' devices (ip -s link, ethtool -S): errors point to a cable, a port or a \
         driver; drops to a full ring (ethtool -G) or a saturated processor.",
        "Check what the network drops: packets beyond an instance's rate limit, a firewall's full \
         connection table (nf_conntrack), a policer.",
        "For the moment: fewer and larger packets, by pipelines and MGET, and clients whose \
         timeout is beyond 200 ms, so that one lost packet is not an error.",
    ],
    explained_by: &["frozen", "accept-queue", "narrow-link"],
    from_within: false,
    evaluate: lossy_link,
};

/// Whether packets to or from the server are lost.
pub(crate) fn is_lossy(observation: &Observation) -> bool {
    matches!(lossy_link(observation), Evaluation::Found(_))
}

fn lossy_link(observation: &Observation) -> Evaluation {
    let unseen = TcpConnections::default();
    let tcp = match &observation.host.tcp {
        Some(tcp) => tcp,
        // No kernel figures are needed if the server is on this host, where packets are not lost.
        None if observation.host.has_server => &unseen,
        None => return Evaluation::Unknown("the kernel's figures of TCP (sock_diag)".to_owned()),
    };
    let share = tcp.retransmitted as f64 / tcp.segments.max(1) as f64;
    let verdict = format!(
        "The network loses packets: {} of {} segments ({:.1} %) were retransmitted on {} \
         connections with the server, and each loss makes a request wait for 200 ms or more.",
        tcp.retransmitted,
        tcp.segments,
        share * 100.0,
        tcp.connections
    );
    let evidence = with_network(Evidence::new(verdict), observation);
    match share {
        // A stalled host retransmits segments that were not lost.
        _ if is_late(observation) => Evaluation::Unknown("a host with time to measure".to_owned()),
        LOSSY.. if tcp.retransmitted >= FEWEST_LOST => Evaluation::Found(evidence),
        NOTEWORTHY.. if tcp.retransmitted >= FEWEST_NOTEWORTHY => Evaluation::Notice(evidence),
        _ => Evaluation::Healthy,
    }
}

/// The shortest round trip from which the distance counts as long, in microseconds.
const LONG_US: u64 = 3000;

pub(crate) static LONG_ROUND_TRIP: Finding = Finding {
    name: "long-round-trip",
    looks_at: "the shortest of all round trips, and the shortest time to connect",
    threshold: "3 ms for the shortest: within a data centre it is below 1 ms, and no load of the \
                server delays every single request",
    remedies: &[
        "Move the program and the server into one zone, or remove the proxy, VPN or mesh between \
         them.",
        "Send fewer requests: pipelines, MGET, scripts, a local cache with CLIENT TRACKING.",
    ],
    explained_by: &["frozen", "slow-commands", "cpu-throttled", "swapping", "one-thread-busy"],
    from_within: false,
    evaluate: long_round_trip,
};

fn long_round_trip(observation: &Observation) -> Evaluation {
    let pings = &observation.probes.pings;
    let (Some(shortest), true) = (pings.min_us(), pings.count() >= 20) else {
        return Evaluation::Unknown("twenty answers or more".to_owned());
    };
    let connect = observation.probes.connects.min_us();
    let place = match connect {
        Some(connect) if connect.saturating_mul(2) >= shortest => "the network",
        _ => "what takes connections in front of the server, such as a proxy, or behind that",
    };
    let verdict = format!(
        "Every request takes at least {}: the delay is in {place}, not in the server's commands.",
        milliseconds(shortest)
    );
    let mut evidence = Evidence::new(verdict)
        .with("shortest round trip", milliseconds(shortest))
        .with("middle round trip", milliseconds(pings.quantile_us(0.5).unwrap_or(0)));
    if let Some(connect) = connect {
        evidence = evidence.with("shortest time to connect", milliseconds(connect));
    }
    evidence = with_network(evidence, observation);
    match shortest {
        _ if is_late(observation) => Evaluation::Unknown("a host with time to measure".to_owned()),
        LONG_US.. => Evaluation::Found(evidence),
        1500.. => Evaluation::Notice(evidence),
        _ => Evaluation::Healthy,
    }
}
