//! Strings as arrays of bits, starting with the highest bit of the first byte, and as arrays of
//! integers of any width (BITFIELD).

use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::entry::value::WrongType;
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use crate::value::rope::{Patch, Rope, StringMut};
use crate::value::string::StringValue;

/// An integer field in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Whether the number is signed, in two's complement.
    pub signed: bool,
    /// The width in bits: 1 to 64 if signed, otherwise 1 to 63.
    pub bits: u32,
    /// The offset of the field's first and highest bit.
    pub offset: usize,
}

/// What to do with a number that does not fit in its field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Keep its low bits (WRAP).
    #[default]
    Wrap,
    /// Store the nearest number that fits (SAT).
    Saturate,
    /// Leave the field unchanged (FAIL).
    Fail,
}

/// An operation on a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Read it.
    None,
    /// Store this value; the reply is the old one.
    Set(i64, Overflow),
    /// Add this number; the reply is the sum.
    Add(i64, Overflow),
}

impl Field {
    /// Returns the length that a string needs to hold the field, in bytes.
    #[must_use]
    pub fn end_byte(&self) -> usize {
        (self.offset + self.bits as usize).div_ceil(8)
    }

    /// Returns the number of bits after the field in its last byte.
    fn shift(&self) -> usize {
        self.end_byte() * 8 - self.offset - self.bits as usize
    }

    fn mask(&self) -> u128 {
        (1 << self.bits) - 1
    }

    /// Returns the bytes that the field overlaps, as one big-endian number.
    fn window(&self, byte: impl Fn(usize) -> u8) -> u128 {
        let bytes = self.offset / 8..self.end_byte();
        bytes.fold(0, |window, at| window << 8 | u128::from(byte(at)))
    }

    fn read(&self, byte: impl Fn(usize) -> u8) -> i64 {
        let value = self.window(byte) >> self.shift() & self.mask();
        let is_negative = self.signed && value >> (self.bits - 1) == 1;
        // Truncation yields two's complement.
        (if is_negative { value | !self.mask() } else { value }) as i64
    }

    fn write(&self, string: &mut StringMut<'_>, value: i64) {
        let window = self.window(|at| string.byte(at)) & !(self.mask() << self.shift());
        let window = window | (value as u128 & self.mask()) << self.shift();
        let bytes = window.to_be_bytes();
        let len = self.end_byte() - self.offset / 8;
        let bytes = bytes.get(bytes.len() - len..).unwrap_or_default();
        string.write(&Patch::new(self.offset / 8, bytes));
    }

    /// Returns the number to store in this field; `None` if it does not fit and overflow fails.
    fn fit(&self, value: i128, overflow: Overflow) -> Option<i64> {
        let magnitude_bits = self.bits - u32::from(self.signed);
        let most = (1_i128 << magnitude_bits) - 1;
        let least = if self.signed { -most - 1 } else { 0 };
        if (least..=most).contains(&value) {
            return i64::try_from(value).ok();
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => i64::try_from(value.clamp(least, most)).ok(),
            Overflow::Wrap => {
                let low = value as u128 & self.mask();
                let is_negative = self.signed && low >> (self.bits - 1) == 1;
                Some((if is_negative { low | !self.mask() } else { low }) as i64)
            }
        }
    }

    /// Returns the number that BITFIELD's SET stores for an argument. A negative argument is huge
    /// in an unsigned field. In a signed field, an argument so low that its distance from the
    /// field's maximum overflows 64 bits counts as too great, as in Redis.
    fn given(&self, value: i64) -> i128 {
        let most = self.mask() as i64 >> 1;
        match self.signed {
            false => i128::from(value as u64),
            true if self.bits < 64 && most.checked_sub(value).is_none() => {
                i128::from(value) + (1 << 64)
            }
            true => value.into(),
        }
    }

    /// Performs the operation in a string that is long enough unless the field is only read.
    /// Returns the number to reply with (`None` if it did not fit and overflow fails) and the
    /// effect on the field.
    fn apply(&self, string: &mut StringMut<'_>, change: Change) -> (Option<i64>, FieldEffect) {
        let old = self.read(|at| string.byte(at));
        let (new, answer) = match change {
            Change::None => return (Some(old), FieldEffect::None),
            Change::Set(value, overflow) => (self.fit(self.given(value), overflow), Some(old)),
            Change::Add(amount, overflow) => {
                let sum = self.fit(i128::from(old) + i128::from(amount), overflow);
                (sum, sum)
            }
        };
        let Some(new) = new else { return (None, FieldEffect::None) };
        self.write(string, new);
        // The comparison is with the stored number, which may have fewer bits than the given one.
        let is_same = self.read(|at| string.byte(at)) == old;
        (answer, if is_same { FieldEffect::Same } else { FieldEffect::Changed })
    }
}

