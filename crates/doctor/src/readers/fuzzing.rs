//! Builds an observation from arbitrary bytes by means of the readers, for fuzz targets.

use super::accept_queue::AcceptQueueReader;
use super::sockets::{SocketReader, Sockets};
use super::{
    clients, control_group, disciplines, key_costs, latency, listeners, netlink, process, requests,
    sockets, system,
};
use nagi_findings::observation::{
    BusyThread, Client, Failure, LargeRequest, Observation, Ports, Pressure, Process, Sample,
    SlowRequest, Times, Transfer,
};
use nagi_load::figures::{parse_info, parse_stats};
use nagi_load::wire::Answer;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// The byte that separates sections of the input.
const SEPARATOR: u8 = 0xfe;
/// The address of the fictitious server.
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 6379);

/// Builds an observation from sections of text and of figures. The first byte of each section is
/// its kind.
pub(crate) fn observation(data: &[u8]) -> Observation {
    let mut observation = Observation { seconds: 20.0, ..Observation::default() };
    for section in data.split(|byte| *byte == SEPARATOR) {
        let Some((kind, bytes)) = section.split_first() else { continue };
        let text = String::from_utf8_lossy(bytes);
        match kind % 20 {
            0..=8 => of_server(&mut observation, *kind % 20, &text, bytes),
            9..=15 => of_host(&mut observation, *kind % 20, &text, bytes),
            _ => of_probes(&mut observation, *kind % 20, bytes),
        }
    }
    observation
}

fn of_server(observation: &mut Observation, kind: u8, text: &str, bytes: &[u8]) {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let server = &mut observation.server;
    match kind {
        0 => server.counters.before = parse_info(text),
        1 => server.counters.after = parse_info(text),
        2 => server.counters.before = parse_stats(&lines),
        3 => {
            server.counters.after = parse_stats(&lines);
            server.is_memcached = true;
        }
        4 => {
            let listed: Vec<Client> = text.lines().map(clients::client).collect();
            server.clients.push(listed);
        }
        5 => server.settings = parse_info(text),
        6 => server.sample = Some(sample(text)),
        7 => logs(observation, &answer(&mut &*bytes, 0)),
        _ => {
            let report = answer(&mut &*bytes, 0);
            server.key_costs = key_costs::costs(&report, true);
            let latest = latency::latest(&report);
            let events = latest
                .into_iter()
                .filter_map(|(name, at)| latency::event(name, &report, at.saturating_sub(1)));
            server.latency.extend(events);
        }
    }
}

/// Parses the lines of MONITOR or of memcached's log as a sample of requests.
fn sample(text: &str) -> Sample {
    let shown = requests::key_names(true);
    let mut keys = BTreeMap::new();
    for line in text.lines() {
        let key = requests::monitored_key(line).or_else(|| requests::watched_key(line));
        key.into_iter().for_each(|key| *keys.entry(shown(&key)).or_insert(0) += 1);
    }
    Sample { requests: text.lines().count() as u64, keys: keys.into_iter().collect() }
}

fn logs(observation: &mut Observation, log: &Answer) {
    let entries: Vec<_> = requests::entries_of(log).map(|(_, entry)| entry).collect();
    let large = entries.iter().map(|it| LargeRequest { bytes: it.value, what: it.what.clone() });
    observation.server.large = large.collect();
    let slow = entries.into_iter();
    let slow = slow.map(|it| SlowRequest { duration_us: it.value, what: it.what });
    observation.server.slow = Some(slow.collect());
}

