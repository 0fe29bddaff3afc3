//! The arguments of MIGRATE: needed to find its keys, to hide its passwords, and to run it.

use crate::Error;
use nagi_proto::Args;
use nagi_store::parse_i64;
use std::ops::Range;
use std::time::Duration;

/// The index of the first option.
const OPTIONS_AT: usize = 6;
/// The default time-out for the other server.
const USUAL_TIMEOUT_MS: u64 = 1000;

/// A request.
#[derive(Debug, PartialEq)]
pub(crate) struct Migration<'a> {
    pub(crate) host: &'a [u8],
    pub(crate) port: u16,
    /// The indices of its keys.
    pub(crate) keys: Range<usize>,
    pub(crate) database: &'a [u8],
    pub(crate) timeout: Duration,
    pub(crate) copies: bool,
    pub(crate) replaces: bool,
    /// The arguments of AUTH at the other server: a password, or a user and a password.
    pub(crate) login: Vec<&'a [u8]>,
}

/// An option with its arguments.
enum MigrateOption {
    Copy,
    Replace,
    /// The indices of a password, or of a user and a password.
    Login(Range<usize>),
    Keys(Range<usize>),
    Unknown,
}

/// The complete options of a request.
fn options(args: Args<'_>) -> impl Iterator<Item = MigrateOption> {
    let mut at = OPTIONS_AT;
    std::iter::from_fn(move || {
        let word = args.get(at)?;
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let rest = at + 1..args.len();
        at += 1;
        let mut login = |words: usize| {
            let places = at..at + words;
            at += words;
            if places.end <= args.len() {
                MigrateOption::Login(places)
            } else {
                MigrateOption::Unknown
            }
        };
        Some(match () {
            () if is("COPY") => MigrateOption::Copy,
            () if is("REPLACE") => MigrateOption::Replace,
            () if is("AUTH") => login(1),
            () if is("AUTH2") => login(2),
            () if is("KEYS") => {
                at = args.len();
                MigrateOption::Keys(rest)
            }
            () => MigrateOption::Unknown,
        })
    })
}

/// The index of a request's single key.
pub(crate) fn one_key(args: Args<'_>) -> Range<usize> {
    let lists_keys = || options(args).any(|option| matches!(option, MigrateOption::Keys(_)));
    match args.get(3).is_none_or(|key| !key.is_empty() || !lists_keys()) {
        true => 3..args.len().clamp(3, 4),
        false => 0..0,
    }
}

/// The indices of a request's keys, if it lists them.
pub(crate) fn listed_keys(args: Args<'_>) -> Range<usize> {
    if args.get(3).is_none_or(|key| !key.is_empty()) {
        return 0..0;
    }
    let found = options(args).find_map(|option| match option {
        MigrateOption::Keys(places) => Some(places),
        _ => None,
    });
    found.unwrap_or(0..0)
}

/// The indices of secret arguments: passwords, and the user name of AUTH2.
pub(crate) fn secrets(args: Args<'_>) -> Vec<usize> {
    let places = options(args).filter_map(|option| match option {
        MigrateOption::Login(places) => Some(places),
        _ => None,
    });
    places.flatten().collect()
}

impl<'a> Migration<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// The fault, in the text of Redis.
    pub(crate) fn parse(args: Args<'a>) -> Result<Self, Error> {
        let (mut copies, mut replaces, mut login) = (false, false, Vec::new());
        let mut many = None;
        for option in options(args) {
            match option {
                MigrateOption::Copy => copies = true,
                MigrateOption::Replace => replaces = true,
                MigrateOption::Login(places) => {
                    login = places.map(|place| args.at(place)).collect()
                }
                MigrateOption::Keys(places) => many = Some(places),
                MigrateOption::Unknown => return Err(Error::SYNTAX),
            }
        }
        let keys = match many {
            Some(_) if !args.at(3).is_empty() => {
                return Err(Error::fixed(
                    "ERR When using MIGRATE KEYS option, the key argument must be set to the \
                     empty string",
                ));
            }
            Some(places) => places,
            None => 3..4,
        };
        let timeout_ms = parse_i64(args.at(5)).ok_or(Error::NOT_AN_INTEGER)?;
        parse_i64(args.at(4)).ok_or(Error::NOT_AN_INTEGER)?;
        let port = std::str::from_utf8(args.at(2)).ok().and_then(|port| port.parse().ok());
        let timeout_ms = u64::try_from(timeout_ms).ok().filter(|timeout| *timeout > 0);
        Ok(Migration {
            host: args.at(1),
            port: port.ok_or(Error::fixed("ERR Invalid TCP port specified"))?,
            keys,
            database: args.at(4),
            timeout: Duration::from_millis(timeout_ms.unwrap_or(USUAL_TIMEOUT_MS)),
            copies,
            replaces,
            login,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_proto::Span;

    fn with<T>(request: &str, look: impl Fn(Args<'_>) -> T) -> T {
        let mut spans = Vec::new();
        for word in request.split(' ') {
            let start = word.as_ptr() as usize - request.as_ptr() as usize;
            spans.push(Span { start: start as u32, len: word.len() as u32 });
        }
        look(Args::new(request.as_bytes(), &spans))
    }

    #[test]
    fn keys_and_secrets_of_requests_are_found() {
        for (request, one, listed, hidden) in [
            ("MIGRATE h 1 key 0 5", 3..4, 0..0, vec![]),
            ("MIGRATE h 1 key 0 5 COPY AUTH x", 3..4, 0..0, vec![8]),
            ("MIGRATE h 1  0 5 KEYS a b", 0..0, 7..9, vec![]),
            ("MIGRATE h 1  0 5 AUTH2 KEYS keys REPLACE keys a", 0..0, 11..12, vec![7, 8]),
            ("MIGRATE h 1  0 5 AUTH KEYS", 3..4, 0..0, vec![7]),
            ("MIGRATE h 1  0 5 COPY", 3..4, 0..0, vec![]),
            ("MIGRATE h", 3..3, 0..0, vec![]),
        ] {
            assert_eq!((with(request, one_key), with(request, listed_keys)), (one, listed));
            assert_eq!(with(request, secrets), hidden, "{request}");
        }
    }

    #[test]
    fn requests_are_parsed_or_refused_as_by_redis() {
        let read = |request: &str| {
            with(request, |args| {
                Migration::parse(args)
                    .map(|it| (it.port, it.keys, it.timeout.as_millis(), it.copies, it.replaces))
                    .map_err(|error| String::from_utf8_lossy(&error.0).into_owned())
            })
        };
        assert_eq!(read("MIGRATE h 1 key 0 5"), Ok((1, 3..4, 5, false, false)));
        assert_eq!(read("MIGRATE h 1  0 -5 copy REPLACE KEYS a"), Ok((1, 9..10, 1000, true, true)));
        for (request, wrong) in [
            ("MIGRATE h 1 key 0 5 KEYS a", "must be set to the empty string"),
            ("MIGRATE h 1 key 0 5 NOW", "syntax error"),
            ("MIGRATE h 1 key 0 5 AUTH", "syntax error"),
            ("MIGRATE h 1 key x 5", "not an integer"),
            ("MIGRATE h 1 key 0 x", "not an integer"),
            ("MIGRATE h x key 0 5", "port"),
        ] {
            assert!(read(request).is_err_and(|error| error.contains(wrong)), "{request}");
        }
    }
}
