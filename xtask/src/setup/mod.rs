//! `cargo xtask setup`: installs the clients and servers for the tests into a folder that git
//! ignores.
//!
//! Nothing is installed on the machine: packages are only unpacked, so no service starts on port
//! 6379 or 11211, no root is needed, and deleting `.setup/` undoes everything.

pub(crate) mod browser;
pub(crate) mod cargo_deny;
mod debian;
pub(crate) mod languages;
pub(crate) mod python;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{process, workspace};
use debian::Wanted;

/// Must be raised when setup changes, so that it runs again.
const SETUP_VERSION: u32 = 12;

/// The programs that tests start, with the packages to install by hand on other systems.
const PROGRAMS: [(&str, &str); 22] = [
    ("redis-cli", "redis-tools"),
    ("redis-server", "redis-server"),
    ("memcached", "memcached"),
    ("memccat", "libmemcached-tools"),
    ("memcdump", "libmemcached-tools"),
    ("memccp", "libmemcached-tools"),
    ("memcslap", "libmemcached-tools"),
    ("memccapable", "libmemcached-tools"),
    ("nutcracker", "nutcracker"),
    ("prometheus", "prometheus"),
    ("promtool", "prometheus"),
    ("prometheus-apache-exporter", "prometheus-apache-exporter"),
    ("prometheus-redis-exporter", "prometheus-redis-exporter"),
    ("curl", "curl"),
    ("python3", "python3"),
    ("ruby", "ruby"),
    ("tclsh", "tcl"),
    ("webdis", "webdis"),
    ("nginx", "nginx"),
    ("apache2", "apache2-bin"),
    ("ab", "apache2-utils"),
    ("wrk", "wrk"),
];

/// Programs for tests of slow links and slow disks. Without them, these tests are skipped.
const OPTIONAL: [(&str, &str); 3] = [("ip", "iproute2"), ("tc", "iproute2"), ("strace", "strace")];

const WANTED: Wanted<'_> = Wanted {
    tools: &debian::TOOLS,
    where_missing: &debian::WHERE_MISSING,
    headers: &debian::HEADERS,
    programs: &PROGRAMS,
    optional: &OPTIONAL,
};

/// Completes `.setup/`. Returns quickly if it is complete.
pub(crate) fn run() -> Result<()> {
    let folder = workspace::setup_folder();
    let requirements = workspace::root().join("tests/python/requirements.txt");
    let requirements = fs::read_to_string(&requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let stamp_path = folder.join("stamp");
    let stamp = format!("setup {SETUP_VERSION}\n{}\n{requirements}", debian::release());
    if fs::read_to_string(&stamp_path).is_ok_and(|found| found == stamp) {
        println!("setup: .setup/ is complete (delete it to start afresh)");
        return Ok(());
    }

    make_empty(&folder)?;
    bring(&folder, &WANTED)?;
    python::make_environment(&folder)?;
    cargo_deny::install(&folder)?;
    fs::write(&stamp_path, stamp).context("cannot write .setup/stamp")?;
    println!("setup: .setup/ is complete");
    Ok(())
}

/// Unpacks packages into a separate folder, unless it contains them already. `version` names the
/// purpose and a number, which must be raised when the packages change.
fn bring_once(folder: &Path, version: &str, wanted: &Wanted<'_>) -> Result<()> {
    let stamp_path = folder.join("stamp");
    let stamp = format!("{version}\n{}\n", debian::release());
    if fs::read_to_string(&stamp_path).is_ok_and(|found| found == stamp) {
        return Ok(());
    }
    make_empty(folder)?;
    bring(folder, wanted)?;
    fs::write(&stamp_path, stamp).with_context(|| format!("cannot write {}", stamp_path.display()))
}

/// Recreates a folder with an empty `bin`.
fn make_empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove the old {}", folder.display()))?;
    }
    fs::create_dir_all(folder.join("bin"))
        .with_context(|| format!("cannot create {}", folder.display()))
}

/// Unpacks packages into a folder. On systems other than Debian, checks that their programs exist.
fn bring(folder: &Path, wanted: &Wanted<'_>) -> Result<()> {
    if debian::is_debian() {
        return debian::unpack(folder, wanted);
    }
    let missing: Vec<String> = wanted
        .programs
        .iter()
        .filter(|(program, _)| !process::in_path(program))
        .map(|(program, package)| format!("{program} (Debian has it in {package})"))
        .collect();
    if !missing.is_empty() {
        bail!(
            "this is not Debian, so setup cannot bring what the tests need.\n\
             Install these so that they are in PATH, then run it again: {}",
            missing.join(", ")
        );
    }
    println!("setup: this is not Debian; the tests use the programs found in PATH");
    Ok(())
}
