//! One client's conversation, without the socket: bytes in, replies out.

use crate::process::server::Shared;
use crate::protocols::binary;
use crate::protocols::resp;
use crate::protocols::text;
use crate::session::input::Input;
use crate::session::large_arguments::{FIRST_BYTES, Landing, Room};
use crate::session::suspended::{Outcome, Suspended};
use crate::session::timing::{Arrivals, Audience, Timing, Underway};
use nagi_commands::admission::Restrictions;
use nagi_commands::{
    Client, ClientInfo, Config, Context, Hears, Marks, Server as _, Tally, When, admission,
    memcached,
};
use nagi_proto::{Args, Awaited, Output, Span};
use nagi_store::{Counters, Database, Key, Wait};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

/// Most requests of a batch.
pub(crate) const BATCH: usize = 32;
/// What one connection gets of one tick: it stops behind the batch that passes one of these.
const SLICE_REQUESTS: usize = 1024;
pub(crate) const SLICE_BYTES: usize = 64 * 1024;
const SLICE_REPLY_BYTES: usize = 256 * 1024;
/// Most arguments for which room is kept between batches.
const KEPT_SPANS: usize = 4096;

/// What a session finds around it, for the length of one call.
pub(crate) struct Surroundings<'w> {
    pub(crate) shared: &'w Shared,
    /// What this worker counts of keys.
    pub(crate) counters: &'w Counters,
    /// What this worker counts of requests.
    pub(crate) tally: &'w Tally,
    /// The time of the batch, in milliseconds since 1970.
    pub(crate) now_ms: u64,
    /// Where the time of requests goes.
    pub(crate) timing: &'w Timing,
    /// Room for the arguments of a batch; what is in it does not matter.
    pub(crate) spans: &'w mut Vec<Span>,
}

impl Surroundings<'_> {
    /// Where the time of requests is told.
    #[inline]
    pub(crate) fn audience(&self) -> Audience<'_> {
        Audience {
            tally: self.tally,
            statistics: self.shared.statistics(),
            config: self.shared.config(),
        }
    }

    /// What a command's handler is given.
    pub(crate) fn context<'a>(
        &'a self,
        client: &'a mut Client,
        out: &'a mut Output,
        args: Args<'a>,
        prefetched: Option<Key<'a>>,
    ) -> Context<'a> {
        Context {
            db: self.database(client),
            reply: nagi_proto::resp::Writer::new(out, client.version),
            client,
            server: self.shared,
            attention: &self.shared.attention,
            tally: self.tally,
            args,
            prefetched,
            suspension: None,
        }
    }

    /// A client's database.
    #[inline]
    fn database(&self, client: &Client) -> Database<'_> {
        let db = self.shared.store.database(client.database, self.counters, self.now_ms);
        if client.info.marks().contains(Marks::NO_TOUCH) { db.untouched() } else { db }
    }

    /// What a handler of memcached's verbs is given.
    pub(crate) fn memcached_context<'a>(
        &'a self,
        client: &'a mut Client,
        out: &'a mut Output,
        args: Args<'a>,
        quiet: bool,
        prefetched: Option<Key<'a>>,
    ) -> memcached::Context<'a> {
        memcached::Context {
            db: self.shared.store.database(0, self.counters, self.now_ms),
            client,
            server: self.shared,
            attention: &self.shared.attention,
            tally: self.tally,
            reply: nagi_proto::memcached::Writer::new(out, quiet),
            args,
            prefetched,
            suspension: None,
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
    /// The same in the middle of a request, which others may be waiting for.
    Midway,
    /// For its waker to be called.
    Called,
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
    /// The rest of the next request, before anything else, and what is known of its time.
    Suspended(Suspended, Option<Box<Underway>>),
    /// The end.
    Closing,
}

/// The protocol that a client speaks, with what is understood of a request that has not arrived
/// in full.
#[derive(Debug)]
enum Dialect {
    Resp(nagi_proto::resp::Parser),
    /// One of memcached's: the first byte tells which.
    Memcached,
    Text(nagi_proto::memcached::Parser),
    Binary(nagi_proto::memcached::binary::Parser),
}

impl Dialect {
    /// Finds out which of memcached's protocols begins with `first`, unless it is known.
    #[inline]
    fn negotiate(&mut self, first: u8) {
        if matches!(self, Dialect::Memcached) {
            *self = match first {
                nagi_proto::memcached::binary::REQUEST => Dialect::Binary(Default::default()),
                _ => Dialect::Text(Default::default()),
            };
        }
    }

