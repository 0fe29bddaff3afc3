//! MONITOR: clients that see every request of all others, as it is executed.
//!
//! A line is put into its monitor's own queue, from which the worker that owns the monitor sends
//! it: nobody who executes a command ever waits for a monitor's socket. A monitor that does not
//! read is let go.

use crate::families::connection;
use crate::state::attention::Reasons;
use crate::{
    Category, Client, ClientInfo, Command, Context, Error, Flags, Group, Keys, Marks, Notes, Server,
};
use nagi_proto::Args;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&MONITOR];

/// Lines that wait for a monitor to take them, in bytes, before it is let go.
const QUEUE_BYTES: usize = 64 << 20;

/// Who sees what others do.
#[derive(Debug, Default)]
pub struct Monitors {
    /// Held while a command runs that somebody sees.
    order: Mutex<()>,
    queues: Mutex<Vec<Queue>>,
}

#[derive(Debug)]
struct Queue {
    client: Arc<ClientInfo>,
    lines: Vec<u8>,
}

impl Monitors {
    /// What a command is to hold while it runs and is shown, so that lines come in the order of
    /// changes.
    pub(crate) fn order(&self) -> MutexGuard<'_, ()> {
        lock(&self.order)
    }

    /// Adds a monitor, and calls `first` before anybody else comes or goes.
    fn add(&self, client: &Arc<ClientInfo>, first: impl FnOnce()) {
        let mut queues = lock(&self.queues);
        if !queues.iter().any(|queue| queue.client.id == client.id) {
            queues.push(Queue { client: Arc::clone(client), lines: Vec::new() });
        }
        first();
    }

    /// Forgets a monitor, and calls `last` before anybody else comes or goes if it was the last.
    fn remove(&self, id: u64, last: impl FnOnce()) {
        let mut queues = lock(&self.queues);
        queues.retain(|queue| queue.client.id != id);
        if queues.is_empty() {
            last();
        }
    }

    /// Leaves a line for every monitor.
    pub(crate) fn show(&self, server: &dyn Server, line: &str) {
        let mut slow = Vec::new();
        let mut workers = Vec::new();
        for queue in lock(&self.queues).iter_mut() {
            if queue.lines.len() + line.len() > QUEUE_BYTES {
                slow.push(Arc::clone(&queue.client));
                continue;
            }
            if queue.lines.is_empty() {
                workers.push(queue.client.worker);
            }
            queue.lines.extend_from_slice(line.as_bytes());
        }
        workers.sort_unstable();
        workers.dedup();
        workers.into_iter().for_each(|worker| server.show_monitors(worker));
        if !slow.is_empty() {
            server.kill(&slow);
        }
    }

    /// What the monitors of a worker are to be sent: by their seats.
    #[must_use]
    pub fn take(&self, worker: usize) -> Vec<(u64, Vec<u8>)> {
        let mut queues = lock(&self.queues);
        let waiting = queues
            .iter_mut()
            .filter(|queue| queue.client.worker == worker && !queue.lines.is_empty());
        waiting.map(|queue| (queue.client.seat, std::mem::take(&mut queue.lines))).collect()
    }
}

/// Nothing that is done under these locks can leave them half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has a client see nothing any more, if it did: when it leaves, or says RESET.
pub fn leave(server: &dyn Server, client: &ClientInfo) {
    if !client.marks().contains(Marks::MONITOR) {
        return;
    }
    client.mark(Marks::MONITOR, false);
    let attention = server.attention();
    attention.monitors.remove(client.id, || attention.set(Reasons::MONITORED, false));
}

/// A request that has run as monitors see it: time, database, client and [`words`].
pub(crate) fn line(client: &Client, words: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        line,
        "+{}.{:06} [{} {}]{words}\r\n",
        now.as_secs(),
        now.subsec_micros(),
        client.database,
        client.info.address
    );
    line
}

