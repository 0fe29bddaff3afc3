//! Installs Chromium into `.browser/` for `cargo xtask test --browser`. It is separate from
//! `.setup/` because it is large.

use anyhow::Result;

use super::bring_once;
use super::debian::Wanted;
use crate::workspace;

/// Must be changed when the contents change.
const VERSION: &str = "browser 1";

/// Chromium's sandbox is not installed, because its installation needs root.
const WANTED: Wanted<'_> = Wanted {
    tools: &["chromium", "fonts-dejavu-core"],
    where_missing: &["fontconfig-config"],
    headers: &[],
    programs: &[("chromium", "chromium")],
    optional: &[],
};

/// Completes `.browser/`. Returns quickly if it is complete.
pub(crate) fn run() -> Result<()> {
    bring_once(&workspace::root().join(".browser"), VERSION, &WANTED)
}
