//! Error replies: what was wrong, with Redis' code in front, since clients compare these texts.

use nagi_store::types::Refusal;
use std::borrow::Cow;

/// An error reply, its code first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub Cow<'static, str>);

impl Error {
    /// An argument that is no option here, or an option without its value.
    pub const SYNTAX: Error = Error::fixed("ERR syntax error");
    /// A number that is not one, or beyond 64 bits.
    pub const NOT_AN_INTEGER: Error = Error::fixed("ERR value is not an integer or out of range");
    /// A sum beyond 64 bits.
    pub const OVERFLOW: Error = Error::fixed("ERR increment or decrement would overflow");
    /// A command that needs memory where there is none and nothing may be evicted.
    pub const OUT_OF_MEMORY: Error =
        Error::fixed("OOM command not allowed when used memory > 'maxmemory'.");
    /// A string that would pass `proto-max-bulk-len`.
    pub const TOO_LONG: Error =
        Error::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

    /// A string that is no HyperLogLog.
    pub const NOT_A_SKETCH: Error =
        Error::fixed("WRONGTYPE Key is not a valid HyperLogLog string value.");
    /// A HyperLogLog whose inside makes no sense.
    pub const CORRUPTED_SKETCH: Error = Error::fixed("INVALIDOBJ Corrupted HLL object detected");

    /// Too few or too many arguments for the command or subcommand (`config|get`) of this name.
    #[must_use]
    #[cold]
    pub fn wrong_arity(full_name: &str) -> Self {
        Error::new(format!("ERR wrong number of arguments for '{full_name}' command"))
    }

    /// Words that no form of a command with subcommands has; `container` is its name.
    #[must_use]
    #[cold]
    pub fn unknown_form(container: &str, subcommand: &[u8]) -> Self {
        let word = String::from_utf8_lossy(subcommand);
        Error::new(format!(
            "ERR unknown subcommand or wrong number of arguments for '{word}'. Try {container} \
             HELP."
        ))
    }

    /// An error with a text known in advance.
    #[must_use]
    pub const fn fixed(text: &'static str) -> Self {
        Error(Cow::Borrowed(text))
    }

    /// An error with a text made for the occasion.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Error(Cow::Owned(text.into()))
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotANumber => Error::NOT_AN_INTEGER,
            Refusal::Overflow => Error::OVERFLOW,
            Refusal::NotASketch => Error::NOT_A_SKETCH,
            Refusal::Corrupted => Error::CORRUPTED_SKETCH,
            Refusal::TooLong => Error::TOO_LONG,
        }
    }
}
