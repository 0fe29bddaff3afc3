//! Checks that take a build of their own: loom's models, and the store under a sanitizer.

use std::process::Command;

use anyhow::{Result, bail};

use crate::workspace::{self, cargo};

/// Test modules that loom runs; the others need threads that it does not know.
const LOOM_MODELS: [&str; 4] =
    ["latch::model", "directory::model", "quiescence::model", "claims::model"];

/// Runs every model in `crates/store` through loom.
pub(crate) fn loom() -> Result<()> {
    let arguments = ["test", "--package", "nagi-store", "--lib", "--"];
    let mut command = cargo(&[&arguments[..], &LOOM_MODELS].concat());
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", "target/loom");
    run(command)
}

/// Runs the store's tests under AddressSanitizer, which needs a nightly toolchain.
pub(crate) fn sanitize() -> Result<()> {
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly", "cargo", "test", "--package", "nagi-store", "--lib"])
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .current_dir(workspace::root())
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("CARGO_TARGET_DIR", "target/sanitize");
    run(command)
}

fn run(mut command: Command) -> Result<()> {
    let status = command.status()?;
    if !status.success() {
        bail!("the tests failed: {status}");
    }
    Ok(())
}
