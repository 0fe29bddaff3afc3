//! The virtual environment in `.setup/venv` for the tests written in Python.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::debian;
use crate::{process, workspace};

/// Clients that are tested where they install without a compiler, and skipped where not.
const OPTIONAL: [&str; 1] = ["pylibmc"];

/// Makes the environment and `.setup/bin/python`, which runs it.
pub(super) fn make_environment(setup_folder: &Path) -> Result<()> {
    let requirements = workspace::root().join("tests/python/requirements.txt");
    println!("setup: installs tests/python/requirements.txt into .setup/venv");
    let environment = setup_folder.join("venv");
    let wheel = pip_wheel(setup_folder);
    let mut create = Command::new(python(setup_folder));
    create.args(["-m", "venv"]).args(wheel.as_ref().map(|_| "--without-pip"));
    process::output(create.arg(&environment)).context(
        "cannot make a Python virtual environment: install Python 3.10 or later with its venv",
    )?;
    debian::write_wrapper(setup_folder, "python", &environment.join("bin/python"))?;

    let pip = |arguments: &[&str]| {
        let mut command = Command::new(setup_folder.join("bin/python"));
        match &wheel {
            Some(wheel) => command.arg(wheel.join("pip")),
            None => command.args(["-m", "pip"]),
        };
        command.args(["install", "--quiet", "--only-binary", ":all:"]).args(arguments);
        process::output(&mut command)
    };
    pip(&["--requirement", &requirements.to_string_lossy()])
        .context("pip cannot install the Python clients: check the network and pip's settings")?;
    for package in OPTIONAL {
        if pip(&[package]).is_err() {
            println!("setup: {package} has no wheel for this Python; its tests will be skipped");
        }
    }
    Ok(())
}

/// Debian's own Python where there is one: the pip that comes in a package is made for it.
fn python(setup_folder: &Path) -> PathBuf {
    let wrapper = setup_folder.join("bin/python3");
    if wrapper.is_file() { wrapper } else { PathBuf::from("python3") }
}

/// Debian's pip, as a wheel that Python runs without installing it.
fn pip_wheel(setup_folder: &Path) -> Option<PathBuf> {
    [debian::tree(setup_folder), PathBuf::from("/")].iter().find_map(|tree| {
        let wheels = fs::read_dir(tree.join("usr/share/python-wheels")).ok()?;
        wheels.filter_map(|entry| Some(entry.ok()?.path())).find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("pip-"))
        })
    })
}
