//! Programs for Node.js, their packages installed by npm into `.clients/node`.
//!
//! Versions are those of `tests/programs/node/package-lock.json`. The jobs are copied beside the
//! packages, which Node.js looks for there, so that nothing of them gets into the repository.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{process, workspace};

/// Says what the machine lacks, if it does.
pub(super) fn missing() -> Option<String> {
    let missing: Vec<&str> =
        ["node", "npm"].into_iter().filter(|program| !process::in_path(program)).collect();
    (!missing.is_empty()).then(|| format!("PATH has no {}", missing.join(" and no ")))
}

/// Copies the jobs, and installs their packages unless the last installation was of the same.
pub(super) fn install() -> Result<()> {
    let (sources, folder) = (workspace::root().join("tests/programs/node"), folder());
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for entry in fs::read_dir(&sources).context("cannot read tests/programs/node")? {
        let entry = entry?;
        fs::copy(entry.path(), folder.join(entry.file_name()))
            .with_context(|| format!("cannot copy {}", entry.path().display()))?;
    }
    let (wanted, stamp) = (fs::read(folder.join("package-lock.json"))?, folder.join("installed"));
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("clients: installs packages for Node.js in .clients/node");
    let options = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
    process::output(Command::new("npm").args(options).current_dir(&folder))
        .context("npm cannot install the packages: check the network and npm's settings")?;
    fs::write(stamp, wanted).context("cannot note what is installed")
}

/// The command that runs a job of this folder.
pub(super) fn job(script: &str) -> Command {
    let mut command = Command::new("node");
    command.arg(script).current_dir(folder());
    command
}

fn folder() -> PathBuf {
    super::folder().join("node")
}
