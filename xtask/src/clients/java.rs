//! Programs for Java, compiled by Maven into `.clients/java` together with the libraries of
//! `tests/programs/java/pom.xml`, which names their versions.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{process, workspace};

/// Options for little memory and a single garbage collector thread, because a job shares the
/// machine with its server.
const OPTIONS: [&str; 3] = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/// Compiles the programs with their libraries, unless no source has changed.
pub(super) fn install() -> Result<()> {
    let (wanted, stamp) = (sources()?, folder().join("installed"));
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("clients: compiles tests/programs/java and its libraries into .clients/java");
    // Without this, the old version of a library would remain next to the new version.
    if folder().exists() {
        fs::remove_dir_all(folder()).context("cannot remove the old .clients/java")?;
    }
    let mut maven = Command::new("mvn");
    maven
        .args(["--quiet", "--batch-mode"])
        .arg(format!("-Dprograms.output={}", folder().display()))
        .args(["compile", "dependency:copy-dependencies"])
        .current_dir(source_folder());
    process::output(&mut maven)
        .context("Maven cannot compile the programs: check the network and Maven's settings")?;
    fs::write(stamp, wanted).context("cannot note what is compiled")
}

/// Returns the command that runs a job, given the name of its class.
pub(super) fn job(class: &str) -> Command {
    let folder = folder();
    let path = format!("{}:{}", folder.join("classes").display(), folder.join("jars/*").display());
    let mut command = Command::new("java");
    command.args(OPTIONS).args(["-cp", &path]).arg(format!("programs.{class}")).current_dir(folder);
    command
}

/// Concatenates all files that determine the result of the compilation.
fn sources() -> Result<String> {
    let mut files = vec![source_folder().join("pom.xml")];
    let jobs = source_folder().join("src/programs");
    for entry in fs::read_dir(&jobs).with_context(|| format!("cannot read {}", jobs.display()))? {
        files.push(entry?.path());
    }
    files.sort();
    let contents = files.iter().map(|path| {
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
    });
    contents.collect()
}

fn source_folder() -> PathBuf {
    workspace::root().join("tests/programs/java")
}

fn folder() -> PathBuf {
    super::folder().join("java")
}
