//! A batch of requests in memcached's binary protocol: parse and ask for the memory, then execute
//! in order.

use crate::session::conversation::{BATCH, Batch, Next, Surroundings};
use crate::session::suspended::{Rest, Suspended};
use arrayvec::ArrayVec;
use nagi_commands::memcached::binary;
use nagi_commands::{Client, Server as _, admission};
use nagi_proto::memcached::binary::{Frame, Limits, Parser, Step};
use nagi_proto::{Args, Output};
use nagi_store::Key;

/// Longest value of a client that has not logged in: a user and a password.
const LOGIN_BYTES: usize = 1024;

/// A request on its way to its handler.
struct Request<'a> {
    /// The offsets of its first byte and behind its last one.
    start: usize,
    end: usize,
    frame: Frame<'a>,
    key: Option<Key<'a>>,
    /// Whether its lengths cannot be, and it is for being too long.
    contradiction: Option<bool>,
}

/// Executes one batch from the start of `input` on.
pub(crate) fn batch(
    parser: &mut Parser,
    input: &[u8],
    client: &mut Client,
    around: &Surroundings<'_>,
    out: &mut Output,
) -> Batch {
    let _batch = around.shared.store.batch(around.counters);
    let mut requests: ArrayVec<Request<'_>, BATCH> = ArrayVec::new();
    let stranger = admission::must_log_in(client, around.shared.config());
    let (consumed, next) = parse(parser, input, stranger, around, &mut requests);
    let count = requests.len();
    let keys = || requests.iter().filter_map(|request| request.key).filter(|_| count > 1);
    let ahead: ArrayVec<_, BATCH> =
        keys().map(|key| (key, around.shared.store.prefetch(0, key))).collect();
    for (key, ahead) in ahead {
        if let Some(ahead) = ahead {
            ahead.prefetch_entry(key);
        }
    }
    let nothing = Args::new(&[], &[]);
    for Request { start, end, frame, key, contradiction } in &requests {
        let mut cx = around.memcached_context(client, out, nothing, false, *key);
        let waits = binary::must_wait(&mut cx, frame);
        let claim = if waits { None } else { binary::meets_claim(&cx, frame.key) };
        if waits || claim.is_some() {
            // What was parsed from here on is parsed again when its turn comes.
            *parser = Parser::default();
            let suspended = Suspended::new(Rest::Unparsed(claim), nothing, 0);
            let next = Next::Suspended(suspended, None);
            return Batch { consumed: *start, requests: count, next };
        }
        match contradiction {
            None => binary::execute(&mut cx, frame),
            Some(too_long) => binary::refuse_contradiction(&mut cx, frame, *too_long),
        }
        if let Some(suspension) = cx.suspension {
            *parser = Parser::default();
            let rest = Rest::Verb { suspension, quiet: false };
            let next = Next::Suspended(Suspended::new(rest, nothing, 0), None);
            return Batch { consumed: *end, requests: count, next };
        }
        if client.closing {
            return Batch { consumed: input.len(), requests: count, next: Next::Closing };
        }
    }
    Batch { consumed, requests: count, next }
}

/// The first pass. Returns how many bytes the requests take, and what follows them.
fn parse<'a>(
    parser: &mut Parser,
    input: &'a [u8],
    stranger: bool,
    around: &'a Surroundings<'_>,
    requests: &mut ArrayVec<Request<'a>, BATCH>,
) -> (usize, Next) {
    let item_bytes = around.shared.config().memcached_item_limit.bytes();
    let limits = Limits { value_bytes: if stranger { LOGIN_BYTES } else { item_bytes } };
    let mut at = 0;
    while !requests.is_full() {
        if stranger && at > 0 {
            return (at, Next::Batch);
        }
        let start = at;
        let (frame, contradiction) =
            match parser.parse(input.get(at..).unwrap_or_default(), &limits) {
                Step::Incomplete => return (at, Next::Bytes),
                Step::Garbage => return (input.len(), Next::Closing),
                Step::Dropped { consumed } => {
                    at += consumed;
                    continue;
                }
                Step::Request { consumed, frame } => {
                    at += consumed;
                    (frame, None)
                }
                Step::Contradiction { frame, too_long } => {
                    at = input.len();
                    (frame, Some(too_long))
                }
            };
        let key = (!frame.key.is_empty()).then(|| around.shared.store.key(frame.key));
        requests.push(Request { start, end: at, frame, key, contradiction });
        if contradiction.is_some() {
            break;
        }
    }
    (at, Next::Batch)
}