    /// The long argument that it waits for.
    fn awaited(&self) -> Option<Awaited> {
        match self {
            Dialect::Resp(parser) => parser.awaited(),
            Dialect::Text(parser) => parser.awaited(),
            Dialect::Memcached | Dialect::Binary(_) => None,
        }
    }

    /// Goes on behind that argument.
    fn land(&mut self) {
        match self {
            Dialect::Resp(parser) => parser.land(),
            Dialect::Text(parser) => parser.land(),
            Dialect::Memcached | Dialect::Binary(_) => {}
        }
    }
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
    /// The long arguments of the request with which `input` begins, whose bytes are not in it.
    landing: Landing,
    /// When it arrived.
    arrivals: Arrivals,
    /// The request at the start of the input, if it has begun and is not over.
    suspended: Option<Suspended>,
    /// What is known of its time.
    underway: Option<Box<Underway>>,
}

impl Session {
    pub(crate) fn new(
        info: Arc<ClientInfo>,
        protocol: Protocol,
        config: &Config,
        waker: Waker,
    ) -> Self {
        let dialect = match protocol {
            Protocol::Resp => Dialect::Resp(nagi_proto::resp::Parser::default()),
            Protocol::Memcached => Dialect::Memcached,
        };
        let mut client = Client::new(info);
        client.restrictions = match protocol {
            Protocol::Resp => admission::restrictions(config, Restrictions::empty()),
            Protocol::Memcached => admission::memcached_restrictions(config),
        };
        client.waker = waker;
        Session {
            client,
            dialect,
            input: Input::default(),
            landing: Landing::default(),
            arrivals: Arrivals::default(),
            suspended: None,
            underway: None,
        }
    }

    /// Has the client do nothing but administrate.
    pub(crate) fn administrate(&mut self) {
        self.client.restrictions |= Restrictions::ADMINISTRATES;
    }

    /// Whether the client has to give a password before anything else.
    pub(crate) fn must_log_in(&self, config: &Config) -> bool {
        admission::must_log_in(&self.client, config)
    }

    pub(crate) fn info(&self) -> &ClientInfo {
        &self.client.info
    }

    /// Takes what has arrived, to be executed later.
    pub(crate) fn keep(&mut self, received: &[u8], timing: &Timing) {
        timing.arrive(&mut self.arrivals, !self.input.is_empty());
        let landed = self.land(received);
        self.input.push(received.get(landed..).unwrap_or_default());
    }

    /// Whether what comes next belongs to a long argument, for which [`Session::room`] has room.
    pub(crate) fn is_landing(&self) -> bool {
        self.landing.is_coming()
    }

    /// Lends room for what comes next of a long argument, and for nothing behind it.
    pub(crate) fn room(&mut self) -> Option<Room> {
        self.landing.lend()
    }

    /// Takes back room that was lent, with what was received into it. Returns how much that was.
    pub(crate) fn landed(&mut self, room: Room, timing: &Timing) -> usize {
        timing.arrive(&mut self.arrivals, true);
        let before = self.landing.bytes();
        self.landing.give_back(room);
        let bytes = self.landing.bytes() - before;
        self.land(&[]);
        bytes
    }

    /// Takes what belongs to a long argument. Returns how many bytes that is.
    #[inline]
    fn land(&mut self, received: &[u8]) -> usize {
        if !self.landing.is_coming() {
            return 0;
        }
        let taken = self.landing.take(received);
        if self.landing.has_landed() {
            self.dialect.land();
        }
        taken
    }

    /// Has the rest of a long argument received into chunks of its own, if one is awaited and
    /// enough of it has arrived.
    fn begin_landing(&mut self) {
        let Some(awaited) = self.dialect.awaited() else { return };
        let at = awaited.at as usize;
        if self.input.len() < at + FIRST_BYTES {
            return;
        }
        self.landing.begin(awaited);
        let mut input = std::mem::take(&mut self.input);
        let landed = self.land(input.as_mut_slice().get(at..).unwrap_or_default());
        input.cut(at, landed);
        self.input = input;
    }

