//! Frozen time: all commands of a transaction or a script see the same time, however long they
//! take.

use nagi_store::since_1970;
use std::time::Duration;

/// The time since 1970, for expiry and with the precision of TIME.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FrozenTime {
    /// By the clock of the store, in milliseconds.
    pub(crate) now_ms: u64,
    pub(crate) since_1970: Duration,
}

impl FrozenTime {
    /// Freezes the current time.
    pub(crate) fn at(now_ms: u64) -> Self {
        FrozenTime { now_ms, since_1970: since_1970() }
    }
}
