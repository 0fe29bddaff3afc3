//! Options of requests that pop elements from the first non-empty of several keys (LMPOP, ZMPOP).

use crate::Error;
use crate::runtime::arguments::{RemainingArguments, integer, is};
use nagi_proto::Args;

/// The keys, the side and the count in such a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PopOptions<S> {
    /// The position after the last key among the arguments.
    pub(crate) after_keys: usize,
    pub(crate) side: S,
    /// The maximum number of elements, at least one.
    pub(crate) count: u64,
}

impl<S> PopOptions<S> {
    /// Parses `numkeys key [key ...] side [COUNT count]`, with `numkeys` at the position `at`;
    /// `side` parses the side.
    ///
    /// # Errors
    /// A number is invalid or not above zero, the side is unknown, or there are further arguments.
    pub(crate) fn parse(
        args: Args<'_>,
        at: usize,
        side: impl FnOnce(&[u8]) -> Result<S, Error>,
    ) -> Result<Self, Error> {
        const NO_KEYS: Error = Error::fixed("ERR numkeys should be greater than 0");
        const NO_COUNT: Error = Error::fixed("ERR count should be greater than 0");
        let keys = usize::try_from(positive(args.at(at), NO_KEYS)?).unwrap_or(usize::MAX);
        let after_keys = keys.saturating_add(at + 1);
        let side = side(args.get(after_keys).ok_or(Error::SYNTAX)?)?;
        let mut rest = RemainingArguments::from(args, after_keys + 1);
        let mut count = None;
        while let Some(option) = rest.next() {
            if count.is_some() || !is(option, "COUNT") {
                return Err(Error::SYNTAX);
            }
            count = Some(positive(rest.value()?, NO_COUNT)?);
        }
        Ok(PopOptions { after_keys, side, count: count.unwrap_or(1) })
    }
}

/// A number above zero.
fn positive(argument: &[u8], problem: Error) -> Result<u64, Error> {
    let number = integer(argument).ok().and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or(problem)
}
