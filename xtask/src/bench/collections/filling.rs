//! Putting elements into collections, and running commands one after the other.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, bail, ensure};

use crate::bench::client::{connect, request};

/// Elements of one request.
const ELEMENTS: u64 = 100;
/// Requests that are sent before replies are read.
const BATCH: u64 = 32;

/// A command that adds elements, and what each element consists of.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Hash,
    Set,
    SortedSet,
    ListByLpush,
    ListByRpush,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::Set, Self::Hash, Self::SortedSet, Self::ListByLpush, Self::ListByRpush];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash, values of 16 B",
            Self::Set => "set",
            Self::SortedSet => "sorted set",
            Self::ListByLpush => "list, by LPUSH",
            Self::ListByRpush => "list, by RPUSH",
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Hash => "HSET",
            Self::Set => "SADD",
            Self::SortedSet => "ZADD",
            Self::ListByLpush => "LPUSH",
            Self::ListByRpush => "RPUSH",
        }
    }

    /// Adds the words of element `number`, of 16 bytes.
    fn push_words(self, number: u64, words: &mut Vec<Vec<u8>>) {
        let element = format!("member:{number:09}").into_bytes();
        match self {
            Self::Hash => words.extend([element, format!("value::{number:09}").into_bytes()]),
            // Scores in another order than members, as of a leaderboard.
            Self::SortedSet => {
                let score = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                words.extend([score.to_string().into_bytes(), element]);
            }
            Self::Set | Self::ListByLpush | Self::ListByRpush => words.push(element),
        }
    }
}

/// One connection that sends many requests at once.
pub(super) struct Filler {
    stream: TcpStream,
    requests: Vec<u8>,
    waiting: u64,
    buffer: Vec<u8>,
}

impl Filler {
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        let (requests, buffer) = (Vec::new(), vec![0; 1 << 16]);
        Ok(Self { stream: connect(address)?, requests, waiting: 0, buffer })
    }

    /// Adds elements `from..to` to the collection at `key`.
    pub(super) fn add(&mut self, kind: Kind, key: &str, from: u64, to: u64) -> Result<()> {
        let mut first = from;
        while first < to {
            let end = to.min(first + ELEMENTS);
            let mut words = vec![kind.command().as_bytes().to_vec(), key.as_bytes().to_vec()];
            (first..end).for_each(|number| kind.push_words(number, &mut words));
            self.send(&words)?;
            first = end;
        }
        Ok(())
    }

    /// Sends a request, now or with those that follow.
    pub(super) fn send(&mut self, words: &[Vec<u8>]) -> Result<()> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.requests.extend(request(&words));
        self.waiting += 1;
        if self.waiting == BATCH { self.flush() } else { Ok(()) }
    }

    /// Sends what is left and waits until all of it is answered.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.requests)?;
        self.requests.clear();
        let mut replies = Replies::default();
        while replies.count < self.waiting {
            let count = self.stream.read(&mut self.buffer)?;
            ensure!(count > 0, "the server has closed the connection");
            replies.take(self.buffer.get(..count).unwrap_or_default())?;
        }
        self.waiting = 0;
        Ok(())
    }
}

/// Runs one command on a connection of its own, and reads its reply to the end.
pub(super) fn run(address: SocketAddr, words: &[&str]) -> Result<()> {
    let mut filler = Filler::new(address)?;
    filler.send(&words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())?;
    filler.flush()
}

/// Counts whole replies in RESP2, of which bytes come in any pieces. An error is refused.
#[derive(Default)]
pub(super) struct Replies {
    pub(super) count: u64,
    /// Elements that are still to come of the arrays of the present reply.
    elements: u64,
    /// Bytes of a bulk string and its line break that are still to come.
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
                // The array itself was one of the elements that its own array waits for.
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
