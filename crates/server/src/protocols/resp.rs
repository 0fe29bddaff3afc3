//! A batch of RESP requests, in passes of their own: parse, resolve and hash, execute in order. So
//! the memory that a batch needs is asked for before its first request waits for any.

use crate::session::conversation::{BATCH, Batch, Next, Surroundings};
use crate::session::large_arguments::Landing;
use crate::session::suspended::{Rest, Suspended};
use crate::session::timing::{Arrivals, Ran, What};
use arrayvec::ArrayVec;
use nagi_commands::{
    Client, Context, Entry, Error, Hears, Server as _, Suspension, admission, dispatch,
};
use nagi_proto::resp::{Limits, Parser, ProtocolError};
use nagi_proto::{Args, Output};
use nagi_store::{Ahead, Key};

/// Where a request lies: the offsets of its first byte and behind its last one, and where its
/// arguments stop in the batch's spans.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    end: usize,
    spans_end: usize,
}

/// A request on its way to its handler.
#[derive(Clone, Copy)]
struct Request<'a> {
    args: Args<'a>,
    start: usize,
    end: usize,
    /// The row that it is for; none if it is for no command, or has the wrong number of words.
    entry: Option<&'static Entry>,
    key: Option<Key<'a>>,
    ahead: Option<Ahead<'a>>,
}

/// Executes one batch from the start of `input` on.
pub(crate) fn batch(
    parser: &mut Parser,
    input: &mut [u8],
    landing: &Landing,
    client: &mut Client,
    arrivals: &mut Arrivals,
    around: &mut Surroundings<'_>,
    out: &mut Output,
) -> Batch {
    let mut places = ArrayVec::new();
    let stranger = admission::must_log_in(client, around.shared.config());
    let (consumed, parsed) = parse(parser, input, landing, stranger, around, &mut places);
    let around = &*around;
    let _batch = around.shared.store.batch(around.counters);
    let mut requests: ArrayVec<Request<'_>, BATCH> = ArrayVec::new();
    resolve(input, &places, landing, around, client.database, &mut requests);
    let count = requests.len();
    let look_ahead = |place: usize| {
        let ahead = requests.get(place).and_then(|request| request.key.zip(request.ahead));
        ahead.into_iter().for_each(|(key, ahead)| ahead.prefetch_entry(key));
    };
    (0..Ahead::REQUESTS).for_each(look_ahead);
    let mut stopwatch = around.timing.begin_batch(arrivals, count);
    // By reference: the array is large, and mostly empty.
    for (place, &Request { args, start, end, entry, key, .. }) in requests.iter().enumerate() {
        look_ahead(place + Ahead::REQUESTS);
        let replied = out.len();
        let suspension = if client.hears == Hears::All {
            run(entry, around.context(client, out, args, key))
        } else {
            run_unheard(entry, client, around, args, out)
        };
        let ran = entry.map(|entry| Ran {
            what: What::Command(entry),
            args,
            replies: (replied, out.len()),
        });
        if let Some(suspension) = suspension.filter(|_| !client.closing) {
            // What was parsed behind this request is parsed again when its turn comes.
            *parser = Parser::default();
            let underway = ran.and_then(|ran| stopwatch.suspend(place, ran, client, around));
            let suspended = Suspended::new(Rest::Command(suspension), args, end - start);
            let next = Next::Suspended(suspended, underway);
            return Batch { consumed: start, requests: count, next };
        }
        if let Some(ran) = ran {
            let next = requests.get(place + 1).and_then(|next| next.entry);
            stopwatch.ran(place, ran, next.map(What::Command), client, around);
        }
        if client.closing {
            return Batch { consumed: input.len(), requests: count, next: Next::Closing };
        }
    }
    let next = match parsed {
        Ok(next) => next,
        Err(ProtocolError(text)) => {
            let info = &client.info;
            tracing::info!(
                client = info.id,
                address = %info.address,
                "closed: Protocol error: {text}"
            );
            let error = Error::new(format!("ERR Protocol error: {text}"));
            dispatch::refuse(&mut around.context(client, out, Args::new(&[], &[]), None), &error);
            Next::Closing
        }
    };
    Batch { consumed, requests: count, next }
}

