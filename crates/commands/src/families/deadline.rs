//! Deadlines of requests that give a timeout in seconds.

use crate::families::strings::long_double::LongDouble;
use crate::{Context, Error};

const NOT_A_NUMBER: Error = Error::fixed("ERR timeout is not a float or out of range");
const NEGATIVE: Error = Error::fixed("ERR timeout is negative");
const TOO_LONG: Error = Error::fixed("ERR timeout is out of range");

/// The deadline in milliseconds since 1970; `None` if the timeout is 0.
pub(crate) fn deadline(cx: &Context<'_>, argument: &[u8]) -> Result<Option<u64>, Error> {
    let seconds = LongDouble::parse(argument).ok_or(NOT_A_NUMBER)?;
    let ms = match seconds.milliseconds() {
        None if seconds.is_negative() => return Err(NEGATIVE),
        ms => ms.ok_or(TOO_LONG)?,
    };
    let ms = u64::try_from(ms).map_err(|_| NEGATIVE)?;
    let at_ms = cx.db.now_ms().saturating_add(ms);
    if i64::try_from(at_ms).is_err() {
        return Err(TOO_LONG);
    }
    Ok((ms > 0).then_some(at_ms))
}
