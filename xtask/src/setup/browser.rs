//! `.browser/`: Chromium for `cargo xtask test --browser`, apart from `.setup/` since it is large.

use std::fs;

use anyhow::{Context, Result};

use super::debian::{self, Wanted};
use super::{bring, make_empty};
use crate::workspace;

/// Raised when what is brought changes.
const VERSION: u32 = 1;

/// Its own sandbox needs root to be installed, and is not used.
const WANTED: Wanted<'_> = Wanted {
    tools: &["chromium", "fonts-dejavu-core"],
    where_missing: &["fontconfig-config"],
    programs: &[("chromium", "chromium")],
    optional: &[],
};

/// Makes `.browser/` complete; quick when it is already.
pub(crate) fn run() -> Result<()> {
    let folder = workspace::root().join(".browser");
    let stamp_path = folder.join("stamp");
    let stamp = format!("browser {VERSION}\n{}\n", debian::release());
    if fs::read_to_string(&stamp_path).is_ok_and(|found| found == stamp) {
        return Ok(());
    }
    make_empty(&folder)?;
    bring(&folder, &WANTED)?;
    fs::write(&stamp_path, stamp).context("cannot write .browser/stamp")
}
