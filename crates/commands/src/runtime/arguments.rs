//! Parses arguments: option words, numbers and times.

use crate::{Context, Error};
use nagi_proto::{Args, LargeArgument};
use nagi_store::types::string::Expiry;
use nagi_store::{Rope, StringInput, parse_i64};

/// The argument at `index` as an owned value: a long one in the chunks into which it was received.
/// It can be taken once.
pub(crate) fn value(args: Args<'_>, index: usize) -> StringInput<'_> {
    match args.large(index) {
        Some(large) => StringInput::Rope(Rope::from_chunks(large.take())),
        None => StringInput::Bytes(args.at(index)),
    }
}

/// The length in bytes of the argument at `index`. A long one stays in the chunks into which it was
/// received.
pub(crate) fn length(args: Args<'_>, index: usize) -> usize {
    args.large(index).map_or_else(|| args.at(index).len(), LargeArgument::len)
}

/// Whether an argument is this option, regardless of case.
#[inline]
pub(crate) fn is(argument: &[u8], option: &str) -> bool {
    argument.eq_ignore_ascii_case(option.as_bytes())
}

/// Reads a signed integer.
#[inline]
pub(crate) fn integer(argument: &[u8]) -> Result<i64, Error> {
    parse_i64(argument).ok_or(Error::NOT_AN_INTEGER)
}

/// Parses the index of an existing database.
pub(crate) fn database(cx: &Context<'_>, argument: &[u8]) -> Result<usize, Error> {
    const TOO_FAR: Error =
        Error::fixed("ERR value is out of range, value must between -2147483648 and 2147483647");
    let index = i32::try_from(integer(argument)?).map_err(|_| TOO_FAR)?;
    let index = usize::try_from(index).ok();
    let index = index.filter(|index| *index < cx.db.store().databases());
    index.ok_or(Error::fixed("ERR DB index is out of range"))
}

/// An iterator over the remaining arguments, for parsing options with values.
pub(crate) struct RemainingArguments<'a> {
    args: Args<'a>,
    next: usize,
}

impl<'a> RemainingArguments<'a> {
    /// The arguments from `index` on.
    pub(crate) fn from(args: Args<'a>, index: usize) -> Self {
        RemainingArguments { args, next: index }
    }

    /// How many arguments are left.
    pub(crate) fn len(&self) -> usize {
        self.args.len().saturating_sub(self.next)
    }

    /// The value of the option that was taken last.
    pub(crate) fn value(&mut self) -> Result<&'a [u8], Error> {
        self.next().ok_or(Error::SYNTAX)
    }
}

impl<'a> Iterator for RemainingArguments<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let argument = self.args.get(self.next)?;
        self.next += 1;
        Some(argument)
    }
}

/// The form of a time argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Milliseconds,
    /// Seconds since 1970.
    UnixSeconds,
    /// Milliseconds since 1970.
    UnixMilliseconds,
}

impl Time {
    /// The option of SET and GETEX for a time in this form.
    pub(crate) fn of_option(option: &[u8]) -> Option<Time> {
        let times = [
            ("EX", Time::Seconds),
            ("PX", Time::Milliseconds),
            ("EXAT", Time::UnixSeconds),
            ("PXAT", Time::UnixMilliseconds),
        ];
        times.into_iter().find_map(|(name, time)| is(option, name).then_some(time))
    }

    /// The time given by an argument, in milliseconds since 1970; 0 for earlier times.
    ///
    /// # Errors
    /// Not an integer, or a time beyond 64 bits; the text names `command`.
    pub(crate) fn moment(self, argument: &[u8], now_ms: u64, command: &str) -> Result<u64, Error> {
        let value = integer(argument)?;
        let now_ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        let at_ms = match self {
            Time::Seconds => value.checked_mul(1000).and_then(|ms| ms.checked_add(now_ms)),
            Time::Milliseconds => value.checked_add(now_ms),
            Time::UnixSeconds => value.checked_mul(1000),
            Time::UnixMilliseconds => Some(value),
        };
        let at_ms = at_ms.ok_or_else(|| invalid_expire_time(command))?;
        Ok(u64::try_from(at_ms).unwrap_or(0))
    }

    /// The expiry given by an argument of a command that sets it together with a value, and
    /// therefore accepts only positive numbers.
    pub(crate) fn expiry(
        self,
        argument: &[u8],
        now_ms: u64,
        command: &str,
    ) -> Result<Expiry, Error> {
        if integer(argument)? <= 0 {
            return Err(invalid_expire_time(command));
        }
        self.moment(argument, now_ms, command).map(Expiry::AtMs)
    }
}

/// The error for a time that is out of range.
#[cold]
pub(crate) fn invalid_expire_time(command: &str) -> Error {
    Error::new(format!("ERR invalid expire time in '{command}' command"))
}
