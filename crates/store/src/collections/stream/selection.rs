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

    /// Passes the next entries to `show`, at most `most`: each id with its entry, or with `None` if
    /// the entry does not exist.
    pub fn show(&mut self, most: u64, mut show: impl FnMut(Id, Option<StreamEntry<'_>>)) {
        let Selection { stream, what } = self;
        match what {
            What::Interval { from, to, left, backwards } => {
                let mut most = most.min(*left);
                *left -= most;
                if most == 0 {
                    return;
                }
                let mut last = *from;
                let visit = |entry: StreamEntry<'_>| {
                    last = entry.id;
                    show(entry.id, Some(entry));
                    most -= 1;
                    if most == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                };
                if *backwards {
                    stream.walk_back(*from, *to, visit);
                    *to = last.previous().unwrap_or(Id::MIN);
                } else {
                    stream.walk(*from, *to, visit);
                    *from = last.next().unwrap_or(Id::MAX);
                }
            }
            What::Ids { ids, next } => {
                let some = ids.iter().skip(*next).take(usize::try_from(most).unwrap_or(usize::MAX));
                let mut shown = 0;
                for id in some {
                    show(*id, stream.get(*id));
                    shown += 1;
                }
                *next += shown;
            }
        }
    }
}
