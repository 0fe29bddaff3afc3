//! Skips values of every type, counting their elements and bytes.

use super::collection::{Elements, Entries, TextBuffer};
use super::fault::{Fault, Found};
use super::input::Input;
use super::kind::{Layout, Packing, ValueType};
use std::io::Read;

/// The measurements of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measure {
    /// The number of elements of a list or set, members, fields, entries of a stream; 1 for a
    /// string.
    pub elements: u64,
    /// The bytes of its strings, decompressed and unpacked, plus eight for each score or time. The
    /// entries of a stream count in their packed form.
    pub bytes: u64,
    /// The bytes that it takes in the file.
    pub file_bytes: u64,
}

const COUNT: &str = "a number of elements";
const TIME: &str = "a time";
const STREAM: &str = "a number of a stream";
const STREAM_ID: &str = "the ID of a stream's entry";
const MODULE: &str = "a part of a module's value";

impl<R: Read> Input<R> {
    /// Skips a value, after checking that it can be read.
    pub(super) fn skip(&mut self, value_type: ValueType, key: &[u8]) -> Result<Measure, Fault> {
        let offset = self.offset();
        let mut sum = Measure::default();
        if let Layout::Stream(form) = value_type.layout() {
            self.skip_stream(&mut sum, form)?;
        } else if let Some(mut elements) = Elements::begin(self, value_type)? {
            while let Some(element) = elements.next(self)? {
                sum.bytes += element.bytes();
            }
            sum.elements = elements.found();
        } else {
            self.skip_other(&mut sum, value_type, key)?;
        }
        sum.file_bytes = self.offset() - offset;
        Ok(sum)
    }

    fn skip_other(
        &mut self,
        sum: &mut Measure,
        value_type: ValueType,
        key: &[u8],
    ) -> Result<(), Fault> {
        let offset = self.offset();
        match value_type.layout() {
            Layout::Module => self.skip_module(sum)?,
            Layout::UnknownModule => {
                let what = "a module's value of a prerelease of Redis 4".to_owned();
                return Err(Fault::Unsupported { offset, what, key: Some(key.to_vec()) });
            }
            _ => {
                sum.elements = 1;
                sum.bytes = self.skip_text("a string")?;
            }
        }
        Ok(())
    }

    fn skip_stream(&mut self, sum: &mut Measure, form: u8) -> Result<(), Fault> {
        let mut text = TextBuffer::default();
        for _ in 0..self.number(COUNT)? {
            sum.bytes += self.skip_text(STREAM_ID)?;
            let mut entries = Entries::begin(self, Packing::Listpack)?;
            sum.bytes += entries.bytes();
            while entries.next(self, &mut text)? {}
        }
        sum.elements = self.number(COUNT)?;
        // The last id; then the first one, the greatest deleted one, and a count of all.
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

    /// Skips the data of a module, each part of which has a type, up to its end.
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
