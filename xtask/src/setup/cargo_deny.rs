//! Installs cargo-deny, which checks the licences and sources of dependencies, into `.setup/bin`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::cargo;

const VERSION: &str = "0.20.2";

/// Builds cargo-deny, which takes some minutes.
pub(super) fn install(setup_folder: &Path) -> Result<()> {
    println!("setup: builds cargo-deny {VERSION}");
    let mut install = cargo(&["install", "cargo-deny", "--version", VERSION, "--locked"]);
    install
        .args(["--quiet", "--no-default-features", "--root"])
        .arg(setup_folder)
        .env_remove("CARGO_TARGET_DIR");
    process::output(&mut install)
        .map(|_| ())
        .context("cannot build cargo-deny: check the network and cargo's settings")
}

/// Returns the path of the program.
pub(crate) fn program(setup_folder: &Path) -> PathBuf {
    setup_folder.join("bin/cargo-deny")
}
