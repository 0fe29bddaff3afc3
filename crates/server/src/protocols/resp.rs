//! Redis' protocol, RESP.

use crate::protocols::Loggable;
use crate::protocols::Requests;
use crate::protocols::environment::RequestEnvironment;
use crate::protocols::remainder::Remainder;
use crate::protocols::session_state::SessionState;
use crate::protocols::{
    BATCH, BatchInput, LargeParts, Request, RequestKind, RequestProtocol, some_keys,
};
use crate::state::client_lines;
use arrayvec::ArrayVec;
use nagi_commands::{
    Client, Context, Entry, Error, Flags, Keys, ReplyMode, Server as _, Suspension, admission,
    dispatch,
};
use nagi_proto::resp::{Limits, Parser, ProtocolError};
use nagi_proto::{Args, Awaited, Output, Span};

/// RESP, with its inline commands.
#[derive(Debug)]
pub(crate) struct Resp {
    parser: Parser,
    /// The most requests of the next batch. There is one after a request that was suspended, and
    /// twice as many with each further batch: if each request of a pipeline is suspended, as
    /// scripts are, those after it would be parsed in vain each time.
    batch_limit: usize,
}

impl Default for Resp {
    fn default() -> Self {
        Resp { parser: Parser::default(), batch_limit: BATCH }
    }
}

impl Resp {
    /// The length of the input below which nothing more can be parsed; zero between requests.
    #[inline]
    pub(crate) fn needed_bytes(&self) -> usize {
        self.parser.needed_bytes()
    }

    /// Finds the extents of requests. Returns the number of bytes consumed, and what the session
    /// waits for after them.
    fn parse(
        &mut self,
        input: &mut [u8],
        large: &LargeParts,
        limits: &Limits,
        spans: &mut Vec<Span>,
        extents: &mut ArrayVec<Extent, BATCH>,
    ) -> (usize, Result<Option<SessionState>, ProtocolError>) {
        let mut at = 0;
        let limit = self.batch_limit;
        self.batch_limit = (limit * 2).min(BATCH);
        while extents.len() < limit {
            let spans_before = spans.len();
            let rest = input.get_mut(at..).unwrap_or_default();
            // Escapes of an inline command are resolved in place, so it cannot be parsed again
            // after a job: it must be the first of its batch. So must the request after one that
            // may be a login.
            let is_inline = rest.first().is_some_and(|&kind| kind != b'*');
            if at > 0 && (!limits.authenticated || is_inline) {
                return (at, Ok(None));
            }
            let offsets = if at == 0 { &large.offsets[..] } else { &[] };
            match self.parser.parse_with_large(rest, limits, offsets, spans) {
                Ok(Some(taken)) => {
                    let (start, spans_end) = (at, spans.len());
                    at += taken;
                    if spans_end > spans_before {
                        extents.push(Extent { start, end: at, spans_end });
                    }
                }
                Ok(None) => return (at, Ok(Some(SessionState::Bytes))),
                Err(error) => return (at, Err(error)),
            }
        }
        (at, Ok(None))
    }
}

/// The extent of a request: the offsets of its first byte and after its last one, and the end of
/// its arguments in the batch's spans.
#[derive(Clone, Copy)]
struct Extent {
    start: usize,
    end: usize,
    spans_end: usize,
}

/// The table entry of a request's command; `None` for an unknown command or a wrong number of
/// arguments.
type Row = Option<&'static Entry>;

impl RequestProtocol for Resp {
    type Work<'a> = Row;
    type Malformed = ProtocolError;

