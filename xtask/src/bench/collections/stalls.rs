//! Measures the effect of the longest commands on small requests: the latency of a probe during
//! such a command, and the server's own counters.

use anyhow::{Context, Result};
use harness::{Connection, Server};

use super::filling::Kind;
use super::{Contestants, Measured, milliseconds};
use crate::bench::Arguments;
use crate::bench::client::Pair;
use crate::bench::contestants::{Contestant, Placement, Protocol};
use crate::bench::figures::median;
use crate::bench::fill::{Shape, fill};
use crate::bench::report::Table;
use crate::bench::sender::{Sender, run};

/// The number of elements or keys in the largest row.
const MANY: u64 = 10_000_000;

/// A command that takes a long time.
struct Long {
    name: &'static str,
    /// Creates the data on which the command works, with the given number of elements or keys.
    prepare: fn(&Server, u64) -> Result<()>,
    count: u64,
    command: fn() -> Vec<String>,
    /// Whether the command removes the data.
    consumes: bool,
}

const LONG: [Long; 14] = [
    Long {
        name: "KEYS *, 10 M keys",
        prepare: fill_keys,
        count: MANY,
        command: || words("KEYS *"),
        consumes: false,
    },
    Long {
        name: "FLUSHALL, 10 M keys",
        prepare: keep,
        count: 0,
        command: || words("FLUSHALL"),
        consumes: true,
    },
    Long {
        name: "SMEMBERS, 10 M members",
        prepare: |server, count| fill_collection(server, Kind::Set, "set", count),
        count: MANY,
        command: || words("SMEMBERS set"),
        consumes: false,
    },
    Long {
        name: "DEL of that set",
        prepare: keep,
        count: 0,
        command: || words("DEL set"),
        consumes: true,
    },
    Long {
        name: "HGETALL, 10 M fields",
        prepare: |server, count| fill_collection(server, Kind::Hash, "hash", count),
        count: MANY,
        command: || words("HGETALL hash"),
        consumes: false,
    },
    Long {
        name: "DEL of that hash",
        prepare: keep,
        count: 0,
        command: || words("DEL hash"),
        consumes: true,
    },
    Long {
        name: "LRANGE 0 -1, 10 M elements",
        prepare: |server, count| fill_collection(server, Kind::ListByRpush, "list", count),
        count: MANY,
        command: || words("LRANGE list 0 -1"),
        consumes: false,
    },
    Long {
        name: "DEL of that list",
        prepare: keep,
        count: 0,
        command: || words("DEL list"),
        consumes: true,
    },
    Long {
        name: "SORT ALPHA, 1 M members",
        prepare: |server, count| fill_collection(server, Kind::Set, "sortable", count),
        count: MANY / 10,
        command: || words("SORT sortable ALPHA LIMIT 0 10"),
        consumes: false,
    },
    Long {
        name: "ZUNIONSTORE, 2 x 1 M members",
        prepare: |server, count| {
            fill_collection(server, Kind::SortedSet, "first", count)?;
            fill_collection(server, Kind::SortedSet, "second", count)
        },
        count: MANY / 10,
        command: || words("ZUNIONSTORE union 2 first second"),
        consumes: false,
    },
    Long {
        name: "DEL of that sorted set",
        prepare: keep,
        count: 0,
        command: || words("DEL union"),
        consumes: true,
    },
    Long {
        name: "MSET, 100,000 keys",
        prepare: keep,
        count: 0,
        command: || with_keys("MSET", Some("value")),
        consumes: false,
    },
    Long {
        name: "MGET of those keys",
        prepare: keep,
        count: 0,
        command: || with_keys("MGET", None),
        consumes: false,
    },
    Long {
        name: "DEL of those keys",
        prepare: keep,
        count: 0,
        command: || with_keys("DEL", None),
        consumes: true,
    },
];

fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

/// Returns the words of a command with 100,000 keys, each followed by `value` if there is one.
fn with_keys(name: &str, value: Option<&str>) -> Vec<String> {
    let keys = (0..100_000).map(|number| format!("many:{number}"));
    let pairs = keys.flat_map(|key| [Some(key), value.map(str::to_owned)]);
    std::iter::once(name.to_owned()).chain(pairs.flatten()).collect()
}

