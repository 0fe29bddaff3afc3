//! Classifies failures to connect.

use nagi_client::Error;
use nagi_findings::observation::Failure;
use rustix::io::Errno;
use std::io::{self, ErrorKind};

/// Errors of servers that accept no more clients.
const TURNED_AWAY: [&str; 2] = ["max number of clients", "too many open connections"];
/// Errors of a connection that was closed without a reply. They are not evidence of a full server,
/// which replies first; other causes are a TLS port or a proxy without servers.
const CLOSED: [&str; 3] = ["closed the connection", "reset by peer", "broken pipe"];

/// Classifies a failure to connect.
pub(crate) fn failure_of(error: &Error) -> Failure {
    match error {
        Error::Connect { source, .. } | Error::Io(source) => failure_of_io(source),
        Error::Closed => Failure::Closed,
        Error::Protocol(_) | Error::TooLong { .. } => Failure::Other,
    }
}

fn failure_of_io(error: &io::Error) -> Failure {
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    match error.kind() {
        ErrorKind::ConnectionRefused => Failure::Refused,
        ErrorKind::TimedOut => Failure::TimedOut,
        ErrorKind::AddrNotAvailable => Failure::NoPort,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => Failure::Closed,
        _ if is(Errno::MFILE) || is(Errno::NFILE) => Failure::NoDescriptor,
        _ => Failure::Other,
    }
}

/// Whether a first answer, or the error received instead, says that the server accepts no more
/// clients.
pub(crate) fn is_turned_away(text: &str) -> bool {
    contains_any(text, &TURNED_AWAY)
}

/// Returns why the server did not keep a connection, if a first answer, or the error received
/// instead, shows the reason.
pub(crate) fn refusal_of(text: &str) -> Option<Failure> {
    if is_turned_away(text) {
        return Some(Failure::TurnedAway);
    }
    contains_any(text, &CLOSED).then_some(Failure::Closed)
}

fn contains_any(text: &str, all: &[&str]) -> bool {
    let text = text.to_lowercase();
    all.iter().any(|it| text.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_errors_are_mapped_to_failures() {
        let of = |errno: Errno| {
            let source = io::Error::from_raw_os_error(errno.raw_os_error());
            failure_of(&Error::Connect { address: String::new(), source })
        };
        for (errno, expected) in [
            (Errno::ADDRNOTAVAIL, Failure::NoPort),
            (Errno::CONNREFUSED, Failure::Refused),
            (Errno::TIMEDOUT, Failure::TimedOut),
            (Errno::MFILE, Failure::NoDescriptor),
            (Errno::CONNRESET, Failure::Closed),
            (Errno::NETUNREACH, Failure::Other),
        ] {
            assert_eq!(of(errno), expected, "{errno:?}");
        }
    }

    #[test]
    fn refusals_of_servers_are_recognized() {
        let turned_away = Some(Failure::TurnedAway);
        for (text, expected) in [
            ("ERR max number of clients reached", turned_away),
            ("ERROR Too many open connections", turned_away),
            ("redis://x: the server closed the connection", Some(Failure::Closed)),
            ("redis://x: Connection reset by peer (os error 104)", Some(Failure::Closed)),
            ("PONG", None),
            ("redis://x: no answer in time", None),
        ] {
            assert_eq!(refusal_of(text), expected, "{text}");
            assert_eq!(is_turned_away(text), expected == turned_away, "{text}");
        }
    }
}
