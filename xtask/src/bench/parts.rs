//! Benchmarks that consist of several parts. Each part has its own report and can be measured
//! alone.

use anyhow::Result;

use super::Arguments;
use super::contestants::{Contestant, Protocol};
use super::report::{DOCUMENT, Report, Table};

/// The servers under comparison.
pub(super) struct Contestants<'a>(Vec<&'a Contestant>);

impl Contestants<'_> {
    /// Iterates over all servers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Contestant> {
        self.0.iter().copied()
    }

    /// Iterates over the servers that speak RESP.
    pub(super) fn resp(&self) -> impl Iterator<Item = &Contestant> {
        self.iter().filter(|it| (it.is_nagi() || it.is_peer()) && it.speaks(Protocol::Resp))
    }
}

/// The results of a part: the tables of the document, and a table of all figures if the others lack
/// some.
pub(super) struct Measured {
    pub(super) tables: Vec<Table>,
    pub(super) details: Option<Table>,
}

/// The reports whose tables the README contains as well.
const IN_README: [&str; 2] = ["collections-elements", "collections-requests"];

/// A part of a benchmark.
pub(super) struct Part {
    /// The value of `--only` that selects the part.
    pub(super) name: &'static str,
    /// The name of the part's report.
    pub(super) report: &'static str,
    pub(super) title: &'static str,
    pub(super) measure: fn(&Contestants<'_>, &Arguments) -> Result<Measured>,
}

/// Measures the requested parts. Passes on each report as soon as it is complete, so that a part
/// that fails does not lose earlier reports.
pub(super) fn measure(
    parts: &[Part],
    contestants: &[Contestant],
    arguments: &Arguments,
    report: impl Fn(&Report) -> Result<()>,
) -> Result<()> {
    let contestants = Contestants(contestants.iter().collect());
    for part in parts.iter().filter(|part| part.name.contains(&arguments.only)) {
        let start = std::time::Instant::now();
        let Measured { tables, details } = (part.measure)(&contestants, arguments)?;
        let results = details.as_ref().map_or(&tables[..], std::slice::from_ref);
        println!("bench: {} took {} s", part.name, start.elapsed().as_secs());
        let all: String = tables.iter().map(|table| format!("{table}\n")).collect();
        let is_in_readme = IN_README.contains(&part.report);
        report(&Report {
            name: part.report,
            document: DOCUMENT,
            details: details.as_ref().map_or(String::new(), Table::to_string),
            summary: if is_in_readme { all.trim_end().to_owned() } else { String::new() },
            results: results.iter().flat_map(Table::to_json).collect(),
            pictures: Vec::new(),
            table: format!("### {}\n\n{all}", part.title),
        })?;
    }
    Ok(())
}

/// Formats microseconds as milliseconds for a table; as a dash if there is no measurement.
pub(super) fn milliseconds(microseconds: f64) -> String {
    if microseconds.is_nan() { "-".to_owned() } else { format!("{:.2}", microseconds / 1000.0) }
}
