//! One client's conversation, without the socket: bytes in, replies out.

use crate::input::Input;
use crate::{resp, text};
use nagi_commands::{Client, ClientInfo, Context, Job, Server, Tally, dispatch};
use nagi_proto::{Output, Span};
use nagi_store::{Counters, Key, Store};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most requests of a batch.
pub(crate) const BATCH: usize = 32;
/// What one connection gets of one tick: it stops behind the batch that passes one of these.
const SLICE_REQUESTS: usize = 1024;
const SLICE_BYTES: usize = 64 * 1024;
const SLICE_REPLY_BYTES: usize = 256 * 1024;
/// Most arguments for which room is kept between batches.
const KEPT_SPANS: usize = 4096;

/// What a session finds around it, for the length of one call.
pub(crate) struct Surroundings<'w> {
    pub(crate) store: &'w Store,
    pub(crate) server: &'w dyn Server,
    /// What this worker counts of keys.
    pub(crate) counters: &'w Counters,
    /// What this worker counts of requests.
    pub(crate) tally: &'w Tally,
    /// The time of the batch, in milliseconds since 1970.
    pub(crate) now_ms: u64,
    /// Room for the arguments of a batch; what is in it does not matter.
    pub(crate) spans: &'w mut Vec<Span>,
}

impl Surroundings<'_> {
    /// What a command's handler is given.
    pub(crate) fn context<'a>(
        &'a self,
        client: &'a mut Client,
        out: &'a mut Output,
        prefetched: Option<Key<'a>>,
    ) -> Context<'a> {
        Context {
            db: self.store.database(client.database, self.counters, self.now_ms),
            reply: nagi_proto::resp::Writer::new(out, client.version),
            client,
            server: self.server,
            tally: self.tally,
            prefetched,
            job: None,
        }
    }
}

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// For bytes: everything that has arrived in full has been executed.
    Bytes,
    /// For its next slice: it has work left and is to be fed again, with nothing if need be.
    Turn,
    /// For nothing: the connection is to be closed once the replies have been sent.
    Closing,
}

/// What became of a batch.
pub(crate) struct Batch {
    /// Bytes that it took from the start of the input.
    pub(crate) consumed: usize,
    /// How many requests it held.
    pub(crate) requests: usize,
    pub(crate) next: Next,
}

/// What follows a batch.
pub(crate) enum Next {
    /// Perhaps another batch.
    Batch,
    /// Nothing until more bytes arrive.
    Bytes,
    /// The rest of the last request, before anything else.
    Job(Job),
    /// The end.
    Closing,
}

/// The protocol that a client speaks, with what is understood of a request that has not arrived
/// in full.
#[derive(Debug)]
enum Dialect {
    Resp(nagi_proto::resp::Parser),
    Memcached(nagi_proto::memcached::Parser),
}

/// Which protocol a listener's clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Redis'.
    Resp,
    /// memcached's.
    Memcached,
}

impl Protocol {
    /// Its name, as in the ports file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Resp => "resp",
            Protocol::Memcached => "memcached",
        }
    }
}

/// One client's conversation.
pub(crate) struct Session {
    client: Client,
    dialect: Dialect,
    /// What has arrived and was not executed.
    input: Input,
    /// What the last request has left to do.
    job: Option<Job>,
}

impl Session {
    pub(crate) fn new(info: Arc<ClientInfo>, protocol: Protocol) -> Self {
        let dialect = match protocol {
            Protocol::Resp => Dialect::Resp(nagi_proto::resp::Parser::default()),
            Protocol::Memcached => Dialect::Memcached(nagi_proto::memcached::Parser::default()),
        };
        Session { client: Client::new(info), dialect, input: Input::default(), job: None }
    }

    pub(crate) fn info(&self) -> &ClientInfo {
        &self.client.info
    }

    /// Takes what has arrived, executes a slice of it and appends the replies to `out`.
    pub(crate) fn feed(
        &mut self,
        received: &mut [u8],
        around: &mut Surroundings<'_>,
        out: &mut Output,
    ) -> Standing {
        self.client.info.active_at_ms.store(around.now_ms, Ordering::Relaxed);
        if let Some(job) = self.job.take() {
            self.resume(job, around, out);
        }
        let standing = if self.job.is_some() {
            self.input.push(received);
            Standing::Turn
        } else if self.input.is_empty() {
            let (consumed, standing) = self.advance(received, around, out);
            self.input.push(received.get(consumed..).unwrap_or_default());
            standing
        } else {
            let mut input = std::mem::take(&mut self.input);
            input.push(received);
            let (consumed, standing) = self.advance(input.as_mut_slice(), around, out);
            input.consume(consumed);
            self.input = input;
            standing
        };
        self.note_input(standing, around)
    }

    /// Executes batches from the start of `input` on, up to the length of a slice. Returns how
    /// many bytes they took.
    fn advance(
        &mut self,
        input: &mut [u8],
        around: &mut Surroundings<'_>,
        out: &mut Output,
    ) -> (usize, Standing) {
        let (mut at, mut requests, replies_before) = (0, 0, out.len());
        loop {
            let rest = input.get_mut(at..).unwrap_or_default();
            if rest.is_empty() {
                return (at, Standing::Bytes);
            }
            around.spans.clear();
            let batch = match &mut self.dialect {
                Dialect::Resp(parser) => resp::batch(parser, rest, &mut self.client, around, out),
                Dialect::Memcached(parser) => {
                    text::batch(parser, rest, &mut self.client, around, out)
                }
            };
            around.spans.shrink_to(KEPT_SPANS);
            at += batch.consumed;
            requests += batch.requests;
            match batch.next {
                Next::Bytes => return (at, Standing::Bytes),
                Next::Closing => return (at, Standing::Closing),
                Next::Job(job) => {
                    self.job = Some(job);
                    return (at, Standing::Turn);
                }
                Next::Batch => {}
            }
            let replies = out.len() - replies_before;
            if requests >= SLICE_REQUESTS || at >= SLICE_BYTES || replies >= SLICE_REPLY_BYTES {
                return (at, Standing::Turn);
            }
        }
    }

    /// Does a slice of a job.
    fn resume(&mut self, job: Job, around: &Surroundings<'_>, out: &mut Output) {
        let mut context = around.context(&mut self.client, out, None);
        dispatch::resume(&mut context, job);
        self.job = context.job.take();
    }

    /// Shows others how much is waiting, and refuses to let it grow without bound.
    fn note_input(&self, standing: Standing, around: &Surroundings<'_>) -> Standing {
        let info = self.info();
        let waiting = self.input.len();
        if info.query_bytes.load(Ordering::Relaxed) != waiting {
            info.query_bytes.store(waiting, Ordering::Relaxed);
            if waiting > around.server.config().client_query_buffer_limit.bytes() {
                tracing::warn!(client = info.id, bytes = waiting, "closed: request too long");
                return Standing::Closing;
            }
        }
        standing
    }
}
