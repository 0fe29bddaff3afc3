//! Other people's programs, from `cargo xtask setup`.

use std::path::Path;
use std::process::Command;

/// The repository.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the repository")
}

/// `name` as setup brought it, or else from PATH.
#[must_use]
pub fn tool(name: &str) -> Command {
    let script = root().join(".setup/bin").join(name);
    if script.is_file() { Command::new(script) } else { Command::new(name) }
}

/// Runs a tool and returns what it printed; a failing exit fails the test.
///
/// # Panics
/// When the tool is missing or fails.
pub fn run_tool(name: &str, arguments: &[&str]) -> String {
    let output = tool(name)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("cannot start {name} ({error}): run `cargo xtask setup`"));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{name} {}: {}\n{stdout}{}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    stdout
}
