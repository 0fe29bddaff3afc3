//! A batch of requests in memcached's text protocol, in the passes of a RESP batch.

use crate::session::conversation::{BATCH, Batch, Next, Surroundings};
use crate::session::large_arguments::Landing;
use crate::session::suspended::{Rest, Suspended};
use crate::session::timing::{Arrivals, Ran, What};
use arrayvec::ArrayVec;
use nagi_commands::memcached::{self, Error, Verb};
use nagi_commands::{Client, Marks, Server as _, admission};
use nagi_proto::memcached::{Limits, Parser, Step};
use nagi_proto::{Args, Output};
use nagi_store::{Ahead, Key};

/// Longest data block of a client that has not logged in: a user and a password.
const LOGIN_BYTES: usize = 1024;

/// What the parser found, and where its arguments stop in the batch's spans.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    end: usize,
    spans_end: usize,
    found: Found,
}

#[derive(Clone, Copy)]
enum Found {
    Request {
        quiet: bool,
    },
    /// Nothing to run, but a line to answer with.
    Reject {
        reply: &'static str,
        close: bool,
    },
}

/// A request on its way to its handler.
#[derive(Clone, Copy)]
struct Request<'a> {
    start: usize,
    args: Args<'a>,
    end: usize,
    key: Option<Key<'a>>,
    ahead: Option<Ahead<'a>>,
    work: Work,
}

/// What is to be done for a request.
#[derive(Clone, Copy)]
enum Work {
    Run { verb: &'static Verb, quiet: bool },
    Refuse { error: Error, quiet: bool },
    Reject { reply: &'static str, close: bool },
}

impl Work {
    fn what(&self) -> Option<What> {
        match *self {
            Work::Run { .. } => Some(What::Verb),
            Work::Refuse { .. } | Work::Reject { .. } => None,
        }
    }
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
    if client.info.marks().contains(Marks::WATCHER) {
        return Batch { consumed: input.len(), requests: 0, next: Next::Bytes };
    }
    let mut places = ArrayVec::new();
    let stranger = admission::must_log_in(client, around.shared.config());
    let (consumed, next) = parse(parser, input, landing, stranger, around, &mut places);
    let around = &*around;
    let _batch = around.shared.store.batch(around.counters);
    let mut requests: ArrayVec<Request<'_>, BATCH> = ArrayVec::new();
    resolve(input, &places, landing, around, &mut requests);
    let count = requests.len();
    let look_ahead = |place: usize| {
        let ahead = requests.get(place).and_then(|request| request.key.zip(request.ahead));
        ahead.into_iter().for_each(|(key, ahead)| ahead.prefetch_entry(key));
    };
    (0..Ahead::REQUESTS).for_each(look_ahead);
    let mut stopwatch = around.timing.begin_batch(arrivals, count);
    for (place, request) in requests.iter().enumerate() {
        look_ahead(place + Ahead::REQUESTS);
        let replied = out.len();
        let unfinished = run(request, client, around, out);
        let ran = request.work.what().map(|what| Ran {
            what,
            args: request.args,
            replies: (replied, out.len()),
        });
        if let Some(suspended) = unfinished.filter(|_| !client.closing) {
            // What was parsed behind this request is parsed again when its turn comes.
            *parser = Parser::default();
            let underway = ran.and_then(|ran| stopwatch.suspend(place, ran, client, around));
            let next = Next::Suspended(suspended, underway);
            return Batch { consumed: request.start, requests: count, next };
        }
        if let Some(ran) = ran {
            let next = requests.get(place + 1).and_then(|next| next.work.what());
            stopwatch.ran(place, ran, next, client, around);
        }
        if client.closing {
            return Batch { consumed: input.len(), requests: count, next: Next::Closing };
        }
    }
    Batch { consumed, requests: count, next }
}

/// The first pass. Returns how many bytes the requests take, and what follows them.
fn parse(
    parser: &mut Parser,
    input: &[u8],
    landing: &Landing,
    stranger: bool,
    around: &mut Surroundings<'_>,
    places: &mut ArrayVec<Place, BATCH>,
) -> (usize, Next) {
    let item_bytes = around.shared.config().memcached_item_limit.bytes();
    let limits = Limits { item_bytes: if stranger { LOGIN_BYTES } else { item_bytes } };
    let mut at = 0;
    while !places.is_full() {
        if stranger && at > 0 {
            return (at, Next::Batch);
        }
        let rest = input.get(at..).unwrap_or_default();
        let landed = if at == 0 { landing.offsets() } else { &[] };
        let (taken, found) = match parser.parse_landed(rest, &limits, landed, around.spans) {
            Step::Incomplete => return (at, Next::Bytes),
            Step::Request { consumed, quiet } => (consumed, Found::Request { quiet }),
            Step::Reject { consumed, reply, close } => (consumed, Found::Reject { reply, close }),
        };
        let start = at;
        at += taken;
        places.push(Place { start, end: at, spans_end: around.spans.len(), found });
    }
    (at, Next::Batch)
}

/// The second pass.
fn resolve<'a>(
    input: &'a [u8],
    places: &[Place],
    landing: &'a Landing,
    around: &'a Surroundings<'_>,
    requests: &mut ArrayVec<Request<'a>, BATCH>,
) {
    let mut spans_start = 0;
    for &Place { start, end, spans_end, found } in places {
        let spans = around.spans.get(spans_start..spans_end).unwrap_or_default();
        spans_start = spans_end;
        let landed = if start == 0 { landing.arguments() } else { &[] };
        let args = Args::new(input.get(start..end).unwrap_or_default(), spans).with_landed(landed);
        let work = match found {
            Found::Reject { reply, close } => Work::Reject { reply, close },
            Found::Request { quiet } => match memcached::resolve(args) {
                Ok(verb) => Work::Run { verb, quiet },
                Err(error) => Work::Refuse { error, quiet },
            },
        };
        let first = match &work {
            Work::Run { verb, .. } => verb.keys.first_of(args),
            Work::Reject { .. } | Work::Refuse { .. } => None,
        };
        let key = first.map(|bytes| around.shared.store.key(bytes));
        let ahead = match key {
            Some(key) if places.len() > 1 => around.shared.store.prefetch(0, key),
            _ => None,
        };
        requests.push(Request { start, args, end, key, ahead, work });
    }
}

/// The third pass, for one request. Returns what it leaves to do, which may be all of it.
fn run(
    request: &Request<'_>,
    client: &mut Client,
    around: &Surroundings<'_>,
    out: &mut Output,
) -> Option<Suspended> {
    let quiet = match request.work {
        Work::Run { quiet, .. } | Work::Refuse { quiet, .. } => quiet,
        Work::Reject { .. } => false,
    };
    let mut cx = around.memcached_context(client, out, request.args, quiet, request.key);
    let stranger = admission::must_log_in(cx.client, cx.server.config());
    match request.work {
        Work::Run { verb, .. } => memcached::run(verb, &mut cx, request.args),
        Work::Refuse { error, .. } => memcached::refuse(&mut cx, error),
        Work::Reject { reply, close } => {
            // The parser leaves the line of a value that is too long, and nothing else.
            if !request.args.is_empty() && !stranger {
                memcached::forget_refused(&mut cx, request.args);
            }
            if !reply.is_empty() {
                cx.reply.line(reply);
            }
            cx.client.closing |= close;
        }
    }
    let rest = Rest::Verb { suspension: cx.suspension?, quiet };
    Some(Suspended::new(rest, request.args, request.end - request.start))
}
