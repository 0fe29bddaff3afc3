//! Adds elements to collections.

use anyhow::Result;

use crate::bench::sender::Sender;

/// Number of elements in one request.
const ELEMENTS: u64 = 100;

/// A kind of collection, with the command that adds elements to it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Hash,
    Set,
    SortedSet,
    ListByLpush,
    ListByRpush,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::Set, Self::Hash, Self::SortedSet, Self::ListByLpush, Self::ListByRpush];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hash => "hash, values of 16 B",
            Self::Set => "set",
            Self::SortedSet => "sorted set",
            Self::ListByLpush => "list, by LPUSH",
            Self::ListByRpush => "list, by RPUSH",
        }
    }

    fn command(self) -> &'static str {
        match self {
            Self::Hash => "HSET",
            Self::Set => "SADD",
            Self::SortedSet => "ZADD",
            Self::ListByLpush => "LPUSH",
            Self::ListByRpush => "RPUSH",
        }
    }

    /// Appends the words that add element `number`; each word has 16 bytes.
    fn push_words(self, number: u64, words: &mut Vec<Vec<u8>>) {
        let element = format!("member:{number:09}").into_bytes();
        match self {
            Self::Hash => words.extend([element, format!("value::{number:09}").into_bytes()]),
            // Scores are in a different order from members, as in a leaderboard.
            Self::SortedSet => {
                let score = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                words.extend([score.to_string().into_bytes(), element]);
            }
            Self::Set | Self::ListByLpush | Self::ListByRpush => words.push(element),
        }
    }

    /// Adds elements `from..to` to the collection at `key`.
    pub(super) fn fill(self, sender: &mut Sender, key: &str, from: u64, to: u64) -> Result<()> {
        let mut first = from;
        while first < to {
            let end = to.min(first + ELEMENTS);
            let mut words = vec![self.command().as_bytes().to_vec(), key.as_bytes().to_vec()];
            (first..end).for_each(|number| self.push_words(number, &mut words));
            sender.send(&words)?;
            first = end;
        }
        Ok(())
    }
}
