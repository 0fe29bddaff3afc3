//! Programs in Rust, built by the cargo that runs us into `.clients/rust`, apart from nagi's own
//! workspace and its lock file.

use std::path::Path;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::cargo;

/// Builds the programs; quick where nothing has changed.
pub(super) fn install(sources: &Path, folder: &Path) -> Result<()> {
    let mut build = cargo(&["build", "--quiet", "--locked", "--manifest-path"]);
    build.arg(sources.join("Cargo.toml")).arg("--target-dir").arg(folder);
    process::output(&mut build)
        .context("cargo cannot build the programs: check the network and cargo's settings")?;
    Ok(())
}
