//! Writes a file in one pass.

use super::block::{Block, CollectionEntry, LongEntry, Piece};
use super::collection::{
    CollectionForm, CollectionHead, Element, ElementSink, ElementText, walk_elements,
};
use super::version::Version;
use super::{note, opcode};
use crate::checksum::Checksum;
use crate::encoding::{MIN_COMPRESSED_BYTES, MIN_SAVED_BYTES};
use crate::encoding::{encode_integer, encode_spelled_integer};
use crate::length::{self, Length};
use crate::lzf::Compressor;
use nagi_store::{Rope, StringValue, Value};
use std::io::{self, Write};
use std::ops::ControlFlow;

/// The options of a writer.
#[derive(Clone, Copy, Debug)]
pub struct WriterOptions {
    /// The version of the format.
    pub version: Version,
    /// Whether strings of more than 20 bytes are compressed (`rdbcompression`).
    pub compress: bool,
    /// Whether a checksum is written at the end (`rdbchecksum`).
    pub checksum: bool,
}

/// The metadata of a file.
#[derive(Clone, Copy, Debug)]
pub struct Preamble<'a> {
    /// The version of Redis that the server is compatible with.
    pub redis_version: &'a str,
    /// When it was written, in seconds since 1970.
    pub created_at_s: u64,
    /// The memory that the server had allocated, in bytes.
    pub used_memory_bytes: u64,
    /// Whether commands follow in a separate file.
    pub is_aof_base: bool,
}

/// Writes a file.
pub struct Writer<W> {
    sink: W,
    /// Bytes that have not been passed to the sink yet.
    buffer: Vec<u8>,
    /// The number of bytes passed to the sink.
    written: u64,
    checksum: Option<Checksum>,
    options: WriterOptions,
    compressor: Compressor,
    packed: Vec<u8>,
    keys: u64,
}

/// The minimum number of bytes that are passed to the sink at once.
const BUFFER_BYTES: usize = 128 * 1024;
/// How much of a compressed long string is buffered; a longer one is compressed twice.
const PACKED_BYTES: usize = 4 * 1024 * 1024;
/// If a long string has not become shorter after this many bytes, it is not compressed.
const TRIED_BYTES: usize = 1024 * 1024;

