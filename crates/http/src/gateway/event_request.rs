//! Requests for messages as server-sent events: paths, as Upstash's clients send them.

use super::format::Kind;
use super::request::{self, BadPath, PathCommand};
use hyper::Method;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap};

const COMMANDS: [&str; 4] = ["subscribe", "psubscribe", "ssubscribe", "monitor"];

/// Whether a client requests events.
pub(super) fn are_wanted(method: &Method, headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges = values.flat_map(|value| value.split(','));
    let is_of_events = |range: &str| {
        let media_type = range.split(';').next().unwrap_or_default().trim();
        media_type.eq_ignore_ascii_case(Kind::Events.media_type())
    };
    [Method::GET, Method::POST].contains(method) && ranges.any(is_of_events)
}

/// The command of a path, if its replies are messages.
pub(super) fn command(path: &str) -> Option<Result<PathCommand, BadPath>> {
    let name = path.split('/').nth(1)?;
    let is_of_messages = COMMANDS.iter().any(|it| it.eq_ignore_ascii_case(name));
    is_of_messages.then(|| request::parse_plain(path, Kind::Events))
}

/// The body of a POST as the last argument; an empty list, which clients send in addition to a
/// path, is none.
pub(super) fn last_word(body: Bytes) -> Bytes {
    if body.trim_ascii() == b"[]" { Bytes::new() } else { body }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn events_are_for_clients_that_name_them_and_for_messages() {
        for (accept, expected) in [
            ("text/event-stream", true),
            ("text/html, Text/Event-Stream;q=0.9", true),
            ("text/event-streams", false),
            ("*/*", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(are_wanted(&Method::GET, &headers), expected, "{accept}");
            assert!(!are_wanted(&Method::PUT, &headers));
        }
        assert!(!are_wanted(&Method::GET, &HeaderMap::new()));
        for (path, words) in
            [("/subscribe/a.json/b+c", 3), ("/MONITOR", 1), ("/GET/a", 0), ("/", 0), ("", 0)]
        {
            let command = command(path).map_or(0, |command| command.unwrap().words.len());
            assert_eq!(command, words, "{path}");
        }
        assert_eq!(last_word(" []\n".into()), "");
        assert_eq!(last_word("[1]".into()), "[1]");
    }
}
