//! Counters: strings that hold a number, with Redis' rules (signed, an overflow is refused, a
//! missing key counts as 0). Counters with memcached's rules (unsigned, incrementing wraps,
//! decrementing stops at 0, a missing key is a miss) are in `versioned.rs`.

use super::Refusal;
use crate::effects::event::Event;
use crate::entry::attributes::Attributes;
use crate::entry::key::Key;
use crate::entry::value::NewValue;
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use crate::value::number::parse_i64;
use crate::value::string::StringValue;

/// The direction of memcached's arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// Upward; wraps at 2^64.
    Up(u64),
    /// Downward; stops at 0.
    Down(u64),
}

impl Slot<'_> {
    /// Adds to a signed counter, which starts at 0. Returns the sum.
    pub(crate) fn increment(&mut self, amount: i64) -> Result<i64, Refusal> {
        let old = match self.string()? {
            None => {
                self.put(NewValue::Int(amount), Attributes::default());
                self.note(Event::IncrBy);
                return Ok(amount);
            }
            Some(StringValue::Int(value)) => value,
            Some(StringValue::Bytes(text)) => parse_i64(text).ok_or(Refusal::NotANumber)?,
            Some(StringValue::Rope(_)) => return Err(Refusal::NotANumber),
        };
        let sum = old.checked_add(amount).ok_or(Refusal::Overflow)?;
        self.set_value(NewValue::Int(sum));
        self.note(Event::IncrBy);
        Ok(sum)
    }
}

impl Database<'_> {
    /// Adds `amount` to a signed counter and returns the sum (INCRBY). Expiry and flags stay.
    ///
    /// # Errors
    /// The value is not a string or not a canonical 64-bit integer, or the sum overflows.
    pub fn increment(&self, key: Key<'_>, amount: i64) -> Result<i64, Refusal> {
        self.write(key, |slot| slot.increment(amount))
    }
}
