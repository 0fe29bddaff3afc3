//! Creates Python's virtual environments: `.setup/venv` for tests in Python, and the environment of
//! the client programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::debian;
use crate::{process, workspace};

/// Packages that are skipped if they cannot be installed without a compiler.
const OPTIONAL: [&str; 1] = ["pylibmc"];

/// Creates the environment in `.setup/venv`, and `.setup/bin/python`, which runs its Python.
pub(super) fn make_environment(setup_folder: &Path) -> Result<()> {
    println!("setup: installs tests/python/requirements.txt into .setup/venv");
    let environment = Environment::new(setup_folder, setup_folder.join("venv"));
    environment.install(&workspace::root().join("tests/python/requirements.txt"))?;
    debian::write_wrapper(setup_folder, "python", &environment.folder.join("bin/python"))?;
    for package in OPTIONAL {
        if environment.pip(&[package]).is_err() {
            println!("setup: {package} has no wheel for this Python; its tests will be skipped");
        }
    }
    Ok(())
}

/// A virtual environment.
pub(crate) struct Environment {
    setup_folder: PathBuf,
    folder: PathBuf,
}

impl Environment {
    /// Describes the environment in `folder`, which need not exist yet.
    pub(crate) fn new(setup_folder: &Path, folder: PathBuf) -> Self {
        Self { setup_folder: setup_folder.to_owned(), folder }
    }

    /// Recreates the environment with the packages listed in the file `requirements`.
    pub(crate) fn install(&self, requirements: &Path) -> Result<()> {
        let mut create = Command::new(python(&self.setup_folder));
        create.args(["-m", "venv", "--clear"]);
        create.args(self.pip_wheel().map(|_| "--without-pip"));
        process::output(create.arg(&self.folder)).context(
            "cannot make a Python virtual environment: install Python 3.10 or later with its venv",
        )?;
        self.pip(&["--requirement", &requirements.to_string_lossy()]).context(
            "pip cannot install the Python clients: check the network and pip's settings",
        )?;
        Ok(())
    }

    /// Returns a command that runs the environment's Python with the libraries that setup has
    /// unpacked.
    pub(crate) fn python(&self) -> Command {
        let mut command = Command::new(self.folder.join("bin/python"));
        let libraries = debian::library_path(&self.setup_folder);
        if !libraries.is_empty() {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Returns the path of a program from one of the environment's packages.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    fn pip(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.python();
        match self.pip_wheel() {
            Some(wheel) => command.arg(wheel.join("pip")),
            None => command.args(["-m", "pip"]),
        };
        command.args(["install", "--quiet", "--only-binary", ":all:"]).args(arguments);
        process::output(&mut command)
    }

    /// Returns the path of Debian's pip, a wheel that Python runs without installation.
    fn pip_wheel(&self) -> Option<PathBuf> {
        [debian::tree(&self.setup_folder), PathBuf::from("/")].iter().find_map(|tree| {
            let wheels = fs::read_dir(tree.join("usr/share/python-wheels")).ok()?;
            wheels.filter_map(|entry| Some(entry.ok()?.path())).find(|path| {
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pip-"))
            })
        })
    }
}

/// Returns Debian's own Python if it exists, because the packaged pip is made for it.
fn python(setup_folder: &Path) -> PathBuf {
    let wrapper = setup_folder.join("bin/python3");
    if wrapper.is_file() { wrapper } else { PathBuf::from("python3") }
}
