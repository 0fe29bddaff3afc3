//! Protocols of requests and replies: how a batch of requests is parsed, and how each of them is
//! executed.
//!
//! A session executes received requests in batches ([`crate::session::batch`]), in two passes:
//! parse the requests and prefetch the memory of their keys, then execute them in order. A batch's
//! memory is thus prefetched before its first request needs any. [`RequestProtocol`] comprises what
//! differs between protocols.

pub(crate) mod binary;
pub(crate) mod environment;
pub(crate) mod remainder;
pub(crate) mod resp;
pub(crate) mod session_state;
pub(crate) mod text;

use crate::protocols::environment::RequestEnvironment;
use crate::protocols::remainder::Remainder;
use crate::protocols::session_state::SessionState;
use arrayvec::ArrayVec;
use nagi_commands::large_values::{MAX_KEY_BYTES, MAX_KEYS};
use nagi_commands::{Client, Entry, Keys, kept_arguments};
use nagi_proto::{Args, Awaited, LargeArgument, Output, Span};
use nagi_store::accounting::{self, Overhead};
use nagi_store::{Key, Prefetch};

/// Maximum requests of a batch.
pub(crate) const BATCH: usize = 32;

/// The input of a batch.
pub(crate) struct BatchInput<'a> {
    /// The received bytes, from the start of a request on.
    pub(crate) bytes: &'a mut [u8],
    /// The large arguments of the first request, which are not part of `bytes`.
    pub(crate) large: &'a LargeParts,
    /// An empty buffer for argument spans.
    pub(crate) spans: &'a mut SpanRoom,
}

/// A buffer for the spans of a batch's arguments. A request may have millions of them, and their
/// memory does not count as data.
#[derive(Debug, Default)]
pub(crate) struct SpanRoom {
    spans: Vec<Span>,
    overhead: Overhead,
}

impl SpanRoom {
    /// Fills the buffer with `parse`. Returns the result of `parse` and the spans.
    #[inline]
    pub(crate) fn fill<T>(&mut self, parse: impl FnOnce(&mut Vec<Span>) -> T) -> (T, &[Span]) {
        let parsed = parse(&mut self.spans);
        self.measure();
        (parsed, &self.spans)
    }

    /// Takes the first `count` spans, those of the first request, and drops the others.
    pub(crate) fn take(&mut self, count: usize) -> Vec<Span> {
        let mut spans = std::mem::take(&mut self.spans);
        spans.truncate(count);
        self.measure();
        spans
    }

    /// Empties the buffer, and frees memory beyond what is kept between batches.
    #[inline]
    pub(crate) fn clear(&mut self) {
        /// Maximum capacity kept, in arguments.
        const KEPT: usize = 4096;
        self.spans.clear();
        if self.spans.capacity() > KEPT {
            self.spans.shrink_to(KEPT);
            self.measure();
        }
    }

    #[inline]
    fn measure(&mut self) {
        self.overhead.set(accounting::room_bytes::<Span>(self.spans.capacity()));
    }
}

/// The complete large arguments of a request.
#[derive(Debug, Default)]
pub(crate) struct LargeParts {
    /// The offset in the request at which each argument would begin.
    pub(crate) offsets: Vec<u32>,
    pub(crate) arguments: Vec<LargeArgument>,
}

/// A request on its way to its handler.
pub(crate) struct Request<'a, W> {
    pub(crate) args: Args<'a>,
    /// The offsets of its first byte and after its last one.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// The request's first key, if it was not received separately and its position is the same in
    /// all requests of the command, and the prefetch of the key's memory.
    pub(crate) key: Option<Key<'a>>,
    pub(crate) ahead: Option<Prefetch<'a>>,
    /// The work for the request.
    pub(crate) work: W,
}

/// The requests of a batch.
pub(crate) type Requests<'a, W> = ArrayVec<Request<'a, W>, BATCH>;

/// The kind of a request, as far as timing distinguishes them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestKind {
    /// One of Redis' commands.
    Command(&'static Entry),
    /// One of memcached's verbs.
    Verb,
}

/// The slow log's view of a request, which is evaluated only for slow requests.
pub(crate) trait Loggable {
    /// The total length of its arguments.
    fn request_bytes(&self) -> usize;

    /// Its arguments as the log stores them.
    fn kept_arguments(&self, entry: Option<&Entry>) -> Vec<Vec<u8>>;
}

impl Loggable for Args<'_> {
    fn request_bytes(&self) -> usize {
        self.total_len()
    }

    fn kept_arguments(&self, entry: Option<&Entry>) -> Vec<Vec<u8>> {
        kept_arguments(entry, *self)
    }
}

/// Some keys of a request, for [`RequestProtocol::named`].
fn some_keys<'r>(keys: &Keys, args: Args<'r>) -> Vec<&'r [u8]> {
    keys.some_of(MAX_KEYS, MAX_KEY_BYTES, args)
}

/// How a protocol's requests are parsed and executed. Holds the parser's state of a partial
/// request.
pub(crate) trait RequestProtocol {
    /// The work for a request: its entry in the command table, or why it is refused.
    type Work<'a>;
    /// Why bytes are not a request. This closes the connection.
    type Malformed;

    /// Parses requests from the start of the input until `requests` is full or one is incomplete,
    /// looks up their commands, hashes their keys and prefetches the keys' memory. Returns the
    /// number of bytes consumed, and what the session waits for after them; `None` if there may be
    /// more requests.
    fn read<'a>(
        &mut self,
        input: BatchInput<'a>,
        client: &Client,
        environment: &'a RequestEnvironment<'_>,
        requests: &mut Requests<'a, Self::Work<'a>>,
    ) -> (usize, Result<Option<SessionState>, Self::Malformed>);

    /// Writes what must come before the next reply.
    fn send_unsolicited(
        _client: &mut Client,
        _environment: &RequestEnvironment<'_>,
        _out: &mut Output,
    ) {
    }

    /// Executes a request and writes its reply. Returns the remaining work, which may be the whole
    /// request.
    fn execute(
        request: &Request<'_, Self::Work<'_>>,
        client: &mut Client,
        environment: &RequestEnvironment<'_>,
        out: &mut Output,
    ) -> Option<Remainder>;

    /// The kind that a request's time is counted for; `None` if it is not measured.
    fn kind(work: &Self::Work<'_>) -> Option<RequestKind>;

    /// The slow log's view of a request.
    fn loggable<'r>(request: &'r Request<'_, Self::Work<'_>>) -> &'r dyn Loggable;

    /// The keys of a request's command, and the arguments that contain them; `None` if
    /// [`Request::key`] is the only one.
    fn keys<'r>(request: &'r Request<'_, Self::Work<'_>>) -> Option<(&'static Keys, Args<'r>)>;

    /// The name of a request's command, and its keys: only some of very many, and no very long
    /// ones.
    fn named<'r>(request: &'r Request<'_, Self::Work<'_>>) -> (&'static str, Vec<&'r [u8]>);

    /// Sends the client the reason why its connection is closed.
    fn refuse(
        malformed: Self::Malformed,
        client: &mut Client,
        environment: &RequestEnvironment<'_>,
        out: &mut Output,
    );

    /// Resets the parser: the next bytes are the start of a request.
    fn restart(&mut self);

    /// The large argument that the parser waits for.
    fn awaited(&self) -> Option<Awaited> {
        None
    }

    /// Capacity, in arguments, that is kept for a partial request.
    fn kept_spans(&self) -> usize {
        0
    }

    /// Continues after the awaited argument, which is complete.
    fn skip_awaited(&mut self) {}
}
