//! A reply to a client, in any format. Long replies are read only as fast as their client reads: a
//! client that stalls holds one piece of them in memory.

use super::decoder::Part;
use super::format::{Formatter, Kind};
use super::refusal::status_of;
use super::request::Options;
use super::worker_connection::{ConnectionPool, Failure, WorkerConnection};
use futures_util::task::AtomicWaker;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

/// The target size of a piece.
const PIECE_BYTES: usize = 8 << 10;

/// Text of a response that is written as replies of a worker arrive.
pub(super) trait Source {
    /// Waits for the next part of a reply, and appends its encoding to the output.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>>;

    /// Whether all replies have arrived.
    fn is_over(&self) -> bool;

    fn out(&mut self) -> &mut Vec<u8>;

    fn into_connection(self) -> WorkerConnection;
}

/// A reply to a client.
pub(super) struct Reply {
    pub(super) connection: WorkerConnection,
    pub(super) formatter: Option<Formatter>,
    /// The beginning and the end of a function call.
    head: Vec<u8>,
    tail: &'static [u8],
    /// Whether a part of the current reply has arrived.
    has_begun: bool,
    pub(super) out: Vec<u8>,
}

/// The beginning of a reply.
pub(super) struct Beginning {
    /// The error, if it is one.
    pub(super) error: Option<Vec<u8>>,
    pub(super) status: u16,
    pub(super) is_nil: bool,
    /// The length of the body, if it is known from the start.
    pub(super) len: Option<u64>,
}

impl Reply {
    pub(super) fn new(connection: WorkerConnection, verb: &[u8], options: &Options) -> Self {
        let formatter = Formatter::new(options.kind, verb, &options.separator);
        let is_json = matches!(options.kind, Kind::Json | Kind::Script);
        let callback = options.callback.as_ref().filter(|_| is_json);
        let head = callback.map_or(Vec::new(), |name| format!("{name}(").into_bytes());
        let tail = if callback.is_some() { b");\n" } else { &b""[..] };
        Reply { connection, formatter, head, tail, has_begun: false, out: Vec::new() }
    }

    /// Waits for the next part of the reply and appends its encoding. Returns the beginning of the
    /// reply, if this is its first part.
    pub(super) async fn advance(&mut self) -> Result<Beginning, Failure> {
        poll_fn(|cx| self.poll_advance(cx)).await
    }

    fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<Beginning, Failure>> {
        let Reply { connection, formatter, out, head, tail, has_begun } = self;
        let polled = connection.poll_part(cx, |part, bytes| {
            if !std::mem::replace(has_begun, true) {
                out.extend_from_slice(head);
            }
            match formatter {
                Some(formatter) => formatter.write(part, out),
                None => out.extend(bytes),
            }
            beginning(part, bytes.len(), formatter.as_ref())
        });
        if matches!(polled, Poll::Ready(Ok(_))) && connection.is_over() {
            formatter.iter_mut().for_each(|formatter| formatter.end(out));
            out.extend(*tail);
            *has_begun = false;
        }
        polled
    }
}

impl Source for Reply {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.poll_advance(cx).map_ok(|_| ())
    }

    fn is_over(&self) -> bool {
        self.connection.is_over()
    }

    fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    fn into_connection(self) -> WorkerConnection {
        self.connection
    }
}

fn beginning(part: Part<'_>, bytes: usize, formatter: Option<&Formatter>) -> Beginning {
    let error = if let Part::Error(error) = part { Some(error.to_vec()) } else { None };
    let status = error.as_deref().map_or(200, status_of);
    let len = match (part, formatter) {
        (Part::Text(len), Some(Formatter::Text { .. })) => Some(len as u64),
        (Part::Text(len), None) => Some((bytes + len + 2) as u64),
        _ => None,
    };
    Beginning { error, status, is_nil: part == Part::Nil, len }
}

/// The rest of a long text as the body of a response.
pub(super) struct ReplyBody<S> {
    /// `None` at the end.
    source: Option<S>,
    /// The bytes left, if known.
    left: Option<u64>,
    pool: Arc<ConnectionPool>,
    sent: Arc<Sent>,
}

/// Whether a piece is in flight, and the waker for its completion.
#[derive(Default)]
struct Sent {
    is_under_way: AtomicBool,
    waker: AtomicWaker,
}

/// Bytes that report when they have been sent.
struct Piece {
    bytes: Vec<u8>,
    sent: Arc<Sent>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.sent.is_under_way.store(false, Ordering::Release);
        self.sent.waker.wake();
    }
}

impl<S> ReplyBody<S> {
    /// The body of a text whose output has not been sent, with a total of `len` bytes if that is
    /// known. Its connection returns to the pool.
    pub(super) fn new(source: S, len: Option<u64>, pool: &Arc<ConnectionPool>) -> Self {
        ReplyBody { source: Some(source), left: len, pool: Arc::clone(pool), sent: Arc::default() }
    }

    /// Whether the previous piece has been sent; if not, the task is woken once it has.
    fn is_sent(&self, cx: &Context<'_>) -> bool {
        self.sent.waker.register(cx.waker());
        !self.sent.is_under_way.load(Ordering::Acquire)
    }
}

impl<S: Source + Unpin> Body for ReplyBody<S> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if !self.is_sent(cx) {
            return Poll::Pending;
        }
        let Some(source) = &mut self.source else { return Poll::Ready(None) };
        while !source.is_over() && source.out().len() < PIECE_BYTES {
            match source.poll_next(cx) {
                Poll::Ready(Ok(())) => {}
                // The client must detect that the reply is incomplete.
                Poll::Ready(Err(_)) => {
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
                }
                Poll::Pending if source.out().is_empty() => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        let bytes = std::mem::take(source.out());
        if source.is_over()
            && let Some(source) = self.source.take()
        {
            self.pool.give_back(source.into_connection());
        }
        if bytes.is_empty() {
            return Poll::Ready(None);
        }
        self.left = self.left.map(|left| left.saturating_sub(bytes.len() as u64));
        self.sent.is_under_way.store(true, Ordering::Relaxed);
        let piece = Piece { bytes, sent: Arc::clone(&self.sent) };
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
