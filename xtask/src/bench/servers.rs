//! The servers of a table, side by side.

use anyhow::Result;
use harness::Server;

use super::contestants::Placement;
use super::parts::Contestants;
use super::report::ratio;

/// All servers that speak RESP, each started.
pub(super) fn started(
    contestants: &Contestants<'_>,
    placement: Placement,
) -> Result<Vec<(&'static str, Server)>> {
    contestants.resp().map(|it| Ok((it.name, it.start(placement)?))).collect()
}

/// nagi's figure to Valkey's, of one figure for each server; empty if one of the two is missing.
pub(super) fn nagi_to_valkey(servers: &[&str], figures: &[f64]) -> String {
    let of = |name: &str| {
        let at = servers.iter().position(|server| *server == name);
        at.and_then(|at| figures.get(at))
    };
    of("nagi").zip(of("Valkey")).map_or(String::new(), |(nagi, valkey)| ratio(*nagi, *valkey))
}
