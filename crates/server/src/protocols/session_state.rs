//! What a session waits for.

use nagi_commands::When;

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// For bytes: everything that has arrived in full has been executed.
    Bytes,
    /// For bytes of a large argument, for which it lends a buffer.
    LargeArgument,
    /// It has work left, and goes on then: with the request that it is in the middle of, or, once
    /// there is room for replies, with its next slice.
    Pending(When),
    /// For nothing: the connection is to be closed once the replies have been sent.
    Closing,
}

impl SessionState {
    /// It goes on in the next tick if its client has read enough of its replies.
    pub(crate) const NEXT_SLICE: SessionState = SessionState::Pending(When::RoomForReplies);

    /// Whether it goes on when bytes arrive.
    pub(crate) fn is_for_bytes(self) -> bool {
        matches!(self, SessionState::Bytes | SessionState::LargeArgument)
    }
}
