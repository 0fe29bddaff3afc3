//! What a session waits for.

use nagi_commands::When;

/// What a session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// For bytes: all complete requests have been executed.
    Bytes,
    /// For bytes of a large argument; the session lends a buffer for them.
    LargeArgument,
    /// The session has work left, and continues at the given time: with the suspended request, or
    /// with its next slice once there is room for replies.
    Pending(When),
    /// For nothing: the connection closes once the replies have been sent.
    Closing,
}

impl SessionState {
    /// The session continues in the next tick if its client has read enough of its replies.
    pub(crate) const NEXT_SLICE: SessionState = SessionState::Pending(When::RoomForReplies);

    /// Whether the session continues when bytes arrive.
    pub(crate) fn is_for_bytes(self) -> bool {
        matches!(self, SessionState::Bytes | SessionState::LargeArgument)
    }
}
