//! Protocols of requests and replies: how a batch of requests is read, and each of them executed.
//!
//! A session executes what it has received in batches ([`crate::session::batch`]), in passes of
//! their own: read the requests and ask for the memory of their keys, then execute them in order.
//! So a batch's memory is asked for before its first request waits for any. What differs between
//! protocols is after [`RequestProtocol`].

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

/// Most requests of a batch.
pub(crate) const BATCH: usize = 32;

/// What a batch is read from.
pub(crate) struct BatchInput<'a> {
    /// What has been received, from the start of a request on.
    pub(crate) bytes: &'a mut [u8],
    /// The large arguments of the first request, whose bytes are not among these.
    pub(crate) large: &'a LargeParts,
    /// Room for the places of arguments, which is empty.
    pub(crate) spans: &'a mut SpanRoom,
}

/// Room for the places of a batch's arguments. A request may have millions of them, and their
/// memory is not data.
#[derive(Debug, Default)]
pub(crate) struct SpanRoom {
    spans: Vec<Span>,
    overhead: Overhead,
}

impl SpanRoom {
    /// Fills it with `parse`. Returns the result of `parse` and the contents.
    #[inline]
    pub(crate) fn fill<T>(&mut self, parse: impl FnOnce(&mut Vec<Span>) -> T) -> (T, &[Span]) {
        let parsed = parse(&mut self.spans);
        self.measure();
        (parsed, &self.spans)
    }

    /// Empties it, and gives memory back beyond what is kept between batches.
    #[inline]
    pub(crate) fn clear(&mut self) {
        /// Most arguments for which room is kept.
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

/// The large arguments of a request that are complete.
#[derive(Debug, Default)]
pub(crate) struct LargeParts {
    /// Where each of them would begin in the request.
    pub(crate) offsets: Vec<u32>,
    pub(crate) arguments: Vec<LargeArgument>,
}

/// A request on its way to its handler.
pub(crate) struct Request<'a, W> {
    pub(crate) args: Args<'a>,
    /// The offsets of its first byte and after its last one.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Its first key, and what is known of the memory that the key will need.
    pub(crate) key: Option<Key<'a>>,
    pub(crate) ahead: Option<Prefetch<'a>>,
    /// What there is to do for it.
    pub(crate) work: W,
}

/// The requests of a batch.
pub(crate) type Requests<'a, W> = ArrayVec<Request<'a, W>, BATCH>;

/// What a request is for, as far as its time is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RequestKind {
    /// One of Redis' commands.
    Command(&'static Entry),
    /// One of memcached's verbs.
    Verb,
}

/// What the slow log says of a request, which is looked at only if it is slow.
pub(crate) trait Loggable {
    /// How long its arguments are together.
    fn request_bytes(&self) -> usize;

    /// Its arguments as the log keeps them.
    fn kept_arguments(&self, entry: Option<&Entry>) -> Vec<Vec<u8>>;
}

impl Loggable for Args<'_> {
    fn request_bytes(&self) -> usize {
        (0..self.len()).map(|index| self.len_of(index)).sum()
    }

    fn kept_arguments(&self, entry: Option<&Entry>) -> Vec<Vec<u8>> {
        kept_arguments(entry, *self)
    }
}

/// Some keys of a request, for [`RequestProtocol::named`].
fn some_keys<'r>(keys: &Keys, args: Args<'r>) -> Vec<&'r [u8]> {
    keys.some_of(MAX_KEYS, MAX_KEY_BYTES, args)
}

/// How a protocol's requests are read and executed. It remembers what it has understood of a
/// request that has not arrived in full.
pub(crate) trait RequestProtocol {
    /// What there is to do for a request: its row, or why it is refused.
    type Work<'a>;
    /// Why bytes are not a request. They end the connection.
    type Malformed;

    /// Reads requests from the start of the input until `requests` is full or one is incomplete,
    /// finds their rows, hashes their keys and asks the processor for the memory of these. Returns
    /// how many bytes they take, and what the session waits for after them; nothing if there may
    /// be more.
    fn read<'a>(
        &mut self,
        input: BatchInput<'a>,
        client: &Client,
        environment: &'a RequestEnvironment<'_>,
        requests: &mut Requests<'a, Self::Work<'a>>,
    ) -> (usize, Result<Option<SessionState>, Self::Malformed>);

    /// Executes a request and writes its reply. Returns what is left to do of it, which may be all.
    fn execute(
        request: &Request<'_, Self::Work<'_>>,
        client: &mut Client,
        environment: &RequestEnvironment<'_>,
        out: &mut Output,
    ) -> Option<Remainder>;

    /// What the time of a request is counted for; it is not measured if that is nothing.
    fn kind(work: &Self::Work<'_>) -> Option<RequestKind>;

    /// What the slow log says of a request.
    fn loggable<'r>(request: &'r Request<'_, Self::Work<'_>>) -> &'r dyn Loggable;

    /// The name of a request's command, and its keys: of very many some, and none that is very
    /// long.
    fn named<'r>(request: &'r Request<'_, Self::Work<'_>>) -> (&'static str, Vec<&'r [u8]>);

    /// Sends the client the reason why its connection is closed.
    fn refuse(
        malformed: Self::Malformed,
        client: &mut Client,
        environment: &RequestEnvironment<'_>,
        out: &mut Output,
    );

    /// Forgets what was understood: what comes next is the start of a request.
    fn restart(&mut self);

    /// The large argument that it waits for.
    fn awaited(&self) -> Option<Awaited> {
        None
    }

    /// How many arguments it has room for of a request that has arrived in part.
    fn kept_spans(&self) -> usize {
        0
    }

    /// Goes on after that argument, all of which has arrived.
    fn skip_awaited(&mut self) {}
}
