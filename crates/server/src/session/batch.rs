//! A batch of requests of any protocol: parsed, then executed in order.

use crate::protocols::environment::RequestEnvironment;
use crate::protocols::remainder::Remainder;
use crate::protocols::session_state::SessionState;
use crate::protocols::{BatchInput, LargeParts, Request, RequestProtocol, Requests, SpanRoom};
use crate::session::suspended::Suspended;
use crate::session::timing::{Arrivals, Executed, Timing, is_brief};
use nagi_commands::{Client, HotKeys, Marks, Server as _, ShownKey, When, admission, large_values};
use nagi_proto::Output;
use nagi_store::Prefetch;
use nagi_store::accounting::Overhead;

/// The number of argument spans that a suspended request copies. More would take too long for one
/// slice.
const COPIED_SPANS: usize = 1024;

/// A slice's resources, lent to a session.
pub(crate) struct SliceContext<'w> {
    pub(crate) environment: RequestEnvironment<'w>,
    /// Timing of requests.
    pub(crate) timing: &'w Timing,
    /// Empty buffer for the argument spans of a batch.
    pub(crate) spans: &'w mut SpanRoom,
    /// Accounts for the memory of the reply buffer. It is measured after each request, since the
    /// next one may check `maxmemory`.
    pub(crate) output_overhead: &'w mut Overhead,
}

/// The parts of a session that a batch uses.
pub(super) struct BatchSession<'s> {
    pub(super) client: &'s mut Client,
    pub(super) arrivals: &'s mut Arrivals,
    /// The large arguments of the first request.
    pub(super) large: &'s LargeParts,
    /// Receives a request that is suspended.
    pub(super) suspended: &'s mut Option<Suspended>,
}

/// The result of a batch.
pub(super) struct Batch {
    /// Bytes consumed from the start of the input.
    pub(super) consumed: usize,
    /// Number of requests that have been executed, or have begun.
    pub(super) requests: usize,
    /// What the session waits for; `None` if there may be another batch.
    pub(super) state: Option<SessionState>,
}

/// Executes one batch from the start of `input`.
#[inline]
pub(super) fn execute<P: RequestProtocol>(
    protocol: &mut P,
    input: &mut [u8],
    session: BatchSession<'_>,
    slice: &mut SliceContext<'_>,
    out: &mut Output,
) -> Batch {
    let BatchSession { client, arrivals, large, suspended } = session;
    let SliceContext { environment, timing, spans, output_overhead } = slice;
    let environment = &*environment;
    let input_len = input.len();
    let _batch = environment.shared.store.batch(environment.counters);
    let mut requests: Requests<'_, P::Work<'_>> = Requests::new();
    let input = BatchInput { bytes: input, large, spans };
    let (consumed, state) = protocol.read(input, client, environment, &mut requests);
    let count = requests.len();
    let prefetch_entry = |place: usize| {
        let ahead = requests.get(place).and_then(|request| request.key.zip(request.ahead));
        ahead.into_iter().for_each(|(key, ahead)| ahead.prefetch_entry(key));
    };
    (0..Prefetch::REQUESTS).for_each(prefetch_entry);
    let counts_keys = environment.tally.hot_keys.begin_batch(count)
        && !admission::must_log_in(client, environment.shared.config());
    let mut stopwatch = timing.begin_batch(arrivals, count);
    for (place, request) in requests.iter().enumerate() {
        prefetch_entry(place + Prefetch::REQUESTS);
        note_key::<P>(request, counts_keys, place + 1 == count, client, environment);
        P::send_unsolicited(client, environment, out);
        let replied = out.len();
        let remainder = P::execute(request, client, environment, out);
        output_overhead.set(out.own_bytes());
        let was_rejected = std::mem::take(&mut client.was_rejected);
        let &Request { args, start, end, .. } = request;
        let kind = P::kind(&request.work);
        let (request_bytes, reply_bytes) =
            (end - start + args.large_bytes(), out.len().saturating_sub(replied));
        let bytes = if kind.is_some() { request_bytes + reply_bytes } else { 0 };
        if bytes >= large_values::MIN_BYTES || remainder.is_some() {
            note_values::<P>(request, bytes, remainder.as_ref(), client, environment);
        }
        let (loggable, replies) = (P::loggable(request), (replied, out.len()));
        let executed = |kind| Executed { kind, request: loggable, request_bytes, replies };
        // A request that has changed data is completed even if it closes its own connection.
        let is_kept = |remainder: &Remainder| !client.closing || remainder.is_committed();
        if let Some(remainder) = remainder.filter(is_kept) {
            // Later requests are parsed again when their turn comes.
            protocol.restart();
            let underway =
                kind.and_then(|kind| stopwatch.suspend(place, executed(kind), client, environment));
            let copied = (place > 0 || args.len() <= COPIED_SPANS).then(|| args.spans().to_vec());
            let (span_count, len) = (args.len(), end - start);
            // An unread request will be part of another batch, as are those after it.
            let executed = place + usize::from(!matches!(remainder, Remainder::Unread(_)));
            drop(requests);
            let spans = copied.unwrap_or_else(|| spans.take(span_count));
            let request =
                Suspended::new(remainder, spans, len, underway).replied(out.len() > replied);
            let state = suspend(client, suspended, request);
            return Batch { consumed: start, requests: executed, state: Some(state) };
        }
        if was_rejected || kind.is_none() {
            stopwatch.leave_out();
        }
        if let Some(kind) = kind {
            let next = requests.get(place + 1).and_then(|next| P::kind(&next.work));
            if !stopwatch.joins_next(kind, next, (request_bytes, reply_bytes)) {
                stopwatch.ran(place, executed(kind), next.is_none(), client, environment);
            }
        }
        // A client that was killed runs no further requests.
        if client.closing || client.info.marks().contains(Marks::KILLED) {
            let state = Some(SessionState::Closing);
            return Batch { consumed: input_len, requests: place + 1, state };
        }
    }
    let state = state.unwrap_or_else(|malformed| {
        P::refuse(malformed, client, environment, out);
        Some(SessionState::Closing)
    });
    Batch { consumed, requests: count, state }
}

