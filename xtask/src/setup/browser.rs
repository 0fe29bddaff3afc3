//! `.browser/`: Chromium for `cargo xtask test --browser`, apart from `.setup/` since it is large.

use anyhow::Result;

use super::bring_once;
use super::debian::Wanted;
use crate::workspace;

/// Raised when what is brought changes.
const VERSION: &str = "browser 1";

/// Its own sandbox needs root to be installed, and is not used.
const WANTED: Wanted<'_> = Wanted {
    tools: &["chromium", "fonts-dejavu-core"],
    where_missing: &["fontconfig-config"],
    headers: &[],
    programs: &[("chromium", "chromium")],
    optional: &[],
};

/// Makes `.browser/` complete; quick when it is already.
pub(crate) fn run() -> Result<()> {
    bring_once(&workspace::root().join(".browser"), VERSION, &WANTED)
}
