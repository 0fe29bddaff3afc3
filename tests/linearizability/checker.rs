//! Searches for an order of a history's requests in which a sequential keyspace gives the same
//! replies.
//!
//! The search is that of Wing and Gong: a request can be the next one in the order if, of the
//! requests not yet ordered, none was answered before it was sent. As proposed by Lowe, a set of
//! requests is not tried twice from the same state. A request that blocks takes effect at two
//! instants: when its client begins to wait, and when the client is served or its timeout ends. A
//! client is served at the instant of the request that serves it.

use std::collections::HashSet;
use std::fmt::{self, Display, Write as _};
use std::time::Duration;

use harness::Reply;

use super::model::{Effect, Model, Request, time_out_s};

/// A timeout may seem to end this much too early, in seconds: the server's clock may be behind when
/// a wait begins, and its timeouts are in whole milliseconds.
const CLOCK_SLACK_S: f64 = 0.002;

/// A request with the time at which it was sent and its reply with the time at which it arrived.
/// Times count from the history's start.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) client: usize,
    pub(super) request: Request,
    pub(super) sent: Duration,
    pub(super) answered: Duration,
    pub(super) reply: Reply,
}

impl Operation {
    /// Returns the earliest time at which the request's wait can time out.
    fn earliest_time_out(&self) -> Duration {
        let seconds = time_out_s(&self.request) - CLOCK_SLACK_S;
        self.sent + Duration::from_secs_f64(seconds.max(0.0))
    }
}

/// A history without a valid order.
#[derive(Debug)]
pub(super) struct Fault {
    history: Vec<Operation>,
    /// The longest order that was found, described in words.
    order: Vec<String>,
    state: Model,
}

/// Events in the order that was found.
#[derive(Debug, PartialEq)]
pub(super) struct Found {
    /// Number of operations that waited and were then served.
    pub(super) served: u64,
    /// Number of operations whose wait timed out.
    pub(super) timed_out: u64,
}

/// Finds a valid order for a history that begins with an empty keyspace.
pub(super) fn check(history: &[Operation]) -> Result<Found, Box<Fault>> {
    assert!(history.len() <= 64, "sets of operations are 64 bits");
    let (start, seen) = (Model::default(), HashSet::new());
    let mut search = Search { history, seen, path: Vec::new(), best: (Vec::new(), start.clone()) };
    if search.completes(&start, Operations::default()) {
        let count = |is_it: fn(&Step) -> bool| search.path.iter().filter(|it| is_it(it)).count();
        let waited = count(|step| matches!(step, Step::Waits(_))) as u64;
        let timed_out = count(|step| matches!(step, Step::TimesOut(_))) as u64;
        return Ok(Found { served: waited - timed_out, timed_out });
    }
    let (order, state) = search.best;
    let order = order.iter().map(|step| step.shown(history)).collect();
    Err(Box::new(Fault { history: history.to_vec(), order, state }))
}

/// Which operations are in the order so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Operations {
    /// The operations that have begun, as a bit set.
    begun: u64,
    /// The operations that have ended, as a bit set.
    ended: u64,
}

/// A step of the order, which happens at one instant.
#[derive(Clone, Copy)]
enum Step {
    Runs(usize),
    Waits(usize),
    TimesOut(usize),
}

impl Step {
    fn shown(self, history: &[Operation]) -> String {
        let (operation, what) = match self {
            Step::Runs(operation) => (operation, ""),
            Step::Waits(operation) => (operation, " begins to wait"),
            Step::TimesOut(operation) => (operation, " ends without a result"),
        };
        format!("{operation}: {}{what}", Shown(&history[operation].request))
    }
}

struct Search<'a> {
    history: &'a [Operation],
    seen: HashSet<(Operations, Model)>,
    path: Vec<Step>,
    /// The longest order that was found, and the state at its end.
    best: (Vec<Step>, Model),
}

impl Search<'_> {
    /// Whether the remaining operations can be ordered.
    fn completes(&mut self, state: &Model, done: Operations) -> bool {
        let history = self.history;
        let has = |set: u64, operation: usize| set & (1 << operation) != 0;
        let missing = (0..history.len()).filter(|&it| !has(done.ended, it));
        // An operation that began after `bound` comes after the operation that was answered at that
        // time.
        let Some(bound) = missing.clone().map(|it| history[it].answered).min() else { return true };
        if !self.seen.insert((done, state.clone())) {
            return false;
        }
        if self.path.len() > self.best.0.len() {
            self.best = (self.path.clone(), state.clone());
        }
        for operation in missing {
            let mut next = state.clone();
            let step = if has(done.begun, operation) {
                time_out(&mut next, history, operation, bound, done)
            } else {
                begin(&mut next, history, operation, bound, done)
            };
            let Some((step, done)) = step else { continue };
            self.path.push(step);
            if self.completes(&next, done) {
                return true;
            }
            self.path.pop();
        }
        false
    }
}

/// Executes an operation as the next step, if it can be next and the model gives the recorded
/// replies to it and to the operations that it serves.
fn begin(
    state: &mut Model,
    history: &[Operation],
    number: usize,
    bound: Duration,
    mut done: Operations,
) -> Option<(Step, Operations)> {
    let operation = &history[number];
    if operation.sent > bound {
        return None;
    }
    let Effect { reply, served } = state.run(number, operation.client, &operation.request);
    done.begun |= 1 << number;
    let step = if reply.is_some() { Step::Runs(number) } else { Step::Waits(number) };
    for (number, reply) in reply.map(|reply| (number, reply)).into_iter().chain(served) {
        if history[number].reply != reply {
            return None;
        }
        done.ended |= 1 << number;
    }
    Some((step, done))
}

/// Times out the wait of an operation as the next step, if it can be next and the recorded reply is
/// that of a timeout.
fn time_out(
    state: &mut Model,
    history: &[Operation],
    number: usize,
    bound: Duration,
    mut done: Operations,
) -> Option<(Step, Operations)> {
    let operation = &history[number];
    if operation.reply != Reply::Null || operation.earliest_time_out() > bound {
        return None;
    }
    state.time_out(number);
    done.ended |= 1 << number;
    Some((Step::TimesOut(number), done))
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "no order of these requests gives these replies (times in microseconds):")?;
        for (number, operation) in self.history.iter().enumerate() {
            let Operation { client, request, sent, answered, reply } = operation;
            let (sent, answered) = (sent.as_micros(), answered.as_micros());
            let (request, reply) = (Shown(request), shown(reply));
            writeln!(
                f,
                "{number:3}  client {client}  {sent:6} to {answered:6}  {request} -> {reply}"
            )?;
        }
        writeln!(f, "the longest order that is possible:")?;
        self.order.iter().try_for_each(|step| writeln!(f, "     {step}"))?;
        write!(f, "the state at its end: {:#?}", self.state)
    }
}

/// Shows a request in words.
struct Shown<'a>(&'a Request);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Request::Command(words) => f.write_str(&words.join(" ")),
            Request::Transaction(commands) => {
                let commands: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
                write!(f, "EXEC [{}]", commands.join("; "))
            }
        }
    }
}

/// Shows a reply in words.
fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Simple(text) => text.clone(),
        Reply::Error(text) => format!("error {text}"),
        Reply::Integer(value) => value.to_string(),
        Reply::Bulk(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Reply::Null => "nil".to_owned(),
        Reply::Array(items) => {
            let mut text = String::from("[");
            for (index, item) in items.iter().enumerate() {
                let _ = write!(text, "{}{}", if index == 0 { "" } else { ", " }, shown(item));
            }
            text + "]"
        }
        other => format!("{other:?}"),
    }
}
