//! Why a connection could not be made.

use crate::observation::Failure;
use nagi_client::Error;
use rustix::io::Errno;
use std::io::{self, ErrorKind};

/// What servers say that take no more clients, and what is said where they just close.
const TURNED: [&str; 4] = [
    "max number of clients",
    "too many open connections",
    "closed the connection",
    "reset by peer",
];

/// The kind of failure to connect.
pub(crate) fn failure_of(error: &Error) -> Failure {
    match error {
        Error::Connect { source, .. } | Error::Io(source) => failure_of_io(source),
        Error::Closed => Failure::Turned,
        Error::Protocol(_) => Failure::Other,
    }
}

fn failure_of_io(error: &io::Error) -> Failure {
    let is = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
    match error.kind() {
        ErrorKind::ConnectionRefused => Failure::Refused,
        ErrorKind::TimedOut => Failure::TimedOut,
        ErrorKind::AddrNotAvailable => Failure::NoPort,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => Failure::Turned,
        _ if is(Errno::MFILE) || is(Errno::NFILE) => Failure::NoDescriptor,
        _ => Failure::Other,
    }
}

/// Whether a first answer, or the error in place of it, says that the server takes no more clients.
pub(crate) fn is_turned_away(told: &str) -> bool {
    let told = told.to_lowercase();
    TURNED.iter().any(|it| told.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_have_causes() {
        let of = |errno: Errno| {
            let source = io::Error::from_raw_os_error(errno.raw_os_error());
            failure_of(&Error::Connect { address: String::new(), source })
        };
        for (errno, expected) in [
            (Errno::ADDRNOTAVAIL, Failure::NoPort),
            (Errno::CONNREFUSED, Failure::Refused),
            (Errno::TIMEDOUT, Failure::TimedOut),
            (Errno::MFILE, Failure::NoDescriptor),
            (Errno::CONNRESET, Failure::Turned),
            (Errno::NETUNREACH, Failure::Other),
        ] {
            assert_eq!(of(errno), expected, "{errno:?}");
        }
    }

    #[test]
    fn refusals_of_servers_are_known() {
        for told in [
            "ERR max number of clients reached",
            "ERROR Too many open connections",
            "redis://x: the server closed the connection",
            "redis://x: Connection reset by peer (os error 104)",
        ] {
            assert!(is_turned_away(told), "{told}");
        }
        for told in ["PONG", "redis://x: no answer in time"] {
            assert!(!is_turned_away(told), "{told}");
        }
    }
}
