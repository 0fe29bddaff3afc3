//! Checks that need a separate build: loom's models, and the store under a sanitizer.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;
use crate::workspace::{self, cargo};

/// Test modules that loom runs, by crate; the others use threads that it does not control.
const LOOM_MODELS: [(&str, &[&str]); 3] = [
    (
        "nagi-store",
        &["latch::model", "directory::model", "quiescence::model", "claims::model", "models::"],
    ),
    ("nagi-pipe", &["model"]),
    ("nagi-commands", &["blocking::model"]),
];

/// Runs every model through loom.
pub(crate) fn loom() -> Result<()> {
    for (package, models) in LOOM_MODELS {
        let arguments = ["test", "--package", package, "--lib", "--"];
        let mut command = cargo(&[&arguments[..], models].concat());
        command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", "target/loom");
        run(command)?;
    }
    Ok(())
}

/// Which of the compiler's sanitizers.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum Sanitizer {
    /// Memory that is used after it was freed, or beyond its end
    Address,
    /// Threads that reach the same memory without an order between them
    Thread,
}

/// Tests of the number of page faults, to which the sanitizer's own memory adds.
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
        // Without instrumentation of the standard library, it does not recognize its locks.
        command.arg("-Zbuild-std");
    }
    command
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .current_dir(workspace::root())
        .env("RUSTFLAGS", flag)
        // Instrumented frames are some ten times as long, and replies of scripts nest deeply.
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

/// The nightly toolchain needs the source to rebuild the standard library.
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
