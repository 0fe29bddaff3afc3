//! Values of every type, read without being kept: how many elements there are, and how large.

use super::fault::{Fault, Found};
use super::input::Input;
use super::kind::{Layout, Packing, ValueType};
use super::packed;
use std::io::Read;

/// What can be said of a value without keeping it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// Elements of a list or set, members, fields, entries of a stream; 1 for a string.
    pub elements: u64,
    /// Bytes of its strings, not compressed, with eight for each score or time. What is packed
    /// counts as it is packed.
    pub bytes: u64,
    /// Bytes that it takes in the file.
    pub file_bytes: u64,
}

/// What is packed and longer is not looked into; such are not written by any server's defaults.
const LONGEST_PACKED_BYTES: usize = 64 * 1024 * 1024;

const COUNT: &str = "a number of elements";
const ELEMENT: &str = "an element";
const SCORE: &str = "a score";
const TIME: &str = "a time";
const STREAM: &str = "a number of a stream";
const STREAM_ID: &str = "the ID of a stream's entry";
const MODULE: &str = "a part of a module's value";

impl<R: Read> Input<R> {
    /// Takes a value, having seen that it can be read.
    pub(super) fn skip(&mut self, value_type: ValueType, key: &[u8]) -> Result<Measure, Fault> {
        let offset = self.offset();
        let mut sum = Measure::default();
        match value_type.layout() {
            Layout::Text => {
                sum.elements = 1;
                sum.bytes = self.skip_text("a string")?;
            }
            Layout::Texts(each) => {
                self.each_element(&mut sum, |input| {
                    (0..each).try_fold(0, |bytes, _| Ok(bytes + input.skip_text(ELEMENT)?))
                })?;
            }
            Layout::Scored => self.each_element(&mut sum, |input| {
                let bytes = input.skip_text(ELEMENT)?;
                input.take(8, SCORE)?;
                Ok(bytes + 8)
            })?,
            Layout::ScoredInDigits => self.each_element(&mut sum, |input| {
                let bytes = input.skip_text(ELEMENT)?;
                // Beyond that these are the infinities and what is no number.
                if let digits @ ..253 = input.byte(SCORE)? {
                    input.take(digits.into(), SCORE)?;
                }
                Ok(bytes + 8)
            })?,
            Layout::Packed(packing, parts) => {
                self.skip_packed(&mut sum, packing)?;
                sum.elements /= parts;
            }
            Layout::Ziplists => {
                for _ in 0..self.number(COUNT)? {
                    self.skip_packed(&mut sum, Packing::Ziplist)?;
                }
            }
            Layout::Quicklist => self.skip_quicklist(&mut sum)?,
            Layout::Stream(form) => self.skip_stream(&mut sum, form)?,
            Layout::Module => self.skip_module(&mut sum)?,
            Layout::UnknownModule => {
                let what = "a module's value of a prerelease of Redis 4".to_owned();
                return Err(Fault::Unsupported { offset, what, key: Some(key.to_vec()) });
            }
            Layout::ExpiringFields { .. }
            | Layout::ExpiringListpack { .. }
            | Layout::FieldsThenExpiry => self.skip_expiring(&mut sum, value_type.layout())?,
        }
        sum.file_bytes = self.offset() - offset;
        Ok(sum)
    }

    /// Takes a count and so many elements, each of which says how long it was.
    fn each_element(
        &mut self,
        sum: &mut Measure,
        mut skip: impl FnMut(&mut Self) -> Result<u64, Fault>,
    ) -> Result<(), Fault> {
        for _ in 0..self.number(COUNT)? {
            sum.bytes += skip(self)?;
            sum.elements += 1;
        }
        Ok(())
    }

    fn skip_packed(&mut self, sum: &mut Measure, packing: Packing) -> Result<(), Fault> {
        let offset = self.offset();
        let expected = match packing {
            Packing::Zipmap => "a zipmap",
            Packing::Ziplist => "a ziplist",
            Packing::Intset => "an intset",
            Packing::Listpack => "a listpack",
        };
        let form = self.form(expected)?;
        let mut bytes = Vec::new();
        let len = self.pieces(form, &mut |piece| {
            if bytes.len() <= LONGEST_PACKED_BYTES {
                bytes.extend_from_slice(piece);
            }
        })?;
        sum.bytes += len;
        if len <= LONGEST_PACKED_BYTES as u64 {
            sum.elements += packed::count(packing, &bytes).ok_or(Fault::Damaged {
                offset,
                expected,
                found: Found::Other,
            })?;
        }
        Ok(())
    }

