//! `cargo xtask bench --sockets`: what connections cost, and what they do to each other.
//!
//! nagi takes part twice, once for each of its drivers. Each part has a report of its own, and can
//! be measured alone: `--only idle`, `large-values` or `storms`; `--only requests` for the CPU time
//! of requests with 50, 400 and 10,000 connections.

mod idle;
mod large_values;
mod requests;
mod storms;

use anyhow::Result;

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

/// What a part found: the tables of the document, and all figures where these are not all.
struct Measured {
    tables: Vec<Table>,
    details: Option<Table>,
}

type Part = fn(&Contestants<'_>, &Arguments) -> Result<Measured>;

/// What `--only` calls a part, the name of its report, its title, and how it is measured.
const PARTS: [(&str, &str, &str, Part); 4] = [
    (
        "requests",
        "sockets-requests",
        "CPU time of a request by the number of connections",
        requests::measure,
    ),
    ("idle", "sockets-idle", "Idle connections", idle::measure),
    ("large-values", "sockets-large-values", "Values of up to 500 MB", large_values::measure),
    ("storms", "sockets-storms", "Connections that come and go", storms::measure),
];

/// Measures every part that is wanted, and hands each report on as soon as it is there: a part
/// that fails takes nothing from those before it.
pub(super) fn measure(
    contestants: &[Contestant],
    arguments: &Arguments,
    report: impl Fn(&Report) -> Result<()>,
) -> Result<()> {
    harness::allow_open_files(DESCRIPTORS);
    let contestants = Contestants(contestants.iter().collect());
    for (part, name, title, measure_part) in PARTS {
        if !part.contains(&arguments.only) {
            continue;
        }
        let start = std::time::Instant::now();
        let Measured { tables, details } = measure_part(&contestants, arguments)?;
        let results = details.as_ref().map_or(&tables[..], std::slice::from_ref);
        println!("bench: {part} took {} s", start.elapsed().as_secs());
        let mut table = format!("### {title}\n\n");
        for one in &tables {
            table.push_str(&format!("{one}\n"));
        }
        report(&Report {
            name,
            document: DOCUMENT,
            details: details.as_ref().map_or(String::new(), Table::to_string),
            summary: String::new(),
            results: results.iter().flat_map(Table::to_json).collect(),
            pictures: Vec::new(),
            table,
        })?;
    }
    Ok(())
}

/// Microseconds as milliseconds, for a table.
fn milliseconds(microseconds: f64) -> String {
    format!("{:.2}", microseconds / 1000.0)
}
