//! `.browser/`: Chromium for `cargo xtask test --browser`, separate from `.setup/` since it is
//! large.

use anyhow::Result;

use super::bring_once;
use super::debian::Wanted;
use crate::workspace;

/// Must be raised when the contents change.
const VERSION: &str = "browser 1";

/// Chromium's sandbox needs root to be installed, and is not used.
const WANTED: Wanted<'_> = Wanted {
    tools: &["chromium", "fonts-dejavu-core"],
    where_missing: &["fontconfig-config"],
    headers: &[],
    programs: &[("chromium", "chromium")],
    optional: &[],
};

/// Completes `.browser/`; quick if it is complete.
pub(crate) fn run() -> Result<()> {
    bring_once(&workspace::root().join(".browser"), VERSION, &WANTED)
}
