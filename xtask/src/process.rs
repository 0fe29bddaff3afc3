//! Runs other programs. An error says which program failed and how to run it again.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};

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

/// Runs `command`, passes each line of its output to `read`, and kills it with all its children
/// if it prints nothing for `patience` after its first line.
pub(crate) fn run_by_lines(
    command: &mut Command,
    patience: Duration,
    mut read: impl FnMut(&str),
) -> Result<()> {
    let line = line(command);
    let mut child =
        command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start: {line}"))?;
    let output = child.stdout.take().context("its output is piped")?;
    let (sender, lines) = channel();
    thread::spawn(move || {
        BufReader::new(output).lines().map_while(|text| sender.send(text).ok()).for_each(drop);
    });
    let mut next = lines.recv().map_err(|_| RecvTimeoutError::Disconnected);
    loop {
        match next {
            Ok(text) => read(&text?),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                kill_with_descendants(child.id());
                let problem =
                    anyhow!("it printed nothing for {} s and was killed", patience.as_secs());
                return Err(problem.context(line));
            }
        }
        next = lines.recv_timeout(patience);
    }
    let status = child.wait()?;
    if !status.success() {
        bail!("{status}: {line}");
    }
    Ok(())
}

/// Kills a process and all processes that it has started, the last first.
fn kill_with_descendants(process: u32) {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    for thread in threads {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.split(' ').filter_map(|child| child.parse().ok()).for_each(kill_with_descendants);
    }
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        // It may have ended meanwhile.
        let _ = kill_process(process, Signal::KILL);
    }
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

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::run_by_lines;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn lines_are_read_until_the_end() {
        let mut lines = Vec::new();
        let run = run_by_lines(&mut shell("echo one; echo two"), Duration::from_mins(1), |line| {
            lines.push(line.to_owned());
        });
        assert!(run.is_ok());
        assert_eq!(lines, ["one", "two"]);
        assert!(run_by_lines(&mut shell("exit 3"), Duration::from_mins(1), |_| {}).is_err());
    }

    #[test]
    fn a_silent_program_is_killed_with_its_children() {
        let script = "sleep 1000 & echo $!; echo begun; wait";
        let mut lines = Vec::new();
        let run = run_by_lines(&mut shell(script), Duration::from_millis(100), |line| {
            lines.push(line.to_owned());
        });
        assert!(format!("{:#}", run.expect_err("it is silent")).contains("printed nothing"));
        let sleep: u32 = lines[0].parse().expect("a process number");
        let path = format!("/proc/{sleep}/cmdline");
        while std::fs::read(&path).is_ok_and(|line| line.starts_with(b"sleep")) {
            std::thread::yield_now();
        }
    }
}
