//! `cargo xtask bench --calm`: which servers stay calm. Small requests while something else happens
//! to the server, while nothing does, and beside connections that send many more.

mod disturbances;
mod quiet;
mod uneven;

use anyhow::Result;

use super::Arguments;
use super::contestants::Contestant;
use super::report::Report;

/// The document with the tables.
const DOCUMENT: &str = "docs/benchmarks/calm.md";

/// What `--only` has for tables of their own; everything else is a disturbance.
const QUIET: &str = "quiet";
const UNEVEN: &str = "uneven";

/// Whether what is wanted are whole tables.
pub(super) fn is_whole(arguments: &Arguments) -> bool {
    ["", QUIET, UNEVEN].contains(&&*arguments.only)
}

/// Measures what is wanted, and hands each report on as soon as it is there.
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
        report(&disturbances::measure(contestants, arguments)?)?;
    }
    Ok(())
}
