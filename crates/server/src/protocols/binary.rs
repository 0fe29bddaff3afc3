//! memcached's binary protocol.

use crate::protocols::Loggable;
use crate::protocols::environment::RequestEnvironment;
use crate::protocols::remainder::Remainder;
use crate::protocols::session_state::SessionState;
use crate::protocols::{BatchInput, Request, RequestKind, RequestProtocol, Requests};
use nagi_commands::memcached::binary;
use nagi_commands::{Client, Entry, Keys, Server as _, admission};
use nagi_proto::memcached::binary::{Frame, Limits, ParsedFrame, Parser};
use nagi_proto::{Args, Output};
use std::convert::Infallible;

/// Maximum length of a value before a client has logged in: a user and a password.
const LOGIN_BYTES: usize = 1024;

/// memcached's binary protocol.
#[derive(Debug, Default)]
pub(crate) struct Binary {
    parser: Parser,
}

/// The work for a request.
pub(crate) struct Work<'a> {
    frame: Frame<'a>,
    /// Set if the lengths in the frame are refused: `true` if they are consistent, but the key or
    /// the request is too long; `false` if they contradict each other.
    contradiction: Option<bool>,
}

impl Loggable for Work<'_> {
    fn request_bytes(&self) -> usize {
        self.frame.extras.len() + self.frame.key.len() + self.frame.value.len()
    }

    fn kept_arguments(&self, _: Option<&Entry>) -> Vec<Vec<u8>> {
        binary::kept_arguments(&self.frame)
    }
}

impl RequestProtocol for Binary {
    type Work<'a> = Work<'a>;
    type Malformed = Infallible;

    fn read<'a>(
        &mut self,
        input: BatchInput<'a>,
        client: &Client,
        environment: &'a RequestEnvironment<'_>,
        requests: &mut Requests<'a, Work<'a>>,
    ) -> (usize, Result<Option<SessionState>, Infallible>) {
        let (consumed, state) = parse(&mut self.parser, input.bytes, client, environment, requests);
        if requests.len() > 1 {
            let store = &environment.shared.store;
            for request in requests.iter_mut() {
                request.ahead = request.key.and_then(|key| store.prefetch(0, key));
            }
        }
        (consumed, Ok(state))
    }

    fn execute(
        request: &Request<'_, Work<'_>>,
        client: &mut Client,
        environment: &RequestEnvironment<'_>,
        out: &mut Output,
    ) -> Option<Remainder> {
        let Work { frame, contradiction } = &request.work;
        let mut cx = environment.memcached_context(client, out, request.args, false, request.key);
        let waits = binary::must_wait(&mut cx, frame);
        let claim = if waits { None } else { binary::meets_claim(&cx, frame) };
        if waits || claim.is_some() {
            return Some(Remainder::Unread(claim));
        }
        match contradiction {
            None => binary::execute(&mut cx, frame),
            Some(too_long) => binary::refuse_contradiction(&mut cx, frame, *too_long),
        }
        Some(Remainder::Verb { suspension: cx.suspension?, is_quiet: false })
    }

    #[inline]
    fn kind(work: &Work<'_>) -> Option<RequestKind> {
        work.contradiction.is_none().then_some(RequestKind::Verb)
    }

    #[inline]
    fn loggable<'r>(request: &'r Request<'_, Work<'_>>) -> &'r dyn Loggable {
        &request.work
    }

    #[inline]
    fn keys<'r>(_: &'r Request<'_, Work<'_>>) -> Option<(&'static Keys, Args<'r>)> {
        None
    }

    fn named<'r>(request: &'r Request<'_, Work<'_>>) -> (&'static str, Vec<&'r [u8]>) {
        let frame = &request.work.frame;
        (binary::name_of(frame), vec![frame.key])
    }

    fn refuse(malformed: Infallible, _: &mut Client, _: &RequestEnvironment<'_>, _: &mut Output) {
        match malformed {}
    }

    fn restart(&mut self) {
        self.parser = Parser::default();
    }
}

/// Parses requests. Returns the number of bytes consumed, and what the session waits for after
/// them.
fn parse<'a>(
    parser: &mut Parser,
    input: &'a [u8],
    client: &Client,
    environment: &'a RequestEnvironment<'_>,
    requests: &mut Requests<'a, Work<'a>>,
) -> (usize, Option<SessionState>) {
    let config = environment.shared.config();
    let is_authenticated = !admission::must_log_in(client, config);
    let item_bytes = config.memcached_item_limit.bytes();
    let limits = Limits { value_bytes: if is_authenticated { item_bytes } else { LOGIN_BYTES } };
    let mut at = 0;
    while !requests.is_full() {
        // A request that may be a login is executed as a separate batch.
        if !is_authenticated && at > 0 {
            return (at, None);
        }
        let start = at;
        let (frame, contradiction) =
            match parser.parse(input.get(at..).unwrap_or_default(), &limits) {
                ParsedFrame::Incomplete => return (at, Some(SessionState::Bytes)),
                ParsedFrame::Garbage => return (input.len(), Some(SessionState::Closing)),
                ParsedFrame::Dropped { consumed } => {
                    at += consumed;
                    continue;
                }
                ParsedFrame::Request { consumed, frame } => {
                    at += consumed;
                    (frame, None)
                }
                ParsedFrame::Contradiction { frame, too_long } => {
                    at = input.len();
                    (frame, Some(too_long))
                }
            };
        let key = (!frame.key.is_empty()).then(|| environment.shared.store.key(frame.key));
        let (args, work) = (Args::new(&[], &[]), Work { frame, contradiction });
        requests.push(Request { args, start, end: at, key, ahead: None, work });
        if contradiction.is_some() {
            break;
        }
    }
    (at, None)
}
