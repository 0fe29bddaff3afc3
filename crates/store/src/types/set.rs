//! Sets: distinct strings.

use crate::collections::set::{Set, SetLimits, SetRef};
use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::entry::value::{SharedValue, WrongType};
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use crate::value::item::Text;

/// The result of removing a set whole.
#[derive(Debug)]
pub enum Taken {
    /// There is no set.
    Missing,
    /// The set has more members than allowed.
    TooLarge,
    /// The set was removed from the keyspace.
    Whole(SharedValue),
}

impl Slot<'_> {
    fn members(&self) -> Result<Option<SetRef<'_>>, WrongType> {
        self.collection::<Set>()
    }

    fn add_members(
        &mut self,
        members: &[Text<'_>],
        expected: usize,
        limits: SetLimits,
    ) -> Result<usize, WrongType> {
        let is_new = match self.members()? {
            Some(set) if set.is_outgrown_by(expected, limits) => {
                self.recode_collection(Set::outgrow)?;
                false
            }
            set => set.is_none(),
        };
        self.change_collection(|set: &mut Set, blocks| {
            if let Some(first) = members.first().filter(|_| is_new) {
                *set = Set::new(first, expected, limits);
            }
            let added = members.iter().filter(|member| set.add(member, limits, blocks)).count();
            (added, added as u32)
        })
    }

    /// Removes members, and records `event` if there were any. Returns how many there were.
    fn remove_members(
        &mut self,
        members: &[Text<'_>],
        event: Option<Event>,
    ) -> Result<usize, WrongType> {
        if self.members()?.is_none() {
            return Ok(0);
        }
        let removed = self.change_collection(|set: &mut Set, _| {
            let removed = members.iter().filter(|member| set.remove(member)).count();
            (removed, removed as u32)
        })?;
        if removed > 0 {
            event.into_iter().for_each(|event| self.note(event));
            if self.entry().is_none() {
                self.note(Event::Del);
            }
        }
        Ok(removed)
    }
}

impl Database<'_> {
    /// Adds members to a set, which is created if there is none (SADD). Returns how many of them
    /// are new. `expected` is the number of members of the whole request, which determines the
    /// encoding. `event` is recorded if any is new: a request that needs several calls is one
    /// event.
    ///
    /// # Errors
    /// The value is not a set.
    pub fn add_members(
        &self,
        key: Key<'_>,
        members: &[Text<'_>],
        expected: usize,
        limits: SetLimits,
        event: Option<Event>,
    ) -> Result<usize, WrongType> {
        self.write(key, |slot| {
            let added = slot.add_members(members, expected, limits)?;
            event.into_iter().filter(|_| added > 0).for_each(|event| slot.note(event));
            Ok(added)
        })
    }

    /// Removes members (SREM); a set without members is removed. Returns how many there were.
    /// `event` is recorded if there were any.
    ///
    /// # Errors
    /// The value is not a set.
    pub fn remove_members(
        &self,
        key: Key<'_>,
        members: &[Text<'_>],
        event: Option<Event>,
    ) -> Result<usize, WrongType> {
        self.write(key, |slot| slot.remove_members(members, event))
    }

    /// Calls `choose` with the set, and removes the members whose ranks it returns (SPOP).
    ///
    /// # Errors
    /// The value is not a set.
    pub fn pop_members(
        &self,
        key: Key<'_>,
        choose: impl FnOnce(Option<SetRef<'_>>) -> Vec<u64>,
    ) -> Result<(), WrongType> {
        self.write(key, |slot| {
            let mut ranks = choose(slot.members()?);
            if ranks.is_empty() {
                return Ok(());
            }
            // In descending order, so that no rank changes before it is used.
            ranks.sort_unstable_by(|a, b| b.cmp(a));
            slot.change_collection(|set: &mut Set, _| {
                ranks.iter().for_each(|rank| set.remove_at(*rank));
                ((), ranks.len() as u32)
            })?;
            slot.note_removal(Event::SPop);
            Ok(())
        })
    }

    /// Removes and returns a set, if it has at most `most_members` (SPOP).
    ///
    /// # Errors
    /// The value is not a set.
    pub fn take_set(&self, key: Key<'_>, most_members: u64) -> Result<Taken, WrongType> {
        self.write(key, |slot| {
            let Some(len) = slot.members()?.map(SetRef::len) else { return Ok(Taken::Missing) };
            let small = slot.entry().filter(|_| len <= most_members);
            let Some(whole) = small.map(|entry| entry.share_value()) else {
                return Ok(Taken::TooLarge);
            };
            slot.remove();
            slot.add_changes(u32::try_from(len - 1).unwrap_or(u32::MAX));
            slot.note_removal(Event::SPop);
            Ok(Taken::Whole(whole))
        })
    }

    /// Moves a member from one set to another, which is created if there is none (SMOVE),
    /// atomically. Returns whether the member existed.
    ///
    /// # Errors
    /// There is a value under `from`, and one of the two is not a set.
    pub fn move_member(
        &self,
        (from, to): (Key<'_>, Key<'_>),
        member: &Text<'_>,
        limits: SetLimits,
    ) -> Result<bool, WrongType> {
        let is_member = |slot: &mut Slot<'_>| {
            let set = slot.members()?;
            Ok::<_, WrongType>(set.map(|set| set.contains(member)))
        };
        self.latched(&[from, to], |db| {
            let Some(is_there) = db.write(from, is_member)? else { return Ok(false) };
            db.write(to, is_member)?;
            if !is_there {
                return Ok(false);
            }
            if from.bytes != to.bytes {
                let member = std::slice::from_ref(member);
                db.remove_members(from, member, Some(Event::SRem))?;
                db.add_members(to, member, 1, limits, Some(Event::SAdd))?;
            }
            Ok(true)
        })
    }

    /// Calls `look` with the set under a key.
    ///
    /// # Errors
    /// The value is not a set.
    pub fn read_set<R>(
        &self,
        key: Key<'_>,
        look: impl FnOnce(Option<SetRef<'_>>) -> R,
    ) -> Result<R, WrongType> {
        self.read(key, |entry| entry.map(|entry| entry.collection::<Set>()).transpose().map(look))
    }
}
