//! Schedules checks of the memory that clients take. They are checked ten times a second, and
//! earlier when they exceed the limit: in a tenth of a second they can take gigabytes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Without a limit, no check is due.
const NEVER: u64 = u64::MAX;

/// State shared by the workers and the housekeeper.
#[derive(Debug)]
pub(crate) struct ClientMemory {
    /// The number of bytes from which a check is due.
    due_bytes: AtomicU64,
    is_due: AtomicBool,
}

impl Default for ClientMemory {
    fn default() -> Self {
        ClientMemory { due_bytes: AtomicU64::new(NEVER), is_due: AtomicBool::new(false) }
    }
}

impl ClientMemory {
    /// Called by workers at each tick with the memory of clients. Returns whether a check is due
    /// that no worker has reported yet.
    #[inline]
    pub(crate) fn comes_due(&self, used_bytes: impl FnOnce() -> u64) -> bool {
        let due_bytes = self.due_bytes.load(Ordering::Relaxed);
        if due_bytes == NEVER || used_bytes() < due_bytes {
            return false;
        }
        self.due_bytes.store(NEVER, Ordering::Relaxed);
        self.is_due.store(true, Ordering::Release);
        true
    }

    /// Whether a check has become due since the last call.
    pub(crate) fn take_due(&self) -> bool {
        self.is_due.swap(false, Ordering::Acquire)
    }

    /// Records the memory of clients after a check. The next check is due when they take another
    /// 1/32 of the limit, since each check goes through all of them.
    pub(crate) fn note_use(&self, limit_bytes: u64, used_bytes: u64) {
        let due_bytes = match limit_bytes {
            0 => NEVER,
            _ => limit_bytes.max(used_bytes.saturating_add(limit_bytes / 32)),
        };
        self.due_bytes.store(due_bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_due_once_for_each_part_of_the_limit() {
        let memory = ClientMemory::default();
        assert!(!memory.comes_due(|| u64::MAX - 1), "there is no limit");
        memory.note_use(3200, 10);
        assert!(!memory.comes_due(|| 3199) && !memory.take_due());
        assert!(memory.comes_due(|| 3200) && !memory.comes_due(|| 5000), "it is reported once");
        assert!(memory.take_due() && !memory.take_due());
        memory.note_use(3200, 5000);
        assert!(!memory.comes_due(|| 5099) && memory.comes_due(|| 5100));
        memory.note_use(0, 5000);
        assert!(!memory.comes_due(|| u64::MAX - 1), "the limit is gone");
    }
}
