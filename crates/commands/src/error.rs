//! Error replies, with the texts and codes of Redis, since clients compare these.

use nagi_store::WrongType;
use nagi_store::types::Refusal;
use std::borrow::Cow;

/// Maximum bytes of a word that an error repeats.
pub(crate) const QUOTED_BYTES: usize = 128;

/// The part of a word before a zero byte: where Redis treats it as a C string, it sees no more.
pub(crate) fn quotable(word: &[u8], most: usize) -> &[u8] {
    let word = word.split(|byte| *byte == 0).next().unwrap_or_default();
    word.get(..most).unwrap_or(word)
}

/// An error reply that begins with its code. It may repeat input of a client, which may be any
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub Cow<'static, [u8]>);

impl Error {
    /// An argument that is not an option, or an option without its value.
    pub const SYNTAX: Error = Error::fixed("ERR syntax error");
    /// An invalid integer, or one beyond 64 bits.
    pub const NOT_AN_INTEGER: Error = Error::fixed("ERR value is not an integer or out of range");
    /// A sum beyond 64 bits.
    pub const OVERFLOW: Error = Error::fixed("ERR increment or decrement would overflow");
    /// A command that needs memory when the limit is reached and nothing may be evicted.
    pub const OUT_OF_MEMORY: Error =
        Error::fixed("OOM command not allowed when used memory > 'maxmemory'.");
    /// A string that would exceed `proto-max-bulk-len`.
    pub const TOO_LONG: Error =
        Error::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

    /// A value whose type does not match the command.
    pub const WRONG_TYPE: Error =
        Error::fixed("WRONGTYPE Operation against a key holding the wrong kind of value");
    /// A string that is not a HyperLogLog.
    pub const NOT_A_SKETCH: Error =
        Error::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");
    /// A HyperLogLog with invalid registers.
    pub const CORRUPTED_SKETCH: Error = Error::fixed("INVALIDOBJ Corrupted HLL object detected");

    /// Too few or too many arguments for the command or subcommand (`config|get`) of this name.
    #[must_use]
    #[cold]
    pub fn wrong_arity(full_name: &str) -> Self {
        Error::new(format!("ERR wrong number of arguments for '{full_name}' command"))
    }

    /// An unknown subcommand, or a wrong number of its arguments; `container` is the command's
    /// name.
    #[must_use]
    #[cold]
    pub fn unknown_form(container: &str, subcommand: &[u8]) -> Self {
        let before = "ERR unknown subcommand or wrong number of arguments for '";
        Error::quoting(
            before,
            quotable(subcommand, QUOTED_BYTES),
            &format!("'. Try {container} HELP."),
        )
    }

    /// An error with a text known in advance.
    #[must_use]
    pub const fn fixed(text: &'static str) -> Self {
        Error(Cow::Borrowed(text.as_bytes()))
    }

    /// An error with a formatted text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Error(Cow::Owned(text.into().into_bytes()))
    }

    /// An error that repeats bytes of a client between two texts. Like in Redis, they end at a zero
    /// byte, and have no line breaks at the end.
    #[must_use]
    #[cold]
    pub fn quoting(before: &str, bytes: &[u8], after: &str) -> Self {
        let shown = quotable(bytes, bytes.len());
        let text = [before.as_bytes(), shown, after.as_bytes()].concat();
        let end = text.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |at| at + 1);
        Error(Cow::Owned(text.get(..end).unwrap_or_default().to_vec()))
    }

    /// An error that ends with bytes of a client, up to a zero byte; line breaks at their end
    /// become blanks, as they do within.
    #[must_use]
    #[cold]
    pub fn ending_in(before: &str, bytes: &[u8]) -> Self {
        let shown = quotable(bytes, bytes.len());
        Error(Cow::Owned([before.as_bytes(), shown].concat()))
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::WrongType => Error::WRONG_TYPE,
            Refusal::NotANumber => Error::NOT_AN_INTEGER,
            Refusal::Overflow => Error::OVERFLOW,
            Refusal::NotASketch => Error::NOT_A_SKETCH,
            Refusal::Corrupted => Error::CORRUPTED_SKETCH,
            Refusal::TooLong => Error::TOO_LONG,
        }
    }
}

impl From<WrongType> for Error {
    fn from(_: WrongType) -> Self {
        Error::WRONG_TYPE
    }
}
