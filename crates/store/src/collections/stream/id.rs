//! The ids of entries.

use std::fmt;

/// The id of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Usually milliseconds since 1970.
    pub ms: u64,
    /// Distinguishes the entries of one millisecond.
    pub seq: u64,
}

impl Id {
    /// The least id.
    pub const MIN: Id = Id { ms: 0, seq: 0 };
    /// The greatest id.
    pub const MAX: Id = Id { ms: u64::MAX, seq: u64::MAX };

    /// Returns the next id; `None` after the greatest.
    #[must_use]
    pub fn next(self) -> Option<Id> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_add(1)?, seq: 0 }),
        }
    }

    /// Returns the previous id; `None` before the least.
    #[must_use]
    pub fn previous(self) -> Option<Id> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(Id { seq, ..self }),
            None => Some(Id { ms: self.ms.checked_sub(1)?, seq: u64::MAX }),
        }
    }
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.ms, self.seq)
    }
}
