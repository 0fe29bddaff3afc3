//! Operations on keys of any type, and scans of a database's keys.

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

/// Which expiry times EXPIRE may replace: its options NX, XX, GT and LT. A key without an expiry
/// counts as expiring after every other.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpireWhen {
    /// Only if it has none (NX).
    pub absent: bool,
    /// Only if it has one (XX).
    pub present: bool,
    /// Only to a later time (GT).
    pub later: bool,
    /// Only to an earlier time (LT).
    pub earlier: bool,
}

/// A position in an iteration over a database. The iteration begins and ends at 0.
pub type Cursor = u64;

/// A cursor is a shard's number followed by a position in the shard. It has at most 53 bits,
/// because some clients store numbers as doubles.
const FIRST_OF_SHARD: u64 = 1 << POSITION_BITS;
/// The number of buckets visited before the latch is released.
const BUCKETS_PER_HOLD: usize = 16;

/// An iteration over a database: a cursor, and the position within a bucket of very many entries.
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
    /// The cursor at which another iteration can continue: 0 if this one is at its end or has not
    /// begun. `None` if no cursor can express its position.
    #[must_use]
    pub fn cursor(&self) -> Option<Cursor> {
        self.within.is_none().then_some(self.cursor)
    }
}

impl Slot<'_> {
    /// Sets the entry's expiry; removes the entry if the expiry has passed. Returns whether the
    /// condition allowed it.
    pub(crate) fn expire(&mut self, at_ms: u64, when: ExpireWhen) -> bool {
        let Some(old_ms) = self.entry().map(|entry| entry.expire_at_ms()) else { return false };
        let allowed = when.allows(old_ms, at_ms);
        if allowed {
            self.apply_expiry(Expiry::AtMs(at_ms));
        }
        allowed
    }

    /// Removes the entry's expiry. Returns whether it had one.
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
    /// Removes a key. Returns whether it existed.
    pub fn delete(&self, key: Key<'_>) -> bool {
        self.write(key, |slot| slot.delete())
    }

    /// Removes several keys atomically. Returns how many existed.
    pub fn delete_many(&self, keys: &[Key<'_>]) -> usize {
        self.latched(keys, |db| keys.iter().filter(|key| db.delete(**key)).count())
    }

    /// Whether a key exists. This counts neither as a lookup nor as an access.
    pub(crate) fn exists(&self, key: Key<'_>) -> bool {
        self.inspect(key, |entry| entry.is_some())
    }

    /// Returns how many of `keys` exist, counted atomically. A key given twice counts twice.
    #[must_use]
    pub fn count_existing(&self, keys: &[Key<'_>]) -> usize {
        let mut count = 0;
        self.get_many(keys, |entry| count += usize::from(entry.is_some()));
        count
    }

    /// Returns the type of a value, if there is one.
    #[must_use]
    pub fn kind(&self, key: Key<'_>) -> Option<Kind> {
        self.read(key, |entry| entry.map(|entry| entry.kind()))
    }

    /// Returns the time since an entry was last accessed, in milliseconds.
    #[must_use]
    pub fn idle_ms_of(&self, entry: &EntryView<'_>) -> u64 {
        self.access.idle_ms(entry.access())
    }

    /// Returns the time since a key was last accessed, in milliseconds. The precision is an eighth
    /// of a second, or eight seconds beyond a day and a half. It is meaningful only with a policy
    /// that records access times.
    #[must_use]
    pub fn idle_ms(&self, key: Key<'_>) -> Option<u64> {
        self.read(key, |entry| entry.map(|entry| self.access.idle_ms(entry.access())))
    }

    /// Returns the logarithmic access counter of a key. It is meaningful only with a policy that
    /// counts accesses.
    #[must_use]
    pub fn frequency(&self, key: Key<'_>) -> Option<u32> {
        self.read(key, |entry| entry.map(|entry| self.access.frequency(entry.access())))
    }

    /// Returns when a key expires: `None` if there is no such key, `Some(None)` if never.
    #[must_use]
    pub fn expire_at_ms(&self, key: Key<'_>) -> Option<Option<u64>> {
        self.read(key, |entry| entry.map(|entry| entry.expire_at_ms()))
    }

    /// Sets a key's expiry; removes the key if the expiry has passed. Returns whether the condition
    /// allowed it.
    pub fn expire(&self, key: Key<'_>, at_ms: u64, when: ExpireWhen) -> bool {
        self.write(key, |slot| slot.expire(at_ms, when))
    }

    /// Removes a key's expiry. Returns whether it had one.
    pub fn persist(&self, key: Key<'_>) -> bool {
        self.write(key, |slot| slot.persist())
    }

    /// Returns the number of keys in the database, including expired ones that have not been
    /// removed.
    #[must_use]
    pub fn size(&self) -> usize {
        self.sum(Table::len)
    }

    /// Returns the number of keys in the database with an expiry.
    #[must_use]
    pub fn volatile_size(&self) -> usize {
        self.sum(Table::volatile_len)
    }

    /// Returns the number of hashes in the database with fields that expire.
    #[must_use]
    pub fn hashes_with_expiry(&self) -> usize {
        self.sum(Table::hashes_with_expiry)
    }

    /// Continues an iteration at `cursor`: calls `look` with about `count` entries and returns the
    /// next cursor, or 0 at the end. Entries with the same hash are visited together, however many
    /// there are; [`Database::walk`] may split them.
    ///
    /// Entries that exist from the beginning of the iteration to its end are visited at least once,
    /// regardless of writes in between. Others may be visited or not, and an entry may be visited
    /// twice.
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

    /// Like [`Database::scan`], for an iteration that may pause at a position that no cursor can
    /// express.
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