/// The words of a request that is about to run, each behind a space.
pub(crate) fn words(command: &Command, args: Args<'_>) -> String {
    let mut line = String::new();
    let mut secrets = 0;
    let is_hello = std::ptr::eq(command, &raw const connection::HELLO);
    let is_auth = std::ptr::eq(command, &raw const connection::AUTH);
    for index in 0..args.len() {
        let word = args.shown(index);
        if index > 0 && is_auth || secrets > 0 {
            secrets -= i32::from(secrets > 0);
            line.push_str(" \"(redacted)\"");
            continue;
        }
        if is_hello && index > 1 && word.eq_ignore_ascii_case(b"AUTH") {
            secrets = 2;
        }
        line.push(' ');
        quote(&word, &mut line);
    }
    line
}

/// The words of a request of memcached's, each behind a space.
pub(crate) fn plain_words(args: Args<'_>) -> String {
    let mut line = String::new();
    for index in 0..args.len() {
        line.push(' ');
        quote(&args.shown(index), &mut line);
    }
    line
}

/// Appends a word in quotes, with escapes for what is not printable, as redis-cli reads it.
pub(crate) fn quote(word: &[u8], text: &mut String) {
    text.push('"');
    for &byte in word {
        match byte {
            b'\\' | b'"' => text.extend(['\\', char::from(byte)]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            0x07 => text.push_str("\\a"),
            0x08 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
}

fn monitor<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let attention = cx.attention;
    cx.client.info.mark(Marks::MONITOR, true);
    attention.monitors.add(&cx.client.info, || attention.set(Reasons::MONITORED, true));
    cx.reply.ok();
    Ok(())
}

pub(crate) static MONITOR: Command = Command {
    name: "MONITOR",
    syntax: "",
    arity: 1,
    flags: Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of(""),
    summary: "Shows the connection every request of all clients from now on",
    subcommands: &[],
    run: monitor,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::testing::Bench;

    /// What the first client, which monitors, has been shown: the words, without time and client.
    fn shown(bench: &Bench) -> Vec<String> {
        let queues = bench.process.attention.monitors.take(0);
        let lines = queues.into_iter().flat_map(|(_, lines)| lines).collect();
        let lines: String = String::from_utf8(lines).unwrap();
        lines.lines().map(|line| line.split_once("] ").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn requests_are_shown_to_monitors_without_secrets() {
        let mut bench = Bench::new();
        bench.expect("MONITOR", "+OK|");
        bench.expect("ECHO \"a\\\"b\\x00\\n\"", "$5|a\"b\0\n|");
        bench.expect("AUTH default x", "+OK|");
        bench.resp(b"HELLO 2 AUTH default x SETNAME me\r\n");
        bench.expect("CONFIG GET nosuch", "*0|");
        bench.expect("GET key", "-ERR Replica can't interact with the keyspace|");
        bench.expect("PING", "+PONG|");
        assert_eq!(
            shown(&bench),
            [
                r#""ECHO" "a\"b\x00\n""#,
                r#""AUTH" "(redacted)" "(redacted)""#,
                r#""HELLO" "2" "AUTH" "(redacted)" "(redacted)" "SETNAME" "me""#,
                r#""PING""#,
            ]
        );
        bench.expect("RESET", "+RESET|");
        bench.expect("GET key", "$-1|");
        assert_eq!(shown(&bench), [r#""RESET""#; 0]);
    }

    #[test]
    fn who_does_not_read_is_let_go() {
        let mut bench = Bench::new();
        bench.expect("MONITOR", "+OK|");
        let word = "x".repeat(QUEUE_BYTES / 3);
        for _ in 0..2 {
            bench.call(&["ECHO", &word]);
            assert!(!bench.client.info.marks().contains(Marks::KILLED));
        }
        bench.call(&["ECHO", &word]);
        assert!(bench.client.info.marks().contains(Marks::KILLED));
    }
}