impl<W: Write> Writer<W> {
    /// Begins with the file's metadata.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn new(sink: W, options: WriterOptions, preamble: &Preamble<'_>) -> io::Result<Self> {
        let mut writer = Writer {
            sink,
            buffer: Vec::with_capacity(2 * BUFFER_BYTES),
            written: 0,
            checksum: options.checksum.then(Checksum::default),
            options,
            compressor: Compressor::default(),
            packed: Vec::new(),
            keys: 0,
        };
        writer.buffer.extend_from_slice(options.version.magic().as_bytes());
        writer.aux(b"redis-ver", preamble.redis_version.as_bytes())?;
        writer.aux_number(b"redis-bits", usize::BITS.into())?;
        writer.aux_number(b"ctime", preamble.created_at_s)?;
        writer.aux_number(b"used-mem", preamble.used_memory_bytes)?;
        writer.aux_number(b"aof-base", preamble.is_aof_base.into())?;
        Ok(writer)
    }

    /// Writes an auxiliary field: a name and its value. Readers skip unknown names.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn aux(&mut self, name: &[u8], value: &[u8]) -> io::Result<()> {
        self.buffer.push(opcode::AUX);
        self.short_text(name);
        self.short_text(value);
        self.flush_full()
    }

    /// Writes an auxiliary field whose value is a number.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn aux_number(&mut self, name: &[u8], value: u64) -> io::Result<()> {
        self.buffer.push(opcode::AUX);
        self.short_text(name);
        let is_short = i64::try_from(value).is_ok_and(|it| encode_integer(&mut self.buffer, it));
        if !is_short {
            self.short_text(itoa::Buffer::new().format(value).as_bytes());
        }
        self.flush_full()
    }

    /// Writes a function library's code.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn library(&mut self, code: &[u8]) -> io::Result<()> {
        self.buffer.push(opcode::FUNCTION);
        self.short_text(code);
        self.flush_full()
    }

    /// Selects the database of the following keys.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn database(&mut self, number: u64) -> io::Result<()> {
        self.buffer.push(opcode::DATABASE);
        length::write(&mut self.buffer, number);
        self.flush_full()
    }

    /// Writes the number of keys of the database, and of those with an expiry, for which readers
    /// reserve memory.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn sizes(&mut self, keys: u64, expiring: u64) -> io::Result<()> {
        self.buffer.push(opcode::SIZES);
        length::write(&mut self.buffer, keys);
        length::write(&mut self.buffer, expiring);
        self.flush_full()
    }

    /// Writes the entries of a block.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn block(&mut self, block: &Block) -> io::Result<()> {
        if !block.notes.bytes.is_empty() {
            self.aux(note::FIELD, &block.notes.bytes)?;
        }
        let mut at = 0;
        let strings = if self.options.compress { &block.strings[..] } else { &[] };
        for piece in strings {
            if self.pack(&block.bytes, piece) {
                let before = block.bytes.get(at..piece.length_at).unwrap_or_default();
                self.buffer.extend_from_slice(before);
                self.packed_header(self.packed.len(), piece.end - piece.at);
                self.buffer.extend_from_slice(&self.packed);
                at = piece.end;
                self.flush_full()?;
            }
        }
        self.buffer.extend_from_slice(block.bytes.get(at..).unwrap_or_default());
        self.keys += block.keys;
        self.flush_full()
    }

    /// Writes an entry whose value is large, a chunk or an element at a time.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn long(&mut self, entry: &LongEntry) -> io::Result<()> {
        self.block(&entry.head)?;
        let value = entry.value.read();
        if let Value::String(StringValue::Rope(rope)) = value {
            return self.rope(rope);
        }
        let version = self.options.version;
        let Some(head) = CollectionHead::of(&value, version) else { return Ok(()) };
        head.encode(self)?;
        let failed = walk_elements(value, 0, |element| {
            self.element(head.form, element).map_or_else(ControlFlow::Break, ControlFlow::Continue)
        });
        failed.map_or(Ok(()), Err)
    }

    /// Writes the data before the elements of a collection, all of which must follow.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn collection(&mut self, entry: &CollectionEntry<'_>) -> io::Result<()> {
        let mut block = Block::default();
        block.push_collection(entry);
        self.block(&block)
    }

    /// Writes the next element of the last collection, which has this form; long ones a chunk at a
    /// time.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn element(&mut self, form: CollectionForm, element: &Element<'_>) -> io::Result<()> {
        form.encode(element, self)?;
        self.flush_full()
    }

    fn rope(&mut self, value: &Rope) -> io::Result<()> {
        let packed_len = if self.options.compress { self.pack_rope(value) } else { None };
        match packed_len {
            Some(len) if len == self.packed.len() => {
                self.packed_header(len, value.len());
                self.buffer.extend_from_slice(&self.packed);
                self.flush_full()
            }
            Some(len) => {
                self.packed_header(len, value.len());
                for chunk in value.chunks() {
                    self.compressor.compress(chunk, &mut self.buffer);
                    self.flush_full()?;
                }
                Ok(())
            }
            None => {
                length::write(&mut self.buffer, value.len() as u64);
                for chunk in value.chunks() {
                    self.buffer.extend_from_slice(chunk);
                    self.flush_full()?;
                }
                Ok(())
            }
        }
    }

    /// Ends the file. All bytes have been passed to the sink, but are not synced to disk.
    ///
    /// # Errors
    /// An I/O error of the sink.
    pub fn finish(mut self) -> io::Result<W> {
        self.buffer.push(opcode::END);
        self.flush()?;
        let checksum = self.checksum.take().map_or(0, Checksum::value);
        self.sink.write_all(&checksum.to_le_bytes())?;
        self.sink.flush()?;
        Ok(self.sink)
    }

    /// Returns the number of bytes written so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Returns the number of keys written so far.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Compresses a string of a block. Returns whether it becomes sufficiently shorter.
    fn pack(&mut self, bytes: &[u8], piece: &Piece) -> bool {
        let text = bytes.get(piece.at..piece.end).unwrap_or_default();
        self.packed.clear();
        self.compressor.compress_if_repetitive(text, &mut self.packed)
            && self.packed.len() + MIN_SAVED_BYTES <= text.len()
    }

    /// Compresses a long string. Returns its compressed length if it becomes sufficiently shorter.
    /// The compressed bytes are kept only if there are not too many.
    fn pack_rope(&mut self, value: &Rope) -> Option<usize> {
        self.packed.clear();
        let (mut read, mut len) = (0, 0);
        for chunk in value.chunks() {
            let before = self.packed.len();
            self.compressor.compress(chunk, &mut self.packed);
            len += self.packed.len() - before;
            read += chunk.len();
            if len > PACKED_BYTES {
                self.packed.clear();
            }
            if read >= TRIED_BYTES && len > read / 50 * 49 {
                return None;
            }
        }
        (len + MIN_SAVED_BYTES <= value.len()).then_some(len)
    }

    fn packed_header(&mut self, packed_len: usize, len: usize) {
        self.buffer.push(0xc0 | Length::LZF);
        length::write(&mut self.buffer, packed_len as u64);
        length::write(&mut self.buffer, len as u64);
    }

    /// Writes a string outside entries, compressed if it becomes sufficiently shorter.
    fn short_text(&mut self, text: &[u8]) {
        let piece = Piece { length_at: 0, at: 0, end: text.len() };
        let may_pack = self.options.compress && text.len() >= MIN_COMPRESSED_BYTES;
        if may_pack && self.pack(text, &piece) {
            self.packed_header(self.packed.len(), text.len());
            self.buffer.extend_from_slice(&self.packed);
        } else {
            length::write(&mut self.buffer, text.len() as u64);
            self.buffer.extend_from_slice(text);
        }
    }

    fn flush_full(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some(checksum) = &mut self.checksum {
            checksum.add(&self.buffer);
        }
        self.sink.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl<W: Write> ElementSink for Writer<W> {
    type Error = io::Error;

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn text(&mut self, text: &ElementText<'_>) -> io::Result<()> {
        match text {
            ElementText::Int(number) => {
                if !encode_integer(&mut self.buffer, *number) {
                    self.short_text(itoa::Buffer::new().format(*number).as_bytes());
                }
            }
            ElementText::Bytes(bytes) => {
                if !encode_spelled_integer(&mut self.buffer, bytes) {
                    self.short_text(bytes);
                }
            }
            ElementText::Long(rope) => self.rope(rope)?,
        }
        Ok(())
    }
}