    #[inline]
    fn read<'a>(
        &mut self,
        input: BatchInput<'a>,
        client: &Client,
        environment: &'a RequestEnvironment<'_>,
        requests: &mut Requests<'a, Row>,
    ) -> (usize, Result<Option<SessionState>, ProtocolError>) {
        let BatchInput { bytes, large, spans } = input;
        let mut extents = ArrayVec::new();
        let config = environment.shared.config();
        let is_authenticated = !admission::must_log_in(client, config);
        let limits = Limits {
            bulk_bytes: config.proto_max_bulk_len.bytes(),
            authenticated: is_authenticated,
        };
        let (parsed, spans) =
            spans.fill(|spans| self.parse(bytes, large, &limits, spans, &mut extents));
        resolve(bytes, &extents, large, spans, client.database, environment, requests);
        parsed
    }

    #[inline]
    fn send_unsolicited(
        client: &mut Client,
        environment: &RequestEnvironment<'_>,
        out: &mut Output,
    ) {
        environment.send_encoded_messages(client, out);
    }

    #[inline]
    fn execute(
        request: &Request<'_, Row>,
        client: &mut Client,
        environment: &RequestEnvironment<'_>,
        out: &mut Output,
    ) -> Option<Remainder> {
        let suspension = if client.reply_mode == ReplyMode::All {
            run(request.work, environment.context(client, out, request.args, request.key))
        } else {
            run_unanswered(request, client, environment, out)
        };
        if suspension.is_none() {
            environment.send_messages(client, out);
        }
        suspension.map(Remainder::Command)
    }

    #[inline]
    fn kind(work: &Row) -> Option<RequestKind> {
        work.map(RequestKind::Command)
    }

    #[inline]
    fn loggable<'r>(request: &'r Request<'_, Row>) -> &'r dyn Loggable {
        &request.args
    }

    #[inline]
    fn keys<'r>(request: &'r Request<'_, Row>) -> Option<(&'static Keys, Args<'r>)> {
        request.work.map(|row| (&row.command.keys, request.args))
    }

    fn named<'r>(request: &'r Request<'_, Row>) -> (&'static str, Vec<&'r [u8]>) {
        let Some(row) = request.work else { return ("", Vec::new()) };
        (row.full_name.as_str(), some_keys(&row.command.keys, request.args))
    }

    #[cold]
    fn refuse(
        ProtocolError(text): ProtocolError,
        client: &mut Client,
        environment: &RequestEnvironment<'_>,
        out: &mut Output,
    ) {
        if client_lines::PROTOCOL.admit() {
            let info = &client.info;
            tracing::info!(
                client = info.id,
                address = %info.shown_address(),
                "{}: {text}", client_lines::PROTOCOL.text()
            );
        }
        let error = Error::new(format!("ERR Protocol error: {text}"));
        let mut cx = environment.context(client, out, Args::new(&[], &[]), None);
        dispatch::refuse(&mut cx, &error);
    }

    fn restart(&mut self) {
        *self = Resp { parser: Parser::default(), batch_limit: 1 };
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

/// Looks up the commands of requests, and prefetches the memory of their keys.
fn resolve<'a>(
    input: &'a [u8],
    extents: &[Extent],
    large: &'a LargeParts,
    spans: &'a [Span],
    database: usize,
    environment: &'a RequestEnvironment<'_>,
    requests: &mut Requests<'a, Row>,
) {
    let store = &environment.shared.store;
    let mut spans_start = 0;
    for &Extent { start, end, spans_end } in extents {
        let own = spans.get(spans_start..spans_end).unwrap_or_default();
        spans_start = spans_end;
        let arguments = if start == 0 { &large.arguments[..] } else { &[] };
        let bytes = input.get(start..end).unwrap_or_default();
        let args = Args::new(bytes, own).with_large(arguments);
        let row = dispatch::resolve(environment.shared.commands, args).ok();
        // A long key is not made contiguous here: its request may have to wait for that.
        let key = row.and_then(|row| row.first_key(args)).map(|bytes| store.key(bytes));
        let ahead = match key {
            Some(key) if extents.len() > 1 => store.prefetch(database, key),
            _ => None,
        };
        requests.push(Request { args, start, end, key, ahead, work: row });
    }
}

/// Executes a request. Returns its suspension if it is not complete.
#[inline]
fn run(row: Row, mut cx: Context<'_>) -> Option<Suspension> {
    let args = cx.args;
    match row {
        Some(entry) => dispatch::run(entry, &mut cx, args),
        None => run_unresolved(&mut cx),
    }
    cx.suspension
}

/// Answers a request whose command is unknown or has a wrong number of arguments.
#[cold]
fn run_unresolved(cx: &mut Context<'_>) {
    let args = cx.args;
    dispatch::execute(cx, args);
    if cx.client.closing && dispatch::is_http(args) && client_lines::HTTP.admit() {
        let info = &cx.client.info;
        tracing::warn!(
            client = info.id,
            address = %info.shown_address(),
            "{}", client_lines::HTTP.text()
        );
    }
}

/// Executes a request whose reply is suppressed, unless the request enables replies or the reply is
/// a message: a confirmation, and neither an error nor QUEUED.
#[cold]
fn run_unanswered(
    request: &Request<'_, Row>,
    client: &mut Client,
    environment: &RequestEnvironment<'_>,
    out: &mut Output,
) -> Option<Suspension> {
    let &Request { args, work, .. } = request;
    let is_message = |entry: &Entry| entry.command.flags.contains(Flags::MESSAGES);
    client.is_answered_anyway = work.is_some_and(is_message);
    let is_answered = client.reply_mode.begin();
    let mut unsent = Output::default();
    let replies = if is_answered { &mut *out } else { &mut unsent };
    let suspension = run(work, environment.context(client, replies, args, None));
    let turns_on = suspension.is_none() && client.reply_mode.end();
    let is_confirmation = client.is_answered_anyway && is_message_in(&unsent);
    if !is_answered && (turns_on || is_confirmation) {
        out.append(&unsent);
    }
    suspension
}

/// Whether the output of a command whose replies are messages is one: neither an error nor QUEUED.
fn is_message_in(output: &Output) -> bool {
    let start: Vec<u8> = output.slices().flatten().take(b"+QUEUED".len()).copied().collect();
    !start.starts_with(b"-") && start != b"+QUEUED"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_requests_are_parsed_after_one_that_was_suspended() {
        let mut input = b"*1\r\n$4\r\nPING\r\n".repeat(100);
        let limits = Limits { bulk_bytes: 1024, authenticated: true };
        let mut resp = Resp::default();
        let mut parsed = || {
            let mut extents = ArrayVec::new();
            let large = LargeParts::default();
            let _ = resp.parse(&mut input, &large, &limits, &mut Vec::new(), &mut extents);
            let count = extents.len();
            if count == BATCH {
                resp.restart();
            }
            count
        };
        let counts: Vec<usize> = (0..8).map(|_| parsed()).collect();
        assert_eq!(counts, [BATCH, 1, 2, 4, 8, 16, BATCH, 1]);
    }
}