fn of_host(observation: &mut Observation, kind: u8, text: &str, bytes: &[u8]) {
    let host = &mut observation.host;
    match kind {
        9 => {
            let reader = SocketReader::new(PathBuf::from("/nonexistent"), SERVER);
            let mut sockets = Sockets::default();
            text.lines().for_each(|line| reader.count(line, &mut sockets));
            text.lines().for_each(|line| drop(reader.listening_inode(line).map(str::to_owned)));
            let towards = sockets.towards.into_iter().max_by_key(|(_, (_, all))| *all);
            host.ports = towards.map(|(local, (time_wait, used))| Ports {
                local: local.to_string(),
                remote: SERVER.to_string(),
                range: sockets::ports_between(text).unwrap_or(0),
                time_wait,
                used,
                reuse: None,
            });
        }
        10 => host.listen_overflows = sockets::counter(text, "ListenOverflows"),
        11 => {
            let mut seen = Vec::new();
            let _ = netlink::take(bytes, &listeners::listener, &mut seen);
            let mut queue = AcceptQueueReader::new(SERVER);
            queue.take(&seen);
            queue.take(&seen);
            host.accept_queue = queue.finish();
        }
        12 => {
            let mut seen = Vec::new();
            let _ = netlink::take(bytes, &disciplines::discipline, &mut seen);
            host.disciplines = seen.into_iter().map(|(_, discipline)| discipline).collect();
        }
        13 => host.process = Some(of_process(text)),
        14 => {
            let shares = text.lines().filter_map(system::total_stall).map(|us| us as f64 / 2e7);
            let mut shares = shares.map(|share| share.min(1.0));
            let mut next = || shares.next().unwrap_or(0.0);
            host.pressure = Some(Pressure { cpu: next(), memory: next(), io: next() });
        }
        _ => {
            host.has_server = !bytes.is_empty();
            host.swapped_in = bytes.first().map(|byte| u64::from(*byte) << (byte & 63));
            host.overcommit = bytes.get(1).map(|byte| u64::from(*byte & 3));
            host.huge_pages = bytes.get(2).map(|_| text.to_owned());
        }
    }
}

fn of_process(text: &str) -> Process {
    let stat = text.lines().find_map(process::Stat::parse);
    let now = control_group::parse(text);
    for line in text.lines() {
        drop(control_group::folder_of(Path::new("/nonexistent"), line));
    }
    Process {
        id: 1,
        stopped_share: if text.starts_with('T') { 1.0 } else { 0.0 },
        disk_share: if text.starts_with('D') { 1.0 } else { 0.0 },
        busiest: stat.map(|_| BusyThread { name: text.to_owned(), used: 1.0, waited: 1.0 }),
        open_files: process::max_files(text).map(|most| most / 2),
        max_files: process::max_files(text),
        swap_bytes: process::swap_bytes(text),
        major_faults: stat.map(|stat| stat.major_faults),
        throttling: now.map(|now| process::since(now, <_>::default())),
    }
}

fn of_probes(observation: &mut Observation, kind: u8, bytes: &[u8]) {
    let probes = &mut observation.probes;
    let times = || Times::new(bytes.iter().map(|byte| 1 << (byte & 63)).collect());
    match kind {
        16 => probes.pings = times(),
        17 => probes.connects = times(),
        18 => probes.own_delays = times(),
        _ => {
            let transfers = bytes.as_chunks::<3>().0.iter().map(|[size, up, down]| Transfer {
                bytes: 1 << (size & 63),
                up_us: 1 << (up & 63),
                down_us: 1 << (down & 63),
            });
            probes.transfers = transfers.collect();
            probes.sent_bytes = bytes.len() as u64;
            let reasons = [Failure::NoPort, Failure::TimedOut, Failure::TurnedAway, Failure::Other];
            let counts = bytes.iter().map(|count| u64::from(*count));
            probes.failures = reasons.into_iter().zip(counts).collect();
        }
    }
}

/// Builds a server's answer from a byte for its type and the bytes after it.
fn answer(bytes: &mut &[u8], depth: usize) -> Answer {
    const DEEPEST: usize = 4;
    let mut next = || {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        Some(*byte)
    };
    let Some(kind) = next() else { return Answer::Null };
    match kind & 7 {
        0 => Answer::Null,
        1 => {
            let (number, bits) = (next().unwrap_or(0), next().unwrap_or(0) & 63);
            Answer::Integer(i64::from(number.cast_signed()).wrapping_shl(bits.into()))
        }
        2..=4 => {
            let len = usize::from(kind >> 3).min(bytes.len());
            let (text, rest) = bytes.split_at(len);
            *bytes = rest;
            match kind & 7 {
                2 => Answer::Line(String::from_utf8_lossy(text).into_owned()),
                3 => Answer::Error(String::from_utf8_lossy(text).into_owned()),
                _ => Answer::Text(text.to_vec(), text.len() as u64),
            }
        }
        _ if depth == DEEPEST => Answer::Array(Vec::new()),
        _ => Answer::Array((0..kind >> 3).map(|_| answer(bytes, depth + 1)).collect()),
    }
}
