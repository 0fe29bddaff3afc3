//! Operations on keys of any type, and walks over all keys of a database.

use super::string::Expiry;
use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::entry::value::Kind;
use crate::entry::view::EntryView;
use crate::index::placement::POSITION_BITS;
use crate::index::sweep::BucketCursor;
use crate::index::table::Table;
use crate::keyspace::database::Database;
use crate::keyspace::shard::Shard;
use crate::keyspace::slot::Slot;
use crate::sync::latch::Latch;

/// Which expiry times EXPIRE may replace, as its options NX, XX, GT and LT say. A key without one
/// counts as expiring never, that is last.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpireWhen {
    /// Only where there is none yet (NX).
    pub absent: bool,
    /// Only where there is one (XX).
    pub present: bool,
    /// Only to a later time (GT).
    pub later: bool,
    /// Only to an earlier time (LT).
    pub earlier: bool,
}

/// A place in a walk over a database. The walk begins and ends at 0.
pub type Cursor = u64;

/// A cursor is a shard's number followed by a position: 53 bits at most, so that clients that
/// keep numbers as doubles lose none.
const FIRST_OF_SHARD: u64 = 1 << POSITION_BITS;
/// Buckets that a walk visits before it releases the latch.
const BUCKETS_PER_HOLD: usize = 16;

/// A walk over a database: a cursor, and where it goes on within a bucket of very many.
#[derive(Clone, Debug, Default)]
pub struct Walk {
    cursor: Cursor,
    within: Option<BucketCursor>,
}

impl From<Cursor> for Walk {
    fn from(cursor: Cursor) -> Self {
        Walk { cursor, within: None }
    }
}

impl Walk {
    /// Where another walk could go on, if a number can say that: 0 if this one is at its end, or
    /// has not begun.
    #[must_use]
    pub fn cursor(&self) -> Option<Cursor> {
        self.within.is_none().then_some(self.cursor)
    }
}

impl Slot<'_> {
    /// Makes the entry expire at a time, which removes it if that has passed. Returns whether it
    /// was done.
    pub(crate) fn expire(&mut self, at_ms: u64, when: ExpireWhen) -> bool {
        let Some(old_ms) = self.entry().map(|entry| entry.expire_at_ms()) else { return false };
        let allowed = when.allows(old_ms, at_ms);
        if allowed {
            self.apply_expiry(Expiry::AtMs(at_ms));
        }
        allowed
    }

    /// Takes the entry's expiry away. Returns whether it had one.
    pub(crate) fn persist(&mut self) -> bool {
        let had = self.entry().is_some_and(|entry| entry.expire_at_ms().is_some());
        if had {
            self.set_expiry(None);
            self.note(Event::Persist);
        }
        had
    }
}

