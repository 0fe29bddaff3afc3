//! Strings as arrays of bits, the first being the highest of the first byte; and as arrays of
//! integers of any width (BITFIELD).

use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::entry::value::WrongType;
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use crate::value::rope::{Patch, Rope, StringMut};
use crate::value::string::StringValue;

/// An integer within a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Whether it is signed, in two's complement.
    pub signed: bool,
    /// Its width: 1 to 64, or 63 if it is not signed.
    pub bits: u32,
    /// The number of its first and highest bit.
    pub offset: usize,
}

/// What happens to a number that does not fit in its field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Its low bits are kept.
    #[default]
    Wrap,
    /// The nearest number that fits is taken.
    Saturate,
    /// The field stays as it is.
    Fail,
}

/// What is done with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing: it is read.
    None,
    /// It gets this value, and the old one is returned.
    Set(i64, Overflow),
    /// This is added to it, and the sum is returned.
    Add(i64, Overflow),
}

impl Field {
    /// How long a string must be to hold it, in bytes.
    #[must_use]
    pub fn end_byte(&self) -> usize {
        (self.offset + self.bits as usize).div_ceil(8)
    }

    /// How far its last bit is from the end of its last byte.
    fn shift(&self) -> usize {
        self.end_byte() * 8 - self.offset - self.bits as usize
    }

    fn mask(&self) -> u128 {
        (1 << self.bits) - 1
    }

    /// The bytes that it touches, as one number.
    fn window(&self, byte: impl Fn(usize) -> u8) -> u128 {
        let bytes = self.offset / 8..self.end_byte();
        bytes.fold(0, |window, at| window << 8 | u128::from(byte(at)))
    }

    fn read(&self, byte: impl Fn(usize) -> u8) -> i64 {
        let value = self.window(byte) >> self.shift() & self.mask();
        let is_negative = self.signed && value >> (self.bits - 1) == 1;
        // Truncation is how two's complement is read.
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

    /// What a number becomes in this field; `None` if it does not fit and must.
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

    /// What a number that is to be set counts as. A negative one is huge where there is no sign;
    /// and where there is one, so low a number that its distance from the field's greatest has no
    /// place in 64 bits counts as too great, as with Redis.
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

    /// Does what is to be done, in a string that is long enough unless the field is only read.
    /// Returns the number to answer, `None` if one did not fit and had to; and what came of it.
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
        // What is kept of it decides, which may be less than was given.
        let is_same = self.read(|at| string.byte(at)) == old;
        (answer, if is_same { FieldEffect::Same } else { FieldEffect::Changed })
    }
}

/// What came of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldEffect {
    /// Nothing was written.
    None,
    /// It was rewritten unchanged.
    Same,
    /// It is another.
    Changed,
}

impl FieldEffect {
    /// Whether it counts as a change, as one in a string that was made or has grown does.
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
    /// The bit at `offset`; `false` after the end and where there is no string.
    ///
    /// # Errors
    /// It is no string.
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

    /// Sets the bit at `offset`, in a string that is made or grown with zeros where it is too
    /// short; what it was before.
    ///
    /// # Errors
    /// It is no string.
    pub fn set_bit(&self, key: Key<'_>, offset: usize, value: bool) -> Result<bool, WrongType> {
        let field = Field { signed: false, bits: 1, offset };
        let change = Change::Set(i64::from(value), Overflow::Wrap);
        let set = |string: &mut StringMut<'_>, is_longer| {
            let (old, effect) = field.apply(string, change);
            (old, u32::from(effect.counts(is_longer)))
        };
        Ok(self.write(key, |slot| slot.change_bits(field.end_byte(), set))? == Some(1))
    }

    /// Reads fields of a string, which may be after its end.
    ///
    /// # Errors
    /// It is no string; none is answered.
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

    /// Changes fields of a string one after the other, all at one moment. The string is made or
    /// grown first, so that each has room. `answer` gets the numbers to answer, `None` for one
    /// that did not fit and had to.
    ///
    /// # Errors
    /// It is no string; none is answered.
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

/// Does the same to a string that is not shared. All of `changes` that are to come count for
/// its length.
pub fn change_fields_of(
    rope: &mut Rope,
    changes: &[(Field, Change)],
    mut answer: impl FnMut(Option<i64>),
) {
    rope.grow(end_byte(changes));
    let mut string = StringMut::of_rope(rope, None);
    changes.iter().for_each(|(field, change)| answer(field.apply(&mut string, *change).0));
}

/// How long a string must be to be changed so.
fn end_byte(changes: &[(Field, Change)]) -> usize {
    let written = changes.iter().filter(|(_, change)| *change != Change::None);
    written.map(|(field, _)| field.end_byte()).max().unwrap_or(0)
}
