//! A buffered reader of a file, with offset and checksum.

use super::fault::{Fault, Found};
use crate::checksum::Checksum;
use crate::length::Length;
use std::io::{self, Empty, ErrorKind, Read};

/// The size of the buffer. At most a quarter of it is requested at once.
const BUFFER_BYTES: usize = 256 * 1024;

/// A source and the bytes that have been read from it in advance.
pub(crate) struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    /// The end of the bytes that were taken, and of those that were read.
    at: usize,
    end: usize,
    /// The end of the bytes that the checksum covers.
    summed: usize,
    /// The offset of the buffer in the file.
    base: u64,
    checksum: Option<Checksum>,
    /// Longer strings, before compression, are treated as damage.
    pub(super) longest_text: u64,
}

impl Input<Empty> {
    /// Reads from these bytes, from index `at` on, which corresponds to `offset` in the file.
    pub(super) fn over(bytes: Vec<u8>, at: usize, offset: u64) -> Self {
        Input {
            source: io::empty(),
            at,
            end: bytes.len(),
            buffer: bytes,
            summed: at,
            base: offset.wrapping_sub(at as u64),
            checksum: None,
            longest_text: u64::MAX,
        }
    }

    /// Returns the bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.buffer
    }
}

impl<R: Read> Input<R> {
    pub(super) fn new(source: R, checksum: bool) -> Self {
        let checksum = checksum.then(Checksum::default);
        Input { checksum, ..Input::with_buffer(source, vec![0; BUFFER_BYTES]) }
    }

    fn with_buffer(source: R, buffer: Vec<u8>) -> Self {
        Input {
            source,
            buffer,
            at: 0,
            end: 0,
            summed: 0,
            base: 0,
            checksum: None,
            longest_text: u64::MAX,
        }
    }

    /// Reads a payload of `bytes` bytes whose strings are at most `longest_text` long, because a
    /// compressed string may claim to be hundreds of times as long as its data.
    pub(crate) fn of_payload(source: R, bytes: usize, longest_text: u64) -> Self {
        let buffer = vec![0; bytes.min(BUFFER_BYTES)];
        Input { longest_text, ..Input::with_buffer(source, buffer) }
    }

    /// Returns the offset of the next byte in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.base.wrapping_add(self.at as u64)
    }

    /// Returns the bytes that have been read in advance, at most `most`.
    pub(super) fn ahead(&self, most: usize) -> &[u8] {
        let end = self.end.min(self.at.saturating_add(most));
        self.buffer.get(self.at..end).unwrap_or_default()
    }

    /// Reads `bytes` bytes in advance, unless the source ends or fails before: a later read of the
    /// missing bytes reports why.
    pub(super) fn read_ahead(&mut self, bytes: usize) {
        if self.end - self.at < bytes {
            let _ = self.fill(bytes, "");
        }
    }

    /// Disables the checksum if there is none to compare with.
    pub(super) fn without_checksum(self) -> Self {
        Input { checksum: None, ..self }
    }

    /// Returns the checksum of the bytes taken, if it is enabled.
    pub(super) fn checksum(&mut self) -> Option<u64> {
        self.sum();
        self.checksum.clone().map(Checksum::value)
    }

    fn sum(&mut self) {
        let taken = self.buffer.get(self.summed..self.at).unwrap_or_default();
        if let Some(checksum) = &mut self.checksum {
            checksum.add(taken);
        }
        self.summed = self.at;
    }

    /// Takes `count` bytes; `expected` describes them.
    #[inline]
    pub(super) fn take(&mut self, count: usize, expected: &'static str) -> Result<&[u8], Fault> {
        if self.end - self.at < count {
            self.fill(count, expected).inspect_err(|_| self.at = self.end)?;
        }
        let from = self.at;
        self.at += count;
        Ok(self.buffer.get(from..self.at).unwrap_or_default())
    }

    /// Takes at most `most` bytes, and at least one.
    pub(super) fn take_some(&mut self, most: u64, expected: &'static str) -> Result<&[u8], Fault> {
        if self.at == self.end {
            self.fill(1, expected)?;
        }
        let count = (self.end - self.at).min(usize::try_from(most).unwrap_or(usize::MAX));
        self.take(count, expected)
    }

    #[inline]
    pub(super) fn array<const LEN: usize>(
        &mut self,
        expected: &'static str,
    ) -> Result<[u8; LEN], Fault> {
        let taken = self.take(LEN, expected)?.first_chunk().copied();
        Ok(taken.unwrap_or([0; LEN]))
    }

    #[inline]
    pub(super) fn byte(&mut self, expected: &'static str) -> Result<u8, Fault> {
        let [byte] = self.array(expected)?;
        Ok(byte)
    }

    /// Takes a length, or the encoding in its place.
    #[inline]
    pub(super) fn length(&mut self, expected: &'static str) -> Result<Length, Fault> {
        let first = self.byte(expected)?;
        Ok(match (first >> 6, first & 0x3f) {
            (0, low) => Length::Plain(low.into()),
            (1, high) => Length::Plain(u16::from_be_bytes([high, self.byte(expected)?]).into()),
            (2, 0) => Length::Plain(u32::from_be_bytes(self.array(expected)?).into()),
            (2, 1) => Length::Plain(u64::from_be_bytes(self.array(expected)?)),
            (2, _) => return Err(self.damaged(1, expected, Found::Byte(first))),
            (_, encoding) => Length::Encoded(encoding),
        })
    }

    /// Takes a length, which must not be an encoding.
    pub(super) fn number(&mut self, expected: &'static str) -> Result<u64, Fault> {
        match self.length(expected)? {
            Length::Plain(number) => Ok(number),
            Length::Encoded(encoding) => {
                Err(self.damaged(1, expected, Found::Byte(0xc0 | encoding)))
            }
        }
    }

    /// Returns the fault that other data was found `back` bytes before the next byte.
    pub(super) fn damaged(&self, back: u64, expected: &'static str, found: Found) -> Fault {
        Fault::Damaged { offset: self.offset().saturating_sub(back), expected, found }
    }

    /// Reads until at least `count` bytes can be taken.
    #[cold]
    fn fill(&mut self, count: usize, expected: &'static str) -> Result<(), Fault> {
        self.sum();
        self.buffer.copy_within(self.at..self.end, 0);
        self.base = self.base.wrapping_add(self.at as u64);
        self.end -= self.at;
        (self.at, self.summed) = (0, 0);
        while self.end < count {
            match self.source.read(self.buffer.get_mut(self.end..).unwrap_or_default()) {
                Ok(0) => {
                    let offset = self.base.wrapping_add(self.end as u64);
                    return Err(Fault::Damaged { offset, expected, found: Found::End });
                }
                Ok(read) => self.end += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    let offset = self.base.wrapping_add(self.end as u64);
                    return Err(Fault::Unreadable { offset, error });
                }
            }
        }
        Ok(())
    }
}
