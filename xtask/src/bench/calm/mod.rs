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

/// What `--only` has for each table; everything else is one disturbance or some.
const QUIET: &str = "quiet";
const UNEVEN: &str = "uneven";
const DISTURBANCES: &str = "disturbances";

/// Whether what is wanted are whole tables.
pub(super) fn is_whole(arguments: &Arguments) -> bool {
    ["", QUIET, UNEVEN, DISTURBANCES].contains(&&*arguments.only)
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
        let some = if only == DISTURBANCES { "" } else { only };
        report(&disturbances::measure(contestants, arguments, some)?)?;
    }
    Ok(())
}
