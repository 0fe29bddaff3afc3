//! Counters: strings that hold a number, by Redis' rules (signed, an overflow is refused, a
//! missing key counts from 0) and by memcached's (unsigned, wraps upward, stops at 0 downward, a
//! missing key is a miss).

use super::Refusal;
use crate::database::Database;
use crate::key::Key;
use crate::number::{parse_i64, parse_u64};
use crate::value::{Attributes, NewValue, Value};

/// The direction of memcached's arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Upward; wraps at 2^64.
    Up(u64),
    /// Downward; stops at 0.
    Down(u64),
}

impl Database<'_> {
    /// Adds `amount` to a signed counter and returns the sum (INCRBY). Expiry and flags stay.
    ///
    /// # Errors
    /// The value is not a canonical 64-bit integer, or the sum would not be one.
    pub fn increment(&self, key: Key<'_>, amount: i64) -> Result<i64, Refusal> {
        self.write(key, |slot| {
            let old = match slot.entry().map(|entry| entry.value()) {
                None => {
                    slot.put(NewValue::Int(amount), Attributes::default());
                    return Ok(amount);
                }
                Some(Value::Int(value)) => value,
                Some(Value::Bytes(text)) => parse_i64(text).ok_or(Refusal::NotANumber)?,
                Some(Value::Rope(_)) => return Err(Refusal::NotANumber),
            };
            let sum = old.checked_add(amount).ok_or(Refusal::Overflow)?;
            slot.set_value(NewValue::Int(sum));
            Ok(sum)
        })
    }

    /// Moves an unsigned counter and returns where it stands (memcached's `incr` and `decr`);
    /// `None` where there is no such key. Expiry and flags stay.
    ///
    /// # Errors
    /// The value is not an unsigned 64-bit number.
    pub fn step(&self, key: Key<'_>, step: Step) -> Result<Option<u64>, Refusal> {
        self.write(key, |slot| {
            let Some(entry) = slot.entry() else { return Ok(None) };
            let old = match entry.value() {
                Value::Int(value) => u64::try_from(value).ok(),
                // memcached itself pads a number that has become shorter with blanks.
                Value::Bytes(text) => parse_u64(text.trim_ascii()),
                Value::Rope(_) => None,
            };
            let old = old.ok_or(Refusal::NotANumber)?;
            let new = match step {
                Step::Up(amount) => old.wrapping_add(amount),
                Step::Down(amount) => old.saturating_sub(amount),
            };
            match i64::try_from(new) {
                Ok(value) => slot.set_value(NewValue::Int(value)),
                Err(_) => {
                    slot.set_value(NewValue::Bytes(itoa::Buffer::new().format(new).as_bytes()))
                }
            }
            Ok(Some(new))
        })
    }
}
