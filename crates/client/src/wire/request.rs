//! Requests and answers, independent of the protocol, and parsing that protocols share.

use nagi_proto::MalformedReply;

use super::login::Login;

/// The protocol of a connection.
///
/// ```
/// use nagi_client::wire::Dialect;
/// assert_eq!("binary".parse(), Ok(Dialect::Binary));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// memcached's classic text protocol.
    #[default]
    Text,
    /// memcached's meta commands.
    Meta,
    /// memcached's binary protocol.
    Binary,
    /// Redis' RESP2, and RESP3 after a [`Request::Hello`].
    Resp,
}

impl std::str::FromStr for Dialect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Ok(match name {
            "text" => Dialect::Text,
            "meta" => Dialect::Meta,
            "binary" => Dialect::Binary,
            "resp" => Dialect::Resp,
            _ => {
                return Err(format!("unknown protocol {name}; known are text, meta, binary, resp"));
            }
        })
    }
}

/// The condition of a store, and how it changes the value.
///
/// ```
/// assert_ne!(nagi_client::wire::Mode::Add, nagi_client::wire::Mode::Cas(7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Stores unconditionally.
    Set,
    /// Stores only if the key does not exist.
    Add,
    /// Stores only if the key exists.
    Replace,
    /// Appends to the value.
    Append,
    /// Prepends to the value.
    Prepend,
    /// Stores only if the item still has this CAS number.
    Cas(u64),
}

/// One request.
///
/// ```
/// use nagi_client::wire::{Dialect, Request};
/// let mut bytes = Vec::new();
/// Request::Delete { key: b"k" }.encode(Dialect::Text, &mut bytes)?;
/// assert_eq!(bytes, b"delete k\r\n");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Reads the values of keys. [`Answer::Values`] contains one entry for each.
    Get {
        /// The keys, at least one.
        keys: Vec<&'a [u8]>,
    },
    /// Reads the value of a key, and sets a new expiry.
    GetAndTouch {
        /// The key.
        key: &'a [u8],
        /// Seconds from now, or a Unix time above 30 days; 0 means never.
        expiry: u32,
    },
    /// Stores a value.
    Store {
        /// The condition and kind.
        mode: Mode,
        /// The key.
        key: &'a [u8],
        /// The value to store.
        value: &'a [u8],
        /// memcached's client flags; 0 in RESP.
        flags: u32,
        /// Seconds from now, or a Unix time above 30 days; 0 means never.
        expiry: u32,
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Adds to a number, or subtracts from it.
    Count {
        /// The key.
        key: &'a [u8],
        /// The amount to add or subtract.
        by: u64,
        /// Whether to subtract instead of adding.
        down: bool,
    },
    /// Sets a new expiry.
    Touch {
        /// The key.
        key: &'a [u8],
        /// Seconds from now, or a Unix time above 30 days; 0 means never.
        expiry: u32,
    },
    /// Stores and removals. memcached answers only refused ones, which saves sending and reading
    /// answers.
    Quietly {
        /// Requests of the variants [`Request::Store`], without [`Mode::Cas`], and
        /// [`Request::Delete`].
        writes: Vec<Request<'a>>,
    },
    /// The server's statistics.
    Stats {
        /// The section, such as `settings` in memcached or `persistence` in Redis; empty for the
        /// default.
        section: &'a str,
    },
    /// Removes all keys.
    Flush,
    /// Allows the next request on a Redis Cluster node that is importing its slot (ASKING).
    Asking,
    /// Logs in.
    Login {
        /// The user and password.
        login: &'a Login,
    },
    /// Switches Redis to RESP3, and optionally logs in.
    Hello {
        /// The user and password, if the server requires a login.
        login: Option<&'a Login>,
    },
}

/// A value with its client flags.
///
/// ```
/// let value = nagi_client::wire::Value { bytes: b"x".to_vec(), flags: 0, cas: None };
/// assert_eq!(value.bytes, b"x");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// The value itself.
    pub bytes: Vec<u8>,
    /// The flags set by the client that stored it.
    pub flags: u32,
    /// The CAS number of the item, if the protocol has one.
    pub cas: Option<u64>,
}

/// The answer of a server.
///
/// ```
/// assert_ne!(nagi_client::wire::Answer::Done, nagi_client::wire::Answer::Missing);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The value of each key, in the order of the request; `None` for a missing key.
    Values(Vec<Option<Value>>),
    /// The request was executed.
    Done,
    /// The key does not exist.
    Missing,
    /// The condition of the store is not met.
    NotStored,
    /// The item has another CAS number.
    Changed,
    /// The number after adding or subtracting.
    Number(u64),
    /// Statistics by name.
    Pairs(Vec<(String, String)>),
    /// The server's error.
    Refused(String),
}

impl<'a> Request<'a> {
    /// Whether executing the request twice has the same effect as executing it once, so that it may
    /// be repeated.
    ///
    /// ```
    /// use nagi_client::wire::Request;
    /// assert!(Request::Stats { section: "" }.is_idempotent());
    /// assert!(!Request::Count { key: b"k", by: 1, down: false }.is_idempotent());
    /// ```
    #[must_use]
    pub fn is_idempotent(&self) -> bool {
        matches!(self, Request::Get { .. } | Request::GetAndTouch { .. } | Request::Stats { .. })
    }

    pub(crate) fn keys(&self) -> Vec<&'a [u8]> {
        match self {
            Request::Get { keys } => keys.clone(),
            Request::Quietly { writes } => writes.iter().flat_map(Request::keys).collect(),
            Request::GetAndTouch { key, .. }
            | Request::Store { key, .. }
            | Request::Delete { key }
            | Request::Count { key, .. }
            | Request::Touch { key, .. } => vec![key],
            Request::Stats { .. }
            | Request::Flush
            | Request::Asking
            | Request::Login { .. }
            | Request::Hello { .. } => Vec::new(),
        }
    }
}

pub(super) const fn malformed() -> MalformedReply {
    MalformedReply { at: 0 }
}

/// Parses a decimal number.
pub(super) fn number<T: std::str::FromStr>(text: &[u8]) -> Result<T, MalformedReply> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(malformed)
}

/// Returns the answer to `count` quiet writes, of which `refused` were refused; `first` is the
/// first refusal.
pub(super) fn quiet_answer(count: usize, refused: usize, first: Option<Answer>) -> Answer {
    match first {
        Some(Answer::Refused(text)) => {
            Answer::Refused(format!("{refused} of {count} writes: {text}"))
        }
        Some(answer) => Answer::Refused(format!("{refused} of {count} writes: {answer:?}")),
        None => Answer::Done,
    }
}

/// A value and the bytes after it; `None` until the value is complete.
type Split<'a> = Option<(&'a [u8], &'a [u8])>;

/// Splits `input` into a value of `len` bytes and the bytes after its line end; `None` until
/// complete.
pub(super) fn split_value(input: &[u8], len: usize) -> Result<Split<'_>, MalformedReply> {
    let Some((value, rest)) = input.split_at_checked(len) else { return Ok(None) };
    match rest {
        [b'\r', b'\n', rest @ ..] => Ok(Some((value, rest))),
        [] | [b'\r'] => Ok(None),
        _ => Err(malformed()),
    }
}