/// Measures each command on each server while the probe runs. All figures of a command that can be
/// repeated, the server's own ones too, are medians of the slowest or longest of each repetition.
pub(super) fn measure(contestants: &Contestants<'_>, arguments: &Arguments) -> Result<Measured> {
    let scale = if arguments.quick { 100 } else { 1 };
    let mut header = vec!["beside".to_owned()];
    for contestant in contestants.resp() {
        header.push(format!("{}: slowest small GET ms", contestant.name));
        header.push("idle server's".to_owned());
    }
    header.extend(COUNTED.map(|(title, _)| title.to_owned()));
    let mut columns: Vec<Vec<Row>> = Vec::new();
    for contestant in contestants.resp() {
        columns.push(measure_one(contestant, arguments, scale)?);
        println!("bench: {} is done", contestant.name);
    }
    let mut table = Table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for (at, long) in LONG.iter().enumerate() {
        let rows: Vec<&Row> = columns.iter().filter_map(|rows| rows.get(at)).collect();
        let mut cells = vec![long.name.to_owned()];
        cells.extend(rows.iter().flat_map(|row| [row.busy_us, row.idle_us].map(milliseconds)));
        let counted = rows.iter().find_map(|row| row.counted_us);
        let counted = counted.context("nagi counts slices and holds")?;
        cells.extend(counted.map(milliseconds));
        table.row(cells);
    }
    Ok(Measured { tables: vec![table], details: None })
}

/// The results of one command on one server, in microseconds.
struct Row {
    busy_us: f64,
    idle_us: f64,
    /// nagi's own counters, in the order of [`COUNTED`].
    counted_us: Option<[f64; COUNTED.len()]>,
}

fn measure_one(contestant: &Contestant, arguments: &Arguments, scale: u64) -> Result<Vec<Row>> {
    let (server, idle) = (contestant.start(Placement::Free)?, contestant.start(Placement::Free)?);
    let pair = Pair { busy: server.resp(), idle: idle.resp() };
    let one = |long: &Long| {
        (long.prepare)(&server, long.count / scale)?;
        let command = (long.command)();
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let repetitions = if long.consumes { 1 } else { arguments.repetitions };
        let (mut busy_us, mut idle_us) = (Vec::new(), Vec::new());
        let mut counted_us = COUNTED.map(|_| Vec::new());
        for _ in 0..repetitions {
            run(pair.busy, &["CONFIG", "RESETSTAT"])?;
            let (busy, idle) = pair.probe_beside(|| run(pair.busy, &command))?;
            busy_us.push(busy.max_us);
            idle_us.push(idle.max_us);
            if contestant.is_nagi() {
                let all = counted_us.iter_mut().zip(counted(&server));
                all.for_each(|(figures, figure)| figures.push(figure));
            }
        }
        let counted_us = contestant.is_nagi().then(|| counted_us.map(median));
        Ok(Row { busy_us: median(busy_us), idle_us: median(idle_us), counted_us })
    };
    LONG.iter().map(one).collect()
}

/// nagi's counters of the longest slice of a command and of the longest hold of a latch: titles,
/// and fields of INFO.
pub(super) const COUNTED: [(&str, &str); 4] = [
    ("nagi: longest slice ms", "longest_slice_usec"),
    ("on a processor", "longest_slice_cpu_usec"),
    ("longest hold of a latch ms", "longest_latch_hold_usec"),
    ("holder on a processor", "longest_latch_hold_cpu_usec"),
];

/// Returns these counters since CONFIG RESETSTAT, in microseconds; NaN if another build of nagi
/// lacks them.
pub(super) fn counted(server: &Server) -> [f64; COUNTED.len()] {
    let info = Connection::open(server.resp()).run("INFO STATS").text();
    COUNTED.map(|(_, name)| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(f64::NAN)
    })
}

/// Keeps the data of the previous row.
fn keep(_: &Server, _: u64) -> Result<()> {
    Ok(())
}

fn fill_collection(server: &Server, kind: Kind, key: &str, count: u64) -> Result<()> {
    let mut sender = Sender::new(server.resp())?;
    kind.fill(&mut sender, key, 0, count)?;
    sender.flush()
}

fn fill_keys(server: &Server, count: u64) -> Result<()> {
    fill(server, Protocol::Resp, 0..count, Shape { value_bytes: 5, ttl_seconds: None })
}
