//! Redirections of a Redis Cluster.

use crate::ring::Server;

/// The target of a redirected request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirect {
    /// `MOVED`: the slot has moved to the server.
    Moved { slot: u16, server: Server },
    /// `ASK`: the slot is migrating. Only this request goes to the server, after `ASKING`.
    Ask { server: Server },
}

impl Redirect {
    /// Parses `MOVED SLOT HOST:PORT` and `ASK SLOT HOST:PORT`. An empty host stands for
    /// `answering`, the host of the server that replied.
    pub(super) fn parse(refusal: &str, answering: &str) -> Option<Self> {
        let mut words = refusal.split(' ');
        let kind = words.next()?;
        let slot = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = if host.is_empty() { answering } else { host };
        let server = Server::new(host.trim_matches(['[', ']']), port.parse().ok()?);
        match kind {
            "MOVED" => Some(Redirect::Moved { slot, server }),
            "ASK" => Some(Redirect::Ask { server }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_name_a_server() {
        let moved = |host, port| Redirect::Moved { slot: 3999, server: Server::new(host, port) };
        let parse = |text| Redirect::parse(text, "10.0.0.1");
        assert_eq!(parse("MOVED 3999 127.0.0.1:6381"), Some(moved("127.0.0.1", 6381)));
        assert_eq!(parse("MOVED 3999 :6381"), Some(moved("10.0.0.1", 6381)));
        assert_eq!(parse("MOVED 3999 ::1:6381"), Some(moved("::1", 6381)));
        let server = Server::new("h", 1);
        assert_eq!(parse("ASK 1 h:1"), Some(Redirect::Ask { server }));
        for text in ["ERR unknown", "MOVED", "MOVED x h:1", "MOVED 1 h", "MOVED 1 h:x", ""] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
