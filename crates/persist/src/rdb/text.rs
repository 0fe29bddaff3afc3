//! Strings in a file: plain, as integers, or compressed. No memory is allocated before their bytes
//! have been read.

use super::fault::{Fault, Found};
use super::input::Input;
use crate::length::Length;
use crate::lzf;
use nagi_store::{CHUNK_BYTES, Rope};
use std::io::Read;

/// The form of a string in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain(u64),
    Int(i64),
    Packed { packed: u64, len: u64 },
}

/// Decompresses a string of [`super::Text::Packed`], replacing the contents of `out`. Returns
/// whether its length is correct.
#[must_use]
pub fn unpack(mut packed: &[u8], len: usize, out: &mut Vec<u8>) -> bool {
    out.clear();
    lzf::decompress(&mut packed, out, len).is_ok() && packed.is_empty() && out.len() == len
}

impl<R: Read> Input<R> {
    /// Takes the header of a string.
    #[inline]
    pub(super) fn form(&mut self, expected: &'static str) -> Result<Form, Fault> {
        let form = match self.length(expected)? {
            Length::Plain(len) => Form::Plain(len),
            Length::Encoded(Length::INT8) => Form::Int(i8::from_le_bytes(self.array(INT)?).into()),
            Length::Encoded(Length::INT16) => {
                Form::Int(i16::from_le_bytes(self.array(INT)?).into())
            }
            Length::Encoded(Length::INT32) => {
                Form::Int(i32::from_le_bytes(self.array(INT)?).into())
            }
            Length::Encoded(Length::LZF) => {
                let packed = self.number("the length of a compressed string")?;
                let len = self.number("the length of a string before it was compressed")?;
                Form::Packed { packed, len }
            }
            Length::Encoded(encoding) => {
                return Err(self.damaged(1, expected, Found::Byte(0xc0 | encoding)));
            }
        };
        match form {
            Form::Plain(len) | Form::Packed { len, .. } if len > self.longest_text => {
                Err(self.damaged(0, "a string that is not too long", Found::Number(len)))
            }
            form => Ok(form),
        }
    }

    /// Takes a string's bytes, piece by piece. Returns the number of bytes.
    pub(super) fn pieces(&mut self, form: Form, take: &mut dyn FnMut(&[u8])) -> Result<u64, Fault> {
        match form {
            Form::Int(number) => {
                let mut spelled = itoa::Buffer::new();
                let spelled = spelled.format(number).as_bytes();
                take(spelled);
                Ok(spelled.len() as u64)
            }
            Form::Plain(len) => {
                let mut left = len;
                while left > 0 {
                    let piece = self.take_some(left, BYTES)?;
                    take(piece);
                    left -= piece.len() as u64;
                }
                Ok(len)
            }
            Form::Packed { packed, len } => self.unpack(packed, len, take),
        }
    }

    fn unpack(&mut self, packed: u64, len: u64, take: &mut dyn FnMut(&[u8])) -> Result<u64, Fault> {
        let offset = self.offset();
        let damaged = || Fault::unpacked(offset);
        let mut unpacker = lzf::Unpacker::default();
        let (mut left, mut unpacked) = (packed, 0);
        while left > 0 {
            let piece = self.take_some(left.min(CHUNK_BYTES as u64), BYTES)?;
            left -= piece.len() as u64;
            unpacker
                .add(piece, &mut |bytes| {
                    unpacked += bytes.len() as u64;
                    // `take` may store them, so it must not receive more than the string's length.
                    if unpacked <= len {
                        take(bytes);
                    }
                })
                .map_err(|lzf::Corrupt| damaged())?;
            if unpacked > len {
                return Err(damaged());
            }
        }
        if unpacked == len && unpacker.is_complete() { Ok(len) } else { Err(damaged()) }
    }

    /// Takes a string and appends it. Returns its length.
    pub(super) fn append_text(
        &mut self,
        out: &mut Vec<u8>,
        expected: &'static str,
    ) -> Result<u64, Fault> {
        let form = self.form(expected)?;
        self.pieces(form, &mut |piece| out.extend_from_slice(piece))
    }

    /// Takes a string and discards it, after checking that it can be read. Returns its length.
    pub(super) fn skip_text(&mut self, expected: &'static str) -> Result<u64, Fault> {
        let form = self.form(expected)?;
        self.pieces(form, &mut |_| {})
    }

    /// Takes a long string's bytes into chunks.
    pub(super) fn rope(&mut self, form: Form) -> Result<Rope, Fault> {
        let mut rope = Rope::default();
        if let Form::Plain(len) = form {
            let mut left = len;
            while left > 0 {
                let count = usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES);
                rope.push_bytes(self.take(count, BYTES)?);
                left -= count as u64;
            }
            return Ok(rope);
        }
        let mut pending = Vec::with_capacity(CHUNK_BYTES);
        self.pieces(form, &mut |mut bytes| {
            while !bytes.is_empty() {
                let room = CHUNK_BYTES - pending.len();
                let (head, rest) = bytes.split_at(room.min(bytes.len()));
                pending.extend_from_slice(head);
                bytes = rest;
                if pending.len() == CHUNK_BYTES {
                    rope.push_bytes(&pending);
                    pending.clear();
                }
            }
        })?;
        if !pending.is_empty() {
            rope.push_bytes(&pending);
        }
        Ok(rope)
    }
}

const INT: &str = "an integer";
pub(super) const BYTES: &str = "the bytes of a string";
