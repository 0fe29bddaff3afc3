//! Why a connection could not be made.

use nagi_client::Error;
use nagi_findings::observation::Failure;
use rustix::io::Errno;
use std::io::{self, ErrorKind};

/// Errors of servers that take no more clients, and those of a connection that they just close.
const TURNED_AWAY: [&str; 4] = [
    "max number of clients",
    "too many open connections",
    "closed the connection",
    "reset by peer",
];

/// The kind of failure to connect.
pub(crate) fn failure_of(error: &Error) -> Failure {
    match error {
        Error::Connect { source, .. } | Error::Io(source) => failure_of_io(source),
        Error::Closed => Failure::TurnedAway,
        Error::Protocol(_) | Error::TooLong { .. } => Failure::Other,
    }
}

fn failure_of_io(error: &io::Error) -> Failure {
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    match error.kind() {
        ErrorKind::ConnectionRefused => Failure::Refused,
        ErrorKind::TimedOut => Failure::TimedOut,
        ErrorKind::AddrNotAvailable => Failure::NoPort,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => Failure::TurnedAway,
        _ if is(Errno::MFILE) || is(Errno::NFILE) => Failure::NoDescriptor,
        _ => Failure::Other,
    }
}

/// Whether a first answer, or the error in place of it, says that the server takes no more clients.
pub(crate) fn is_turned_away(text: &str) -> bool {
    let text = text.to_lowercase();
    TURNED_AWAY.iter().any(|it| text.contains(it))
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
            (Errno::CONNRESET, Failure::TurnedAway),
            (Errno::NETUNREACH, Failure::Other),
        ] {
            assert_eq!(of(errno), expected, "{errno:?}");
        }
    }

    #[test]
    fn refusals_of_servers_are_recognized() {
        for text in [
            "ERR max number of clients reached",
            "ERROR Too many open connections",
            "redis://x: the server closed the connection",
            "redis://x: Connection reset by peer (os error 104)",
        ] {
            assert!(is_turned_away(text), "{text}");
        }
        for text in ["PONG", "redis://x: no answer in time"] {
            assert!(!is_turned_away(text), "{text}");
        }
    }
}
