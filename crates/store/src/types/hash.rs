//! Hashes: maps from field names to strings.

use crate::collections::hash::{FieldExpiry, Hash, HashLimits, HashRef};
use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::entry::value::WrongType;
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use crate::value::item::Text;
use crate::value::string::StringValue;

/// A field's name and its value, to be stored.
pub type Pair<'a> = (Text<'a>, Text<'a>);

impl Slot<'_> {
    fn hash(&self) -> Result<Option<HashRef<'_>>, WrongType> {
        self.collection::<Hash>()
    }

    /// Sets fields, and records `event`. Returns how many of them are new.
    fn set_fields(
        &mut self,
        pairs: &[Pair<'_>],
        (expected, limits): (usize, HashLimits),
        event: Option<Event>,
    ) -> Result<usize, WrongType> {
        let expiry = (FieldExpiry::Never, self.now_ms());
        let added = self.change_collection(|hash: &mut Hash, blocks| {
            let set = |hash: &mut Hash, (name, value): &Pair<'_>| {
                hash.set(name, value, expiry, limits, blocks)
            };
            hash.expect(expected, limits);
            let added = pairs.iter().filter(|pair| set(hash, pair)).count();
            (added, pairs.len() as u32)
        })?;
        event.into_iter().for_each(|event| self.note(event));
        Ok(added)
    }

    /// Removes fields, and records `event` if there were any. Returns how many there were.
    fn remove_fields(
        &mut self,
        names: &[Text<'_>],
        event: Option<Event>,
    ) -> Result<usize, WrongType> {
        if self.hash()?.is_none() {
            return Ok(0);
        }
        let now_ms = self.now_ms();
        let removed = self.change_collection(|hash: &mut Hash, _| {
            let removed = names.iter().filter(|name| hash.remove(name, now_ms)).count();
            (removed, removed as u32)
        })?;
        if removed > 0 {
            self.note_some_removal(event);
        }
        Ok(removed)
    }
}

impl Database<'_> {
    /// Sets fields of a hash, which is created if there is none (HSET), and records `event`. The
    /// whole request has `expected` of them. Returns how many of them are new.
    ///
    /// # Errors
    /// The value is not a hash.
    pub fn set_fields(
        &self,
        key: Key<'_>,
        pairs: &[Pair<'_>],
        (expected, limits): (usize, HashLimits),
        event: Option<Event>,
    ) -> Result<usize, WrongType> {
        self.write(key, |slot| slot.set_fields(pairs, (expected, limits), event))
    }

    /// Sets a field that the hash does not have yet (HSETNX). Returns whether it was set.
    ///
    /// # Errors
    /// The value is not a hash.
    pub fn set_new_field(
        &self,
        key: Key<'_>,
        pair: &Pair<'_>,
        limits: HashLimits,
    ) -> Result<bool, WrongType> {
        self.write(key, |slot| {
            let now_ms = slot.now_ms();
            let is_there = slot.hash()?.is_some_and(|hash| hash.get(&pair.0, now_ms).is_some());
            if !is_there {
                self.counters.expired_fields.add(slot.note_due_field(&pair.0)?);
                slot.set_fields(std::slice::from_ref(pair), (1, limits), Some(Event::HSet))?;
            }
            Ok(!is_there)
        })
    }

    /// Sets a field to the value that `make` returns for its current one, if any, and records
    /// `event`.
    ///
    /// # Errors
    /// An error of `make`, or the value is not a hash; nothing has changed.
    pub fn update_field<R: AsRef<[u8]>, E: From<WrongType>>(
        &self,
        key: Key<'_>,
        name: &Text<'_>,
        limits: HashLimits,
        event: Event,
        make: impl FnOnce(Option<StringValue<'_>>) -> Result<R, E>,
    ) -> Result<R, E> {
        self.write(key, |slot| {
            let now_ms = slot.now_ms();
            let field = slot.hash()?.and_then(|hash| hash.get(name, now_ms));
            let is_there = field.is_some();
            let value = make(field.map(|field| field.value))?;
            if !is_there {
                self.counters.expired_fields.add(slot.note_due_field(name)?);
            }
            let text = Text::to_store(value.as_ref());
            slot.change_collection(|hash: &mut Hash, blocks| {
                (hash.set(name, &text, (FieldExpiry::Keep, now_ms), limits, blocks), 1)
            })?;
            slot.note(event);
            Ok(value)
        })
    }

    /// Removes fields (HDEL); a hash without fields is removed. `event` is recorded if there were
    /// any. Returns how many there were.
    ///
    /// # Errors
    /// The value is not a hash.
    pub fn remove_fields(
        &self,
        key: Key<'_>,
        names: &[Text<'_>],
        event: Option<Event>,
    ) -> Result<usize, WrongType> {
        self.write(key, |slot| slot.remove_fields(names, event))
    }

    /// Calls `look` with the hash under a key.
    ///
    /// # Errors
    /// The value is not a hash.
    pub fn read_hash<R>(
        &self,
        key: Key<'_>,
        look: impl FnOnce(Option<HashRef<'_>>) -> R,
    ) -> Result<R, WrongType> {
        self.read(key, |entry| entry.map(|entry| entry.collection::<Hash>()).transpose().map(look))
    }
}
