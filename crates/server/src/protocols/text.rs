//! memcached's text protocol, with its meta commands.

use crate::protocols::Loggable;
use crate::protocols::Requests;
use crate::protocols::environment::RequestEnvironment;
use crate::protocols::remainder::Remainder;
use crate::protocols::session_state::SessionState;
use crate::protocols::{
    BATCH, BatchInput, LargeParts, Request, RequestKind, RequestProtocol, some_keys,
};
use arrayvec::ArrayVec;
use nagi_commands::memcached::{self, Error, Verb};
use nagi_commands::{Client, Keys, Marks, Server as _, admission};
use nagi_proto::memcached::{BAD_BLOCK, LONG_LOGIN, Limits, Parsed, Parser};
use nagi_proto::{Args, Awaited, Output, Span};
use std::convert::Infallible;

/// Maximum data block before a client has logged in: a user and a password.
const LOGIN_BYTES: usize = 16 * 1024;
/// Minimum length of a line, with its end, that is answered before a login. No shorter line can be
/// a login, and memcached closes the connection after one.
const SHORTEST_LINE: usize = 7;

/// memcached's text protocol.
#[derive(Debug, Default)]
pub(crate) struct Text {
    parser: Parser,
}

/// The extent of a request, the end of its arguments in the batch's spans, and the parser's result.
#[derive(Clone, Copy)]
struct Extent {
    start: usize,
    end: usize,
    spans_end: usize,
    found: Found,
}

#[derive(Clone, Copy)]
enum Found {
    Request {
        is_quiet: bool,
    },
    /// No request to run, only a line to reply.
    Reject {
        reply: &'static str,
        close: bool,
    },
}

/// The work for a request.
#[derive(Clone, Copy)]
pub(crate) enum Work {
    Run {
        verb: &'static Verb,
        is_quiet: bool,
    },
    /// A request before the login; it is always answered. It may hold a password and is never
    /// logged.
    LogIn,
    Refuse {
        error: Error,
        is_quiet: bool,
    },
    Reject {
        reply: &'static str,
        close: bool,
    },
}

impl RequestProtocol for Text {
    type Work<'a> = Work;
    type Malformed = Infallible;

    #[inline]
    fn read<'a>(
        &mut self,
        input: BatchInput<'a>,
        client: &Client,
        environment: &'a RequestEnvironment<'_>,
        requests: &mut Requests<'a, Work>,
    ) -> (usize, Result<Option<SessionState>, Infallible>) {
        let BatchInput { bytes, large, spans } = input;
        if client.info.marks().contains(Marks::WATCHER) {
            return (bytes.len(), Ok(Some(SessionState::Bytes)));
        }
        let mut extents = ArrayVec::new();
        let config = environment.shared.config();
        let is_authenticated = !admission::must_log_in(client, config);
        let item_bytes = config.memcached_item_limit.bytes();
        let limits = match is_authenticated {
            true => Limits { item_bytes, login_only: false },
            false => Limits { item_bytes: LOGIN_BYTES, login_only: true },
        };
        // A request that may be a login is executed as a separate batch.
        let most = if is_authenticated { BATCH } else { 1 };
        let ((consumed, state), spans) = spans.fill(|spans| {
            parse(&mut self.parser, bytes, large, &limits, most, spans, &mut extents)
        });
        resolve(bytes, &extents, large, spans, is_authenticated, environment, requests);
        (consumed, Ok(state))
    }

    #[inline]
    fn execute(
        request: &Request<'_, Work>,
        client: &mut Client,
        environment: &RequestEnvironment<'_>,
        out: &mut Output,
    ) -> Option<Remainder> {
        let is_quiet = match request.work {
            Work::Run { is_quiet, .. } | Work::Refuse { is_quiet, .. } => is_quiet,
            Work::LogIn | Work::Reject { .. } => false,
        };
        let args = request.args;
        let mut cx = environment.memcached_context(client, out, args, is_quiet, request.key);
        match request.work {
            Work::Run { verb, .. } => memcached::run(verb, &mut cx, args),
            Work::LogIn => memcached::execute(&mut cx, args),
            Work::Refuse { error, .. } => memcached::refuse(&mut cx, error),
            Work::Reject { reply, close } => reject(&mut cx, reply, close),
        }
        Some(Remainder::Verb { suspension: cx.suspension?, is_quiet })
    }

    #[inline]
    fn kind(work: &Work) -> Option<RequestKind> {
        match *work {
            Work::Run { .. } => Some(RequestKind::Verb),
            Work::LogIn | Work::Refuse { .. } | Work::Reject { .. } => None,
        }
    }

    #[inline]
    fn loggable<'r>(request: &'r Request<'_, Work>) -> &'r dyn Loggable {
        &request.args
    }

    #[inline]
    fn keys<'r>(request: &'r Request<'_, Work>) -> Option<(&'static Keys, Args<'r>)> {
        match request.work {
            Work::Run { verb, .. } => Some((&verb.keys, request.args)),
            Work::LogIn | Work::Refuse { .. } | Work::Reject { .. } => None,
        }
    }

    fn named<'r>(request: &'r Request<'_, Work>) -> (&'static str, Vec<&'r [u8]>) {
        match request.work {
            Work::Run { verb, .. } => (verb.name, some_keys(&verb.keys, request.args)),
            Work::LogIn | Work::Refuse { .. } | Work::Reject { .. } => ("", Vec::new()),
        }
    }

    fn refuse(malformed: Infallible, _: &mut Client, _: &RequestEnvironment<'_>, _: &mut Output) {
        match malformed {}
    }

    fn restart(&mut self) {
        self.parser = Parser::default();
    }

    #[inline]
    fn awaited(&self) -> Option<Awaited> {
        self.parser.awaited()
    }

    #[inline]
    fn kept_spans(&self) -> usize {
        self.parser.kept_spans()
    }

    fn skip_awaited(&mut self) {
        self.parser.skip_large();
    }
}

