//! Third-party programs, installed by `cargo xtask setup`.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// Returns the folder of the repository.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the repository")
}

/// Returns a command for the program `name` as installed by setup, or else from PATH.
#[must_use]
pub fn tool(name: &str) -> Command {
    let scripts = [".setup/bin", ".browser/bin"].map(|folder| root().join(folder).join(name));
    match scripts.iter().find(|script| script.is_file()) {
        Some(script) => Command::new(script),
        None => Command::new(name),
    }
}

/// Says that something is not tested, and why. All tests that lack something say it in this way.
pub fn skipped(reason: impl Display) {
    eprintln!("SKIPPED: {reason}");
}

/// Returns a command for the newest version of `name`, which is Debian sid's, with the libraries
/// from the same tree. If `cargo xtask bench` has not installed it, prints that and returns `None`.
#[must_use]
pub fn newest(name: &str) -> Option<Command> {
    let tree = root().join(".peers/sid");
    let program = tree.join("usr/bin").join(name);
    if !program.is_file() {
        skipped(format_args!("{name} of Debian sid is not in .peers/sid"));
        return None;
    }
    let libraries = tree.join("usr/lib/x86_64-linux-gnu");
    let mut command = Command::new(tree.join("lib64/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(libraries).arg(program);
    Some(command)
}

/// Runs a tool, and returns its output. A failing exit code fails the test.
///
/// # Panics
/// The tool is missing or fails.
pub fn run_tool(name: &str, arguments: &[&str]) -> String {
    run_tool_with_input(name, arguments, &[])
}

/// Runs a tool that reads `input`, and returns its output.
///
/// # Panics
/// The tool is missing or fails.
#[must_use]
pub fn run_tool_with_input(name: &str, arguments: &[&str], input: &[u8]) -> String {
    let mut child = tool(name)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {name} ({error}): run `cargo xtask setup`"));
    let mut stdin = child.stdin.take().expect("it has an input");
    let output = thread::scope(|scope| {
        // A tool may exit without reading all of its input; its output then shows the reason.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output().expect("waits for the tool")
    });
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
