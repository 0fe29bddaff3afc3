//! Measures the memory overhead of a key, beyond the bytes of the key and its value.

use anyhow::Result;
use serde_json::{Value, json};

use super::Arguments;
use super::contestants::{Contestant, Placement, Protocol};
use super::fill::{KEY_BYTES, Shape, fill};
use super::report::{DOCUMENT, Report, Table, ratio};

/// The numbers of keys, in millions, at which memory is read. Hash tables that double in size have
/// an overhead that varies with the number of keys.
const MILLIONS: [f64; 6] = [1.0, 1.2, 1.4, 1.7, 2.0, 2.4];

const SHAPES: [Shape; 4] = [
    Shape { value_bytes: 8, ttl_seconds: None },
    Shape { value_bytes: 32, ttl_seconds: None },
    Shape { value_bytes: 100, ttl_seconds: None },
    Shape { value_bytes: 32, ttl_seconds: Some(1_000_000) },
];

/// The overhead of one server for keys of one shape.
struct Series {
    shape: Shape,
    server: &'static str,
    is_nagi: bool,
    is_peer: bool,
    empty_bytes: f64,
    /// The overhead at each of [`MILLIONS`], in bytes.
    overhead_bytes_per_key: Vec<f64>,
}

/// Fills every server with keys of every shape.
pub(super) fn measure(contestants: &[Contestant], arguments: &Arguments) -> Result<Report> {
    let scale = if arguments.quick { 0.1 } else { 1.0 };
    let mut all = Vec::new();
    for shape in SHAPES {
        for contestant in contestants.iter().filter(|it| it.is_nagi() || it.is_peer()) {
            all.push(fill_in_steps(contestant, shape, scale)?);
        }
        println!("bench: {} is done", name(shape));
    }
    Ok(Report {
        name: "memory",
        table: worst_table(&all),
        details: table(&all, scale),
        summary: summary(&all),
        results: all.iter().map(Series::as_json).collect(),
        document: DOCUMENT,
        pictures: Vec::new(),
    })
}

fn fill_in_steps(contestant: &Contestant, shape: Shape, scale: f64) -> Result<Series> {
    let speaks_resp = contestant.speaks(Protocol::Resp);
    let protocol = if speaks_resp { Protocol::Resp } else { Protocol::Memcached };
    let server = contestant.start(Placement::Free)?;
    let empty_bytes = server.resident_bytes() as f64;
    let mut filled = 0;
    let mut overhead_bytes_per_key = Vec::new();
    for millions in MILLIONS {
        let keys = (millions * 1e6 * scale) as u64;
        fill(&server, protocol, filled..keys, shape)?;
        filled = keys;
        let used = server.resident_bytes() as f64 - empty_bytes;
        overhead_bytes_per_key.push(used / keys as f64 - (KEY_BYTES + shape.value_bytes) as f64);
    }
    Ok(Series {
        shape,
        server: contestant.name,
        is_nagi: contestant.is_nagi(),
        is_peer: contestant.is_peer(),
        empty_bytes,
        overhead_bytes_per_key,
    })
}

impl Series {
    fn as_json(&self) -> Value {
        json!({
            "workload": name(self.shape),
            "server": self.server,
            "empty_bytes": self.empty_bytes,
            "millions_of_keys": MILLIONS,
            "overhead_bytes_per_key": self.overhead_bytes_per_key,
        })
    }

    fn worst(&self) -> f64 {
        self.overhead_bytes_per_key.iter().copied().fold(f64::NAN, f64::max)
    }
}

fn name(shape: Shape) -> String {
    let ttl = if shape.ttl_seconds.is_some() { " with a TTL" } else { "" };
    format!("{} B values{ttl}", shape.value_bytes)
}

fn table(all: &[Series], scale: f64) -> String {
    let counts = MILLIONS.map(|millions| format!("{:.2} M", millions * scale));
    let mut header = vec!["workload", "server", "empty MB"];
    header.extend(counts.iter().map(String::as_str));
    header.extend(["worst", "worst to best peer"]);
    let mut table = Table::new(&header);
    for series in all {
        let mut cells = vec![name(series.shape), series.server.to_owned()];
        cells.push(format!("{:.1}", series.empty_bytes / 1e6));
        cells.extend(series.overhead_bytes_per_key.iter().map(|bytes| format!("{bytes:.1}")));
        cells.push(format!("{:.1}", series.worst()));
        let best = best_peer(all, series).filter(|_| series.is_nagi);
        cells.push(best.map_or(String::new(), |best| ratio(series.worst(), best.worst())));
        table.row(cells);
    }
    table.to_string()
}

/// Formats the maximum overhead of a key over all numbers of keys, by shape and server.
fn worst_table(all: &[Series]) -> String {
    let mut header = vec!["at worst"];
    let same_shape = |a: &Series, b: &Series| name(a.shape) == name(b.shape);
    let servers = all.chunk_by(same_shape).next().unwrap_or_default();
    header.extend(servers.iter().map(|series| series.server));
    header.push("nagi to best peer");
    let mut table = Table::new(&header);
    for shape in all.chunk_by(same_shape) {
        let mut cells: Vec<String> = shape.iter().map(|it| format!("{:.1}", it.worst())).collect();
        cells.insert(0, shape.first().map_or(String::new(), |it| name(it.shape)));
        let nagi = shape.iter().find(|series| series.is_nagi);
        let compared =
            nagi.and_then(|nagi| Some(ratio(nagi.worst(), best_peer(all, nagi)?.worst())));
        cells.push(compared.unwrap_or_default());
        table.row(cells);
    }
    table.to_string()
}

fn best_peer<'a>(all: &'a [Series], of: &Series) -> Option<&'a Series> {
    let peers = all.iter().filter(|peer| peer.is_peer && name(peer.shape) == name(of.shape));
    peers.min_by(|a, b| a.worst().total_cmp(&b.worst()))
}

/// Formats the maximum overhead of a key in nagi and in the best peer.
fn summary(all: &[Series]) -> String {
    let mut table =
        Table::new(&["memory for a key beyond key and value", "nagi", "best peer", "ratio"]);
    for series in all.iter().filter(|series| series.is_nagi) {
        let (peer, compared) = best_peer(all, series).map_or(Default::default(), |best| {
            let peer = format!("{:.0} B ({})", best.worst(), best.server);
            (peer, ratio(series.worst(), best.worst()))
        });
        let own = format!("{:.0} B", series.worst());
        table.row(vec![name(series.shape), own, peer, compared]);
    }
    table.to_string()
}
