//! Sends many requests at once over one connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, ensure};

use super::client::{connect, request};
use super::replies::Replies;

/// Number of requests sent before reading replies.
const BATCH: u64 = 32;

/// One connection that sends many requests at once.
pub(super) struct Sender {
    stream: TcpStream,
    requests: Vec<u8>,
    waiting: u64,
    buffer: Vec<u8>,
}

impl Sender {
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        let (requests, buffer) = (Vec::new(), vec![0; 1 << 16]);
        Ok(Self { stream: connect(address)?, requests, waiting: 0, buffer })
    }

    /// Sends a request, either now or together with later ones.
    pub(super) fn send(&mut self, words: &[Vec<u8>]) -> Result<()> {
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.send_encoded(&request(&words))
    }

    /// Like `send`, for an encoded request.
    pub(super) fn send_encoded(&mut self, request: &[u8]) -> Result<()> {
        self.requests.extend_from_slice(request);
        self.waiting += 1;
        if self.waiting == BATCH { self.flush() } else { Ok(()) }
    }

    /// Sends all pending requests and waits for their replies.
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

/// Runs one command on a separate connection. Reads its whole reply.
pub(super) fn run(address: SocketAddr, words: &[&str]) -> Result<()> {
    let mut sender = Sender::new(address)?;
    sender.send(&words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>())?;
    sender.flush()
}
