//! The session of one client, without the socket: bytes in, replies out.

use crate::net::protocol::Protocol;
use crate::net::receive_buffer::ReceiveBuffer;
use crate::protocols::environment::RequestEnvironment;
use crate::protocols::session_state::SessionState;
use crate::session::batch::{BatchSession, SliceContext};
use crate::session::dialect::Dialect;
use crate::session::input::Input;
use crate::session::large_arguments::{FIRST_BYTES, LargeArguments};
use crate::session::suspended::Suspended;
use crate::session::timing::{Arrivals, Metrics, Timing};
use crate::state::{client_limit, client_lines};
use nagi_commands::admission::Restrictions;
use nagi_commands::{
    Client, ClientInfo, Config, Marks, ReplyMode, SLICE_REQUESTS, Server as _, When, admission,
};
use nagi_proto::{Output, Span};
use nagi_store::Wait;
use nagi_store::accounting::{self, Charge};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::{Duration, Instant};

/// The limits of a slice, one connection's share of a tick, besides [`SLICE_REQUESTS`]: it ends
/// after the batch that exceeds one of them.
pub(crate) const SLICE_BYTES: usize = 64 * 1024;
const SLICE_REPLY_BYTES: usize = 256 * 1024;
const SLICE_TIME: Duration = Duration::from_micros(500);
/// The number of bytes that are parsed in a slice. A request may have millions of arguments, and
/// much of it may have arrived at once.
const PARSED_BYTES: usize = 2 * SLICE_BYTES;

/// The session of one client.
pub(crate) struct Session {
    client: Client,
    dialect: Dialect,
    /// Received bytes that have not been executed.
    input: Input,
    /// Accounts for argument spans of a partial request, which the protocol keeps.
    spans_charge: Charge,
    /// The long arguments of the first request in `input`, stored outside it.
    large: LargeArguments,
    /// Arrival times of the input.
    arrivals: Arrivals,
    /// The request at the start of the input, if its execution has begun and is not complete.
    suspended: Option<Suspended>,
}

impl Session {
    pub(crate) fn new(
        info: Arc<ClientInfo>,
        protocol: Protocol,
        config: &Config,
        waker: Waker,
    ) -> Self {
        let mut client = Client::new(info);
        client.restrictions = match protocol {
            Protocol::Resp => admission::restrictions(config, Restrictions::empty()),
            Protocol::Memcached => admission::memcached_restrictions(config),
        };
        client.waker = waker;
        Session {
            client,
            dialect: Dialect::of(protocol),
            input: Input::default(),
            spans_charge: Charge::default(),
            large: LargeArguments::default(),
            arrivals: Arrivals::default(),
            suspended: None,
        }
    }

    /// Restricts the client to administrative commands.
    pub(crate) fn administrate(&mut self) {
        self.client.restrictions |= Restrictions::ADMINISTRATES;
    }

    /// Makes the session serve a user's requests over HTTP, one after the other.
    pub(crate) fn serve_gateway(&mut self, config: &Config, user: &[u8]) {
        admission::log_in_as(&mut self.client, config, user);
        self.client.info.mark(Marks::GATEWAY, true);
    }

    /// Whether the client has to give a password before anything else.
    pub(crate) fn must_log_in(&self, config: &Config) -> bool {
        admission::must_log_in(&self.client, config)
    }

    /// Whether the client has asked for the connection to be closed.
    pub(crate) fn has_quit(&self) -> bool {
        self.client.has_quit
    }

    pub(crate) fn info(&self) -> &ClientInfo {
        &self.client.info
    }

