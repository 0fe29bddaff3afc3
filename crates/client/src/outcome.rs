//! What became of a request, read off its reply without keeping the reply.
//!
//! A load tool wants to know that an answer came, whether it was a hit and the text of an error;
//! the value itself is skipped as it arrives, so that replies of any size need no buffer.

use crate::Error;

/// Longest line that may open a reply, in bytes.
const LINE_LIMIT: usize = 64 * 1024;

/// Which protocol a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP2 or RESP3.
    Resp,
    /// memcached's classic text protocol.
    Memcached,
}

/// What a reply amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Neither a value nor an error.
    Done,
    /// A value.
    Hit,
    /// The absence of a value.
    Miss,
    /// The server's error, without the line break.
    Error(&'a [u8]),
}

/// Where a connection's input stands within a reply.
#[derive(Debug, Default)]
pub(crate) struct Scanner {
    /// Bytes of a value still to be skipped, its line break included.
    skip: usize,
    /// Elements still to come of the reply that has begun.
    elements: u64,
    /// Whether the reply that has begun holds a value.
    hit: bool,
}

impl Scanner {
    /// Looks at the start of `input`. Returns how many bytes are done with, and what the reply
    /// amounts to if it ends there; no byte done and no outcome means that more must arrive.
    pub(crate) fn scan<'a>(
        &mut self,
        protocol: Protocol,
        input: &'a [u8],
    ) -> Result<(usize, Option<Outcome<'a>>), Error> {
        if self.skip > 0 {
            let skipped = self.skip.min(input.len());
            self.skip -= skipped;
            let ended = self.skip == 0 && protocol == Protocol::Resp && self.elements == 0;
            return Ok((skipped, ended.then_some(Outcome::Hit)));
        }
        let Some(end) = input.iter().position(|&byte| byte == b'\n') else {
            if input.len() > LINE_LIMIT {
                return Err(Error::Protocol(excerpt(input)));
            }
            return Ok((0, None));
        };
        let line = input.get(..end).unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let outcome = match protocol {
            Protocol::Resp => self.resp_line(line)?,
            Protocol::Memcached => self.memcached_line(line)?,
        };
        Ok((end + 1, outcome))
    }

    fn resp_line<'a>(&mut self, line: &'a [u8]) -> Result<Option<Outcome<'a>>, Error> {
        let nested = self.elements > 0;
        self.elements = self.elements.saturating_sub(1);
        let outcome = match line {
            [b'$', b'-', ..] | [b'*', b'-', ..] | [b'_', ..] => Outcome::Miss,
            [b'$' | b'=' | b'!', size @ ..] => {
                self.skip = number(line, size)? + 2;
                return Ok(None);
            }
            [b'*' | b'~' | b'>' | b'%' | b'|', count @ ..] => {
                let count = number(line, count)? as u64;
                self.elements += match line.first() {
                    Some(b'%') => 2 * count,
                    // Attributes precede the reply that they describe.
                    Some(b'|') => 2 * count + 1,
                    _ => count,
                };
                Outcome::Hit
            }
            [b'-', text @ ..] => Outcome::Error(text),
            [b'+' | b':' | b',' | b'#' | b'(', ..] => Outcome::Done,
            _ => return Err(Error::Protocol(excerpt(line))),
        };
        if self.elements > 0 {
            return Ok(None);
        }
        Ok(Some(if nested { Outcome::Hit } else { outcome }))
    }

    fn memcached_line<'a>(&mut self, line: &'a [u8]) -> Result<Option<Outcome<'a>>, Error> {
        if line.starts_with(b"VALUE ") {
            let size = line.split(|&byte| byte == b' ').nth(3).unwrap_or_default();
            self.skip = number(line, size)? + 2;
            self.hit = true;
            return Ok(None);
        }
        if line.starts_with(b"STAT ") {
            return Ok(None);
        }
        let failed = line == b"ERROR"
            || line.starts_with(b"SERVER_ERROR ")
            || line.starts_with(b"CLIENT_ERROR ");
        let hit = std::mem::take(&mut self.hit);
        Ok(Some(match line {
            text if failed => Outcome::Error(text),
            b"END" if hit => Outcome::Hit,
            b"END" | b"NOT_FOUND" => Outcome::Miss,
            _ => Outcome::Done,
        }))
    }
}

fn number(line: &[u8], digits: &[u8]) -> Result<usize, Error> {
    if digits.is_empty() {
        return Err(Error::Protocol(excerpt(line)));
    }
    digits.iter().try_fold(0_usize, |value, &digit| {
        digit
            .is_ascii_digit()
            .then(|| value.checked_mul(10)?.checked_add(usize::from(digit - b'0')))
            .flatten()
            .filter(|&value| value < usize::MAX / 4)
            .ok_or_else(|| Error::Protocol(excerpt(line)))
    })
}

fn excerpt(bytes: &[u8]) -> String {
    bytes.get(..64).unwrap_or(bytes).escape_ascii().to_string()
}
