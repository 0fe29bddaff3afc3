//! Connections between this thread and the workers: pipes, of which a worker serves one end like
//! any client. A request uses a pipe exclusively until its reply is complete, so that it does not
//! wait for another request; then the pipe is reused.
//!
//! A pipe has no address and no port, so ports cannot be exhausted. To a worker, it is a client's
//! connection. Requests over HTTP therefore take the same path as all requests, and stall if their
//! client does not read.

use super::budget::{Budget, Exceeded, Reservation};
use super::decoder::{Decoder, Malformed, Part};
use super::lasting::LastingRequest;
use crate::guard::Caller;
use crate::site::{Site, WorkerClient};
use hyper::body::Bytes;
use nagi_pipe::{ClientEnd, Notifier, pipe};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Maximum number of idle pipes.
const MAX_IDLE: usize = 64;
/// The capacity of buffers that an idle connection keeps.
const KEPT_BYTES: usize = 4 << 10;
/// The usual overhead of an argument in a request.
pub(super) const HEAD_BYTES: usize = 10;
/// Length of a line from which it is counted as held, and what it then takes as a multiple of its
/// length: the line, a copy, and its text in JSON, with up to six bytes for one.
const LONG_LINE_BYTES: usize = 64 << 10;
const LONG_LINE_COPIES: usize = 8;

/// The pool of connections.
#[derive(Default)]
pub(super) struct ConnectionPool {
    idle: Mutex<Vec<WorkerConnection>>,
    notifier: Arc<Notifier>,
    budget: Budget,
}

/// A connection to a worker.
pub(super) struct WorkerConnection {
    pipe: ClientEnd,
    user: Vec<u8>,
    /// The record of the client of the current request, for lists of clients.
    client: Box<dyn WorkerClient>,
    database: usize,
    decoder: Decoder,
    /// The received bytes, and how many of them have been read.
    input: Vec<u8>,
    read: usize,
    /// The reservation for a long line, which is read as a whole.
    long_line: Reservation,
    /// Whether buffers have grown beyond the kept capacity.
    has_grown: bool,
    /// The count of its request, if that has unlimited duration.
    pub(super) lasting: Option<LastingRequest>,
}

/// The reason for a missing reply.
#[derive(Debug)]
pub(super) enum Failure {
    /// There are too many requests that may block.
    TooMany,
    /// The connection to the worker failed.
    Lost(io::Error),
    /// The memory budget is exhausted.
    Full,
    /// The reply is malformed.
    Malformed,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Lost(error)
    }
}

impl From<Exceeded> for Failure {
    fn from(_: Exceeded) -> Self {
        Failure::Full
    }
}

impl From<Malformed> for Failure {
    fn from(_: Malformed) -> Self {
        Failure::Malformed
    }
}

impl ConnectionPool {
    /// Creates it, empty; long lines of replies are reserved in `budget`.
    pub(super) fn new(budget: &Budget) -> Self {
        ConnectionPool { budget: budget.clone(), ..ConnectionPool::default() }
    }

    /// Takes a connection for a client's user.
    pub(super) fn take(
        &self,
        site: &dyn Site,
        caller: &Caller,
    ) -> Result<WorkerConnection, Failure> {
        loop {
            let mut idle = self.idle.lock();
            let place = idle.iter().rposition(|connection| connection.user == caller.user);
            let known = place.map(|place| idle.swap_remove(place));
            drop(idle);
            match known {
                Some(connection) if connection.is_alive() => {
                    connection.client.serve(&caller.requester());
                    return Ok(connection);
                }
                Some(_) => {}
                None => return self.open(site, caller),
            }
        }
    }

    fn open(&self, site: &dyn Site, caller: &Caller) -> Result<WorkerConnection, Failure> {
        let (pipe, workers_end) = pipe(&self.notifier);
        let client = site.connect_worker(&caller.user, &caller.requester(), workers_end)?;
        Ok(WorkerConnection::new(pipe, caller.user.clone(), client, &self.budget))
    }

    /// Notifies workers and tasks of data in their pipes, while it is polled.
    pub(super) async fn notify_all(&self) {
        self.notifier.notify_all().await;
    }

    /// Returns a connection to the pool after its reply.
    pub(super) fn give_back(&self, mut connection: WorkerConnection) {
        if !connection.decoder.is_over() || connection.read < connection.input.len() {
            return;
        }
        connection.forget_input();
        connection.long_line.clear();
        connection.lasting = None;
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
    }
}

impl WorkerConnection {
    fn new(pipe: ClientEnd, user: Vec<u8>, client: Box<dyn WorkerClient>, budget: &Budget) -> Self {
        WorkerConnection {
            long_line: budget.reservation(),
            pipe,
            user,
            client,
            database: 0,
            decoder: Decoder::default(),
            input: Vec::new(),
            read: 0,
            has_grown: false,
            lasting: None,
        }
    }

    /// Whether the connection is reusable: open, and without unexpected bytes.
    fn is_alive(&self) -> bool {
        self.pipe.is_quiet()
    }

    /// Discards processed bytes, and oversized buffers.
    fn forget_input(&mut self) {
        self.input.clear();
        self.read = 0;
        self.has_grown |= self.input.capacity() > KEPT_BYTES;
        if std::mem::take(&mut self.has_grown) {
            self.input = Vec::new();
            self.pipe.shrink();
        }
    }

    /// Selects the database of further requests. Returns the error if there is no such database.
    pub(super) async fn select(&mut self, database: usize) -> Result<Option<Vec<u8>>, Failure> {
        if database == self.database {
            return Ok(None);
        }
        let number = database.to_string();
        let error = self.error_of(&[Bytes::from_static(b"SELECT"), Bytes::from(number)]).await?;
        if error.is_none() {
            self.database = database;
        }
        Ok(error)
    }

