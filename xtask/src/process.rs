//! Runs other programs. An error says which program failed and how to run it again.

use std::ffi::OsStr;
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};

/// Runs `command` with the input and output of this process. An exit code other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start: {}", line(command)))?;
    if !status.success() {
        bail!("{status}: {}", line(command));
    }
    Ok(())
}

/// Runs `command` and returns its output. Its error output becomes part of the error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("cannot start: {}", line(command)))?;
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    if !status.success() {
        bail!("{status}: {}\n{stdout}{}", line(command), String::from_utf8_lossy(&stderr));
    }
    Ok(stdout)
}

/// Whether `program` can be found in PATH.
pub(crate) fn in_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    })
}

/// Formats the command as it would be typed in a shell.
pub(crate) fn line(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ")
}
