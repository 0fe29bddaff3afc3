//! Sorted sets: members in the order of their scores.

use crate::collections::sorted_set::{SortedSet, SortedSetLimits, SortedSetRef};
use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::entry::value::WrongType;
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use crate::keyspace::store::Store;
use crate::tree::blocks::Blocks;
use crate::types::collection::{Limits, NewCollection};
use crate::value::item::Text;
use std::ops::Range;
use std::sync::Arc;

/// A member to be stored and its score, which is not NaN.
pub type Scored<'a> = (Text<'a>, f64);

/// The condition for setting a member's score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScoreCondition {
    /// Only if the member is new (ZADD NX).
    pub new_only: bool,
    /// Only if the member exists (ZADD XX).
    pub existing_only: bool,
    /// Only if the member is new or its score becomes greater (ZADD GT).
    pub greater_only: bool,
    /// Only if the member is new or its score becomes less (ZADD LT).
    pub less_only: bool,
}

impl ScoreCondition {
    /// Whether a member's score may be set, given its current one, if any.
    fn allows(self, old: Option<f64>, new: f64) -> bool {
        match old {
            None => !self.existing_only,
            Some(old) => {
                let is_refused = self.new_only
                    || self.less_only && new >= old
                    || self.greater_only && new <= old;
                !is_refused
            }
        }
    }
}

/// The result of setting scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The number of new members.
    pub added: usize,
    /// The number of members whose score has changed.
    pub changed: usize,
}

/// The result of adding to a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Incremented {
    /// The new score.
    To(f64),
    /// The condition forbade it.
    Refused,
    /// The sum is not a number (NaN).
    NotANumber,
}

impl Slot<'_> {
    fn sorted_set(&self) -> Result<Option<SortedSetRef<'_>>, WrongType> {
        self.collection::<SortedSet>()
    }

    /// Sets the scores of members; the whole request has `expected` of them. Records `event` if
    /// anything changes.
    fn place_members(
        &mut self,
        members: &[Scored<'_>],
        condition: ScoreCondition,
        (expected, limits): (usize, SortedSetLimits),
        event: Option<Event>,
    ) -> Result<Placed, WrongType> {
        match self.sorted_set()? {
            Some(set) if set.is_listpack() && expected > limits.entries => {
                self.recode_collection(SortedSet::outgrow)?;
            }
            None if condition.existing_only => return Ok(Placed::default()),
            _ => {}
        }
        let placed = self.change_collection(|set: &mut SortedSet, blocks| {
            if expected > limits.entries {
                set.outgrow();
            }
            let mut placed = Placed::default();
            for (member, score) in members {
                // Prefetched while the member is looked up in the index.
                set.read().prefetch(*score);
                let new = |old| Some(*score).filter(|new| condition.allows(old, *new));
                match set.update(member, new, limits, blocks) {
                    (None, Some(_)) => placed.added += 1,
                    (Some(old), Some(new)) => placed.changed += usize::from(old != new),
                    (_, None) => {}
                }
            }
            (placed, (placed.added + placed.changed) as u32)
        })?;
        if placed != Placed::default() {
            event.into_iter().for_each(|event| self.note(event));
        }
        Ok(placed)
    }
}

