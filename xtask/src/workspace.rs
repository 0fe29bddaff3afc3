//! The repository: its folders, and builds with cargo.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::process;

/// Returns the folder that contains the workspace's `Cargo.toml`.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// Returns the folder of `cargo xtask setup`, which git ignores.
pub(crate) fn setup_folder() -> PathBuf {
    root().join(".setup")
}

/// Returns a command for the cargo that runs this program, in the repository's root.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Builds nagi and returns the path of its binary.
pub(crate) fn build_nagi(profile: &str) -> Result<PathBuf> {
    let arguments = ["--package", "nagi", "--profile", profile, "--message-format", "json"];
    let mut command = cargo(&["build"]);
    let messages = process::output(command.args(arguments).stderr(Stdio::inherit()))?;
    let executable = messages.lines().rev().find_map(|line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message.get("executable")?.as_str()?))
    });
    executable.context("cargo does not say where it put nagi")
}
