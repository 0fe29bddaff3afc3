//! Finds the ends of replies, and classifies replies by their outcome, in each protocol.

use nagi_proto::{MalformedReply, memcached, resp};

use crate::http;

/// The protocol of a connection.
///
/// ```
/// assert_ne!(nagi_client::Protocol::Resp, nagi_client::Protocol::Memcached);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2 or RESP3.
    Resp,
    /// memcached's classic text protocol.
    Memcached,
}

/// How received bytes are split into replies.
///
/// ```
/// use nagi_client::{Framing, Protocol};
/// assert_eq!(Framing::from(Protocol::Resp), Framing::Resp);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// RESP2 or RESP3.
    Resp,
    /// memcached's classic text protocol.
    Memcached,
    /// Responses of HTTP/1.1, such as those of nagi's gateway.
    Http,
}

impl From<Protocol> for Framing {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Resp => Framing::Resp,
            Protocol::Memcached => Framing::Memcached,
        }
    }
}

/// The outcome of a reply.
///
/// ```
/// use nagi_client::Outcome;
/// assert_ne!(Outcome::Hit, Outcome::Error(b"ERR out of memory"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// A reply that is neither a value nor an error.
    Done,
    /// A value.
    Hit,
    /// The absence of a value.
    Miss,
    /// The server's error, without the line break.
    Error(&'a [u8]),
}

/// Finds replies in received bytes, in any framing.
#[derive(Debug)]
pub(crate) enum Parser {
    Resp(resp::ReplyParser),
    Memcached(memcached::ReplyParser),
    Http(http::ResponseParser),
}

impl Parser {
    pub(crate) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Resp => Parser::Resp(resp::ReplyParser::default()),
            Framing::Memcached => Parser::Memcached(memcached::ReplyParser::default()),
            Framing::Http => Parser::Http(http::ResponseParser::default()),
        }
    }

    /// Returns the length and the outcome of the reply at the start of `input`, once it is
    /// complete. The outcome is `None` for data that answers no request.
    #[inline]
    pub(crate) fn next<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<Option<(usize, Option<Outcome<'a>>)>, MalformedReply> {
        let len = match self {
            Parser::Resp(parser) => parser.next(input)?,
            Parser::Memcached(parser) => parser.next(input)?,
            Parser::Http(parser) => parser.next(input)?,
        };
        let Some(len) = len else { return Ok(None) };
        let reply = input.get(..len).unwrap_or_default();
        let outcome = match self {
            Parser::Resp(_) => resp_outcome(reply),
            Parser::Memcached(_) => Some(memcached_outcome(reply)),
            Parser::Http(_) => Some(http_outcome(reply)),
        };
        Ok(Some((len, outcome)))
    }
}

fn resp_outcome(reply: &[u8]) -> Option<Outcome<'_>> {
    Some(match reply {
        [b'$' | b'*', b'-', ..] | [b'_', ..] => Outcome::Miss,
        [b'$' | b'*' | b'~' | b'%' | b'=', ..] => Outcome::Hit,
        [b'-', text @ ..] => Outcome::Error(text.trim_ascii_end()),
        [b'!', text @ ..] => {
            let header = text.iter().position(|&byte| byte == b'\n').unwrap_or_default();
            Outcome::Error(text.get(header..).unwrap_or_default().trim_ascii())
        }
        [b'>', ..] => return None,
        _ => Outcome::Done,
    })
}

fn memcached_outcome(reply: &[u8]) -> Outcome<'_> {
    let line = reply.trim_ascii_end();
    let failed = line == b"ERROR"
        || line.starts_with(b"SERVER_ERROR ")
        || line.starts_with(b"CLIENT_ERROR ");
    match line {
        text if failed => Outcome::Error(text),
        b"END" | b"NOT_FOUND" => Outcome::Miss,
        _ if line.starts_with(b"VALUE ") => Outcome::Hit,
        _ => Outcome::Done,
    }
}

/// Determines the outcome of a response. JSON reports the result of a command; a body of any other
/// type is a value.
fn http_outcome(response: &[u8]) -> Outcome<'_> {
    match http::status(response) {
        404 => Outcome::Miss,
        200..300 if http::is_json(response) => Outcome::Done,
        200..300 => Outcome::Hit,
        _ => Outcome::Error(http::status_line(response)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the outcome of the first reply in `input`.
    fn outcome(protocol: Protocol, input: &str) -> Option<Outcome<'_>> {
        let (len, outcome) = Parser::new(protocol.into()).next(input.as_bytes()).unwrap().unwrap();
        assert_eq!(len, input.len());
        outcome
    }

    #[test]
    fn resp_replies_have_their_lengths_and_outcomes() {
        for (reply, expected) in [
            ("+OK\r\n", Some(Outcome::Done)),
            (":1\r\n", Some(Outcome::Done)),
            ("$0\r\n\r\n", Some(Outcome::Hit)),
            ("$3\r\n-ER\r\n", Some(Outcome::Hit)),
            ("*1\r\n$-1\r\n", Some(Outcome::Hit)),
            ("$-1\r\n", Some(Outcome::Miss)),
            ("*-1\r\n", Some(Outcome::Miss)),
            ("_\r\n", Some(Outcome::Miss)),
            ("-ERR a b\r\n", Some(Outcome::Error(b"ERR a b"))),
            ("!5\r\nERR a\r\n", Some(Outcome::Error(b"ERR a"))),
            (">1\r\n+news\r\n", None),
        ] {
            assert_eq!(outcome(Protocol::Resp, reply), expected, "{reply:?}");
        }
    }

    #[test]
    fn http_outcomes() {
        for (head, expected) in [
            ("200 OK\r\ncontent-type: text/plain", Outcome::Hit),
            ("200 OK\r\nContent-Type: application/json; charset=utf-8", Outcome::Done),
            ("404 Not Found", Outcome::Miss),
            ("401 Unauthorized", Outcome::Error(b"HTTP/1.1 401 Unauthorized")),
        ] {
            let response = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n");
            let (len, outcome) =
                Parser::new(Framing::Http).next(response.as_bytes()).unwrap().unwrap();
            assert_eq!((len, outcome), (response.len(), Some(expected)), "{head}");
        }
    }

    #[test]
    fn memcached_outcomes() {
        for (reply, expected) in [
            ("STORED\r\n", Outcome::Done),
            ("NOT_STORED\r\n", Outcome::Done),
            ("VALUE a 0 3\r\nEND\r\nEND\r\n", Outcome::Hit),
            ("END\r\n", Outcome::Miss),
            ("NOT_FOUND\r\n", Outcome::Miss),
            ("ERROR\r\n", Outcome::Error(b"ERROR")),
            ("SERVER_ERROR out of memory\r\n", Outcome::Error(b"SERVER_ERROR out of memory")),
            ("CLIENT_ERROR bad\r\n", Outcome::Error(b"CLIENT_ERROR bad")),
        ] {
            assert_eq!(outcome(Protocol::Memcached, reply), Some(expected), "{reply:?}");
        }
    }
}