    /// Takes what has arrived, executes a slice of it and appends the replies to `out`.
    pub(crate) fn feed(
        &mut self,
        received: &mut [u8],
        around: &mut Surroundings<'_>,
        out: &mut Output,
    ) -> Standing {
        if self.info().marks().contains(Marks::KILLED) {
            return Standing::Closing;
        }
        self.client.info.active_at_ms.store(around.now_ms, Ordering::Relaxed);
        if !received.is_empty() {
            around.timing.arrive(&mut self.arrivals, !self.input.is_empty());
        }
        let place = if self.suspended.is_some() { self.resume(around, out) } else { None };
        let landed = self.land(received);
        let received = received.get_mut(landed..).unwrap_or_default();
        let standing = if self.client.closing {
            Standing::Closing
        } else if self.landing.is_coming() {
            Standing::Bytes
        } else if let Some(suspended) = &self.suspended {
            self.input.push(received);
            standing_of(suspended)
        } else if self.input.is_empty() {
            let (consumed, standing) = self.advance(received, around, out);
            if let Some(rest) = received.get(consumed..).filter(|rest| !rest.is_empty()) {
                self.input.push(rest);
            }
            standing
        } else {
            let mut input = std::mem::take(&mut self.input);
            input.push(received);
            let (consumed, standing) = self.advance(input.as_mut_slice(), around, out);
            input.consume(consumed);
            self.input = input;
            standing
        };
        drop(place);
        if standing == Standing::Bytes && !self.landing.is_coming() {
            self.begin_landing();
        }
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
            let Some(&first) = rest.first() else { return (at, Standing::Bytes) };
            self.dialect.negotiate(first);
            around.spans.clear();
            let batch = match &mut self.dialect {
                Dialect::Resp(parser) => {
                    let (landing, client) = (&self.landing, &mut self.client);
                    resp::batch(parser, rest, landing, client, &mut self.arrivals, around, out)
                }
                Dialect::Text(parser) => {
                    let (landing, client) = (&self.landing, &mut self.client);
                    text::batch(parser, rest, landing, client, &mut self.arrivals, around, out)
                }
                Dialect::Binary(parser) => {
                    binary::batch(parser, rest, &mut self.client, around, out)
                }
                // Negotiated above.
                Dialect::Memcached => return (at, Standing::Closing),
            };
            if batch.consumed > 0 && !self.landing.is_empty() {
                self.landing = Landing::default();
            }
            if around.spans.capacity() > KEPT_SPANS {
                around.spans.shrink_to(KEPT_SPANS);
            }
            at += batch.consumed;
            requests += batch.requests;
            match batch.next {
                Next::Bytes => return (at, Standing::Bytes),
                Next::Closing => return (at, Standing::Closing),
                Next::Suspended(suspended, underway) => {
                    let standing = standing_of(&suspended);
                    self.suspended = Some(suspended);
                    self.underway = underway;
                    return (at, standing);
                }
                Next::Batch => {}
            }
            let replies = out.len() - replies_before;
            if requests >= SLICE_REQUESTS || at >= SLICE_BYTES || replies >= SLICE_REPLY_BYTES {
                return (at, Standing::Turn);
            }
        }
    }

    /// Whether its request must come to its end even if the client has left.
    pub(crate) fn is_committed(&self) -> bool {
        self.suspended.as_ref().is_some_and(Suspended::is_committed)
    }

    /// Goes on with the request that is suspended, if one is, for a slice. Returns a place in a
    /// queue that is to be kept until the request has been parsed again and run.
    pub(crate) fn resume(&mut self, around: &Surroundings<'_>, out: &mut Output) -> Option<Wait> {
        let suspended = self.suspended.take()?;
        let (replies, began) = (out.len(), around.timing.now());
        let place = self.go_on(suspended, around, out);
        if let Some(mut underway) = self.underway.take() {
            underway.went_on(began, out.len() - replies, around.timing);
            if self.suspended.is_some() {
                self.underway = Some(underway);
            } else {
                around.timing.end(*underway, out.len(), &around.audience());
            }
        }
        place
    }

    fn go_on(
        &mut self,
        suspended: Suspended,
        around: &Surroundings<'_>,
        out: &mut Output,
    ) -> Option<Wait> {
        let _batch = around.shared.store.batch(around.counters);
        let mut unheard = Output::default();
        let hears = self.client.hears == Hears::All;
        let replies = if hears { &mut *out } else { &mut unheard };
        let landed = self.landing.arguments();
        let input = self.input.as_mut_slice();
        match suspended.go_on(input, landed, &mut self.client, around, replies) {
            Outcome::More(suspended) => self.suspended = Some(suspended),
            Outcome::Parse(wait) => return wait,
            Outcome::Over(len) => {
                self.input.consume(len);
                self.landing = Landing::default();
                if !hears && self.client.hears.end() {
                    out.push(unheard.as_contiguous().unwrap_or_default());
                }
            }
        }
        None
    }

    /// Shows others how much is waiting, and refuses to let it grow without bound.
    fn note_input(&self, standing: Standing, around: &Surroundings<'_>) -> Standing {
        let info = self.info();
        let waiting = self.input.len() + self.landing.bytes();
        if info.query_bytes.load(Ordering::Relaxed) != waiting {
            info.query_bytes.store(waiting, Ordering::Relaxed);
            if waiting > around.shared.config().client_query_buffer_limit.bytes() {
                tracing::warn!(
                    client = info.id,
                    address = %info.address,
                    bytes = waiting,
                    "closed: a request passes client-query-buffer-limit"
                );
                around.tally.query_limit_disconnections.add(1);
                return Standing::Closing;
            }
        }
        standing
    }
}

