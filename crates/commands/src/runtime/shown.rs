//! Requests in the form in which MONITOR and the slow log show them, without secrets.

use crate::{Client, ClientInfo, Command, Entry, HookFlags, Marks, Server};
use nagi_proto::Args;
use nagi_store::since_1970;
use std::fmt::Write as _;

/// Maximum arguments of a request that are kept, and maximum bytes of an argument, as in Redis.
const ARGUMENTS: usize = 32;
const ARGUMENT_BYTES: usize = 128;
/// The replacement for a secret.
pub(crate) const REDACTED: &[u8] = b"(redacted)";

/// The part of a request's arguments that the slow log keeps.
#[must_use]
pub fn kept_arguments(entry: Option<&Entry>, args: Args<'_>) -> Vec<Vec<u8>> {
    let shown = if args.len() > ARGUMENTS { ARGUMENTS - 1 } else { args.len() };
    let shorten = |index| match args.large(index) {
        Some(large) => shorten(&large.start(ARGUMENT_BYTES), large.len()),
        None => shorten(args.at(index), args.len_of(index)),
    };
    let mut kept: Vec<Vec<u8>> = (0..shown).map(shorten).collect();
    let secrets = entry.and_then(|entry| entry.command.notes.secrets);
    for secret in secrets.map_or_else(Vec::new, |secrets| secrets(args)) {
        if let Some(argument) = kept.get_mut(secret) {
            *argument = REDACTED.to_vec();
        }
    }
    if args.len() > shown {
        let more = args.len() - shown;
        kept.push(format!("... ({more} more arguments)").into_bytes());
    }
    kept
}

/// Shortens an argument of `len` bytes, of which at least the first bytes are in `start`.
pub(crate) fn shorten(start: &[u8], len: usize) -> Vec<u8> {
    let shown = start.get(..ARGUMENT_BYTES).unwrap_or(start);
    match len - shown.len() {
        0 => shown.to_vec(),
        rest => [shown, format!("... ({rest} more bytes)").as_bytes()].concat(),
    }
}

/// Shows a request, in the form of [`words`], to all monitors.
pub(crate) fn show(server: &dyn Server, client: &Client, words: &str) {
    let queued = server.hooks().monitors.push(&line(client, words));
    queued.workers.into_iter().for_each(|worker| server.show_monitors(worker));
    if !queued.full.is_empty() {
        server.kill(&queued.full);
    }
}

/// Ends a client's MONITOR, if any: when it disconnects, or sends RESET.
pub fn stop_monitoring(server: &dyn Server, client: &ClientInfo) {
    if !client.marks().contains(Marks::MONITOR) {
        return;
    }
    client.mark(Marks::MONITOR, false);
    let hooks = server.hooks();
    hooks.monitors.remove(client.id, || hooks.set(HookFlags::MONITORED, false));
}

/// The line of a request for monitors: time, database, client and [`words`].
fn line(client: &Client, words: &str) -> String {
    let now = since_1970();
    let mut address = client.info.shown_address();
    if client.info.marks().contains(Marks::UNIX_SOCKET) {
        address = format!("unix:{}", address.trim_end_matches(":0")).into();
    }
    let mut line = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        line,
        "+{}.{:06} [{} {address}]{words}\r\n",
        now.as_secs(),
        now.subsec_micros(),
        client.database,
    );
    line
}

/// The words of a request that is about to run, each after a space.
pub(crate) fn words(command: &Command, args: Args<'_>) -> String {
    let secrets = command.notes.secrets.map_or_else(Vec::new, |secrets| secrets(args));
    let mut line = String::new();
    for index in 0..args.len() {
        line.push(' ');
        if secrets.contains(&index) {
            line.push_str("\"(redacted)\"");
        } else {
            quote(&args.shown(index), &mut line);
        }
    }
    line
}

/// The words of a memcached request, each after a space.
pub(crate) fn plain_words(args: Args<'_>) -> String {
    let mut line = String::new();
    for index in 0..args.len() {
        line.push(' ');
        quote(&args.shown(index), &mut line);
    }
    line
}

/// Appends a word in quotes, with escapes for unprintable bytes, in the syntax of redis-cli.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::dispatch;

    #[test]
    fn long_requests_are_cut_and_passwords_left_out() {
        let shown = |words: &[&str]| -> Vec<String> {
            let mut bytes = Vec::new();
            let mut spans = Vec::new();
            for word in words {
                let start = u32::try_from(bytes.len()).unwrap();
                spans.push(nagi_proto::Span { start, len: u32::try_from(word.len()).unwrap() });
                bytes.extend_from_slice(word.as_bytes());
            }
            let args = Args::new(&bytes, &spans);
            let kept = kept_arguments(dispatch::resolve(crate::command_table(), args).ok(), args);
            kept.into_iter().map(|word| String::from_utf8(word).unwrap()).collect()
        };
        let long = "x".repeat(200);
        let cut = format!("{}... (72 more bytes)", "x".repeat(128));
        assert_eq!(shown(&["SET", &long, "v"]), ["SET", &cut, "v"]);
        assert_eq!(shown(&["SET", &long[..128], "v"]), ["SET", &long[..128], "v"]);
        let many = shown(&vec!["DEL"; 40]);
        assert_eq!((many.len(), many[31].as_str()), (32, "... (9 more arguments)"));
        assert_eq!(shown(&["DEL"; 32]), vec!["DEL"; 32]);
        assert_eq!(shown(&["AUTH", "a", "b"]), ["AUTH", "(redacted)", "(redacted)"]);
        assert_eq!(
            shown(&["HELLO", "3", "auth", "default", "secret", "SETNAME", "me"]),
            ["HELLO", "3", "auth", "(redacted)", "(redacted)", "SETNAME", "me"]
        );
        assert_eq!(
            shown(&["CONFIG", "SET", "timeout", "1", "RequirePass", "secret"]),
            ["CONFIG", "SET", "timeout", "1", "RequirePass", "(redacted)"]
        );
        for name in ["masterauth", "PrimaryAuth", "masteruser", "tls-key-file-pass"] {
            let words = ["CONFIG", "SET", "timeout", "1", name, "secret"];
            assert_eq!(shown(&words), ["CONFIG", "SET", "timeout", "1", name, "(redacted)"]);
        }
        // The name may be wrong.
        assert_eq!(
            shown(&["CONFIG", "SET", "requirepas", "secret"]),
            ["CONFIG", "SET", "requirepas", "(redacted)"]
        );
        assert_eq!(
            shown(&["ACL", "SETUSER", "bob", ">secret"]),
            ["ACL", "SETUSER", "(redacted)", "(redacted)"]
        );
        for subcommand in ["GETUSER", "DELUSER"] {
            assert_eq!(shown(&["ACL", subcommand, "bob"]), ["ACL", subcommand, "(redacted)"]);
        }
    }
}