impl Database<'_> {
    /// Sets the scores of members (ZADD) in a sorted set, which is created if there is none. The
    /// whole request has `expected` of them. `event` is recorded if anything changes: a request
    /// that needs several calls is one event.
    ///
    /// # Errors
    /// The value is not a sorted set.
    pub fn place_members(
        &self,
        key: Key<'_>,
        members: &[Scored<'_>],
        condition: ScoreCondition,
        (expected, limits): (usize, SortedSetLimits),
        event: Option<Event>,
    ) -> Result<Placed, WrongType> {
        self.write(key, |slot| slot.place_members(members, condition, (expected, limits), event))
    }

    /// Adds an amount, which is not NaN, to a member's score (ZINCRBY); a new member starts at 0.
    ///
    /// # Errors
    /// The value is not a sorted set.
    pub fn increment_score(
        &self,
        key: Key<'_>,
        (member, amount): Scored<'_>,
        condition: ScoreCondition,
        limits: SortedSetLimits,
    ) -> Result<Incremented, WrongType> {
        self.write(key, |slot| {
            let old = slot.sorted_set()?.and_then(|set| set.score(&member));
            if old.is_some() && condition.new_only {
                return Ok(Incremented::Refused);
            }
            let score = old.map_or(amount, |old| old + amount);
            if score.is_nan() {
                return Ok(Incremented::NotANumber);
            }
            if !condition.allows(old, score) {
                return Ok(Incremented::Refused);
            }
            slot.place_members(&[(member, score)], condition, (1, limits), Some(Event::ZIncr))?;
            Ok(Incremented::To(score))
        })
    }

    /// Removes members (ZREM); a sorted set without members is removed. Returns how many there
    /// were. `event` is recorded if there were any.
    ///
    /// # Errors
    /// The value is not a sorted set.
    pub fn remove_scored(
        &self,
        key: Key<'_>,
        names: &[Text<'_>],
        event: Option<Event>,
    ) -> Result<usize, WrongType> {
        self.write(key, |slot| {
            if slot.sorted_set()?.is_none() {
                return Ok(0);
            }
            let removed = slot.change_collection(|set: &mut SortedSet, _| {
                let removed = names.iter().filter(|name| set.remove(name).is_some()).count();
                (removed, removed as u32)
            })?;
            if removed > 0 {
                slot.note_some_removal(event);
            }
            Ok(removed)
        })
    }

    /// Removes the members in the range of ranks that `choose` returns for the sorted set; a sorted
    /// set without members is removed. Returns how many there were. `event` is recorded if there
    /// were any.
    ///
    /// # Errors
    /// The value is not a sorted set.
    pub fn remove_ranks(
        &self,
        key: Key<'_>,
        event: Option<Event>,
        choose: impl FnOnce(Option<SortedSetRef<'_>>) -> Range<u64>,
    ) -> Result<u64, WrongType> {
        self.write(key, |slot| {
            let set = slot.sorted_set()?;
            let len = set.map_or(0, |set| set.len());
            let chosen = choose(set);
            let ranks = chosen.start.min(len)..chosen.end.min(len);
            let count = ranks.end.saturating_sub(ranks.start);
            if count == 0 {
                return Ok(0);
            }
            if count == len {
                slot.remove();
                slot.add_changes(u32::try_from(count - 1).unwrap_or(u32::MAX));
            } else {
                slot.change_collection(|set: &mut SortedSet, _| {
                    (set.remove_range(ranks, count), u32::try_from(count).unwrap_or(u32::MAX))
                })?;
            }
            slot.note_some_removal(event);
            Ok(count)
        })
    }

    /// Calls `look` with the sorted set under a key.
    ///
    /// # Errors
    /// The value is not a sorted set.
    pub fn read_sorted_set<R>(
        &self,
        key: Key<'_>,
        look: impl FnOnce(Option<SortedSetRef<'_>>) -> R,
    ) -> Result<R, WrongType> {
        self.read(key, |entry| {
            entry.map(|entry| entry.collection::<SortedSet>()).transpose().map(look)
        })
    }

    /// Like [`Database::remove_ranks`], for the first of several keys that has a sorted set,
    /// atomically. `choose` also receives its index. Returns whether there was one.
    ///
    /// # Errors
    /// The value of a key before that sorted set is of another type.
    pub fn remove_ranks_of_first(
        &self,
        keys: &[Key<'_>],
        event: Event,
        choose: impl FnOnce(usize, SortedSetRef<'_>) -> Range<u64>,
    ) -> Result<bool, WrongType> {
        self.latched(keys, |db| {
            for (place, key) in keys.iter().enumerate() {
                if db.unnoticed().read_sorted_set(*key, |set| set.is_some())? {
                    let ranks =
                        |set: Option<SortedSetRef<'_>>| set.map_or(0..0, |set| choose(place, set));
                    db.remove_ranks(*key, Some(event), ranks)?;
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }
}

/// A sorted set that is built outside the keyspace.
#[derive(Debug)]
pub struct NewSortedSet {
    set: SortedSet,
    /// The length of the longest member in bytes.
    longest: usize,
    blocks: Arc<Blocks>,
}

impl NewSortedSet {
    /// Creates an empty sorted set, for a key of `store`.
    #[must_use]
    pub fn new(store: &Store) -> Self {
        let blocks = Arc::clone(&store.blocks);
        NewSortedSet { set: SortedSet::default(), longest: 0, blocks }
    }

    /// Returns the value to store.
    #[must_use]
    pub fn into_collection(self, limits: Limits) -> NewCollection {
        NewCollection::of_sorted_set(self.set, self.longest, limits, self.blocks)
    }

    /// Takes its members; it is empty afterwards.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let NewSortedSet { set, longest, blocks } = self;
        let (set, longest) = (std::mem::take(set), std::mem::take(longest));
        NewSortedSet { set, longest, blocks: Arc::clone(blocks) }
    }

    /// Sets a member's score to the one that `choose` returns for its current score, if any.
    pub fn update(&mut self, member: &Text<'_>, choose: impl FnOnce(Option<f64>) -> f64) {
        self.longest = self.longest.max(member.len());
        let new = |old| Some(choose(old));
        if let (Some(old), Some(new)) =
            self.set.update(member, new, SortedSetLimits::LARGE, &self.blocks)
            && old == new
            && old.is_sign_negative() != new.is_sign_negative()
        {
            // A sorted set treats both zeros as equal; a sum does not.
            self.set.remove(member);
            self.set.set(member, new, SortedSetLimits::LARGE, &self.blocks);
        }
    }

    /// Sets a member's score, which is not NaN.
    pub fn set(&mut self, member: &Text<'_>, score: f64) {
        self.longest = self.longest.max(member.len());
        self.set.set(member, score, SortedSetLimits::LARGE, &self.blocks);
    }

    /// Borrows it for reading.
    #[must_use]
    pub fn read(&self) -> SortedSetRef<'_> {
        self.set.read()
    }

    /// Returns the number of members.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "callers need only the length")]
    pub fn len(&self) -> u64 {
        self.set.read().len()
    }
}