/// The effect of an operation on a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldEffect {
    /// Nothing was written.
    None,
    /// The field was overwritten with the same value.
    Same,
    /// The field's value has changed.
    Changed,
}

impl FieldEffect {
    /// Whether the effect counts as a change. In a string that was created or extended, any write
    /// does.
    fn counts(self, is_longer: bool) -> bool {
        self == FieldEffect::Changed || is_longer && self == FieldEffect::Same
    }
}

impl Slot<'_> {
    /// Changes bits of the string; see [`Slot::change_counted`].
    fn change_bits<R>(
        &mut self,
        least_len: usize,
        change: impl FnOnce(&mut StringMut<'_>, bool) -> (R, u32),
    ) -> Result<R, WrongType> {
        let result = self.change_counted(least_len, change)?;
        if self.changes() > 0 {
            self.note(Event::SetBit);
        }
        Ok(result)
    }
}

impl Database<'_> {
    /// Returns the bit at `offset`; `false` after the end, and if there is no string.
    ///
    /// # Errors
    /// The value is not a string.
    pub fn bit(&self, key: Key<'_>, offset: usize) -> Result<bool, WrongType> {
        let byte = self.get(key, |entry| match entry.map(|entry| entry.string()).transpose()? {
            None => Ok(0),
            Some(StringValue::Rope(rope)) => Ok(rope.byte(offset / 8)),
            Some(string) => {
                Ok(string.with_bytes(|bytes| bytes.get(offset / 8).copied().unwrap_or(0)))
            }
        });
        Ok(byte? >> (7 - offset % 8) & 1 == 1)
    }

    /// Sets the bit at `offset`, in a string that is created or extended with zeros as needed.
    /// Returns the old value of the bit.
    ///
    /// # Errors
    /// The value is not a string.
    pub fn set_bit(&self, key: Key<'_>, offset: usize, value: bool) -> Result<bool, WrongType> {
        let field = Field { signed: false, bits: 1, offset };
        let change = Change::Set(i64::from(value), Overflow::Wrap);
        let set = |string: &mut StringMut<'_>, is_longer| {
            let (old, effect) = field.apply(string, change);
            (old, u32::from(effect.counts(is_longer)))
        };
        Ok(self.write(key, |slot| slot.change_bits(field.end_byte(), set))? == Some(1))
    }

    /// Reads fields of a string, which may lie after its end.
    ///
    /// # Errors
    /// The value is not a string; `answer` is not called.
    pub fn read_fields(
        &self,
        key: Key<'_>,
        fields: &[Field],
        mut answer: impl FnMut(i64),
    ) -> Result<(), WrongType> {
        self.get(key, |entry| {
            let string = entry.map(|entry| entry.string()).transpose()?;
            let rope = match string {
                Some(StringValue::Rope(rope)) => Some(rope),
                _ => None,
            };
            let short = string.filter(|_| rope.is_none()).unwrap_or(StringValue::Bytes(b""));
            short.with_bytes(|bytes| {
                for field in fields {
                    answer(field.read(|at| match rope {
                        Some(rope) => rope.byte(at),
                        None => bytes.get(at).copied().unwrap_or(0),
                    }));
                }
            });
            Ok(())
        })
    }

    /// Changes fields of a string in order, atomically. The string is first created or extended so
    /// that each fits. `answer` receives the numbers to reply with, `None` for one that did not fit
    /// if overflow fails.
    ///
    /// # Errors
    /// The value is not a string; `answer` is not called.
    pub fn change_fields(
        &self,
        key: Key<'_>,
        changes: &[(Field, Change)],
        mut answer: impl FnMut(Option<i64>),
    ) -> Result<(), WrongType> {
        let change = |string: &mut StringMut<'_>, is_longer| {
            let mut count = 0;
            for (field, change) in changes {
                let (number, effect) = field.apply(string, *change);
                answer(number);
                count += u32::from(effect.counts(is_longer));
            }
            ((), count)
        };
        self.write(key, |slot| slot.change_bits(end_byte(changes), change))
    }
}

/// Changes fields of a string outside the keyspace. The string is first extended so that all of
/// `changes` fit.
pub fn change_fields_of(
    rope: &mut Rope,
    changes: &[(Field, Change)],
    mut answer: impl FnMut(Option<i64>),
) {
    rope.grow(end_byte(changes));
    let mut string = StringMut::of_rope(rope, None);
    changes.iter().for_each(|(field, change)| answer(field.apply(&mut string, *change).0));
}

/// Returns the length that a string needs for these changes, in bytes.
fn end_byte(changes: &[(Field, Change)]) -> usize {
    let written = changes.iter().filter(|(_, change)| *change != Change::None);
    written.map(|(field, _)| field.end_byte()).max().unwrap_or(0)
}