/// The third pass, for one request. Returns how it goes on, if it is not over.
#[inline]
fn run(entry: Option<&'static Entry>, mut cx: Context<'_>) -> Option<Suspension> {
    let args = cx.args;
    match entry {
        Some(entry) => dispatch::run(entry, &mut cx, args),
        None => {
            dispatch::execute(&mut cx, args);
            if cx.client.closing && dispatch::is_http(args) {
                let info = &cx.client.info;
                tracing::warn!(
                    client = info.id,
                    address = %info.address,
                    "closed: an HTTP request to the port of the Redis protocol"
                );
            }
        }
    }
    cx.suspension
}

/// The same for a request that is not to be answered, unless it says that it is.
#[cold]
fn run_unheard(
    entry: Option<&'static Entry>,
    client: &mut Client,
    around: &Surroundings<'_>,
    args: Args<'_>,
    out: &mut Output,
) -> Option<Suspension> {
    if client.hears.begin() {
        return run(entry, around.context(client, out, args, None));
    }
    let mut unheard = Output::default();
    let suspension = run(entry, around.context(client, &mut unheard, args, None));
    if suspension.is_none() && client.hears.end() {
        out.push(unheard.as_contiguous().unwrap_or_default());
    }
    suspension
}

/// The first pass. Returns how many bytes the requests take, and what follows them.
fn parse(
    parser: &mut Parser,
    input: &mut [u8],
    landing: &Landing,
    stranger: bool,
    around: &mut Surroundings<'_>,
    places: &mut ArrayVec<Place, BATCH>,
) -> (usize, Result<Next, ProtocolError>) {
    let config = around.shared.config();
    let limits = Limits { bulk_bytes: config.proto_max_bulk_len.bytes(), authenticated: !stranger };
    let mut at = 0;
    while !places.is_full() {
        let spans_before = around.spans.len();
        let rest = input.get_mut(at..).unwrap_or_default();
        // Escapes of an inline command are resolved where they stand, so it cannot be parsed again
        // behind a job: it starts a batch of its own.
        // So does what follows a request that may be a login.
        if at > 0 && (stranger || rest.first().is_some_and(|&kind| kind != b'*')) {
            return (at, Ok(Next::Batch));
        }
        let landed = if at == 0 { landing.offsets() } else { &[] };
        match parser.parse_landed(rest, &limits, landed, around.spans) {
            Ok(Some(taken)) => {
                let (start, spans_end) = (at, around.spans.len());
                at += taken;
                if spans_end > spans_before {
                    places.push(Place { start, end: at, spans_end });
                }
            }
            Ok(None) => return (at, Ok(Next::Bytes)),
            Err(error) => return (at, Err(error)),
        }
    }
    (at, Ok(Next::Batch))
}

/// The second pass.
fn resolve<'a>(
    input: &'a [u8],
    places: &[Place],
    landing: &'a Landing,
    around: &'a Surroundings<'_>,
    database: usize,
    requests: &mut ArrayVec<Request<'a>, BATCH>,
) {
    let mut spans_start = 0;
    for &Place { start, end, spans_end } in places {
        let spans = around.spans.get(spans_start..spans_end).unwrap_or_default();
        spans_start = spans_end;
        let landed = if start == 0 { landing.arguments() } else { &[] };
        let args = Args::new(input.get(start..end).unwrap_or_default(), spans).with_landed(landed);
        let entry = dispatch::resolve(around.shared.commands, args).ok();
        // A key that is long is not joined here: its request may have to wait for that.
        let first = entry.filter(|_| !args.has_landed());
        let first = first.and_then(|entry| entry.first_key(args));
        let key = first.map(|bytes| around.shared.store.key(bytes));
        let ahead = match key {
            Some(key) if places.len() > 1 => around.shared.store.prefetch(database, key),
            _ => None,
        };
        requests.push(Request { args, start, end, entry, key, ahead });
    }
}
