//! Output to standard output and standard error, mainly the start screen: where to connect, the
//! main settings, and how to stop the server.

use clap::error::ErrorKind;
use nagi_load::text::plain;
use nagi_server::{Protocol, Running};
use std::io::{self, IsTerminal, Write as _, stdout};

/// Writes a text to standard error, without control characters, which may come from a server. If
/// that fails, only the exit status reports the error.
pub(crate) fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "nagi: {}", plain_lines(what));
}

fn plain_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(plain).collect();
    lines.join("\n")
}

/// Why the value of an option is refused, in one line; `None` for any other error.
pub(crate) fn value_refusal(error: &clap::Error) -> Option<String> {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return None;
    }
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.starts_with("For more"));
    let lines: Vec<&str> = lines.map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.join(" ");
    Some(plain(line.strip_prefix("error: ").unwrap_or(&line)))
}

/// Shows the start screen, in bold and dim on a terminal.
pub(crate) fn show(server: &Running) {
    let styled = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // A server does not stop because its start screen cannot be written.
    let _ = stdout().write_all(text(server, styled).as_bytes());
}

fn text(server: &Running, styled: bool) -> String {
    let (bold, dim, plain) = if styled { ("\x1b[1m", "\x1b[2m", "\x1b[0m") } else { ("", "", "") };
    let version = env!("CARGO_PKG_VERSION");
    let process = server.process();
    let workers = match process.workers {
        1 => "1 thread".to_owned(),
        workers => format!("{workers} threads"),
    };
    let rows = [
        ("redis", addresses(server, Protocol::Resp)),
        ("memcached", addresses(server, Protocol::Memcached)),
        ("http", http(server)),
        ("workers", format!("{workers} ({})", process.io)),
        ("memory", memory(server)),
        ("process", std::process::id().to_string()),
    ];
    let mut text = format!("\n  {bold}nagi{plain} {version}\n\n");
    for (name, value) in rows {
        text.push_str(&format!("  {dim}{name:<11}{plain}{value}\n"));
    }
    text.push_str(&format!(
        "\n  {dim}Ctrl-C stops the server; a second Ctrl-C ends it at once.{plain}\n\n"
    ));
    text
}

/// The memory limit and the eviction policy.
fn memory(server: &Running) -> String {
    let (bytes, policy) = server.memory_limit();
    let limit = match bytes {
        0 => "no limit".to_owned(),
        bytes => format!("at most {:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    };
    format!("{limit} ({})", policy.name())
}

/// The URLs of the pages over HTTP.
fn http(server: &Running) -> String {
    let urls: Vec<_> = server.http_addresses().iter().map(|it| format!("http://{it}")).collect();
    match urls.join("  ") {
        urls if urls.is_empty() => "off".to_owned(),
        urls if server.http_writes_by_get() => {
            format!("{urls}  (a GET may change data: http-writes-by-get yes)")
        }
        urls => urls,
    }
}

/// The addresses on which a protocol is served.
fn addresses(server: &Running, protocol: Protocol) -> String {
    let endpoints = server.endpoints().into_iter().filter(|endpoint| endpoint.protocol == protocol);
    let addresses: Vec<String> = endpoints.map(|endpoint| endpoint.address.to_string()).collect();
    if addresses.is_empty() { "off".to_owned() } else { addresses.join("  ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_lines_but_no_escape_sequences() {
        assert_eq!(plain_lines("a\x1b[2J\nb\r"), "a\u{fffd}[2J\nb\u{fffd}");
    }
}