impl Database<'_> {
    /// Removes one key. Returns whether it was there.
    pub fn delete(&self, key: Key<'_>) -> bool {
        self.write(key, |slot| slot.delete())
    }

    /// Removes several keys at one moment; how many were there.
    pub fn delete_many(&self, keys: &[Key<'_>]) -> usize {
        self.latched(keys, |db| keys.iter().filter(|key| db.delete(**key)).count())
    }

    /// Whether there is anything under a key, which is no lookup and no use of it.
    pub(crate) fn exists(&self, key: Key<'_>) -> bool {
        self.inspect(key, |entry| entry.is_some())
    }

    /// How many of `keys` exist, at one moment; a key named twice counts twice.
    #[must_use]
    pub fn count_existing(&self, keys: &[Key<'_>]) -> usize {
        let mut count = 0;
        self.get_many(keys, |entry| count += usize::from(entry.is_some()));
        count
    }

    /// The type of a value, if there is one.
    #[must_use]
    pub fn kind(&self, key: Key<'_>) -> Option<Kind> {
        self.read(key, |entry| entry.map(|entry| entry.kind()))
    }

    /// For how long an entry has not been used, in milliseconds.
    #[must_use]
    pub fn idle_ms_of(&self, entry: &EntryView<'_>) -> u64 {
        self.access.idle_ms(entry.access())
    }

    /// For how long a key has not been used, in milliseconds and to within an eighth of a
    /// second, or eight seconds if that is longer than a day and a half; means
    /// something where the policy looks at the time of uses.
    #[must_use]
    pub fn idle_ms(&self, key: Key<'_>) -> Option<u64> {
        self.read(key, |entry| entry.map(|entry| self.access.idle_ms(entry.access())))
    }

    /// The logarithmic counter of a key's uses; means something where the policy counts uses.
    #[must_use]
    pub fn frequency(&self, key: Key<'_>) -> Option<u32> {
        self.read(key, |entry| entry.map(|entry| self.access.frequency(entry.access())))
    }

    /// When a key expires: `None` if there is no such key, `Some(None)` if never.
    #[must_use]
    pub fn expire_at_ms(&self, key: Key<'_>) -> Option<Option<u64>> {
        self.read(key, |entry| entry.map(|entry| entry.expire_at_ms()))
    }

    /// Makes a key expire at a time, which removes it if that has passed. Returns whether it was
    /// done.
    pub fn expire(&self, key: Key<'_>, at_ms: u64, when: ExpireWhen) -> bool {
        self.write(key, |slot| slot.expire(at_ms, when))
    }

    /// Takes a key's expiry away. Returns whether it had one.
    pub fn persist(&self, key: Key<'_>) -> bool {
        self.write(key, |slot| slot.persist())
    }

    /// How many keys the database holds, those that have expired unnoticed included.
    #[must_use]
    pub fn size(&self) -> usize {
        self.sum(Table::len)
    }

    /// How many keys of the database have an expiry.
    #[must_use]
    pub fn volatile_size(&self) -> usize {
        self.sum(Table::volatile_len)
    }

    /// How many hashes of the database have fields that expire.
    #[must_use]
    pub fn hashes_with_expiry(&self) -> usize {
        self.sum(Table::hashes_with_expiry)
    }

    /// Goes on with a walk from `cursor`, showing `look` about `count` entries, and returns where
    /// to go on; 0 when all have been shown. Entries of one hash are shown together, however many
    /// they are; [`Database::walk`] need not.
    ///
    /// What is there from the walk's beginning to its end is shown at least once, whatever is
    /// written meanwhile; the rest may or may not be, and an entry may be shown twice.
    pub fn scan(
        &self,
        cursor: Cursor,
        count: usize,
        mut look: impl FnMut(EntryView<'_>),
    ) -> Cursor {
        let mut walk = Walk::from(cursor);
        loop {
            self.walk(&mut walk, count, &mut look);
            if let Some(cursor) = walk.cursor() {
                return cursor;
            }
        }
    }

    /// The same for a walk that may pause where no cursor points.
    pub fn walk(&self, walk: &mut Walk, count: usize, mut look: impl FnMut(EntryView<'_>)) {
        debug_assert!(!self.is_latched(), "a latch is taken");
        let mut shown = 0;
        let mut position = walk.cursor & (FIRST_OF_SHARD - 1);
        let mut shard = (walk.cursor >> POSITION_BITS) as usize;
        while let Some(latch) = self.store.shards.get(shard) {
            let held = latch.lock();
            let mut next = held.table(self.index).map(|_| position);
            let mut buckets = 0;
            while let (Some(at), Some(table)) = (next, held.table(self.index)) {
                if shown >= count {
                    walk.cursor = (shard as u64) << POSITION_BITS | at;
                    return;
                }
                if buckets >= BUCKETS_PER_HOLD {
                    break;
                }
                next = table.visit_bucket(at, &mut walk.within, |entry| {
                    shown += 1;
                    if entry.expire_at_ms().is_none_or(|at_ms| at_ms > self.now_ms) {
                        // SAFETY: the latch is held while `look` runs.
                        look(unsafe { EntryView::new(entry) });
                    }
                });
                buckets += if walk.within.is_some() { BUCKETS_PER_HOLD } else { 1 };
            }
            shard += usize::from(next.is_none());
            position = next.unwrap_or(0);
        }
        *walk = Walk::default();
    }

    fn sum(&self, measure: impl Fn(&Table) -> usize) -> usize {
        debug_assert!(!self.is_latched(), "every latch is taken");
        let of_shard = |latch: &Latch<Shard>| latch.lock().table(self.index).map_or(0, &measure);
        self.store.shards.iter().map(of_shard).sum()
    }
}

impl ExpireWhen {
    pub(super) fn allows(self, old_ms: Option<u64>, new_ms: u64) -> bool {
        let later = old_ms.is_some_and(|old| new_ms > old);
        let earlier = old_ms.is_none_or(|old| new_ms < old);
        !(self.absent && old_ms.is_some()
            || self.present && old_ms.is_none()
            || self.later && !later
            || self.earlier && !earlier)
    }
}