/// Keeps a request that goes on later. Returns what its session waits for.
fn suspend(client: &Client, suspended: &mut Option<Suspended>, request: Suspended) -> SessionState {
    let state = if client.closing { SessionState::Closing } else { request.state() };
    client.info.note_suspended(Some(request.waits()));
    *suspended = Some(request);
    state
}

/// Records the key of a request that is about to be executed.
#[inline]
fn note_key<P: RequestProtocol>(
    request: &Request<'_, P::Work<'_>>,
    is_counted: bool,
    is_last: bool,
    client: &Client,
    environment: &RequestEnvironment<'_>,
) {
    let hot_keys = &environment.tally.hot_keys;
    if is_counted && hot_keys.begin_request() {
        count_keys::<P>(request, hot_keys);
    }
    // Once per batch, and before slow commands.
    if is_last || !P::kind(&request.work).is_none_or(is_brief) {
        match request.key {
            Some(key) if !key.bytes().is_empty() => client.info.shown_key.set(key.bytes()),
            _ => show_first_key::<P>(request, client),
        }
    }
}

/// Counts a request of the sample by its keys.
#[cold]
fn count_keys<P: RequestProtocol>(request: &Request<'_, P::Work<'_>>, hot_keys: &HotKeys) {
    match (P::keys(request), request.key) {
        (Some((keys, args)), _) if !keys.is_one() => {
            hot_keys.note_several(|random, most| keys.sample(most, random, args));
        }
        (_, Some(key)) => hot_keys.note(key.bytes()),
        (_, None) => hot_keys.note(b""),
    }
}

/// Records the key of a request whose first key has no fixed position, is empty or is long.
#[cold]
fn show_first_key<P: RequestProtocol>(request: &Request<'_, P::Work<'_>>, client: &Client) {
    let start = P::keys(request).map(|(keys, args)| keys.start_of_first(ShownKey::MAX_BYTES, args));
    client.info.shown_key.set(&start.unwrap_or_default());
}

/// Records the values of a request that has been executed, or will be executed in slices, as
/// candidates for the largest values. `bytes` are those of the request and its reply.
#[cold]
fn note_values<P: RequestProtocol>(
    request: &Request<'_, P::Work<'_>>,
    bytes: usize,
    remainder: Option<&Remainder>,
    client: &Client,
    environment: &RequestEnvironment<'_>,
) {
    let RequestEnvironment { shared, counters, tally, now_ms } = environment;
    let has_slices = remainder
        .is_some_and(|remainder| matches!(remainder.when(), When::NextTick | When::RoomForReplies));
    let is_wanted = match has_slices {
        true => tally.large_values.wants_long(),
        false => bytes >= large_values::MIN_BYTES && tally.large_values.wants(bytes),
    };
    if !is_wanted {
        return;
    }
    let (command, keys) = P::named(request);
    let db = shared.store.database(client.database, counters, *now_ms);
    tally.large_values.note(db, keys, command);
}
