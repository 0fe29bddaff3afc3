//! Helpers for tables that compare servers side by side.

use anyhow::Result;
use harness::Server;

use super::contestants::Placement;
use super::figures::median;
use super::parts::Contestants;
use super::report::{Table, ratio};

/// Starts all servers that speak RESP.
pub(super) fn started(
    contestants: &Contestants<'_>,
    placement: Placement,
) -> Result<Vec<(&'static str, Server)>> {
    contestants.resp().map(|it| Ok((it.name, it.start(placement)?))).collect()
}

/// Formats nagi's figure as a multiple of Valkey's; empty if one of the two is missing.
pub(super) fn nagi_to_valkey(servers: &[&str], figures: &[f64]) -> String {
    let of = |name: &str| {
        let at = servers.iter().position(|server| *server == name);
        at.and_then(|at| figures.get(at))
    };
    of("nagi").zip(of("Valkey")).map_or(String::new(), |(nagi, valkey)| ratio(*nagi, *valkey))
}

/// Returns the median of each server's figure over interleaved repetitions.
pub(super) fn median_of_each<S>(
    servers: &mut [S],
    repetitions: u32,
    mut measure: impl FnMut(&mut S) -> Result<f64>,
) -> Result<Vec<f64>> {
    let mut figures = vec![Vec::new(); servers.len()];
    for _ in 0..repetitions {
        for (server, figures) in servers.iter_mut().zip(&mut figures) {
            figures.push(measure(server)?);
        }
    }
    Ok(figures.into_iter().map(median).collect())
}

/// A table of one figure of each server, with nagi's as a multiple of Valkey's and the target for
/// this ratio.
pub(super) struct ComparedTable {
    names: Vec<&'static str>,
    table: Table,
}

impl ComparedTable {
    pub(super) fn new(first: &str, names: Vec<&'static str>) -> Self {
        let table = Table::new(&[&[first], &names[..], &["nagi to Valkey", "target"]].concat());
        ComparedTable { names, table }
    }

    pub(super) fn row(
        &mut self,
        name: &str,
        figures: &[f64],
        shown: impl Fn(f64) -> String,
        asked: &str,
    ) {
        let mut cells = vec![name.to_owned()];
        cells.extend(figures.iter().copied().map(shown));
        cells.extend([nagi_to_valkey(&self.names, figures), asked.to_owned()]);
        println!("bench: {}", cells.join(", "));
        self.table.row(cells);
    }

    pub(super) fn into_table(self) -> Table {
        self.table
    }
}
