//! Rejecting a client before its first request.

use crate::net::protocol::Protocol;
use nagi_commands::Config;
use std::os::fd::OwnedFd;

/// Why a client is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// The server already has `maxclients` clients.
    TooMany,
    /// The client does not connect through loopback, and no password protects the data. Holds the
    /// advice to the operator.
    Unprotected(&'static str),
}

impl Refusal {
    /// The error reply, without its line end: with the text of Redis or memcached, or with text of
    /// nagi after an error code of Redis or a kind of error of memcached.
    fn words(self, protocol: Protocol) -> String {
        match (self, protocol) {
            (Refusal::TooMany, Protocol::Resp) => "-ERR max number of clients reached".to_owned(),
            (Refusal::TooMany, Protocol::Memcached) => "ERROR Too many open connections".to_owned(),
            (Refusal::Unprotected(remedy), Protocol::Resp) => {
                format!("-DENIED {PROTECTED}{remedy}")
            }
            (Refusal::Unprotected(remedy), Protocol::Memcached) => {
                format!("SERVER_ERROR {PROTECTED}{remedy}")
            }
        }
    }

    /// The refusal of a client on another machine, with advice that fits the command line of the
    /// server.
    pub(crate) fn unprotected(config: &Config) -> Self {
        let has_passwords = config.option("requirepass").is_some();
        Refusal::Unprotected(if has_passwords { SET_PASSWORD } else { MEMCACHED_FLAGS })
    }
}

const PROTECTED: &str = "nagi is in protected mode: it has no password, so it answers only \
     clients that connect through the loopback interface (127.0.0.1 or ::1) or a Unix socket. To \
     let other clients in, either ";

const SET_PASSWORD: &str = "set a password (--requirepass PASSWORD, or CONFIG SET requirepass \
     PASSWORD through the loopback interface), or, in a network in which every client may read and \
     change the data, switch the mode off (--protected-mode no, or CONFIG SET protected-mode no).";

const MEMCACHED_FLAGS: &str = "require logins (-Y FILE), or, in a network in which every client \
     may read and change the data, name the addresses to listen on (-l 0.0.0.0).";

/// Sends a client the reason for refusing its connection. Tries once, without waiting for room.
pub(crate) fn refuse(socket: &OwnedFd, protocol: Protocol, refusal: Refusal) {
    let words = refusal.words(protocol) + "\r\n";
    let flags = rustix::net::SendFlags::NOSIGNAL | rustix::net::SendFlags::DONTWAIT;
    // If this fails, the client only misses the reason.
    let _ = rustix::net::send(socket, words.as_bytes(), flags);
}
