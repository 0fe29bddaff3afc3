//! What requests say that pop from the first of several keys that has anything (LMPOP, ZMPOP).

use crate::Error;
use crate::runtime::arguments::{RemainingArguments, integer, is};
use nagi_proto::Args;

/// What is popped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PopOptions<S> {
    /// The place behind the last key among the arguments.
    pub(crate) behind_keys: usize,
    pub(crate) side: S,
    /// How many elements at most; at least one.
    pub(crate) count: u64,
}

impl<S> PopOptions<S> {
    /// Those of `numkeys key [key ...] side [COUNT count]`, whose `numkeys` stands at `at`; `side`
    /// reads the side.
    ///
    /// # Errors
    /// A number is none or not above zero, the side is unknown, or there is something else.
    pub(crate) fn parse(
        args: Args<'_>,
        at: usize,
        side: impl FnOnce(&[u8]) -> Result<S, Error>,
    ) -> Result<Self, Error> {
        const NO_KEYS: Error = Error::fixed("ERR numkeys should be greater than 0");
        const NO_COUNT: Error = Error::fixed("ERR count should be greater than 0");
        let keys = usize::try_from(positive(args.at(at), NO_KEYS)?).unwrap_or(usize::MAX);
        let behind_keys = keys.saturating_add(at + 1);
        let side = side(args.get(behind_keys).ok_or(Error::SYNTAX)?)?;
        let mut rest = RemainingArguments::from(args, behind_keys + 1);
        let mut count = None;
        while let Some(option) = rest.next() {
            if count.is_some() || !is(option, "COUNT") {
                return Err(Error::SYNTAX);
            }
            count = Some(positive(rest.value()?, NO_COUNT)?);
        }
        Ok(PopOptions { behind_keys, side, count: count.unwrap_or(1) })
    }
}

/// A number above zero.
fn positive(argument: &[u8], problem: Error) -> Result<u64, Error> {
    let number = integer(argument).ok().and_then(|number| u64::try_from(number).ok());
    number.filter(|number| *number > 0).ok_or(problem)
}
