//! Programs in Rust, built into `.clients/rust` by the cargo that runs this program. They are
//! separate from nagi's workspace and its lock file.

use std::path::Path;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::cargo;

/// Builds the programs. Returns quickly if nothing has changed.
pub(super) fn install(sources: &Path, folder: &Path) -> Result<()> {
    let mut build = cargo(&["build", "--quiet", "--locked", "--manifest-path"]);
    build.arg(sources.join("Cargo.toml")).arg("--target-dir").arg(folder);
    process::output(&mut build)
        .context("cargo cannot build the programs: check the network and cargo's settings")?;
    Ok(())
}
