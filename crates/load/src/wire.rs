//! A blocking connection, for disturbances and other tools.
//!
//! Unlike [`nagi_client::Client`], this connection does not keep long replies in memory (KEYS of
//! millions of keys, values of 500 MB), also speaks memcached's text protocol, and ends soon after
//! Ctrl-C.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nagi_client::{Protocol, encode_command};
use nagi_proto::split_line;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SendFlags, send};

use crate::clock::{SECOND, now_ns};
use crate::interrupt::{Interrupt, POLL_INTERVAL};
use crate::target::{Password, Target};

/// How long an answer may take: some disturbances stop a server for many seconds.
pub(crate) const ANSWER_TIMEOUT_NS: u64 = 300 * SECOND;

/// Strings up to this length in bytes are kept, unless a caller asks for more; of longer strings,
/// only the length is kept.
const KEPT_BYTES: usize = 1 << 20;

/// Number of elements of an array that are kept: as many as a cluster has slots.
const KEPT_ELEMENTS: usize = 16_384;

/// Maximum nesting of arrays.
const DEPTH: usize = 8;

/// Maximum length of a line.
const LINE_BYTES: usize = 1 << 16;

/// An answer. Long strings and arrays are only kept in part.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A line that begins with `+`, or a line of memcached's protocol.
    Line(String),
    /// `-`
    Error(String),
    /// `:`
    Integer(i64),
    /// A string and its length in bytes; the string is empty if it was too long to keep.
    Text(Vec<u8>, u64),
    /// `$-1` or `*-1`.
    Null,
    /// The first elements.
    Array(Vec<Answer>),
}

impl Answer {
    /// The text of a line or string.
    pub fn text(&self) -> String {
        match self {
            Answer::Line(text) | Answer::Error(text) => text.clone(),
            Answer::Text(bytes, _) => String::from_utf8_lossy(bytes).into_owned(),
            Answer::Integer(number) => number.to_string(),
            Answer::Null | Answer::Array(_) => String::new(),
        }
    }

    /// # Errors
    /// The answer is an error; `what` is prepended to its text.
    pub fn or_error(self, what: &str) -> Result<Self, String> {
        match self {
            Answer::Error(text) => Err(format!("{what}: {text}")),
            answer => Ok(answer),
        }
    }
}

/// Whether an answer says that the server requires a login.
#[must_use]
pub fn is_login_required(answer: &str) -> bool {
    answer.starts_with("NOAUTH") || answer.starts_with("CLIENT_ERROR unauthenticated")
}

/// A blocking connection.
#[derive(Debug)]
pub struct Wire {
    name: String,
    /// The protocol of the server.
    pub protocol: Protocol,
    socket: OwnedFd,
    input: Vec<u8>,
    at: usize,
    interrupt: Interrupt,
    answer_timeout_ns: u64,
    /// Whether the limit is for each part of an answer.
    limits_pauses: bool,
    /// When the answer that is being received is late.
    due_ns: u64,
    /// When any answer is late.
    last_ns: u64,
    kept_bytes: usize,
    is_logged_in: bool,
}

impl Wire {
    /// Connects, and sends the password if there is one.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the password.
    pub fn open(target: &Target, interrupt: &Interrupt) -> Result<Self, String> {
        Wire::open_within(target, interrupt, ANSWER_TIMEOUT_NS)
    }

    /// Like [`Wire::open`], with a limit in nanoseconds for each answer, including the answer to
    /// the login.
    ///
    /// # Errors
    /// As for [`Wire::open`], or there is no answer in time.
    pub fn open_within(
        target: &Target,
        interrupt: &Interrupt,
        answer_timeout_ns: u64,
    ) -> Result<Self, String> {
        let socket = target.address.connect().map_err(|error| error.to_string())?;
        Wire::over(socket, target, interrupt, answer_timeout_ns)
    }

