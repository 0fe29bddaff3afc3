//! Replies that are sent together with the next one of the same connection.
//!
//! A pipeline of scripts is executed by another thread, one script after the other, and its worker
//! gets each reply by itself. A send for each of them would cost more than a brief script. Redis
//! sends the replies of a pipeline once all of it has been executed; here they are held as long as
//! the connection's next request waits to be woken, and for a millisecond at most, so that a slow
//! script does not delay the replies before it.

use crate::net::token::Token;
use crate::protocols::session_state::SessionState;
use nagi_commands::When;
use nagi_proto::Output;
use nagi_store::accounting::{Overhead, room_bytes};
use std::time::{Duration, Instant};

/// How long replies are held.
pub(super) const HOLD: Duration = Duration::from_millis(1);
/// Longest replies that are copied instead of sent.
const MAX_BYTES: usize = 4096;

/// Replies of one connection.
#[derive(Debug, Default)]
pub(super) struct HeldReplies {
    bytes: Vec<u8>,
    overhead: Overhead,
    /// Whether the connection is in the worker's list of those with held replies.
    pub(super) is_listed: bool,
}

impl HeldReplies {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Moves all bytes to `output`, and returns their number.
    #[inline]
    pub(super) fn move_to(&mut self, output: &mut Output) -> usize {
        if self.bytes.is_empty() {
            return 0;
        }
        let bytes = std::mem::take(&mut self.bytes);
        self.overhead.set(0);
        output.push(&bytes);
        bytes.len()
    }
}

/// The connections of a worker with held replies.
#[derive(Debug, Default)]
pub(super) struct Holding {
    tokens: Vec<Token>,
    /// When the first of them was added.
    since: Option<Instant>,
}

impl Holding {
    /// Holds a connection's replies, if it is about to have more. Returns whether it did so.
    #[inline]
    pub(super) fn hold(
        &mut self,
        (token, held): (Token, &mut HeldReplies),
        state: SessionState,
        output: &mut Output,
    ) -> bool {
        if state != SessionState::Pending(When::Woken) || token.is_of_pipe() {
            return false;
        }
        let Some(replies) = output.as_contiguous().filter(|it| it.len() <= MAX_BYTES) else {
            return false;
        };
        held.bytes.extend_from_slice(replies);
        held.overhead.set(room_bytes::<u8>(held.bytes.capacity()));
        output.clear(MAX_BYTES);
        if !std::mem::replace(&mut held.is_listed, true) {
            self.tokens.push(token);
            self.since.get_or_insert_with(Instant::now);
        }
        true
    }

    /// Takes the list, if its replies have been held for `least`.
    pub(super) fn take_due(&mut self, least: Duration) -> Vec<Token> {
        if self.since.is_none_or(|since| since.elapsed() < least) {
            return Vec::new();
        }
        self.since = None;
        std::mem::take(&mut self.tokens)
    }

    /// The longest that the worker may wait for events.
    pub(super) fn longest_wait(&self) -> Option<Duration> {
        self.since.map(|since| HOLD.saturating_sub(since.elapsed()))
    }

    /// Memory of the list in bytes.
    pub(super) fn room_bytes(&self) -> usize {
        room_bytes::<Token>(self.tokens.capacity())
    }
}
