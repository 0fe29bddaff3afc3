//! `cargo xtask bench --sockets`: what connections cost, and what they do to each other.
//!
//! nagi takes part twice, once for each of its drivers. A part alone: `--only idle`, `giants` or
//! `storms`; `--only requests` for the CPU time of requests with 50, 400 and 10,000 connections.

mod client;
mod giants;
mod idle;
mod requests;
mod storms;

use anyhow::Result;
use serde_json::json;

use super::Arguments;
use super::contestants::{Contestant, Protocol};
use super::report::{DOCUMENT, Report, Table};

/// Descriptors for the connections of one part.
const DESCRIPTORS: u64 = 12_000;

/// Who takes part.
pub(super) struct Contestants<'a>(Vec<&'a Contestant>);

impl Contestants<'_> {
    /// Servers that speak RESP.
    fn resp(&self) -> impl Iterator<Item = &Contestant> {
        self.0
            .iter()
            .copied()
            .filter(|it| (it.is_nagi() || it.is_peer()) && it.speaks(Protocol::Resp))
    }
}

type Part = fn(&Contestants<'_>, &Arguments) -> Result<Vec<Table>>;

const PARTS: [(&str, &str, Part); 4] = [
    ("requests", "CPU time of a request by the number of connections", requests::measure),
    ("idle", "Idle connections", idle::measure),
    ("giants", "Values of up to 500 MB", giants::measure),
    ("storms", "Connections that come and go", storms::measure),
];

/// Measures every part that is wanted.
pub(super) fn measure(contestants: &[Contestant], arguments: &Arguments) -> Result<Report> {
    harness::allow_open_files(DESCRIPTORS);
    let contestants = Contestants(contestants.iter().collect());
    let (mut table, mut results) = (String::new(), Vec::new());
    for (name, title, part) in PARTS {
        if name.contains(&arguments.only) {
            let start = std::time::Instant::now();
            let tables = part(&contestants, arguments)?;
            println!("bench: {name} took {} s", start.elapsed().as_secs());
            table.push_str(&format!("### {title}\n\n"));
            for part in tables {
                table.push_str(&format!("{part}\n"));
                results.push(json!({ "part": name, "rows": part.to_json() }));
            }
        }
    }
    Ok(Report {
        name: "sockets",
        document: DOCUMENT,
        summary: String::new(),
        results,
        pictures: Vec::new(),
        table,
    })
}

/// Microseconds as milliseconds, for a table.
fn milliseconds(microseconds: f64) -> String {
    format!("{:.2}", microseconds / 1000.0)
}
