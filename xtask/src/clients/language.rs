//! The dependencies of programs in each language, installed into `.clients/` by the language's own
//! tools.
//!
//! Versions come from the lock files in `tests/programs`. If a tool expects packages next to the
//! sources, the sources are copied to the packages, so that no package gets into the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{go, java, rust};
use crate::setup::languages;
use crate::setup::python::Environment;
use crate::{process, workspace};

/// A programming language, and the tools that install and run its programs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Go,
    Java,
    Node,
    Php,
    Python,
    Ruby,
    Rust,
}

impl Language {
    /// Returns the name of the language's folder in `tests/programs` and in `.clients`.
    const fn folder_name(self) -> &'static str {
        match self {
            Self::Go => "go",
            Self::Java => "java",
            Self::Node => "node",
            Self::Php => "php",
            Self::Python => "python",
            Self::Ruby => "ruby",
            Self::Rust => "rust",
        }
    }

    /// Installs the dependencies of the language's programs if they have changed. If that is
    /// impossible, returns what the machine lacks.
    pub(super) fn make_ready(self) -> Result<Option<String>> {
        if let Some(missing) = self.missing() {
            return Ok(Some(missing));
        }
        match self {
            Self::Go => go::install(&self.source_folder(), &self.folder())?,
            Self::Java => java::install()?,
            Self::Php => languages::bring_php(&self.source_folder(), &self.folder())?,
            Self::Ruby => languages::bring_ruby(&self.source_folder(), &self.folder())?,
            Self::Rust => rust::install(&self.source_folder(), &self.folder())?,
            Self::Node => {
                when_changed(&self.copy_sources()?, "package-lock.json", install_node)?;
            }
            Self::Python => {
                when_changed(&self.copy_sources()?, "requirements.txt", install_python)?;
            }
        }
        Ok(None)
    }

    /// Returns the tool that the machine lacks and that setup does not install.
    fn missing(self) -> Option<String> {
        let needed: &[&str] = match self {
            Self::Java => &["java", "javac", "mvn"],
            Self::Node => &["node", "npm"],
            Self::Php | Self::Ruby => return languages::missing(),
            // Cargo runs this program, so Rust is present; setup installs the other tools.
            Self::Go | Self::Python | Self::Rust => &[],
        };
        let missing: Vec<&str> =
            needed.iter().copied().filter(|program| !process::in_path(program)).collect();
        (!missing.is_empty()).then(|| format!("PATH has no {}", missing.join(" and no ")))
    }

    /// Returns the command that runs a job.
    pub(super) fn job(self, job: &str) -> Command {
        let folder = self.folder();
        let (mut command, place) = match self {
            Self::Go => return Command::new(folder.join(job)),
            Self::Rust => return Command::new(folder.join("debug").join(job)),
            Self::Java => return java::job(job),
            Self::Php => (languages::php(&folder), self.source_folder()),
            Self::Ruby => (languages::ruby(&folder), self.source_folder()),
            Self::Node => (Command::new("node"), folder),
            Self::Python => (environment(&folder).python(), folder),
        };
        command.arg(job).current_dir(place);
        command
    }

    fn source_folder(self) -> PathBuf {
        workspace::root().join("tests/programs").join(self.folder_name())
    }

    /// Copies the language's programs to the folder of their packages.
    fn copy_sources(self) -> Result<PathBuf> {
        let folder = self.folder();
        copy_files(&self.source_folder(), &folder)?;
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

/// Calls `install`, unless the list of packages has not changed since the last installation.
pub(super) fn when_changed(
    folder: &Path,
    list: &str,
    install: fn(&Path) -> Result<()>,
) -> Result<()> {
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
