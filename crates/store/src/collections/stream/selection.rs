//! A selection of a stream's entries at one moment, which is read in pieces.

use super::node::StreamEntry;
use super::{Id, Stream};
use std::ops::ControlFlow;

/// The entries that remain to be read.
#[derive(Debug)]
pub struct Selection {
    stream: Stream,
    what: What,
}

#[derive(Debug)]
enum What {
    /// At most `left` entries between two ids.
    Interval { from: Id, to: Id, left: u64, backwards: bool },
    /// The entries with these ids.
    Ids { ids: Vec<Id>, next: usize },
}

impl Selection {
    /// Selects at most `most` entries between two ids, both included.
    #[must_use]
    pub fn interval(
        stream: Stream,
        (from, to): (Id, Id),
        most: Option<u64>,
        backwards: bool,
    ) -> Self {
        let left = stream.count(from, to).min(most.unwrap_or(u64::MAX));
        Selection { stream, what: What::Interval { from, to, left, backwards } }
    }

    /// Selects all entries between two ids, both included, of which the caller knows that there are
    /// `count`: to count them, the nodes of both ids would have to be decoded.
    #[must_use]
    pub fn counted(stream: Stream, (from, to): (Id, Id), count: u64) -> Self {
        debug_assert_eq!(stream.count(from, to), count);
        Selection { stream, what: What::Interval { from, to, left: count, backwards: false } }
    }

    /// Selects the entries with these ids, in this order.
    #[must_use]
    pub fn of_ids(stream: Stream, ids: Vec<Id>) -> Self {
        Selection { stream, what: What::Ids { ids, next: 0 } }
    }

    /// Returns how many entries remain.
    #[must_use]
    pub fn left(&self) -> u64 {
        match &self.what {
            What::Interval { left, .. } => *left,
            What::Ids { ids, next } => (ids.len() - next) as u64,
        }
    }

    /// Passes the next entries to `show` until it breaks: each id with its entry, or with `None` if
    /// the entry does not exist.
    pub fn show(&mut self, mut show: impl FnMut(Id, Option<StreamEntry<'_>>) -> ControlFlow<()>) {
        let Selection { stream, what } = self;
        match what {
            What::Interval { left: 0, .. } => {}
            What::Interval { from, to, left, backwards } => {
                let mut last = *from;
                let visit = |entry: StreamEntry<'_>| -> ControlFlow<()> {
                    last = entry.id;
                    *left = left.saturating_sub(1);
                    // The entry after the last one is not decoded.
                    let is_last = *left == 0;
                    show(entry.id, Some(entry))?;
                    if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                let broken = if *backwards {
                    let broken = stream.walk_back(*from, *to, visit);
                    *to = last.previous().unwrap_or(Id::MIN);
                    broken
                } else {
                    let broken = stream.walk(*from, *to, visit);
                    *from = last.next().unwrap_or(Id::MAX);
                    broken
                };
                if broken.is_none() {
                    *left = 0;
                }
            }
            What::Ids { ids, next } => {
                while let Some(id) = ids.get(*next) {
                    *next += 1;
                    if show(*id, stream.get(*id)).is_break() {
                        break;
                    }
                }
            }
        }
    }
}
