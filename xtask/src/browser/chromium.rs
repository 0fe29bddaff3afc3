//! A headless Chromium, controlled by its DevTools protocol over a pipe: JSON messages, each
//! followed by a zero byte (<https://chromedevtools.github.io/devtools-protocol/>).

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use harness::{Folder, tool};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// The shell command moves the ends of the pipe to the two file descriptors that Chromium uses.
const ON_A_PIPE: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null";

const OPTIONS: [&str; 13] = [
    "--headless",
    "--remote-debugging-pipe",
    // A test needs no sandbox for its own pages, and Chromium cannot use one as root.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    // Resolves other host names to this machine, for pages of an attacker.
    "--host-resolver-rules=MAP *.example 127.0.0.1",
];

/// A running browser, which is stopped when dropped.
pub(super) struct Chromium {
    process: Child,
    requests: ChildStdin,
    messages: Receiver<Value>,
    /// Events that arrived while waiting for answers, in order.
    events: VecDeque<Value>,
    last_id: u64,
    folder: Folder,
}

impl Chromium {
    pub(super) fn start() -> Result<Self> {
        let folder = Folder::new("chromium");
        let log = File::create(log_path(folder.path()))?;
        let chromium = tool("chromium");
        let mut command = Command::new("sh");
        command
            .args(["-c", ON_A_PIPE, "sh"])
            .arg(chromium.get_program())
            .args(OPTIONS)
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0);
        let mut process = command.spawn().context("cannot start a shell")?;
        let requests = process.stdin.take().context("it has an input")?;
        let output = process.stdout.take().context("it has an output")?;
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in BufReader::new(output).split(0) {
                let Ok(message) = message else { return };
                let Ok(message) = serde_json::from_slice(&message) else { return };
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let events = VecDeque::new();
        let mut chromium = Self { process, requests, messages, events, last_id: 0, folder };
        chromium.call(None, "Browser.getVersion", &json!({}))?;
        Ok(chromium)
    }

    /// Returns the browser's name and version.
    pub(super) fn version(&mut self) -> Result<String> {
        let version = self.call(None, "Browser.getVersion", &json!({}))?;
        Ok(at(&version, "/product").as_str().unwrap_or_default().to_owned())
    }

    /// Calls a method and returns its result. With a session, the method applies to the tab of that
    /// session.
    pub(super) fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        parameters: &Value,
    ) -> Result<Value> {
        self.last_id += 1;
        let id = self.last_id;
        let mut request = json!({ "id": id, "method": method, "params": parameters });
        if let (Some(session), Some(fields)) = (session, request.as_object_mut()) {
            fields.insert("sessionId".to_owned(), session.into());
        }
        let sent = self.requests.write_all(format!("{request}\0").as_bytes());
        sent.map_err(|error| anyhow!("Chromium has ended ({error}):\n{}", self.log()))?;
        // The deadline covers the whole call, because events may keep arriving without an answer.
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left);
            let message = message
                .map_err(|error| anyhow!("{method}: no answer ({error}):\n{}", self.log()))?;
            if at(&message, "/id") != id {
                if at(&message, "/method").is_string() {
                    self.events.push_back(message);
                }
                continue;
            }
            if let Some(error) = message.get("error") {
                bail!("{method}: {error}");
            }
            return Ok(at(&message, "/result").clone());
        }
    }

    /// Returns and removes the events of a tab.
    pub(super) fn events(&mut self, session: &str) -> Vec<Value> {
        self.events
            .extend(self.messages.try_iter().filter(|message| at(message, "/method").is_string()));
        let is_of_tab = |event: &Value| at(event, "/sessionId") == session;
        let (of_tab, others): (VecDeque<_>, _) = self.events.drain(..).partition(is_of_tab);
        self.events = others;
        of_tab.into()
    }

    fn log(&self) -> String {
        fs::read_to_string(log_path(self.folder.path())).unwrap_or_default()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            // The browser may have exited already.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.process.wait();
    }
}

/// Returns the value at a JSON pointer such as `/result/value`; null if there is none.
pub(super) fn at<'v>(value: &'v Value, place: &str) -> &'v Value {
    value.pointer(place).unwrap_or(&Value::Null)
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("log")
}
