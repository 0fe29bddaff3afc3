//! A string that contains other strings, read a few bytes at a time: even if it is compressed, only
//! what is needed next is in memory.

use crate::lzf::Unpacker;
use crate::rdb::fault::{Fault, Found};
use crate::rdb::input::Input;
use crate::rdb::text::{BYTES, Form};
use std::io::Read;

/// Compressed bytes that are unpacked at once, to at most 88 times as many.
const PACKED_BYTES: u64 = 1024;

/// A string that is being taken.
pub(super) struct Blob {
    /// Where it begins.
    offset: u64,
    /// What it has to be.
    expected: &'static str,
    len: u64,
    taken: u64,
    unpacking: Option<Unpacking>,
}

struct Unpacking {
    /// Where the compressed bytes begin.
    offset: u64,
    /// How many of them are left.
    left: u64,
    unpacker: Unpacker,
    /// What was unpacked, from `at` on not taken yet.
    ready: Vec<u8>,
    at: usize,
}

impl Blob {
    /// Takes what stands before the string's bytes.
    pub(super) fn begin<R: Read>(
        input: &mut Input<R>,
        expected: &'static str,
    ) -> Result<Self, Fault> {
        let offset = input.offset();
        let form = input.form(expected)?;
        let mut blob = Blob { offset, expected, len: 0, taken: 0, unpacking: None };
        match form {
            // No form of packing has but digits.
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

    /// How long the string is.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// How many of its bytes were taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// That it is not what was expected.
    pub(super) fn damaged(&self) -> Fault {
        Fault::Damaged { offset: self.offset, expected: self.expected, found: Found::Other }
    }

    /// Takes so many bytes, a chunk at most.
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

    /// Sees that it ends here.
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
            // Always as much, so that what is wrong does not depend on how the file is read.
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
