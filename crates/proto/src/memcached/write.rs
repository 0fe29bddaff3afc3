//! Encodes replies of the classic text protocol.

use crate::{Chunks, Output};

/// Appends replies to an [`Output`], unless the client requested no reply.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Output,
    quiet: bool,
}

impl<'a> Writer<'a> {
    /// Creates a writer that appends to `out`, and drops every line if `quiet`.
    pub fn new(out: &'a mut Output, quiet: bool) -> Self {
        Writer { out, quiet }
    }

    /// Whether every line is dropped.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns the buffer itself, for replies that are written even if the client requested none.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out.buffer()
    }

    /// Returns the output, for protocols without lines.
    #[inline]
    pub fn output(&mut self) -> &mut Output {
        self.out
    }

    /// Returns the number of bytes that wait to be sent.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.out.len()
    }

    /// Writes a line, such as `STORED`, unless the client requested no reply.
    pub fn line(&mut self, text: &str) {
        if !self.quiet {
            self.out.push(text.as_bytes());
            self.out.push(b"\r\n");
        }
    }

    /// Writes the result of `incr` or `decr`.
    pub fn number(&mut self, value: u64) {
        self.line(itoa::Buffer::new().format(value));
    }

    /// Writes `VALUE key flags bytes [cas]` and the line break before the data.
    pub fn value_header(&mut self, key: &[u8], flags: u32, bytes: usize, cas: Option<u64>) {
        let mut number = itoa::Buffer::new();
        let buffer = self.out.buffer();
        buffer.extend_from_slice(b"VALUE ");
        buffer.extend_from_slice(key);
        buffer.push(b' ');
        buffer.extend_from_slice(number.format(flags).as_bytes());
        buffer.push(b' ');
        buffer.extend_from_slice(number.format(bytes).as_bytes());
        if let Some(cas) = cas {
            buffer.push(b' ');
            buffer.extend_from_slice(number.format(cas).as_bytes());
        }
        buffer.extend_from_slice(b"\r\n");
    }

    /// Writes the whole data of a value.
    pub fn data(&mut self, bytes: &[u8]) {
        self.out.push(bytes);
        self.out.push(b"\r\n");
    }

    /// Writes the data of a value of `len` bytes in chunks, which are sent without a copy.
    pub fn data_chunks(&mut self, chunks: Chunks, len: usize) {
        self.out.splice(chunks, 0..len);
        self.out.push(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_lines() {
        let mut out = Output::default();
        let mut writer = Writer::new(&mut out, false);
        writer.value_header(b"a", 7, 3, None);
        writer.data(b"abc");
        writer.value_header(b"b", u32::MAX, 0, Some(u64::MAX));
        writer.data(b"");
        writer.line("END");
        writer.number(10);
        Writer::new(&mut out, true).line("STORED");
        let expected =
            "VALUE a 7 3\r\nabc\r\nVALUE b 4294967295 0 18446744073709551615\r\n\r\nEND\r\n10\r\n";
        assert_eq!(out.as_contiguous(), Some(expected.as_bytes()));
    }
}
