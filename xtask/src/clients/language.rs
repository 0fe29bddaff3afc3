//! What the programs of a language need, installed by its own tools into `.clients/`.
//!
//! Versions are those of the lock files in `tests/programs`. The sources are copied beside what is
//! installed, where its tools look for them, so that nothing of it gets into the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::java;
use crate::setup::python::Environment;
use crate::{process, workspace};

/// A language that programs are written in, by what installs and runs them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Java,
    Node,
    Python,
}

impl Language {
    /// Its folder in `tests/programs` and in `.clients`.
    const fn folder_name(self) -> &'static str {
        match self {
            Self::Java => "java",
            Self::Node => "node",
            Self::Python => "python",
        }
    }

    /// Installs what its programs need if that has changed; says what the machine lacks if it
    /// cannot.
    pub(super) fn make_ready(self) -> Result<Option<String>> {
        let needed: &[&str] = match self {
            Self::Java => &["java", "javac", "mvn"],
            Self::Node => &["node", "npm"],
            // Setup has brought it.
            Self::Python => &[],
        };
        let missing: Vec<&str> =
            needed.iter().copied().filter(|program| !process::in_path(program)).collect();
        if !missing.is_empty() {
            return Ok(Some(format!("PATH has no {}", missing.join(" and no "))));
        }
        match self {
            Self::Java => java::install()?,
            Self::Node => {
                when_changed(&self.copy_sources()?, "package-lock.json", install_node)?;
            }
            Self::Python => {
                when_changed(&self.copy_sources()?, "requirements.txt", install_python)?;
            }
        }
        Ok(None)
    }

    /// The command that runs a job of this language.
    pub(super) fn job(self, job: &str) -> Command {
        let folder = self.folder();
        let mut command = match self {
            Self::Java => return java::job(job),
            Self::Node => Command::new("node"),
            Self::Python => environment(&folder).python(),
        };
        command.arg(job).current_dir(folder);
        command
    }

    /// Copies its programs to where their packages are.
    fn copy_sources(self) -> Result<PathBuf> {
        let folder = self.folder();
        copy_files(&workspace::root().join("tests/programs").join(self.folder_name()), &folder)?;
        Ok(folder)
    }

    fn folder(self) -> PathBuf {
        super::folder().join(self.folder_name())
    }
}

fn environment(folder: &Path) -> Environment {
    Environment::new(&workspace::setup_folder(), folder.join("venv"))
}

fn install_node(folder: &Path) -> Result<()> {
    let options = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
    process::output(Command::new("npm").args(options).current_dir(folder))
        .context("npm cannot install the packages: check the network and npm's settings")?;
    Ok(())
}

fn install_python(folder: &Path) -> Result<()> {
    environment(folder).install(&folder.join("requirements.txt"))
}

/// Installs unless the last installation was of the same list.
fn when_changed(folder: &Path, list: &str, install: fn(&Path) -> Result<()>) -> Result<()> {
    let (wanted, stamp) = (fs::read(folder.join(list))?, folder.join("installed"));
    if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("clients: installs what {} lists", folder.join(list).display());
    install(folder)?;
    fs::write(stamp, wanted).context("cannot note what is installed")
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))
                .with_context(|| format!("cannot copy {}", entry.path().display()))?;
        }
    }
    Ok(())
}
