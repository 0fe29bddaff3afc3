//! A TCP connection with which a test controls every byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::str::FromStr;

use crate::reply::Reply;
use crate::wait::PATIENCE;

/// A connection to a server. Any error on it fails the test.
pub struct Connection {
    stream: TcpStream,
    /// Received bytes that have not been returned yet.
    received: Vec<u8>,
}

impl Connection {
    /// Connects to `address`.
    ///
    /// # Panics
    /// No server listens at the address, or the server accepts no more connections.
    #[must_use]
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)
            .unwrap_or_else(|error| panic!("cannot connect to {address}: {error}"));
        stream.set_read_timeout(Some(PATIENCE)).expect("sets a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("sets a timeout");
        stream.set_nodelay(true).expect("sets nodelay");
        Self { stream, received: Vec::new() }
    }

    /// Sends bytes unchanged.
    ///
    /// # Panics
    /// The server has closed the connection, or does not read for a long time.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).expect("the server reads what is sent");
    }

    /// Sends bytes that the server may refuse by closing the connection.
    ///
    /// # Errors
    /// The server has closed the connection, or does not read for a long time.
    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Shuts down the sending direction. Replies can still be received.
    ///
    /// # Panics
    /// The connection is broken.
    pub fn finish_sending(&self) {
        self.stream.shutdown(Shutdown::Write).expect("shuts the sending side down");
    }

    /// Receives exactly the bytes `expected`. Fails at the first byte that differs.
    ///
    /// # Panics
    /// Other bytes are received, or the connection ends.
    pub fn expect(&mut self, expected: impl AsRef<[u8]>) {
        self.expect_for("the test", expected.as_ref());
    }

    fn expect_for(&mut self, request: &str, expected: &[u8]) {
        while self.received.len() < expected.len() && expected.starts_with(&self.received) {
            if let Err(problem) = self.receive() {
                self.fail(request, expected, &problem);
            }
        }
        if !self.received.starts_with(expected) {
            self.fail(request, expected, "the reply differs");
        }
        self.received.drain(..expected.len());
    }

    fn fail(&self, request: &str, expected: &[u8], problem: &str) -> ! {
        panic!(
            "{problem}\n request: {request}\nexpected: {}\nreceived: {}",
            expected.escape_ascii(),
            self.received.escape_ascii()
        );
    }

    /// Sends bytes, and receives exactly `expected`.
    ///
    /// # Panics
    /// Other bytes are received.
    pub fn check_raw(&mut self, request: impl AsRef<[u8]>, expected: impl AsRef<[u8]>) {
        let request = request.as_ref();
        self.send(request);
        self.expect_for(&request.escape_ascii().to_string(), expected.as_ref());
    }

    /// Sends a command, split by [`words`], and receives exactly `expected`.
    ///
    /// # Panics
    /// Other bytes are received.
    pub fn check(&mut self, command: &str, expected: impl AsRef<[u8]>) {
        self.send(encode_command(&words(command)));
        self.expect_for(command, expected.as_ref());
    }

    /// Sends a command, split by [`words`], and returns the reply.
    ///
    /// # Panics
    /// The answer is not a RESP reply.
    pub fn run(&mut self, command: &str) -> Reply {
        self.run_words(&words(command))
    }

    /// Sends a command whose words may be any bytes, and returns the reply.
    ///
    /// # Panics
    /// The answer is not a RESP reply.
    pub fn run_words(&mut self, command: &[impl AsRef<[u8]>]) -> Reply {
        self.send(encode_command(command));
        self.reply()
    }

    /// Returns the value of a field of INFO.
    ///
    /// # Panics
    /// INFO has no such field, or it is of another type.
    pub fn info<T: FromStr>(&mut self, name: &str) -> T {
        let text = self.run("INFO").text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let value = value.unwrap_or_else(|| panic!("INFO has no {name}: {text}"));
        value.parse().unwrap_or_else(|_| panic!("{name} is {value}"))
    }

    /// Receives one RESP reply.
    ///
    /// # Panics
    /// The received bytes are not a reply.
    pub fn reply(&mut self) -> Reply {
        self.reply_and_bytes().0
    }

    /// Receives one RESP reply. Returns it together with its bytes.
    ///
    /// # Panics
    /// The received bytes are not a reply.
    pub fn reply_and_bytes(&mut self) -> (Reply, Vec<u8>) {
        loop {
            if let Some((reply, length)) = Reply::parse(&self.received) {
                return (reply, self.received.drain(..length).collect());
            }
            self.receive().expect("receives a whole reply");
        }
    }

    /// Receives a line. Returns it without its `\r\n`.
    ///
    /// # Panics
    /// The connection ends before the line does.
    pub fn line(&mut self) -> String {
        loop {
            if let Some(length) = self.received.windows(2).position(|pair| pair == b"\r\n") {
                let line = String::from_utf8_lossy(&self.received[..length]).into_owned();
                self.received.drain(..length + 2);
                return line;
            }
            self.receive().expect("receives a whole line");
        }
    }

    /// Receives `count` bytes.
    ///
    /// # Panics
    /// The connection ends earlier.
    pub fn take(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            self.receive().expect("receives what was announced");
        }
        self.received.drain(..count).collect()
    }

    /// Receives everything until the server closes the connection.
    ///
    /// # Panics
    /// The connection stays open.
    pub fn rest(&mut self) -> Vec<u8> {
        loop {
            match self.receive() {
                Ok(()) => {}
                Err(problem) if problem == CLOSED => return std::mem::take(&mut self.received),
                Err(problem) => panic!("the server should close the connection: {problem}"),
            }
        }
    }

    fn receive(&mut self) -> Result<(), String> {
        let mut buffer = [0; 16 * 1024];
        // If the server is in this process, a signal or its io_uring may interrupt the call.
        let read = loop {
            match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read {
            Ok(0) => Err(CLOSED.to_owned()),
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            // The kernel reports this if the server closes the connection with unread data.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Err(CLOSED.to_owned()),
            Err(error) => Err(format!("nothing received: {error}")),
        }
    }
}

const CLOSED: &str = "the server closed the connection";

/// Encodes a command as a RESP array of bulk strings.
#[must_use]
pub fn encode_command(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Splits a command at blanks. A word in double quotes may be empty or contain blanks.
#[must_use]
pub fn words(command: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = command.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').expect("a quoted word ends"),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word);
        rest = after.trim_start();
    }
    words
}