    /// Takes over a connected socket, and sends the password if there is one.
    ///
    /// # Errors
    /// The server refuses the password, or there is no answer in time.
    pub fn over(
        socket: OwnedFd,
        target: &Target,
        interrupt: &Interrupt,
        answer_timeout_ns: u64,
    ) -> Result<Self, String> {
        for which in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&socket, which, Some(POLL_INTERVAL))
                .map_err(|errno| errno.to_string())?;
        }
        let mut wire = Wire {
            name: target.name.clone(),
            protocol: target.protocol,
            socket,
            input: Vec::new(),
            at: 0,
            interrupt: interrupt.clone(),
            answer_timeout_ns,
            limits_pauses: false,
            due_ns: u64::MAX,
            last_ns: u64::MAX,
            kept_bytes: KEPT_BYTES,
            is_logged_in: false,
        };
        if let Some(password) = &target.password {
            wire.log_in(password)?;
        }
        Ok(wire)
    }

    fn log_in(&mut self, password: &Password) -> Result<(), String> {
        // memcached's login is a `set`: a server that requires no login would store it as an item.
        if self.protocol == Protocol::Memcached
            && !is_login_required(&self.lines("version")?.concat())
        {
            return Ok(());
        }
        let mut request = Vec::new();
        password.encode(self.protocol, &mut request).map_err(|why| self.broken(&why))?;
        self.send(&request)?;
        let refused = match self.protocol {
            Protocol::Resp => self.answer()?.or_error("AUTH").err(),
            Protocol::Memcached => Some(self.line()?)
                .filter(|line| line != "STORED")
                .map(|line| format!("the login: {line}")),
        };
        self.is_logged_in = refused.is_none();
        refused.map_or(Ok(()), |text| Err(self.broken(&text)))
    }

    /// Whether the server has required and accepted the password.
    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        self.is_logged_in
    }

    /// Returns the socket. Every answer must have been read.
    #[must_use]
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Keeps strings up to this length in bytes.
    pub fn keep(&mut self, bytes: usize) {
        self.kept_bytes = bytes;
    }

    /// Sets the limit for each further answer, in nanoseconds.
    pub fn set_answer_timeout(&mut self, nanoseconds: u64) {
        self.answer_timeout_ns = nanoseconds;
    }

    /// Limits the pauses within each answer instead of the whole answer, for answers that are long
    /// on purpose.
    pub(crate) fn limit_pauses(&mut self) {
        self.limits_pauses = true;
    }

    /// Sets the time until which all further answers must have arrived.
    pub fn end_by(&mut self, last_ns: u64) {
        self.last_ns = last_ns;
    }

    /// Starts to wait for an answer.
    fn expect(&mut self) {
        self.due_ns = now_ns().saturating_add(self.answer_timeout_ns).min(self.last_ns);
    }

    /// Sends a RESP command and waits for its answer. An error reply is returned as
    /// `Answer::Error`.
    ///
    /// # Errors
    /// The connection is broken, or the user has interrupted the run.
    pub fn command(&mut self, words: &[&[u8]]) -> Result<Answer, String> {
        let mut request = Vec::new();
        encode_command(words, &mut request);
        self.send(&request)?;
        self.answer()
    }

    /// Sends a RESP command whose words are separated by blanks. An error reply is returned as
    /// `Err`.
    ///
    /// # Errors
    /// As for [`Wire::command`], or the server's error reply.
    pub fn run(&mut self, command: &str) -> Result<Answer, String> {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let answer = self.command(&words)?;
        answer.or_error(words.first().map_or("", |_| command.split(' ').next().unwrap_or("")))
    }

    /// Sends a line of memcached's protocol. Returns the lines of the answer, including the final
    /// line.
    ///
    /// # Errors
    /// The connection is broken, or the user has interrupted the run.
    pub fn lines(&mut self, request: &str) -> Result<Vec<String>, String> {
        self.send(format!("{request}\r\n").as_bytes())?;
        self.expect();
        let mut lines = Vec::new();
        loop {
            let line = self.next_line()?;
            let ends = !line.starts_with("STAT ");
            lines.push(line);
            if ends {
                return Ok(lines);
            }
        }
    }

    /// Sends `bytes`, which may be part of a request.
    ///
    /// # Errors
    /// The connection is broken, or the user has interrupted the run.
    pub fn send(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        let give_up_ns = now_ns().saturating_add(self.answer_timeout_ns).min(self.last_ns);
        while !bytes.is_empty() {
            self.interrupt.check()?;
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => bytes = bytes.get(sent..).unwrap_or_default(),
                Err(Errno::AGAIN | Errno::INTR) if now_ns() < give_up_ns => {}
                Err(errno) => return Err(self.broken(&errno.to_string())),
            }
        }
        Ok(())
    }

    /// Receives the next answer in RESP.
    ///
    /// # Errors
    /// The connection is broken, or the user has interrupted the run.
    pub fn answer(&mut self) -> Result<Answer, String> {
        self.expect();
        self.nested(DEPTH)
    }

    fn nested(&mut self, depth: usize) -> Result<Answer, String> {
        let line = self.next_line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| self.broken("an empty line"))?;
        let number = || rest.parse::<i64>().map_err(|_| self.broken(&format!("not RESP: {line}")));
        Ok(match kind {
            "+" => Answer::Line(rest.to_owned()),
            "-" => Answer::Error(rest.to_owned()),
            ":" => Answer::Integer(number()?),
            "$" => match u64::try_from(number()?) {
                Ok(len) => Answer::Text(self.next_content(len)?, len),
                Err(_) => Answer::Null,
            },
            "*" => match u64::try_from(number()?) {
                Err(_) => Answer::Null,
                Ok(_) if depth == 0 => return Err(self.broken("an answer nested too deeply")),
                Ok(count) => {
                    let mut kept = Vec::new();
                    for _ in 0..count {
                        let element = self.nested(depth - 1)?;
                        if kept.len() < KEPT_ELEMENTS {
                            kept.push(element);
                        }
                    }
                    Answer::Array(kept)
                }
            },
            _ if line == "ERROR" => {
                return Err(
                    self.broken("not RESP but memcached, whose URL is memcached://HOST:PORT")
                );
            }
            _ => return Err(self.broken(&format!("not RESP: {line}"))),
        })
    }

    /// Receives a string of `len` bytes and the line break after it. Returns an empty string if it
    /// is too long to keep.
    ///
    /// # Errors
    /// The connection is broken, or the user has interrupted the run.
    pub fn content(&mut self, len: u64) -> Result<Vec<u8>, String> {
        self.expect();
        self.next_content(len)
    }

    fn next_content(&mut self, len: u64) -> Result<Vec<u8>, String> {
        let mut kept = self.next_body(len.saturating_add(2))?;
        kept.truncate(kept.len().saturating_sub(2));
        Ok(kept)
    }

    /// Receives `len` bytes. Returns an empty vector if they are too many to keep.
    ///
    /// # Errors
    /// The connection is broken, or the user has interrupted the run.
    pub fn body(&mut self, len: u64) -> Result<Vec<u8>, String> {
        self.expect();
        self.next_body(len)
    }

    fn next_body(&mut self, len: u64) -> Result<Vec<u8>, String> {
        let mut kept = Vec::new();
        let keep = len <= self.kept_bytes as u64 + 2;
        let mut left = len;
        while left > 0 {
            if self.at == self.input.len() {
                self.receive()?;
            }
            let here = self.input.get(self.at..).unwrap_or_default();
            let taken = here.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if keep {
                kept.extend_from_slice(here.get(..taken).unwrap_or_default());
            }
            self.at += taken;
            left -= taken as u64;
        }
        Ok(kept)
    }

    /// Receives the next line, and removes its end: CR LF, or only LF as in the output of
    /// memcached's `watch`.
    ///
    /// # Errors
    /// The connection is broken, or the user has interrupted the run.
    pub fn line(&mut self) -> Result<String, String> {
        self.expect();
        self.next_line()
    }

    /// Receives the next line, however long it is, and returns at most its first `most` bytes.
    ///
    /// # Errors
    /// As for [`Wire::line`].
    pub fn line_start(&mut self, most: usize) -> Result<String, String> {
        self.expect();
        let mut start = None;
        loop {
            let here = self.input.get(self.at..).unwrap_or_default();
            let first = |line: &[u8]| line.get(..most).unwrap_or(line).to_vec();
            if let Some((line, rest)) = split_line(here) {
                let line = start.unwrap_or_else(|| first(line));
                self.at = self.input.len() - rest.len();
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            if here.len() > LINE_BYTES {
                start.get_or_insert_with(|| first(here));
                self.at = self.input.len();
            }
            self.receive()?;
        }
    }

    fn next_line(&mut self) -> Result<String, String> {
        loop {
            let here = self.input.get(self.at..).unwrap_or_default();
            if let Some((line, rest)) = split_line(here) {
                let line = String::from_utf8_lossy(line).into_owned();
                self.at = self.input.len() - rest.len();
                return Ok(line);
            }
            if here.len() > LINE_BYTES {
                return Err(self.broken("a line that does not end"));
            }
            self.receive()?;
        }
    }

    fn receive(&mut self) -> Result<(), String> {
        self.input.drain(..self.at);
        self.at = 0;
        if self.limits_pauses {
            self.expect();
        }
        let mut buffer = [0; 64 * 1024];
        loop {
            self.interrupt.check()?;
            // A server that sends a byte now and then is late too.
            if now_ns() >= self.due_ns {
                return Err(self.broken("no answer in time"));
            }
            let (_, bytes) = match rustix::net::recv(
                &self.socket,
                &mut buffer[..],
                rustix::net::RecvFlags::empty(),
            ) {
                Ok(received) => received,
                Err(Errno::AGAIN | Errno::INTR) => continue,
                Err(errno) => return Err(self.broken(&errno.to_string())),
            };
            if bytes == 0 {
                return Err(self.broken("the server closed the connection"));
            }
            self.input.extend_from_slice(buffer.get(..bytes).unwrap_or_default());
            return Ok(());
        }
    }

    fn broken(&self, why: &str) -> String {
        format!("{}: {why}", self.name)
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// A connection to a server whose answer never ends.
    fn endless(answer_timeout_ns: u64) -> Wire {
        let (mut server, client) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut sent = server.write_all(format!("${}\r\n", i64::MAX).as_bytes());
            while sent.is_ok() {
                sent = server.write_all(&[b'x'; 4096]);
            }
        });
        let target = Target::parse("redis://127.0.0.1:1", None).unwrap();
        Wire::over(client.into(), &target, &Interrupt::default(), answer_timeout_ns).unwrap()
    }

    #[test]
    fn an_answer_that_arrives_bit_by_bit_is_late_too() {
        let late = "redis://127.0.0.1:1: no answer in time";
        let mut wire = endless(SECOND / 20);
        assert_eq!(wire.command(&[b"INFO"]).unwrap_err(), late);
        let mut wire = endless(ANSWER_TIMEOUT_NS);
        wire.limit_pauses();
        wire.end_by(now_ns() + SECOND / 20);
        assert_eq!(wire.command(&[b"GET", b"long"]).unwrap_err(), late);
    }

    #[test]
    fn the_rest_of_a_long_line_is_dropped() {
        let (mut server, client) = UnixStream::pair().unwrap();
        let text = [b"a".repeat(3 * LINE_BYTES), b"\r\nbc\r\nd\n".to_vec()].concat();
        let sent = std::thread::spawn(move || server.write_all(&text));
        let target = Target::parse("redis://127.0.0.1:1", None).unwrap();
        let interrupt = Interrupt::default();
        let mut wire = Wire::over(client.into(), &target, &interrupt, ANSWER_TIMEOUT_NS).unwrap();
        assert_eq!(wire.line_start(3), Ok("aaa".to_owned()));
        assert_eq!(wire.line_start(3), Ok("bc".to_owned()));
        assert_eq!(wire.line(), Ok("d".to_owned()));
        assert!(wire.line_start(3).unwrap_err().ends_with("the server closed the connection"));
        sent.join().unwrap().unwrap();
    }
}
