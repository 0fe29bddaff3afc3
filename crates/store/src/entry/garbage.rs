//! Memory of removed or changed entries, to be freed after the latch is released.

use crate::entry::block::Owned;
use crate::memory::reclaim::Removed;

/// Memory that an operation has removed from entries. It is freed after the latch is released.
#[derive(Debug, Default)]
pub(crate) struct Garbage(Vec<Owned>);

impl Garbage {
    pub(crate) fn add(&mut self, owned: Owned) {
        if owned.root.is_some() || owned.key.is_some() {
            self.0.push(owned);
        }
    }
}

impl Removed for Garbage {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ropes and long keys are freed by their own destructors.
    fn objects(&self) -> u64 {
        0
    }
}