/// Finds the extents of at most `most` requests. Returns the number of bytes consumed, and what the
/// session waits for after them.
fn parse(
    parser: &mut Parser,
    input: &[u8],
    large: &LargeParts,
    limits: &Limits,
    most: usize,
    spans: &mut Vec<Span>,
    extents: &mut ArrayVec<Extent, BATCH>,
) -> (usize, Option<SessionState>) {
    let mut at = 0;
    while extents.len() < most {
        let rest = input.get(at..).unwrap_or_default();
        let offsets = if at == 0 { &large.offsets[..] } else { &[] };
        let (taken, found) = match parser.parse_with_large(rest, limits, offsets, spans) {
            Parsed::Incomplete => return (at, Some(SessionState::Bytes)),
            Parsed::Request { consumed, quiet } => (consumed, Found::Request { is_quiet: quiet }),
            Parsed::Reject { consumed, reply, close } => (consumed, Found::Reject { reply, close }),
        };
        let start = at;
        at += taken;
        extents.push(Extent { start, end: at, spans_end: spans.len(), found });
    }
    (at, None)
}

/// Looks up the verbs of requests, and prefetches the memory of their keys.
fn resolve<'a>(
    input: &'a [u8],
    extents: &[Extent],
    large: &'a LargeParts,
    spans: &'a [Span],
    is_authenticated: bool,
    environment: &'a RequestEnvironment<'_>,
    requests: &mut Requests<'a, Work>,
) {
    let store = &environment.shared.store;
    let mut spans_start = 0;
    for &Extent { start, end, spans_end, found } in extents {
        let own = spans.get(spans_start..spans_end).unwrap_or_default();
        spans_start = spans_end;
        let arguments = if start == 0 { &large.arguments[..] } else { &[] };
        let bytes = input.get(start..end).unwrap_or_default();
        let args = Args::new(bytes, own).with_large(arguments);
        let work = match found {
            _ if !is_authenticated => before_login(bytes.len(), found),
            Found::Reject { reply, close } => Work::Reject { reply, close },
            Found::Request { is_quiet } => match memcached::resolve(args) {
                Ok(verb) => Work::Run { verb, is_quiet },
                Err(error) => Work::Refuse { error, is_quiet },
            },
        };
        let first = match &work {
            Work::Run { verb, .. } => verb.keys.first_of(args),
            Work::LogIn | Work::Reject { .. } | Work::Refuse { .. } => None,
        };
        let key = first.map(|bytes| store.key(bytes));
        let ahead = match key {
            Some(key) if extents.len() > 1 => store.prefetch(0, key),
            _ => None,
        };
        requests.push(Request { args, start, end, key, ahead, work });
    }
}

/// The work for a request of `bytes` bytes before its client has logged in.
#[cold]
fn before_login(bytes: usize, found: Found) -> Work {
    match found {
        _ if bytes < SHORTEST_LINE => Work::Reject { reply: "", close: true },
        Found::Reject { reply: "", .. } => Work::Reject { reply: "", close: true },
        Found::Reject { reply: LONG_LOGIN, close } => Work::Reject { reply: LONG_LOGIN, close },
        Found::Reject { reply: BAD_BLOCK, .. } => {
            Work::Reject { reply: "CLIENT_ERROR bad command line termination", close: true }
        }
        Found::Request { .. } | Found::Reject { .. } => Work::LogIn,
    }
}

/// Answers a request that the parser refuses.
#[cold]
fn reject(cx: &mut memcached::Context<'_>, mut reply: &str, close: bool) {
    // The parser keeps a line only if its value is too long.
    if !cx.args.is_empty()
        && !admission::must_log_in(cx.client, cx.server.config())
        && let Some(verb) = memcached::VERBS.iter().find(|it| it.name.as_bytes() == cx.args.at(0))
    {
        let is_possible_key = memcached::forget_refused(cx, verb, cx.args);
        if !is_possible_key && !reply.is_empty() {
            reply = "CLIENT_ERROR bad command line format";
        }
    }
    if !reply.is_empty() {
        cx.reply.line(reply);
    }
    cx.client.closing |= close;
}