    /// Sends a command that has no other reply than OK or an error, and returns the error.
    pub(super) async fn error_of(&mut self, words: &[Bytes]) -> Result<Option<Vec<u8>>, Failure> {
        self.send(words).await?;
        let error = self.part(|part, _| match part {
            Part::Error(error) => Some(error.to_vec()),
            _ => None,
        });
        error.await
    }

    /// Sends a whole request.
    pub(super) async fn send(&mut self, words: &[Bytes]) -> Result<(), Failure> {
        let bytes: usize = words.iter().map(|word| word.len() + HEAD_BYTES).sum();
        let mut request = Vec::with_capacity(bytes + HEAD_BYTES);
        encode(words, words.len(), &mut request);
        self.send_bytes(&request).await
    }

    /// Sends a part of a request.
    pub(super) async fn send_bytes(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let sent = poll_fn(|cx| self.poll_send(cx, bytes)).await?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
    }

    /// Sends as many bytes as there is room for, for a task that waits for several things.
    pub(super) fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.has_grown |= bytes.len() > KEPT_BYTES;
        self.pipe.poll_write(cx, bytes)
    }

    /// Waits for the next part of the reply, and passes it with its raw bytes to `take`.
    pub(super) async fn part<T>(
        &mut self,
        mut take: impl FnMut(Part<'_>, &[u8]) -> T,
    ) -> Result<T, Failure> {
        poll_fn(|cx| self.poll_part(cx, &mut take)).await
    }

    /// The same, for a task that waits for several things.
    pub(super) fn poll_part<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(Part<'_>, &[u8]) -> T,
    ) -> Poll<Result<T, Failure>> {
        loop {
            let input = self.input.get(self.read..).unwrap_or_default();
            if let Some((part, consumed)) = self.decoder.next(input)? {
                let taken = take(part, input.get(..consumed).unwrap_or_default());
                self.read += consumed;
                return Poll::Ready(Ok(taken));
            }
            self.input.drain(..self.read);
            self.read = 0;
            if self.input.len() > LONG_LINE_BYTES {
                let wanted = self.input.len() * LONG_LINE_COPIES;
                self.long_line.grow(wanted.saturating_sub(self.long_line.bytes()))?;
            }
            ready!(self.pipe.poll_read(cx, &mut self.input))?;
        }
    }

    /// Whether the current reply is complete.
    pub(super) fn is_over(&self) -> bool {
        self.decoder.is_over()
    }

    /// Takes the reservation for a long line, for the text that has been made of it.
    pub(super) fn take_long_line(&mut self) -> Reservation {
        self.long_line.take()
    }

    /// Whether the next part of a reply has to be waited for.
    pub(super) fn is_empty(&self) -> bool {
        self.read == self.input.len()
    }
}

/// Requests that are sent as there is room for them, while replies are read.
#[derive(Default)]
pub(super) struct Unsent {
    bytes: Vec<u8>,
    /// How many of them have been sent.
    sent: usize,
}

impl Unsent {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds a whole request.
    pub(super) fn push(&mut self, words: &[Bytes]) {
        encode(words, words.len(), &mut self.bytes);
    }

    /// Sends what there is room for. Returns whether everything has been sent; if not, the task is
    /// woken once there is more room.
    pub(super) fn send(
        &mut self,
        connection: &mut WorkerConnection,
        cx: &mut Context<'_>,
    ) -> Result<bool, Failure> {
        while let Some(rest @ [_, ..]) = self.bytes.get(self.sent..) {
            match connection.poll_send(cx, rest) {
                Poll::Ready(sent) => self.sent += sent?,
                Poll::Pending => return Ok(false),
            }
        }
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.sent = 0;
        Ok(true)
    }
}

/// Appends a request of `count` words, of which these are the first.
pub(super) fn encode(words: &[Bytes], count: usize, request: &mut Vec<u8>) {
    head(b'*', count, request);
    for word in words {
        head(b'$', word.len(), request);
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
}

/// Appends the head of an array of `count` words, or of a string of `count` bytes.
pub(super) fn head(kind: u8, count: usize, request: &mut Vec<u8>) {
    request.push(kind);
    request.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    request.extend_from_slice(b"\r\n");
}

/// A worker that a test plays.
#[cfg(test)]
pub(super) struct TestWorker {
    end: nagi_pipe::WorkerEnd,
    wakes: nagi_pipe::Wakes,
}

#[cfg(test)]
impl TestWorker {
    /// Connects to it. Its connection wakes tasks from a task of its own.
    pub(super) fn connect() -> (WorkerConnection, Self) {
        struct Unlisted;
        impl WorkerClient for Unlisted {
            fn serve(&self, _: &crate::site::Requester<'_>) {}
        }
        let notifier = Arc::new(Notifier::default());
        let (ours, end) = pipe(&notifier);
        tokio::task::spawn_local(async move { notifier.notify_all().await });
        let budget = Budget::default();
        let connection = WorkerConnection::new(ours, Vec::new(), Box::new(Unlisted), &budget);
        (connection, TestWorker { end, wakes: nagi_pipe::Wakes::default() })
    }

    pub(super) async fn write_all(&mut self, mut reply: &[u8]) {
        while !reply.is_empty() {
            let taken = self.end.put([reply].into_iter(), &mut self.wakes).unwrap();
            self.wakes.notify();
            reply = reply.get(taken..).unwrap_or_default();
            tokio::task::yield_now().await;
        }
    }
}