    fn skip_quicklist(&mut self, sum: &mut Measure) -> Result<(), Fault> {
        const CONTAINER: &str = "a list's node, plain or packed";
        for _ in 0..self.number(COUNT)? {
            match self.number(CONTAINER)? {
                1 => {
                    sum.bytes += self.skip_text(ELEMENT)?;
                    sum.elements += 1;
                }
                2 => self.skip_packed(sum, Packing::Listpack)?,
                other => return Err(self.damaged(1, CONTAINER, Found::Number(other))),
            }
        }
        Ok(())
    }

    fn skip_expiring(&mut self, sum: &mut Measure, layout: Layout) -> Result<(), Fault> {
        match layout {
            Layout::ExpiringListpack { first } => {
                if first {
                    self.take(8, TIME)?;
                }
                self.skip_packed(sum, Packing::Listpack)?;
                sum.elements /= 3;
                Ok(())
            }
            Layout::ExpiringFields { first } => {
                if first {
                    self.take(8, TIME)?;
                }
                self.each_element(sum, |input| {
                    input.number(TIME)?;
                    Ok(8 + input.skip_text(ELEMENT)? + input.skip_text(ELEMENT)?)
                })
            }
            _ => self.each_element(sum, |input| {
                let bytes = input.skip_text(ELEMENT)? + input.skip_text(ELEMENT)?;
                input.take(8, TIME)?;
                Ok(8 + bytes)
            }),
        }
    }

    fn skip_stream(&mut self, sum: &mut Measure, form: u8) -> Result<(), Fault> {
        let mut entries = Measure::default();
        for _ in 0..self.number(COUNT)? {
            sum.bytes += self.skip_text(STREAM_ID)?;
            self.skip_packed(&mut entries, Packing::Listpack)?;
        }
        sum.bytes += entries.bytes;
        sum.elements = self.number(COUNT)?;
        // The last ID; then the first one, the greatest of those deleted, and a count of all.
        let numbers = if form >= 2 { 7 } else { 2 };
        for _ in 0..numbers {
            self.number(STREAM)?;
        }
        for _ in 0..self.number("a number of consumer groups")? {
            self.skip_group(sum, form)?;
        }
        Ok(())
    }

    fn skip_group(&mut self, sum: &mut Measure, form: u8) -> Result<(), Fault> {
        sum.bytes += self.skip_text("the name of a consumer group")?;
        let numbers = if form >= 2 { 3 } else { 2 };
        for _ in 0..numbers {
            self.number(STREAM)?;
        }
        for _ in 0..self.number(COUNT)? {
            self.take(16, STREAM_ID)?;
            self.take(8, TIME)?;
            self.number(STREAM)?;
            sum.bytes += 24;
        }
        for _ in 0..self.number("a number of consumers")? {
            sum.bytes += self.skip_text("the name of a consumer")?;
            self.take(if form >= 3 { 16 } else { 8 }, TIME)?;
            for _ in 0..self.number(COUNT)? {
                self.take(16, STREAM_ID)?;
                sum.bytes += 16;
            }
        }
        Ok(())
    }

    fn skip_module(&mut self, sum: &mut Measure) -> Result<(), Fault> {
        self.number("the number of a module")?;
        sum.elements = 1;
        sum.bytes = self.skip_module_parts()?;
        Ok(())
    }

    /// Takes what a module wrote, each part of which is marked, up to its end.
    pub(super) fn skip_module_parts(&mut self) -> Result<u64, Fault> {
        let mut bytes = 0;
        loop {
            bytes += match self.number(MODULE)? {
                0 => return Ok(bytes),
                1 | 2 => {
                    self.number(MODULE)?;
                    8
                }
                3 => self.take(4, MODULE)?.len() as u64,
                4 => self.take(8, MODULE)?.len() as u64,
                5 => self.skip_text(MODULE)?,
                other => return Err(self.damaged(1, MODULE, Found::Number(other))),
            };
        }
    }
}
