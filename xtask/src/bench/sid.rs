//! Installs the newest peers from Debian sid in a separate root, `.peers/sid`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{process, workspace};

/// Creates `.peers/sid` if it does not exist. Returns its path; `None` if it cannot be created.
pub(super) fn prepare() -> Result<Option<PathBuf>> {
    let root = workspace::root().join(".peers/sid");
    if root.join("usr/bin/valkey-server").exists() {
        return Ok(Some(root));
    }
    if !is_root() || !process::in_path("apt-get") {
        println!("bench: .peers/sid needs root and Debian's tools; using what PATH has");
        return Ok(None);
    }
    println!("bench: brings Valkey, Redis and memcached of Debian sid into .peers/sid");
    if !process::in_path("debootstrap") {
        println!("bench: installs the package debootstrap");
        process::output(Command::new("apt-get").arg("update"))?;
        let arguments = ["install", "--yes", "--no-install-recommends", "debootstrap"];
        process::output(Command::new("apt-get").args(arguments))?;
    }
    let mirror = mirror().context("apt names no mirror of Debian: run `apt-get update`")?;
    let mut command = Command::new("debootstrap");
    command
        .args(["--variant=minbase", "--include=valkey-server,redis-server,memcached", "sid"])
        .arg(&root)
        .arg(mirror);
    process::output(&mut command).context("debootstrap failed: remove .peers/ and try again")?;
    Ok(Some(root))
}

fn is_root() -> bool {
    process::output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

/// Returns the Debian mirror that this machine uses.
fn mirror() -> Option<String> {
    let arguments = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
    let addresses = process::output(Command::new("apt-get").args(arguments)).ok()?;
    let mirror = addresses.lines().find(|address| !address.contains("security"))?;
    Some(mirror.to_owned())
}
