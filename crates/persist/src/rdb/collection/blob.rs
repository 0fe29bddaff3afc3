//! A string that contains other strings, read a few bytes at a time: even if it is compressed, only
//! the bytes needed next are in memory.

use crate::lzf::Unpacker;
use crate::rdb::fault::{Fault, Found};
use crate::rdb::input::Input;
use crate::rdb::text::{BYTES, Form};
use std::io::Read;

/// The number of compressed bytes that are decompressed at once, to at most 88 times as many.
const PACKED_BYTES: u64 = 1024;

/// A string that is being read.
pub(super) struct Blob {
    /// The offset of its start.
    offset: u64,
    /// The expected data, to be named in faults.
    expected: &'static str,
    len: u64,
    taken: u64,
    unpacking: Option<Unpacking>,
}

struct Unpacking {
    /// The offset of the compressed bytes.
    offset: u64,
    /// The number of compressed bytes left.
    left: u64,
    unpacker: Unpacker,
    /// Decompressed bytes; those from `at` on have not been read yet.
    ready: Vec<u8>,
    at: usize,
}

impl Blob {
    /// Reads the header of the string.
    pub(super) fn begin<R: Read>(
        input: &mut Input<R>,
        expected: &'static str,
    ) -> Result<Self, Fault> {
        let offset = input.offset();
        let form = input.form(expected)?;
        let mut blob = Blob { offset, expected, len: 0, taken: 0, unpacking: None };
        match form {
            // No packed form consists only of digits.
            Form::Int(_) => return Err(blob.damaged()),
            Form::Plain(len) => blob.len = len,
            Form::Packed { packed, len } => {
                blob.len = len;
                blob.unpacking = Some(Unpacking {
                    offset: input.offset(),
                    left: packed,
                    unpacker: Unpacker::default(),
                    ready: Vec::new(),
                    at: 0,
                });
            }
        }
        Ok(blob)
    }

    /// Returns the length of the string.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the number of bytes read.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Returns the fault that the string is not as expected.
    pub(super) fn damaged(&self) -> Fault {
        Fault::Damaged { offset: self.offset, expected: self.expected, found: Found::Other }
    }

    /// Reads `count` bytes, at most a chunk.
    pub(super) fn take<'a, R: Read>(
        &'a mut self,
        input: &'a mut Input<R>,
        count: usize,
    ) -> Result<&'a [u8], Fault> {
        if count as u64 > self.len - self.taken {
            return Err(self.damaged());
        }
        self.taken += count as u64;
        match &mut self.unpacking {
            Some(unpacking) => unpacking.take(input, count),
            None => input.take(count, BYTES),
        }
    }

    pub(super) fn array<const LEN: usize, R: Read>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<[u8; LEN], Fault> {
        let taken = self.take(input, LEN)?.first_chunk().copied();
        Ok(taken.unwrap_or([0; LEN]))
    }

    pub(super) fn byte<R: Read>(&mut self, input: &mut Input<R>) -> Result<u8, Fault> {
        let [byte] = self.array(input)?;
        Ok(byte)
    }

    /// Checks that the string ends here.
    pub(super) fn end(&self) -> Result<(), Fault> {
        if self.taken != self.len {
            return Err(self.damaged());
        }
        match &self.unpacking {
            Some(unpacking) if !unpacking.is_complete() => Err(Fault::unpacked(unpacking.offset)),
            _ => Ok(()),
        }
    }
}

impl Unpacking {
    fn take<R: Read>(&mut self, input: &mut Input<R>, count: usize) -> Result<&[u8], Fault> {
        while self.ready.len() - self.at < count {
            let damaged = || Fault::unpacked(self.offset);
            if self.left == 0 {
                return Err(damaged());
            }
            self.ready.drain(..self.at);
            self.at = 0;
            // Always the same number of bytes, so that faults do not depend on how the file is
            // read.
            let piece = input.take(self.left.min(PACKED_BYTES) as usize, BYTES)?;
            self.left -= piece.len() as u64;
            let ready = &mut self.ready;
            self.unpacker
                .add(piece, &mut |bytes| ready.extend_from_slice(bytes))
                .map_err(|_| damaged())?;
        }
        let from = self.at;
        self.at += count;
        Ok(self.ready.get(from..self.at).unwrap_or_default())
    }

    fn is_complete(&self) -> bool {
        self.left == 0 && self.at == self.ready.len() && self.unpacker.is_complete()
    }
}
