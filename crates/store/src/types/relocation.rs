//! Moving entries to other keys or databases, and picking one at random.

use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::entry::view::EntryView;
use crate::index::table::Table;
use crate::keyspace::database::Database;

/// The maximum number of random entries that are examined: some may have expired.
const PICKS: usize = 200;

/// How many positions are examined in one shard; most hold an entry.
const PLACES: usize = 200;

/// The result of moving or copying an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relocated {
    /// The entry was moved or copied.
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
            db.write(from, |slot| db.count_lookup_in(slot));
            if outcome == Relocated::Done {
                db.transfer(from, (db.sibling(index), to), false, (None, Some(Event::CopyTo)));
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

    /// Calls `look` with a random entry, all equally likely. Returns `None` if there is none, or if
    /// all of [`PICKS`] picks have expired. [`Database::walk`] can tell whether a key is left.
    pub fn random_entry<R>(&self, look: impl FnOnce(EntryView<'_>) -> R) -> Option<R> {
        let mut look = Some(look);
        let shards = ShardSizes::of(self, Table::len)?;
        (0..PICKS)
            .find_map(|_| self.pick(&shards, |entry| look.take().map(|look| look(entry))).flatten())
    }

    /// Calls `look` with up to `count` random entries that will expire. There are fewer if such
    /// entries are rare: [`PICKS`] are examined at most. An entry may be picked more than once.
    pub fn random_volatile_entries(&self, count: usize, mut look: impl FnMut(EntryView<'_>)) {
        let Some(shards) = ShardSizes::of(self, Table::volatile_len) else { return };
        let mut left = count;
        for _ in 0..PICKS {
            if left == 0 {
                return;
            }
            self.pick(&shards, |entry| {
                if entry.expire_at_ms().is_some() {
                    left -= 1;
                    look(entry);
                }
            });
        }
    }

    /// Calls `look` with a random entry, unless it has expired.
    fn pick<R>(&self, shards: &ShardSizes, look: impl FnOnce(EntryView<'_>) -> R) -> Option<R> {
        let held = self.store.shards.get(shards.at(self.random())?)?.lock();
        // All attempts are in this shard: choosing another after a miss would favour fuller shards.
        let sample = |table: &Table| (0..PLACES).find_map(|_| table.sample(self.random()));
        let entry = held.table(self.index).and_then(sample)?;
        let is_live = entry.expire_at_ms().is_none_or(|at| at > self.now_ms);
        // SAFETY: the latch is held while `look` runs.
        is_live.then(|| look(unsafe { EntryView::new(entry) }))
    }
}

/// The number of entries, or of those that can expire, in each shard.
struct ShardSizes {
    sizes: Vec<usize>,
    total: usize,
}

impl ShardSizes {
    /// Counts the entries of a database by `measure`; `None` if there are none.
    fn of(db: &Database<'_>, measure: fn(&Table) -> usize) -> Option<Self> {
        debug_assert!(!db.is_latched(), "every latch is taken");
        let len = |table: Option<&Table>| table.map_or(0, measure);
        let shards = db.store.shards.iter();
        let sizes: Vec<usize> = shards.map(|latch| len(latch.lock().table(db.index))).collect();
        let total = sizes.iter().sum();
        (total > 0).then_some(ShardSizes { sizes, total })
    }

    /// Returns the index of the shard that `random` selects, weighted by the number of entries.
    fn at(&self, random: u64) -> Option<usize> {
        let mut left = random as usize % self.total.max(1);
        self.sizes.iter().position(|size| {
            let here = left < *size;
            left = left.wrapping_sub(*size);
            here
        })
    }
}
