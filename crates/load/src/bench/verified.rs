//! The results of --verify.

use serde::Serialize;

use super::ledger::Ticket;
use super::values::Reading;
use crate::text::plain;

/// Maximum number of wrong replies that are described individually.
const EXAMPLES: usize = 5;

/// The result of comparing a reply with the values that the request may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// An allowed value.
    Well,
    /// A value that was never written.
    Damaged,
    /// A value of another key.
    OfAnotherKey,
    /// A value whose overwriting had been confirmed before the read.
    Stale {
        /// The sequence number of the value's write.
        found: u64,
        /// The lowest sequence number that was allowed.
        floor: u64,
    },
    /// A reply of the wrong type.
    OtherAnswer,
}

impl Finding {
    /// Returns the finding for a value that was read by the request of `ticket`.
    pub(crate) fn of(reading: Reading, ticket: Ticket) -> Self {
        let floor = ticket.floor;
        match reading {
            Reading::Written(Some(found)) if found < floor => Finding::Stale { found, floor },
            Reading::Written(_) => Finding::Well,
            Reading::OfAnotherKey => Finding::OfAnotherKey,
            Reading::Damaged => Finding::Damaged,
        }
    }

    /// Returns the error text for the finding; `None` for an allowed value.
    pub(crate) fn error(self) -> Option<&'static str> {
        match self {
            Finding::Well => None,
            Finding::Damaged => Some("verify: a damaged value"),
            Finding::OfAnotherKey => Some("verify: a value of another key"),
            Finding::Stale { .. } => Some("verify: a stale value"),
            Finding::OtherAnswer => Some("verify: an answer of another kind"),
        }
    }
}

/// Numbers of findings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Number of replies that were checked.
    pub replies: u64,
    /// Number of values that were never written.
    pub damaged: u64,
    /// Number of values that belong to other keys than the requested one.
    pub of_another_key: u64,
    /// Number of values whose overwriting had been confirmed before they were requested.
    pub stale: u64,
    /// Number of replies of the wrong type: values in answer to writes, or other replies to reads.
    pub other_answers: u64,
    /// Descriptions of the first wrong replies.
    pub examples: Vec<String>,
}

impl Verified {
    /// Returns the number of wrong replies.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        self.damaged + self.of_another_key + self.stale + self.other_answers
    }

    /// Counts a finding for a key.
    pub(crate) fn note(&mut self, finding: Finding, key: &[u8]) {
        self.replies += 1;
        let what = match finding {
            Finding::Well => return,
            Finding::Damaged => {
                self.damaged += 1;
                "a value that was never written".to_owned()
            }
            Finding::OfAnotherKey => {
                self.of_another_key += 1;
                "the value of another key".to_owned()
            }
            Finding::Stale { found, floor } => {
                self.stale += 1;
                format!("writing {found}, which writing {floor} or a later one had replaced")
            }
            Finding::OtherAnswer => {
                self.other_answers += 1;
                "not the answer to what was asked".to_owned()
            }
        };
        if self.examples.len() < EXAMPLES {
            let key = key.get(..key.len().min(60)).unwrap_or_default();
            self.examples.push(format!("{}: {what}", plain(&String::from_utf8_lossy(key))));
        }
    }

    pub(crate) fn add(&mut self, other: &Verified) {
        self.replies += other.replies;
        self.damaged += other.damaged;
        self.of_another_key += other.of_another_key;
        self.stale += other.stale;
        self.other_answers += other.other_answers;
        let room = EXAMPLES.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.iter().take(room).cloned());
    }
}
