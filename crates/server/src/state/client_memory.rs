//! When to check next how much memory clients take. They are checked ten times a second, and
//! before that once they take more than they may: in a tenth of a second they can take gigabytes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Without a limit no check is due.
const NEVER: u64 = u64::MAX;

/// What the workers and the housekeeper tell each other.
#[derive(Debug)]
pub(crate) struct ClientMemory {
    /// From how many bytes on it is time.
    due_bytes: AtomicU64,
    is_due: AtomicBool,
}

impl Default for ClientMemory {
    fn default() -> Self {
        ClientMemory { due_bytes: AtomicU64::new(NEVER), is_due: AtomicBool::new(false) }
    }
}

impl ClientMemory {
    /// Called by workers at each tick with what clients take. Whether a check is due, and no worker
    /// has reported so yet.
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

    /// Whether it was time since this was asked last.
    pub(crate) fn take_due(&self) -> bool {
        self.is_due.swap(false, Ordering::Acquire)
    }

    /// Clients have been checked, and take so much. The next check comes when they take a
    /// thirty-second part of the limit more, since each goes through all of them.
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
