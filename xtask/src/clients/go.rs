//! Programs in Go, built into `.clients/go`. If the machine's Go is missing or too old, the Go in a
//! Python package builds them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::language::when_changed;
use crate::setup::python::Environment;
use crate::{process, workspace};

/// The file that names the Python package that contains Go.
const LIST: &str = "requirements.txt";

/// Builds the programs. Returns quickly if nothing has changed.
pub(super) fn install(sources: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let wanted = fs::read_to_string(sources.join("go.mod")).context("cannot read go.mod")?;
    let found = process::output(Command::new("go").arg("version")).unwrap_or_default();
    let is_recent = version(&found, "go version go") >= version(&wanted, "\ngo ");
    let go = if is_recent { PathBuf::from("go") } else { bring(sources, folder)? };
    let mut build = Command::new(go);
    build
        .args(["build", "-mod=readonly", "-o"])
        .arg(format!("{}/", folder.display()))
        .arg("./...")
        .current_dir(sources)
        .env("GOTOOLCHAIN", "local");
    process::output(&mut build)
        .context("Go cannot build the programs: check the network and Go's settings")?;
    Ok(())
}

/// Installs the Go named in `requirements.txt`, and returns its path.
fn bring(sources: &Path, folder: &Path) -> Result<PathBuf> {
    fs::copy(sources.join(LIST), folder.join(LIST)).context("cannot copy the list of packages")?;
    when_changed(folder, LIST, |folder| environment(folder).install(&folder.join(LIST)))?;
    Ok(environment(folder).program("go"))
}

fn environment(folder: &Path) -> Environment {
    Environment::new(&workspace::setup_folder(), folder.join("venv"))
}

/// Parses the version that follows `before` in `text`. Returns its first two numbers.
fn version(text: &str, before: &str) -> Option<(u32, u32)> {
    let (_, after) = text.split_once(before)?;
    let mut numbers = after.split(|letter: char| !letter.is_ascii_digit());
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let found = |text| version(text, "go version go");
        assert_eq!(found("go version go1.26.8 linux/amd64"), Some((1, 26)));
        assert_eq!(found("go version go1.27rc1 linux/amd64"), Some((1, 27)));
        assert_eq!(found(""), None);
        assert_eq!(version("module programs\n\ngo 1.25\n", "\ngo "), Some((1, 25)));
        assert!(found("") < version("module programs\n\ngo 1.25\n", "\ngo "));
        assert!(found("go version go1.9") < found("go version go1.10"));
    }
}
