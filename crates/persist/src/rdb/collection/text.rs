//! A reusable buffer for an element's bytes.

use super::ElementText;
use super::blob::Blob;
use crate::rdb::fault::Fault;
use crate::rdb::input::Input;
use crate::rdb::text::{BYTES, Form, unpack};
use nagi_store::{CHUNK_BYTES, Rope};
use std::io::Read;
use std::mem;

/// The bytes that were read last.
#[derive(Default)]
pub(in crate::rdb) struct TextBuffer {
    bytes: Vec<u8>,
    form: Kept,
}

/// The form of the bytes.
#[derive(Default)]
enum Kept {
    #[default]
    Bytes,
    Int(i64),
    Long(Rope),
}

impl TextBuffer {
    /// Reads a string.
    pub(super) fn read<R: Read>(
        &mut self,
        input: &mut Input<R>,
        expected: &'static str,
    ) -> Result<(), Fault> {
        let offset = input.offset();
        self.form = match input.form(expected)? {
            Form::Int(number) => Kept::Int(number),
            Form::Plain(len) if len <= CHUNK_BYTES as u64 => {
                self.bytes.clear();
                self.bytes.extend_from_slice(input.take(len as usize, BYTES)?);
                Kept::Bytes
            }
            Form::Packed { packed, len } if packed.max(len) <= CHUNK_BYTES as u64 => {
                let packed = input.take(packed as usize, BYTES)?;
                if !unpack(packed, len as usize, &mut self.bytes) {
                    return Err(Fault::unpacked(offset));
                }
                Kept::Bytes
            }
            long => Kept::of_rope(input.rope(long)?, &mut self.bytes),
        };
        Ok(())
    }

    /// Reads a packed string of this length.
    pub(super) fn read_packed<R: Read>(
        &mut self,
        blob: &mut Blob,
        input: &mut Input<R>,
        len: usize,
    ) -> Result<(), Fault> {
        if len <= CHUNK_BYTES {
            self.bytes.clear();
            self.bytes.extend_from_slice(blob.take(input, len)?);
            self.form = Kept::Bytes;
            return Ok(());
        }
        let (mut rope, mut left) = (Rope::default(), len);
        while left > 0 {
            let count = left.min(CHUNK_BYTES);
            rope.push_bytes(blob.take(input, count)?);
            left -= count;
        }
        self.form = Kept::Long(rope);
        Ok(())
    }

    pub(super) fn set_int(&mut self, number: i64) {
        self.form = Kept::Int(number);
    }

    /// Takes the result; only once, since long strings are not copied.
    pub(super) fn take(&mut self) -> ElementText<'_> {
        match &mut self.form {
            Kept::Bytes => ElementText::Bytes(&self.bytes),
            Kept::Int(number) => ElementText::Int(*number),
            Kept::Long(rope) => ElementText::Long(mem::take(rope)),
        }
    }

    /// Whether it is empty.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self.form, Kept::Bytes) && self.bytes.is_empty()
    }

    /// Returns the integer, if it is one and not only text that looks like one.
    pub(super) fn integer(&self) -> Option<i64> {
        match &self.form {
            Kept::Int(number) => Some(*number),
            Kept::Bytes | Kept::Long(_) => None,
        }
    }

    /// Returns the number that it is or represents, including infinities.
    pub(super) fn score(&self) -> Option<f64> {
        match &self.form {
            Kept::Bytes => parse_score(&self.bytes),
            Kept::Int(number) => Some(*number as f64),
            Kept::Long(_) => None,
        }
    }
}

impl Kept {
    /// Returns the form of a string read as chunks; a short one is moved to `bytes`.
    fn of_rope(rope: Rope, bytes: &mut Vec<u8>) -> Kept {
        if rope.len() > CHUNK_BYTES {
            return Kept::Long(rope);
        }
        bytes.clear();
        rope.copy_range(0..rope.len(), bytes);
        Kept::Bytes
    }
}

/// Parses a number, including infinities.
pub(super) fn parse_score(digits: &[u8]) -> Option<f64> {
    let score: f64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (!score.is_nan()).then_some(score)
}
