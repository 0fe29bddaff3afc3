//! Moving entries to other keys or databases, and picking one at random.

use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::entry::view::EntryView;
use crate::index::table::Table;
use crate::keyspace::database::Database;

/// The number of random entries that may turn out to have expired before a full iteration, which
/// finds a key if there is one.
const PICKS: usize = 200;

/// How many positions are examined in one shard; most hold an entry.
const PLACES: usize = 200;

/// The result of moving or copying an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relocated {
    /// It was moved or copied.
    Done,
    /// The source does not exist.
    Missing,
    /// The target exists and must not be replaced.
    Occupied,
}

impl Database<'_> {
    /// Moves the entry of `from` to `to`, with its expiry and flags; both keys change atomically. A
    /// key renamed to itself does not change, if `replace` allows that.
    pub fn rename(&self, from: Key<'_>, to: Key<'_>, replace: bool) -> Relocated {
        let same = from.bytes == to.bytes;
        self.latched(&[from, to], |db| {
            let outcome = db.check(from, (db, to), replace);
            if outcome == Relocated::Done && !same {
                let events = (Some(Event::RenameFrom), Some(Event::RenameTo));
                db.transfer(from, (db, to), true, events);
            }
            outcome
        })
    }

    /// Copies the entry of `from`, with its expiry and flags, to `to` in database `index`.
    pub fn copy(&self, from: Key<'_>, index: usize, to: Key<'_>, replace: bool) -> Relocated {
        self.latched(&[from, to], |db| {
            let outcome = db.check(from, (db.sibling(index), to), replace);
            if outcome == Relocated::Done {
                db.transfer(from, (db.sibling(index), to), false, (None, Some(Event::CopyTo)));
            } else if outcome == Relocated::Missing {
                db.write(from, |slot| db.note_miss_in(slot));
            }
            outcome
        })
    }

    /// Moves the entry of `key` to database `index`, unless the key exists there.
    pub fn move_to(&self, key: Key<'_>, index: usize) -> Relocated {
        self.latched(&[key], |db| {
            let outcome = db.check(key, (db.sibling(index), key), false);
            if outcome == Relocated::Done {
                let events = (Some(Event::MoveFrom), Some(Event::MoveTo));
                db.transfer(key, (db.sibling(index), key), true, events);
            }
            outcome
        })
    }

    fn check(
        &self,
        from: Key<'_>,
        (there, to): (Database<'_>, Key<'_>),
        replace: bool,
    ) -> Relocated {
        if !self.exists(from) {
            Relocated::Missing
        } else if !replace && there.exists(to) {
            Relocated::Occupied
        } else {
            Relocated::Done
        }
    }

    /// Calls `look` with a random entry, all equally likely; `None` if there is none.
    pub fn random_entry<R>(&self, look: impl FnOnce(EntryView<'_>) -> R) -> Option<R> {
        debug_assert!(!self.is_latched(), "every latch is taken");
        let mut look = Some(look);
        for _ in 0..PICKS {
            let pick = self.random();
            let shard = self.shard_by_size(pick)?;
            let held = self.store.shards.get(shard)?.lock();
            // All attempts are in this shard: choosing another after a miss would favour fuller
            // shards.
            let sample = |table: &Table| (0..PLACES).find_map(|_| table.sample(self.random()));
            let entry = held.table(self.index).and_then(sample);
            let live = entry.filter(|entry| entry.expire_at_ms().is_none_or(|at| at > self.now_ms));
            if let Some(entry) = live {
                // SAFETY: the latch is held while `look` runs.
                return look.take().map(|look| look(unsafe { EntryView::new(entry) }));
            }
        }
        let mut cursor = 0;
        let mut result = None;
        loop {
            cursor = self.scan(cursor, 1, |entry| {
                if let Some(look) = look.take() {
                    result = Some(look(entry));
                }
            });
            if cursor == 0 || result.is_some() {
                return result;
            }
        }
    }

    /// Returns a random shard, weighted by the number of entries; `None` if there are none.
    fn shard_by_size(&self, random: u64) -> Option<usize> {
        let shards = self.store.shards.iter();
        let sizes: Vec<usize> = shards
            .map(|latch| latch.lock().table(self.index).map_or(0, |table| table.len()))
            .collect();
        let total: usize = sizes.iter().sum();
        let mut left = random as usize % total.max(1);
        sizes.iter().position(|size| {
            let here = left < *size;
            left = left.wrapping_sub(*size);
            here
        })
    }
}