/// What a session waits for whose request is suspended.
fn standing_of(suspended: &Suspended) -> Standing {
    match suspended.when() {
        When::NextTick => Standing::Midway,
        When::RoomForReplies => Standing::Turn,
        When::Woken => Standing::Called,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::server::Options;
    use proptest::prelude::*;

    /// A session with a store to itself.
    struct Talk {
        shared: Shared,
        session: Session,
        spans: Vec<Span>,
        slices: usize,
    }

    impl Talk {
        fn new(protocol: Protocol) -> Self {
            let shared = Shared::new(Options::default(), Vec::new()).unwrap();
            Talk {
                session: Session::new(
                    Arc::default(),
                    protocol,
                    shared.config(),
                    Waker::noop().clone(),
                ),
                shared,
                spans: Vec::new(),
                slices: 0,
            }
        }

        /// Hands over some bytes, and goes on until more are needed. Returns the replies.
        fn say(&mut self, bytes: &[u8]) -> (Vec<u8>, Standing) {
            let mut received = bytes.to_vec();
            let mut replies = Vec::new();
            loop {
                let mut out = Output::default();
                let mut around = Surroundings {
                    shared: &self.shared,
                    counters: &self.shared.store.counters(0),
                    tally: &self.shared.statistics().worker(0),
                    now_ms: self.shared.store.now_ms(),
                    timing: &Timing::default(),
                    spans: &mut self.spans,
                };
                let standing = self.session.feed(&mut received, &mut around, &mut out);
                replies.extend(out.slices().flatten());
                if !matches!(standing, Standing::Turn | Standing::Midway) {
                    return (replies, standing);
                }
                self.slices += 1;
                received.clear();
            }
        }
    }

    /// What a client is answered that sends `pieces` one after the other.
    fn converse(protocol: Protocol, pieces: &[&[u8]]) -> String {
        let mut talk = Talk::new(protocol);
        let mut replies = Vec::new();
        for piece in pieces {
            let (more, standing) = talk.say(piece);
            replies.extend(more);
            if standing == Standing::Closing {
                replies.extend(b"(closed)");
                break;
            }
        }
        String::from_utf8_lossy(&replies).into_owned()
    }

    fn multibulk(words: &[&str]) -> String {
        let arguments = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), arguments.collect::<String>())
    }

    /// A request of RESP, well-formed for the most part.
    fn request() -> impl Strategy<Value = String> {
        let long = "v".repeat(300);
        let (huge, other) = ("h".repeat(140_000), "o".repeat(131_072));
        prop_oneof![
            1 => Just(multibulk(&["SET", "key", &huge, "GET"])),
            1 => Just(multibulk(&["MSET", "key", &huge, "other", &other, "number", "7"])),
            1 => Just(multibulk(&["APPEND", "other", &other])),
            8 => Just(multibulk(&["SET", "key", "value"])),
            4 => Just(multibulk(&["set", "other", &long])),
            4 => Just(multibulk(&["GET", "other"])),
            8 => Just(multibulk(&["GeT", "key"])),
            4 => Just(multibulk(&["INCR", "number"])),
            2 => Just(multibulk(&["SELECT", "3"])),
            2 => Just(multibulk(&["SELECT", "0"])),
            2 => Just(multibulk(&["KEYS", "n*"])),
            2 => Just(multibulk(&["DBSIZE"])),
            2 => Just(multibulk(&["HELLO", "3"])),
            2 => Just(multibulk(&["NO", "SUCH"])),
            2 => Just("GET \"ke\\x79\"\r\n".to_owned()),
            2 => Just("\r\n".to_owned()),
            1 => Just(multibulk(&["QUIT"])),
            1 => Just("*1\r\n!\r\n".to_owned()),
        ]
    }

    /// A request of memcached's text protocol.
    fn line() -> impl Strategy<Value = String> {
        prop_oneof![
            6 => Just("set key 7 0 5\r\nvalue\r\n".to_owned()),
            6 => Just("get key other number\r\n".to_owned()),
            3 => Just("set number 0 0 1 noreply\r\n7\r\n".to_owned()),
            3 => Just("incr number 5\r\n".to_owned()),
            2 => Just("set key 0 0 5\r\nvalues\r\n".to_owned()),
            1 => Just(format!("set key 0 0 140000\r\n{}\r\n", "y".repeat(140_000))),
            1 => Just(format!("append key 0 0 140000\r\n{}zz", "y".repeat(140_000))),
            1 => Just(format!("set key 0 0 1048577\r\n{}\r\n", "x".repeat(1_048_577))),
            1 => Just("nothing of ours\r\n".to_owned()),
            1 => Just("quit\r\n".to_owned()),
        ]
    }

    /// Cuts `input` at the given hundredths of its length.
    fn cut(input: &[u8], places: &[usize]) -> Vec<Vec<u8>> {
        let mut places: Vec<usize> = places.iter().map(|at| at * input.len() / 100).collect();
        places.sort_unstable();
        places.push(input.len());
        let mut from = 0;
        let piece = |to| {
            let piece = input[from..to].to_vec();
            from = to;
            piece
        };
        places.into_iter().map(piece).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn however_a_pipeline_arrives_the_replies_are_the_same(
            requests in prop::collection::vec(request(), 1..80),
            places in prop::collection::vec(0_usize..100, 0..8),
        ) {
            let input = requests.concat();
            let whole = converse(Protocol::Resp, &[input.as_bytes()]);
            let cut = cut(input.as_bytes(), &places);
            let pieces: Vec<&[u8]> = cut.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(converse(Protocol::Resp, &pieces), whole);
        }

        #[test]
        fn however_lines_arrive_the_replies_are_the_same(
            lines in prop::collection::vec(line(), 1..50),
            places in prop::collection::vec(0_usize..100, 0..8),
        ) {
            let input = lines.concat();
            let whole = converse(Protocol::Memcached, &[input.as_bytes()]);
            let cut = cut(input.as_bytes(), &places);
            let pieces: Vec<&[u8]> = cut.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(converse(Protocol::Memcached, &pieces), whole);
        }
    }

    #[test]
    fn a_request_may_arrive_byte_by_byte() {
        let input =
            multibulk(&["SET", "key", "value"]) + &multibulk(&["GET", "key"]) + "GET key\r\n";
        let bytes: Vec<&[u8]> = input.as_bytes().chunks(1).collect();
        assert_eq!(converse(Protocol::Resp, &bytes), "+OK\r\n$5\r\nvalue\r\n$5\r\nvalue\r\n");
        let input = "set key 3 0 5\r\nvalue\r\nget key\r\n";
        let bytes: Vec<&[u8]> = input.as_bytes().chunks(1).collect();
        let expected = "STORED\r\nVALUE key 3 5\r\nvalue\r\nEND\r\n";
        assert_eq!(converse(Protocol::Memcached, &bytes), expected);
    }

    #[test]
    fn nothing_is_executed_behind_the_end() {
        let quit = multibulk(&["QUIT"]) + &multibulk(&["SET", "key", "value"]);
        assert_eq!(converse(Protocol::Resp, &[quit.as_bytes()]), "+OK\r\n(closed)");
        let error = multibulk(&["PING"]) + "*1\r\n!\r\n" + &multibulk(&["PING"]);
        assert_eq!(
            converse(Protocol::Resp, &[error.as_bytes()]),
            "+PONG\r\n-ERR Protocol error: expected '$', got '!'\r\n(closed)"
        );
    }

    #[test]
    fn a_long_pipeline_is_served_in_slices() {
        let mut talk = Talk::new(Protocol::Resp);
        let requests = 10 * SLICE_REQUESTS;
        let (replies, standing) = talk.say(multibulk(&["PING"]).repeat(requests).as_bytes());
        assert_eq!(replies, b"+PONG\r\n".repeat(requests));
        assert_eq!(standing, Standing::Bytes);
        assert!(talk.slices >= 9, "a slice has a bounded number of requests");

        let mut talk = Talk::new(Protocol::Resp);
        let value = "v".repeat(SLICE_REPLY_BYTES / 4);
        talk.say(multibulk(&["SET", "key", &value]).as_bytes());
        talk.slices = 0;
        talk.say(multibulk(&["GET", "key"]).repeat(400).as_bytes());
        assert!(talk.slices >= 10, "a slice has a bounded length of replies");
    }

    #[test]
    fn a_job_holds_up_its_own_client_only() {
        let mut talk = Talk::new(Protocol::Resp);
        for start in (0..200_000).step_by(1000) {
            let set = |key: usize| multibulk(&["SET", &format!("key:{key}"), "v"]);
            talk.say((start..start + 1000).map(set).collect::<String>().as_bytes());
        }
        talk.slices = 0;
        let set = multibulk(&["SET", "key", &"v".repeat(1000)]);
        let (begin, end) = set.split_at(500);
        let input = multibulk(&["KEYS", "key:1?"]) + &multibulk(&["PING"]) + begin;
        let (replies, standing) = talk.say(input.as_bytes());
        assert!(talk.slices > 0, "a walk over all keys takes more than one slice");
        assert!(replies.starts_with(b"*10\r\n") && replies.ends_with(b"\r\n+PONG\r\n"));
        assert_eq!(standing, Standing::Bytes);
        assert_eq!(talk.say(end.as_bytes()).0, b"+OK\r\n");
    }

    #[test]
    fn a_request_without_end_is_given_up() {
        let mut talk = Talk::new(Protocol::Resp);
        let limit = "1mb";
        talk.say(multibulk(&["CONFIG", "SET", "client-query-buffer-limit", limit]).as_bytes());
        assert_eq!(talk.say(b"*2\r\n$3\r\nGET\r\n$9000000\r\n").1, Standing::Bytes);
        let mut said = 0;
        while talk.say(&[b'x'; 10_000]).1 == Standing::Bytes {
            said += 10_000;
        }
        assert!((1_000_000..1 << 20).contains(&said), "given up after {said} bytes");
    }

    #[test]
    fn a_long_argument_is_received_into_room_of_its_own() {
        let mut talk = Talk::new(Protocol::Resp);
        let value: String = (0..1_000_000).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
        let set = multibulk(&["SET", "key", &value]);
        let (begin, end) = set.as_bytes().split_at(20_000);
        talk.say(begin);
        assert!(talk.session.is_landing());
        let header = set.find(&value).unwrap();
        assert_eq!(talk.session.input.len(), header, "the value is not in the buffer");
        let mut at = 20_000;
        while let Some(mut room) = talk.session.room() {
            let mut received = 0;
            for part in &mut room.slices() {
                let len = part.len();
                part.copy_from_slice(&set.as_bytes()[at + received..][..len]);
                received += len;
            }
            at += received;
            room.advance(received);
            assert_eq!(talk.session.landed(room, &Timing::default()), received);
        }
        assert_eq!(at, set.len() - 2, "there is room for the value, and for nothing behind it");
        assert_eq!(talk.say(&end[end.len() - 2..]).0, b"+OK\r\n");
        assert_eq!(talk.session.input.capacity(), 0);
        assert!(talk.session.landing.is_empty());
        let got = talk.say(multibulk(&["GET", "key"]).as_bytes()).0;
        assert!(got == format!("$1000000\r\n{value}\r\n").as_bytes());
    }

    #[test]
    fn an_idle_session_keeps_no_buffers() {
        let mut talk = Talk::new(Protocol::Resp);
        let set = multibulk(&["SET", "key", &"v".repeat(1_000_000)]);
        for piece in set.as_bytes().chunks(70_000) {
            talk.say(piece);
        }
        assert_eq!(talk.session.input.capacity(), 0);
        assert!(size_of::<Session>() < 512);
    }
}