    /// Whether the session can move to another worker: it is between two requests or has a partial
    /// one, and no other thread refers to it.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.suspended.is_none()
            && self.large.is_empty()
            && self.client.held_bytes() == 0
            && !self.client.closing
    }

    /// Replaces the client's waker by that of its new worker.
    pub(crate) fn move_to(&mut self, waker: Waker) {
        self.client.waker = waker;
    }

    /// Keeps received bytes, to be executed later.
    pub(crate) fn keep(&mut self, received: &[u8], timing: &Timing) {
        timing.arrive(&mut self.arrivals, !self.input.is_empty());
        let taken = self.take_large(received);
        self.input.push(received.get(taken..).unwrap_or_default());
    }

    /// Lends a buffer for the next bytes of a large argument, and for nothing after it.
    pub(crate) fn lend_buffer(&mut self) -> Option<ReceiveBuffer> {
        self.large.lend()
    }

    /// Takes back a buffer that was lent. Returns how many bytes were received into it.
    pub(crate) fn take_back(&mut self, buffer: ReceiveBuffer, timing: &Timing) -> usize {
        timing.arrive(&mut self.arrivals, true);
        let before = self.large.bytes();
        self.large.take_back(buffer);
        let bytes = self.large.bytes() - before;
        self.take_large(&[]);
        bytes
    }

    /// Takes the bytes that belong to a long argument. Returns their number.
    #[inline]
    fn take_large(&mut self, received: &[u8]) -> usize {
        if !self.large.is_arriving() {
            return 0;
        }
        let taken = self.large.take(received);
        if self.large.complete() {
            self.dialect.skip_awaited();
        }
        taken
    }

    /// Starts receiving the rest of a large argument into its own chunks, if one is awaited and
    /// enough of it has arrived. Returns what the session waits for.
    fn begin_large_argument(&mut self) -> SessionState {
        let Some(awaited) = self.dialect.awaited() else { return SessionState::Bytes };
        let at = awaited.at as usize;
        if self.input.len() < at + FIRST_BYTES {
            return SessionState::Bytes;
        }
        self.large.begin(awaited);
        let mut input = std::mem::take(&mut self.input);
        let taken = self.take_large(input.as_mut_slice().get(at..).unwrap_or_default());
        input.cut(at, taken);
        self.input = input;
        if self.large.is_arriving() { SessionState::LargeArgument } else { SessionState::Bytes }
    }

    /// Takes received bytes, executes a slice of the input and appends the replies to `out`.
    pub(crate) fn feed(
        &mut self,
        received: &mut [u8],
        slice: &mut SliceContext<'_>,
        out: &mut Output,
    ) -> SessionState {
        self.client.info.active_at_ms.store(slice.environment.now_ms, Ordering::Relaxed);
        if !received.is_empty() {
            slice.timing.arrive(&mut self.arrivals, !self.input.is_empty());
        }
        let place = if self.suspended.is_some() {
            let place = self.resume(&slice.environment, slice.timing, out);
            slice.output_overhead.set(out.own_bytes());
            place
        } else {
            None
        };
        let taken = self.take_large(received);
        let received = received.get_mut(taken..).unwrap_or_default();
        let state = if self.client.closing {
            SessionState::Closing
        } else if self.large.is_arriving() {
            SessionState::LargeArgument
        } else if let Some(suspended) = &self.suspended {
            self.input.push(received);
            let state = suspended.state();
            self.input.prepare_growth();
            state
        } else if self.input.is_empty() {
            let (consumed, state) = self.advance(received, slice, out);
            if let Some(rest) = received.get(consumed..).filter(|rest| !rest.is_empty()) {
                self.input.push(rest);
            }
            state
        } else {
            let mut input = std::mem::take(&mut self.input);
            input.push(received);
            let parsed_len = input.len().min(self.dialect.needed_bytes() + PARSED_BYTES);
            let has_more = parsed_len < input.len();
            let bytes = input.as_mut_slice().get_mut(..parsed_len).unwrap_or_default();
            let (consumed, state) = self.advance(bytes, slice, out);
            input.consume(consumed);
            match state {
                SessionState::Bytes if consumed == 0 => input.prepare_growth(),
                _ => input.cancel_growth(),
            }
            self.input = input;
            let is_parsed = !has_more || self.dialect.needed_bytes() > self.input.len();
            if state == SessionState::Bytes && !is_parsed {
                SessionState::NEXT_SLICE
            } else {
                state
            }
        };
        drop(place);
        self.spans_charge.set(accounting::room_bytes::<Span>(self.dialect.kept_spans()));
        let state = match state {
            SessionState::Bytes => self.begin_large_argument(),
            state => state,
        };
        self.note_input(state, &slice.environment)
    }

    /// Executes batches from the start of `input`, up to the limits of a slice. Returns the number
    /// of bytes executed.
    fn advance(
        &mut self,
        input: &mut [u8],
        slice: &mut SliceContext<'_>,
        out: &mut Output,
    ) -> (usize, SessionState) {
        let (mut at, mut requests, replies_before) = (0, 0, out.len());
        let mut began = None;
        loop {
            let rest = input.get_mut(at..).unwrap_or_default();
            if rest.is_empty() {
                return (at, SessionState::Bytes);
            }
            let session = BatchSession {
                client: &mut self.client,
                arrivals: &mut self.arrivals,
                large: self.large.complete_parts(),
                suspended: &mut self.suspended,
            };
            let batch = self.dialect.execute(rest, session, slice, out);
            if batch.consumed > 0 && !self.large.is_empty() {
                self.large = LargeArguments::default();
            }
            slice.spans.clear();
            at += batch.consumed;
            requests += batch.requests;
            self.client.info.requests.add(batch.requests as u64);
            if let Some(state) = batch.state {
                return (at, state);
            }
            let replies = out.len() - replies_before;
            let is_over =
                requests >= SLICE_REQUESTS || at >= SLICE_BYTES || replies >= SLICE_REPLY_BYTES;
            // Most requests arrive alone: the clock is not read for them.
            let took_long =
                at < input.len() && began.get_or_insert_with(Instant::now).elapsed() >= SLICE_TIME;
            if is_over || took_long {
                return (at, SessionState::NEXT_SLICE);
            }
        }
    }

    /// Whether a partial reply has been written, which messages must not interrupt, or a script
    /// runs, whose messages follow its reply.
    pub(crate) fn is_replying(&self) -> bool {
        let runs_script = || self.client.info.marks().contains(Marks::RUNS_SCRIPT);
        self.suspended.as_ref().is_some_and(|suspended| suspended.has_replied() || runs_script())
    }

    /// Holds messages of other clients until the current reply is complete.
    pub(crate) fn hold(&mut self, output: &Output) {
        self.client.hold_messages(output);
    }

    /// The number of bytes held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.client.held_bytes()
    }

    /// Whether the current request must be completed even if the client has disconnected.
    pub(crate) fn is_committed(&self) -> bool {
        self.suspended.as_ref().is_some_and(Suspended::is_committed)
    }

    /// Whether the current request continues only when its client's waker is called.
    pub(crate) fn is_to_be_woken(&self) -> bool {
        let state = self.suspended.as_ref().map(Suspended::state);
        state == Some(SessionState::Pending(When::Woken))
    }

    /// Runs a slice of the suspended request, if there is one. Returns a place in a queue that must
    /// be kept until the request has been read again and run.
    pub(crate) fn resume(
        &mut self,
        environment: &RequestEnvironment<'_>,
        timing: &Timing,
        out: &mut Output,
    ) -> Option<Wait> {
        let mut suspended = match self.suspended.take()?.into_unread() {
            Ok(wait) => {
                self.client.info.note_suspended(None);
                return wait;
            }
            Err(suspended) => suspended,
        };
        let (replies, began) = (out.len(), timing.now());
        let was_blocked = suspended.state() == SessionState::Pending(When::Served);
        let underway = suspended.take_underway();
        self.go_on(suspended, environment, out);
        let elsewhere = std::mem::take(&mut self.client.worked_elsewhere);
        let was_rejected = std::mem::take(&mut self.client.was_rejected);
        if let Some(mut underway) = underway.filter(|_| !was_rejected) {
            if was_blocked {
                underway.leave_out_wait(began);
            }
            underway.add_slice(began, out.len() - replies, timing);
            underway.add_work(elsewhere);
            match &mut self.suspended {
                Some(suspended) => suspended.keep_underway(underway),
                None => timing.end(*underway, out.len(), &Metrics::of(environment)),
            }
        }
        None
    }

    fn go_on(
        &mut self,
        suspended: Suspended,
        environment: &RequestEnvironment<'_>,
        out: &mut Output,
    ) {
        let _batch = environment.shared.store.batch(environment.counters);
        let mut unsent = Output::default();
        let is_answered =
            self.client.reply_mode == ReplyMode::All || self.client.is_answered_anyway;
        let replies = if is_answered { &mut *out } else { &mut unsent };
        let (len, large) = (suspended.len(), self.large.complete_parts());
        let input = self.input.as_mut_slice();
        let client = &mut self.client;
        self.suspended = suspended.go_on(input, &large.arguments, client, environment, replies);
        self.client.info.note_suspended(self.suspended.as_ref().map(Suspended::waits));
        if self.suspended.is_none() {
            self.input.consume(len);
            self.large = LargeArguments::default();
            if self.client.reply_mode.end() && !is_answered {
                out.append(&unsent);
            }
            out.append(&self.client.take_messages());
            environment.send_messages(&mut self.client, out);
        }
    }

    /// Bytes of requests that were not executed completely.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.input.len() + self.large.bytes()
    }

    /// Records the input that has been kept for later; see [`Self::note_input`].
    pub(crate) fn note_kept(
        &mut self,
        state: SessionState,
        environment: &RequestEnvironment<'_>,
    ) -> SessionState {
        self.input.prepare_growth();
        self.note_input(state, environment)
    }

    /// Records how much input is waiting, and closes the session at the limits.
    fn note_input(
        &self,
        state: SessionState,
        environment: &RequestEnvironment<'_>,
    ) -> SessionState {
        let info = self.info();
        let waiting = self.waiting_bytes();
        let held = waiting + self.input.copied_bytes();
        let queued = info.queued_bytes.load(Ordering::Relaxed);
        if info.query_bytes.load(Ordering::Relaxed) != held || queued > 0 {
            info.query_bytes.store(held, Ordering::Relaxed);
            if waiting + queued > environment.shared.config().client_query_buffer_limit.bytes() {
                if client_lines::REQUEST.admit() {
                    tracing::warn!(
                        client = info.id,
                        address = %info.shown_address(),
                        bytes = waiting + queued,
                        "{}", client_lines::REQUEST.text()
                    );
                }
                environment.tally.query_limit_disconnections.add(1);
                return SessionState::Closing;
            }
            if client_limit::is_passed_by(info, environment.shared.config()) {
                client_limit::log_closed(info);
                environment.tally.evicted_clients.add(1);
                return SessionState::Closing;
            }
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::SpanRoom;
    use crate::state::shared::{ServerOptions, Shared};
    use nagi_store::accounting::Overhead;
    use proptest::prelude::*;

    /// A session with its own store.
    struct SessionFixture {
        shared: Shared,
        session: Session,
        spans: SpanRoom,
        output_overhead: Overhead,
        slices: usize,
    }

    impl SessionFixture {
        fn new(protocol: Protocol) -> Self {
            let commands = nagi_commands::command_table();
            let shared = Shared::new(ServerOptions::default(), Vec::new(), commands).unwrap();
            SessionFixture {
                session: Session::new(
                    Arc::default(),
                    protocol,
                    shared.config(),
                    Waker::noop().clone(),
                ),
                shared,
                spans: SpanRoom::default(),
                output_overhead: Overhead::default(),
                slices: 0,
            }
        }

        /// Passes bytes to the session, and runs it until it needs more. Returns the replies.
        fn send(&mut self, bytes: &[u8]) -> (Vec<u8>, SessionState) {
            let mut received = bytes.to_vec();
            let mut replies = Vec::new();
            loop {
                let mut out = Output::default();
                let environment = RequestEnvironment {
                    shared: &self.shared,
                    counters: &self.shared.store.counters(0),
                    tally: &self.shared.statistics().worker(0),
                    now_ms: self.shared.store.now_ms(),
                };
                let mut slice = SliceContext {
                    environment,
                    timing: &Timing::default(),
                    spans: &mut self.spans,
                    output_overhead: &mut self.output_overhead,
                };
                let state = self.session.feed(&mut received, &mut slice, &mut out);
                replies.extend(out.slices().flatten());
                if !matches!(state, SessionState::Pending(When::NextTick | When::RoomForReplies)) {
                    return (replies, state);
                }
                self.slices += 1;
                received.clear();
            }
        }
    }

    /// The replies to a client that sends `pieces` one after the other.
    fn converse(protocol: Protocol, pieces: &[&[u8]]) -> String {
        let mut fixture = SessionFixture::new(protocol);
        let mut replies = Vec::new();
        for piece in pieces {
            let (more, state) = fixture.send(piece);
            replies.extend(more);
            if state == SessionState::Closing {
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
        fn replies_do_not_depend_on_how_a_pipeline_arrives(
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
        fn replies_do_not_depend_on_how_lines_arrive(
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
    fn nothing_is_executed_after_quit() {
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
        let mut fixture = SessionFixture::new(Protocol::Resp);
        let requests = 10 * SLICE_REQUESTS;
        let (replies, state) = fixture.send(multibulk(&["PING"]).repeat(requests).as_bytes());
        assert_eq!(replies, b"+PONG\r\n".repeat(requests));
        assert_eq!(state, SessionState::Bytes);
        assert!(fixture.slices >= 9, "a slice has a bounded number of requests");

        let mut fixture = SessionFixture::new(Protocol::Resp);
        let value = "v".repeat(SLICE_REPLY_BYTES / 4);
        fixture.send(multibulk(&["SET", "key", &value]).as_bytes());
        fixture.slices = 0;
        fixture.send(multibulk(&["GET", "key"]).repeat(400).as_bytes());
        assert!(fixture.slices >= 10, "a slice has a bounded length of replies");
    }

    #[test]
    fn a_job_delays_only_its_own_client() {
        let mut fixture = SessionFixture::new(Protocol::Resp);
        for start in (0..200_000).step_by(1000) {
            let set = |key: usize| multibulk(&["SET", &format!("key:{key}"), "v"]);
            fixture.send((start..start + 1000).map(set).collect::<String>().as_bytes());
        }
        fixture.slices = 0;
        let set = multibulk(&["SET", "key", &"v".repeat(1000)]);
        let (begin, end) = set.split_at(500);
        let input = multibulk(&["KEYS", "key:1?"]) + &multibulk(&["PING"]) + begin;
        let (replies, state) = fixture.send(input.as_bytes());
        assert!(fixture.slices > 0, "a walk over all keys takes more than one slice");
        assert!(replies.starts_with(b"*10\r\n") && replies.ends_with(b"\r\n+PONG\r\n"));
        assert_eq!(state, SessionState::Bytes);
        assert_eq!(fixture.send(end.as_bytes()).0, b"+OK\r\n");
    }

    #[test]
    fn a_request_that_has_arrived_at_once_is_parsed_in_slices() {
        let keys: Vec<String> = (0..40_000).map(|key| format!("key:{key}")).collect();
        let words: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(|it| &**it)).collect();
        let mget = multibulk(&words);
        let mut fixture = SessionFixture::new(Protocol::Resp);
        fixture.session.keep(mget.as_bytes(), &Timing::default());
        let (replies, state) = fixture.send(b"");
        assert_eq!(state, SessionState::Bytes);
        assert_eq!(replies, format!("*40000\r\n{}", "$-1\r\n".repeat(40_000)).as_bytes());
        let slices = mget.len() / PARSED_BYTES;
        assert!(slices > 3 && fixture.slices >= slices, "{} slices", fixture.slices);
    }

    #[test]
    fn an_endless_request_closes_the_connection() {
        let mut fixture = SessionFixture::new(Protocol::Resp);
        let limit = "1mb";
        fixture.send(multibulk(&["CONFIG", "SET", "client-query-buffer-limit", limit]).as_bytes());
        assert_eq!(fixture.send(b"*2\r\n$3\r\nGET\r\n$9000000\r\n").1, SessionState::Bytes);
        let mut sent = 0;
        while fixture.send(&[b'x'; 10_000]).1.is_for_bytes() {
            sent += 10_000;
        }
        assert!((1_000_000..1 << 20).contains(&sent), "given up after {sent} bytes");
    }

    #[test]
    fn a_long_argument_is_received_into_its_own_allocation() {
        let mut fixture = SessionFixture::new(Protocol::Resp);
        let value: String = (0..1_000_000).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
        let set = multibulk(&["SET", "key", &value]);
        let (begin, end) = set.as_bytes().split_at(20_000);
        fixture.send(begin);
        assert!(fixture.session.large.is_arriving());
        let header = set.find(&value).unwrap();
        assert_eq!(fixture.session.input.len(), header, "the value is not in the buffer");
        let mut at = 20_000;
        while let Some(mut buffer) = fixture.session.lend_buffer() {
            let mut received = 0;
            for part in &mut buffer.slices() {
                let len = part.len();
                part.copy_from_slice(&set.as_bytes()[at + received..][..len]);
                received += len;
            }
            at += received;
            buffer.advance(received);
            assert_eq!(fixture.session.take_back(buffer, &Timing::default()), received);
        }
        assert_eq!(at, set.len() - 2, "there is room for the value, and for nothing behind it");
        assert_eq!(fixture.send(&end[end.len() - 2..]).0, b"+OK\r\n");
        assert_eq!(fixture.session.input.capacity(), 0);
        assert!(fixture.session.large.is_empty());
        let got = fixture.send(multibulk(&["GET", "key"]).as_bytes()).0;
        assert!(got == format!("$1000000\r\n{value}\r\n").as_bytes());
    }

    #[test]
    fn an_idle_session_keeps_no_buffers() {
        let mut fixture = SessionFixture::new(Protocol::Resp);
        let set = multibulk(&["SET", "key", &"v".repeat(1_000_000)]);
        for piece in set.as_bytes().chunks(70_000) {
            fixture.send(piece);
        }
        assert_eq!(fixture.session.input.capacity(), 0);
        assert!(size_of::<Session>() <= 592, "{}", size_of::<Session>());
    }
}
