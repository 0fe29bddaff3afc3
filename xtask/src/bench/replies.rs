//! Counts replies without storing them.

use anyhow::{Result, bail};

/// Counts complete RESP2 replies, received in pieces of any length. Fails at an error reply.
#[derive(Default)]
pub(super) struct Replies {
    pub(super) count: u64,
    /// Number of elements that remain in the arrays of the current reply.
    elements: u64,
    /// Number of bytes that remain of a bulk string and its line break.
    bulk_bytes: usize,
    line: Vec<u8>,
}

impl Replies {
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.bulk_bytes > 0 {
                let taken = self.bulk_bytes.min(bytes.len());
                bytes = bytes.get(taken..).unwrap_or_default();
                self.bulk_bytes -= taken;
                if self.bulk_bytes == 0 {
                    self.end_element();
                }
                continue;
            }
            let end = bytes.iter().position(|&byte| byte == b'\n');
            let (line, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
            self.line.extend_from_slice(line);
            bytes = rest;
            if end.is_some() {
                let line = std::mem::take(&mut self.line);
                self.take_line(std::str::from_utf8(&line)?.trim_end())?;
            }
        }
        Ok(())
    }

    fn take_line(&mut self, line: &str) -> Result<()> {
        match (line.get(..1), line.get(1..)) {
            (Some("+" | ":"), _) => self.end_element(),
            (Some("$"), Some("-1")) | (Some("*"), Some("-1" | "0")) => self.end_element(),
            (Some("$"), Some(length)) => self.bulk_bytes = length.parse::<usize>()? + 2,
            (Some("*"), Some(count)) => {
                // The array itself was one element of its enclosing array.
                self.elements = self.elements.saturating_sub(1) + count.parse::<u64>()?;
            }
            _ => bail!("a reply that was not expected: {line}"),
        }
        Ok(())
    }

    fn end_element(&mut self) {
        self.elements = self.elements.saturating_sub(1);
        if self.elements == 0 {
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Replies;

    #[test]
    fn replies_are_counted_however_they_are_cut() {
        let bytes =
            b"+OK\r\n:12\r\n$-1\r\n$4\r\n+a\r\n\r\n*2\r\n*2\r\n:1\r\n$0\r\n\r\n:2\r\n*0\r\n*-1\r\n";
        for step in 1..=bytes.len() {
            let mut replies = Replies::default();
            bytes.chunks(step).for_each(|piece| replies.take(piece).unwrap());
            assert_eq!(replies.count, 7, "in pieces of {step}");
        }
        let mut replies = Replies::default();
        assert!(replies.take(b"-ERR x\r\n").is_err());
    }
}
