//! Serving in the background: the process starts itself again, detached from the terminal, and
//! exits when the new process listens. A failed start is therefore visible in the exit status.
//!
//! fork(2) would take less code, but few functions may be called in a child of a process with
//! threads.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The environment variable that marks the process in the background.
const MARK: &str = "NAGI_IN_BACKGROUND";
/// The line that this process writes when it listens.
const READY: &str = "ready";

/// Whether this is the process in the background.
#[must_use]
pub fn is_background() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts this program again in the background, with the same arguments, in the folder that their
/// paths are relative to, and with `input` on its standard input; waits until it listens. Returns
/// the status for this process to end with.
///
/// # Errors
/// The kernel cannot create a process.
pub fn start_in_background(folder: &Path, input: &[u8]) -> io::Result<ExitCode> {
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_else(|| OsString::from("nagi"));
    let mut child = Command::new("/proc/self/exe")
        .arg0(name)
        .args(arguments)
        .current_dir(folder)
        .env(MARK, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the new process does not read all of `input`, it reports why.
        let _ = stdin.write_all(input);
    }
    let lines = child.stdout.take().into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
    if lines.map_while(Result::ok).any(|line| line == READY) {
        return Ok(ExitCode::SUCCESS);
    }
    child.wait()?;
    Ok(ExitCode::FAILURE)
}

/// Replaces this process by the same program under another user, if it runs as root and the user is
/// a different one.
///
/// # Errors
/// There is no such user, or the kernel refuses.
pub fn become_user(name: &str) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let users = std::fs::read_to_string("/etc/passwd")?;
    let numbers = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        let (user, group) = (fields.nth(1)?.parse::<u32>().ok()?, fields.next()?.parse().ok()?);
        is_it.then_some((user, group))
    });
    let (user, group): (u32, u32) = numbers
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("unknown user {name}")))?;
    if user == 0 {
        return Ok(());
    }
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| OsString::from("nagi"));
    let mut command = Command::new("/proc/self/exe");
    Err(command.arg0(program).args(arguments).uid(user).gid(group).exec())
}

/// Leaves the terminal's session, so that the end of the session does not end this process.
///
/// # Errors
/// The kernel refuses.
pub fn leave_terminal() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// Reports to the waiting process that the server is listening, and closes the standard streams.
///
/// # Errors
/// The waiting process is gone, or `/dev/null` cannot be opened.
pub fn report_ready() -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "{READY}")?;
    stdout.flush()?;
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}
