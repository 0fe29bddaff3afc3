//! A request that is not over: what its session keeps of it until it is.

use crate::session::conversation::Surroundings;
use nagi_commands::memcached::Memcached;
use nagi_commands::{Client, Suspension, When, go_on};
use nagi_proto::{Args, Landed, Output, Span};
use nagi_store::Wait;
use nagi_store::accounting::Charge;

/// A request that goes on later.
pub(crate) struct Suspended {
    rest: Rest,
    /// Where its arguments lie, which the session's input begins with.
    spans: Vec<Span>,
    charge: Charge,
    /// Its bytes there.
    len: usize,
}

/// What is left to do.
pub(crate) enum Rest {
    /// Of a command of Redis'.
    Command(Suspension),
    /// Of a verb of memcached's, whose client wants to hear nothing if `quiet`.
    Verb { suspension: Suspension<Memcached>, quiet: bool },
    /// All of it, parsing included, once its client's waker has been called; with its place in a
    /// queue, if it waits in one.
    Unparsed(Option<Wait>),
}

/// What became of a request that went on.
pub(crate) enum Outcome {
    /// It has been answered, and takes so many bytes of the input.
    Over(usize),
    /// There is more to do.
    More(Suspended),
    /// It is to be parsed, and has this place in a queue, if any, until it has run.
    Parse(Option<Wait>),
}

impl Suspended {
    /// A request of `len` bytes with these arguments at the start of the session's input.
    pub(crate) fn new(rest: Rest, args: Args<'_>, len: usize) -> Self {
        let (spans, mut charge) = (args.spans().to_vec(), Charge::default());
        charge.set(size_of_val(&spans[..]));
        Suspended { rest, spans, charge, len }
    }

    pub(crate) fn when(&self) -> When {
        match &self.rest {
            Rest::Command(suspension) => suspension.when,
            Rest::Verb { suspension, .. } => suspension.when,
            Rest::Unparsed(_) => When::Woken,
        }
    }

    /// Whether it has changed something, and must come to its end even without its client.
    pub(crate) fn is_committed(&self) -> bool {
        match &self.rest {
            Rest::Command(suspension) => suspension.is_committed,
            Rest::Verb { suspension, .. } => suspension.is_committed,
            Rest::Unparsed(_) => false,
        }
    }

    /// Goes on for a slice; `input` begins with it, without its long arguments.
    pub(crate) fn go_on(
        self,
        input: &[u8],
        landed: &[Landed],
        client: &mut Client,
        around: &Surroundings<'_>,
        out: &mut Output,
    ) -> Outcome {
        let Suspended { rest, spans, charge, len } = self;
        let args = Args::new(input.get(..len).unwrap_or_default(), &spans).with_landed(landed);
        let rest = match rest {
            Rest::Command(suspension) => {
                let mut cx = around.context(client, out, args, None);
                go_on(&mut cx, suspension);
                cx.suspension.map(Rest::Command)
            }
            Rest::Verb { suspension, quiet } => {
                let mut cx = around.memcached_context(client, out, args, quiet, None);
                go_on(&mut cx, suspension);
                cx.suspension.map(|suspension| Rest::Verb { suspension, quiet })
            }
            Rest::Unparsed(wait) => return Outcome::Parse(wait),
        };
        match rest {
            Some(rest) => Outcome::More(Suspended { rest, spans, charge, len }),
            None => Outcome::Over(len),
        }
    }
}
