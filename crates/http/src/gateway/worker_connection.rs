//! Connections between this thread and the workers: pipes, of which a worker serves one end like
//! any client. A request uses a pipe exclusively until its reply is complete, so that it does not
//! wait for another request; then the pipe is reused.
//!
//! A pipe has no address and no port, so ports cannot be exhausted. To a worker, it is a client's
//! connection. Requests over HTTP therefore take the same path as all requests, and stall if their
//! client does not read.

use super::budget::{Exceeded, Reservation};
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
const HEAD_BYTES: usize = 10;

/// The pool of connections.
#[derive(Default)]
pub(super) struct ConnectionPool {
    idle: Mutex<Vec<WorkerConnection>>,
    notifier: Arc<Notifier>,
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
        Ok(WorkerConnection::new(pipe, caller.user.clone(), client))
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
        connection.lasting = None;
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
    }
}

impl WorkerConnection {
    fn new(pipe: ClientEnd, user: Vec<u8>, client: Box<dyn WorkerClient>) -> Self {
        WorkerConnection {
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

    /// A connection whose worker is a test.
    #[cfg(test)]
    pub(super) fn of_pipe(pipe: ClientEnd) -> Self {
        struct Unlisted;
        impl WorkerClient for Unlisted {
            fn serve(&self, _: &crate::site::Requester<'_>) {}
        }
        WorkerConnection::new(pipe, Vec::new(), Box::new(Unlisted))
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
        self.send(&[Bytes::from_static(b"SELECT"), Bytes::from(number)]).await?;
        let error = self.part(|part, _| match part {
            Part::Error(error) => Some(error.to_vec()),
            _ => None,
        });
        let error = error.await?;
        if error.is_none() {
            self.database = database;
        }
        Ok(error)
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
        self.has_grown |= bytes.len() > KEPT_BYTES;
        while !bytes.is_empty() {
            let sent = poll_fn(|cx| self.pipe.poll_write(cx, bytes)).await?;
            bytes = bytes.get(sent..).unwrap_or_default();
        }
        Ok(())
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
            ready!(self.pipe.poll_read(cx, &mut self.input))?;
        }
    }

    /// Whether the current reply is complete.
    pub(super) fn is_over(&self) -> bool {
        self.decoder.is_over()
    }

    /// Whether the next part of a reply has to be waited for.
    pub(super) fn is_empty(&self) -> bool {
        self.read == self.input.len()
    }

    /// A whole reply, with memory reserved as it arrives.
    pub(super) async fn reply(&mut self, reservation: &mut Reservation) -> Result<Reply, Failure> {
        let mut arrays: Vec<Vec<Reply>> = Vec::new();
        let mut text = Vec::new();
        loop {
            let part = self.part(|part, bytes| (reply_of(part, &mut text), bytes.len()));
            let (element, bytes) = part.await?;
            reservation.grow(bytes + size_of::<Reply>())?;
            let mut whole = match element {
                Element::Begins => {
                    arrays.push(Vec::new());
                    continue;
                }
                Element::Unfinished => continue,
                Element::Whole(reply) => reply,
                Element::Ends => Reply::Array(arrays.pop().unwrap_or_default()),
            };
            match arrays.last_mut() {
                Some(array) => array.push(std::mem::replace(&mut whole, Reply::Nil)),
                None => return Ok(whole),
            }
        }
    }
}

/// A whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Status(Vec<u8>),
    Error(Vec<u8>),
    Integer(i64),
    Nil,
    Text(Vec<u8>),
    Array(Vec<Reply>),
}

pub(super) enum Element {
    Begins,
    Unfinished,
    Whole(Reply),
    Ends,
}

pub(super) fn reply_of(part: Part<'_>, text: &mut Vec<u8>) -> Element {
    Element::Whole(match part {
        Part::Status(text) => Reply::Status(text.to_vec()),
        Part::Error(text) => Reply::Error(text.to_vec()),
        Part::Integer(number) => Reply::Integer(number),
        Part::Nil => Reply::Nil,
        Part::Text(_) => return Element::Unfinished,
        Part::Bytes(bytes, is_last) => {
            text.extend(bytes);
            if !is_last {
                return Element::Unfinished;
            }
            Reply::Text(std::mem::take(text))
        }
        Part::Array(_) => return Element::Begins,
        Part::End => return Element::Ends,
    })
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
