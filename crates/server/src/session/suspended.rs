//! A suspended request, which its session keeps until it completes.

use crate::protocols::environment::RequestEnvironment;
use crate::protocols::remainder::Remainder;
use crate::protocols::session_state::SessionState;
use crate::session::timing::RunningRequest;
use nagi_commands::Client;
use nagi_proto::{Args, LargeArgument, Output, Span};
use nagi_store::Wait;
use nagi_store::accounting::{self, Charge};

/// A request that continues later.
pub(crate) struct Suspended {
    remainder: Remainder,
    /// The spans of the request's arguments at the start of the session's input.
    spans: Vec<Span>,
    /// Accounts for the memory of the spans.
    _charge: Charge,
    /// The request's length in the input, in bytes.
    len: usize,
    /// Whether a part of the reply has been written.
    has_replied: bool,
    /// The timing so far, if the request is timed.
    underway: Option<Box<RunningRequest>>,
}

impl Suspended {
    /// Creates a suspended request of `len` bytes with arguments at `spans`, both from the start of
    /// the session's input on.
    pub(crate) fn new(
        remainder: Remainder,
        spans: Vec<Span>,
        len: usize,
        underway: Option<Box<RunningRequest>>,
    ) -> Self {
        let mut charge = Charge::default();
        charge.set(accounting::room_bytes::<Span>(spans.capacity()));
        Suspended { remainder, spans, _charge: charge, len, has_replied: false, underway }
    }

    /// What the session waits for.
    pub(crate) fn state(&self) -> SessionState {
        SessionState::Pending(self.remainder.when())
    }

    /// Whether it waits for its client's waker.
    pub(crate) fn waits(&self) -> bool {
        self.remainder.when().waits()
    }

    /// Whether the request has changed data and must be completed even if its client disconnects.
    pub(crate) fn is_committed(&self) -> bool {
        self.remainder.is_committed()
    }

    /// Whether a part of the reply has been written.
    pub(crate) fn has_replied(&self) -> bool {
        self.has_replied
    }

    /// Records, after a slice, whether it has written a part of the reply.
    pub(crate) fn replied(self, has_replied: bool) -> Self {
        Suspended { has_replied: self.has_replied || has_replied, ..self }
    }

    /// The request's length in the input, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Takes the timing.
    pub(crate) fn take_underway(&mut self) -> Option<Box<RunningRequest>> {
        self.underway.take()
    }

    /// Puts the timing back.
    pub(crate) fn keep_underway(&mut self, underway: Box<RunningRequest>) {
        self.underway = Some(underway);
    }

    /// If the request has to be parsed again, returns its place in a queue, if it has one;
    /// otherwise returns the request as the error.
    pub(crate) fn into_unread(self) -> Result<Option<Wait>, Self> {
        match self.remainder {
            Remainder::Unread(wait) => Ok(wait),
            remainder => Err(Suspended { remainder, ..self }),
        }
    }

    /// Runs a slice; `input` begins with the request, without its large arguments. Returns the
    /// request if it is not complete.
    pub(crate) fn go_on(
        self,
        input: &[u8],
        large: &[LargeArgument],
        client: &mut Client,
        environment: &RequestEnvironment<'_>,
        out: &mut Output,
    ) -> Option<Self> {
        let bytes = input.get(..self.len).unwrap_or_default();
        let args = Args::new(bytes, &self.spans).with_large(large);
        let replied = out.len();
        let remainder = self.remainder.go_on(args, client, environment, out)?;
        Some(Suspended { remainder, ..self }.replied(out.len() > replied))
    }
}
