//! `cargo xtask bench --calm`: the latency of small requests during disturbances of the server,
//! without disturbance, and next to connections that send many more requests.

mod disturbances;
mod quiet;
mod saved;
mod uneven;

use anyhow::Result;

use super::Arguments;
use super::contestants::Contestant;
use super::report::Report;

/// The document with the tables.
const DOCUMENT: &str = "docs/benchmarks/calm.md";

/// The values of `--only` that select whole tables. Any other value is a list of disturbances.
const QUIET: &str = "quiet";
const UNEVEN: &str = "uneven";
const DISTURBANCES: &str = "disturbances";

/// Whether whole tables are requested.
pub(super) fn is_whole(arguments: &Arguments) -> bool {
    ["", QUIET, UNEVEN, DISTURBANCES].contains(&&*arguments.only)
}

/// Measures the requested parts. Passes on each report as soon as it is complete.
pub(super) fn measure(
    contestants: &[Contestant],
    arguments: &Arguments,
    report: impl Fn(&Report) -> Result<()>,
) -> Result<()> {
    let only = &*arguments.only;
    if ["", QUIET].contains(&only) {
        report(&quiet::measure(contestants, arguments)?)?;
    }
    if ["", UNEVEN].contains(&only) {
        report(&uneven::measure(contestants, arguments)?)?;
    }
    if ![QUIET, UNEVEN].contains(&only) {
        let some = if only == DISTURBANCES { "" } else { only };
        report(&disturbances::measure(contestants, arguments, some)?)?;
    }
    Ok(())
}
