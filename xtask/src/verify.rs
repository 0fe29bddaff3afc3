//! Checks that need a separate build: models run by loom, and tests run under a sanitizer.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;
use crate::workspace::{self, cargo};

/// Test modules that loom runs, by crate. Other modules use threads that loom does not control.
const LOOM_MODELS: [(&str, &[&str]); 3] = [
    (
        "nagi-store",
        &["latch::model", "directory::model", "quiescence::model", "claims::model", "models::"],
    ),
    ("nagi-pipe", &["model"]),
    ("nagi-commands", &["blocking::model"]),
];

/// Runs all models under loom.
pub(crate) fn loom() -> Result<()> {
    for (package, models) in LOOM_MODELS {
        let arguments = ["test", "--package", package, "--lib", "--"];
        let mut command = cargo(&[&arguments[..], models].concat());
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", "target/loom");
        run(command)?;
    }
    Ok(())
}

/// A sanitizer of the compiler.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Sanitizer {
    /// Memory that is used after it was freed, or beyond its end
    Address,
    /// Threads that reach the same memory without an order between them
    Thread,
}

/// Tests that count page faults, which do not hold because the sanitizer uses memory itself.
const COUNT_FAULTS: [&str; 2] = [
    "large_store_provides_whole_arenas_unless_much_is_free",
    "no_page_faults_in_holds_if_the_preparer_is_in_time",
];

/// Runs tests of the crates with unsafe code under a sanitizer, which needs a nightly toolchain.
pub(crate) fn sanitize(sanitizer: Sanitizer) -> Result<()> {
    let (flag, folder) = match sanitizer {
        Sanitizer::Address => ("-Zsanitizer=address", "target/sanitize"),
        Sanitizer::Thread => ("-Zsanitizer=thread", "target/sanitize-thread"),
    };
    let packages: &[&str] = match sanitizer {
        Sanitizer::Address => &["nagi-store", "nagi-chunk", "nagi-script", "nagi-pipe"],
        Sanitizer::Thread => &["nagi-store"],
    };
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo", "test", "--lib"]);
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    if matches!(sanitizer, Sanitizer::Thread) {
        require_standard_library_source()?;
        // Without instrumentation of the standard library, the sanitizer does not recognize its
        // locks.
        command.arg("-Zbuild-std");
    }
    command
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .current_dir(workspace::root())
        .env("RUSTFLAGS", flag)
        // Instrumented stack frames are about ten times as large, and replies of scripts nest
        // deeply.
        .env("RUST_MIN_STACK", "67108864")
        .env("CARGO_TARGET_DIR", folder);
    command.arg("--");
    match sanitizer {
        Sanitizer::Address => {
            command.args(COUNT_FAULTS.iter().flat_map(|test| ["--skip", test]));
        }
        Sanitizer::Thread => {
            command.args(["tests::threads", "tests::snapshot::transfers"]);
        }
    }
    run(command)
}

/// Fails if the nightly toolchain lacks the source of the standard library, which must be rebuilt.
fn require_standard_library_source() -> Result<()> {
    let mut rustc = Command::new("rustup");
    let printed = process::output(rustc.args(["run", "nightly", "rustc", "--print", "sysroot"]))?;
    let source = Path::new(printed.trim()).join("lib/rustlib/src/rust/library/Cargo.toml");
    if !source.is_file() {
        bail!(
            "the standard library's source is missing: \
             `rustup component add rust-src --toolchain nightly`"
        );
    }
    Ok(())
}

fn run(mut command: Command) -> Result<()> {
    let status = command.status()?;
    if !status.success() {
        bail!("the tests failed: {status}");
    }
    Ok(())
}
