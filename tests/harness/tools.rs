//! Third-party programs, installed by `cargo xtask setup`.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// The folder of the repository.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the repository")
}

/// `name` as installed by setup, or else from PATH.
#[must_use]
pub fn tool(name: &str) -> Command {
    let scripts = [".setup/bin", ".browser/bin"].map(|folder| root().join(folder).join(name));
    match scripts.iter().find(|script| script.is_file()) {
        Some(script) => Command::new(script),
        None => Command::new(name),
    }
}

/// The newest version of `name`, of Debian sid, with the libraries of its tree; `None`, and a line
/// that says so, if `cargo xtask bench` has not brought it.
#[must_use]
pub fn newest(name: &str) -> Option<Command> {
    let tree = root().join(".peers/sid");
    let program = tree.join("usr/bin").join(name);
    if !program.is_file() {
        println!("SKIPPED: {name} of Debian sid is not in .peers/sid");
        return None;
    }
    let libraries = tree.join("usr/lib/x86_64-linux-gnu");
    let mut command = Command::new(tree.join("lib64/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(libraries).arg(program);
    Some(command)
}

/// Runs a tool and returns what it printed; a failing exit fails the test.
///
/// # Panics
/// When the tool is missing or fails.
pub fn run_tool(name: &str, arguments: &[&str]) -> String {
    run_tool_with_input(name, arguments, &[])
}

/// The same, with `input` for the tool to read.
///
/// # Panics
/// When the tool is missing or fails.
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
        // A tool may end without reading everything; its output then shows why.
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
