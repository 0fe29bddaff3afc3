//! Strings: reading and writing whole values, for the commands of Redis and of memcached.

use super::Refusal;
use crate::effects::event::Event;
use crate::entry::attributes::Attributes;
use crate::entry::key::Key;
use crate::entry::value::{NewValue, WrongType};
use crate::entry::view::EntryView;
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use crate::value::rope::Patch;
use crate::value::string::{StringInput, StringValue};

/// The condition for a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    #[default]
    Always,
    /// Only if the key does not exist (SET NX, `add`).
    IfAbsent,
    /// Only if the key exists (SET XX, `replace`).
    IfPresent,
}

/// The effect of a write on a key's expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// Removes it.
    #[default]
    Never,
    /// Keeps it.
    Keep,
    /// The key expires at this time, in milliseconds since 1970, which may have passed.
    AtMs(u64),
}

/// Options for setting a string.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetOptions {
    /// The condition under which it is set.
    pub condition: Condition,
    /// When it expires.
    pub expiry: Expiry,
    /// memcached's client flags; 0 with Redis' commands.
    pub flags: u32,
}

/// The end of a string to which bytes are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Before the first byte.
    Front,
    /// After the last byte.
    Back,
}

impl Slot<'_> {
    /// Sets the entry to a string. Returns whether the condition allowed it. A value whose expiry
    /// has already passed is still set, and expires like any other.
    #[inline]
    pub(crate) fn set(&mut self, value: NewValue<'_>, options: SetOptions) -> bool {
        let allowed = options.condition.allows(self);
        if allowed {
            self.put_with(value, options, Event::Set);
        }
        allowed
    }

    /// Stores a value and records `event`; removes the entry instead if the expiry has passed.
    pub(super) fn put_until(&mut self, value: NewValue<'_>, options: SetOptions, event: Event) {
        match options.expiry {
            Expiry::AtMs(at_ms) if at_ms <= self.now_ms() => _ = self.delete(),
            _ => self.put_with(value, options, event),
        }
    }

    #[inline]
    fn put_with(&mut self, value: NewValue<'_>, options: SetOptions, event: Event) {
        let expire_at_ms = match options.expiry {
            Expiry::Never => None,
            Expiry::Keep => self.entry().and_then(|entry| entry.expire_at_ms()),
            Expiry::AtMs(at_ms) => Some(at_ms),
        };
        let flags = options.flags;
        self.put(value, Attributes { expire_at_ms, flags, ..Attributes::default() });
        self.note(event);
        if matches!(options.expiry, Expiry::AtMs(_)) && event != Event::Restore {
            self.note(Event::Expire);
        }
    }

    /// Removes the entry; returns whether there was one.
    pub(crate) fn delete(&mut self) -> bool {
        let removed = self.remove();
        if removed {
            self.note(Event::Del);
        }
        removed
    }

    /// Changes the entry's expiry; removes the entry if the new one has passed.
    pub(crate) fn apply_expiry(&mut self, expiry: Expiry) {
        match expiry {
            Expiry::Keep => {}
            Expiry::AtMs(at) if at <= self.now_ms() => {
                self.delete();
            }
            Expiry::Never | Expiry::AtMs(_) => self.postpone(expiry),
        }
    }

    /// Changes the entry's expiry, but keeps the entry even if the new one has passed.
    pub(super) fn postpone(&mut self, expiry: Expiry) {
        let Some(old_ms) = self.entry().map(|entry| entry.expire_at_ms()) else { return };
        match expiry {
            Expiry::Keep => {}
            Expiry::Never if old_ms.is_none() => {}
            Expiry::Never => {
                self.set_expiry(None);
                self.note(Event::Persist);
            }
            Expiry::AtMs(at_ms) => {
                self.set_expiry(Some(at_ms));
                self.note(Event::Expire);
            }
        }
    }

    /// Adds bytes to an end of the string, which is created if the condition allows. Returns its
    /// length afterwards.
    pub(crate) fn extend(
        &mut self,
        bytes: &[u8],
        end: End,
        condition: Condition,
        limit_bytes: usize,
    ) -> Result<Option<usize>, Refusal> {
        if !condition.allows(self) {
            return Ok(None);
        }
        let Some(old) = self.string()?.map(|string| string.len()) else {
            self.put(NewValue::from_bytes(bytes), Attributes::default());
            self.note(Event::Append);
            return Ok(Some(bytes.len()));
        };
        let len = old + bytes.len();
        if len > limit_bytes {
            return Err(Refusal::TooLong);
        }
        match end {
            End::Back => {
                self.append(bytes)?;
                self.note(Event::Append);
            }
            End::Front => {
                self.prepend(bytes)?;
                self.note(Event::Set);
            }
        }
        self.forget_marks();
        Ok(Some(len))
    }

    pub(super) fn prepend(&mut self, bytes: &[u8]) -> Result<(), WrongType> {
        let Some(string) = self.string()? else { return Ok(()) };
        let whole = string.with_bytes(|old| [bytes, old].concat());
        self.set_value(NewValue::changed(&whole));
        Ok(())
    }

    /// Overwrites a part of the string, which is created or extended with zeros. Returns its length
    /// afterwards.
    pub(crate) fn set_range(&mut self, patch: &Patch<'_>) -> Result<usize, WrongType> {
        let len = self.change(patch.end(), |string| {
            string.write(patch);
            string.len()
        })?;
        self.note(Event::SetRange);
        Ok(len)
    }
}

impl Database<'_> {
    /// Calls `look` with the entry under `key`.
    pub fn get<R>(&self, key: Key<'_>, look: impl FnOnce(Option<EntryView<'_>>) -> R) -> R {
        self.read(key, look)
    }

    /// Calls `look` with each key's entry, in the order of `keys`, all under their latches at the
    /// same time.
    pub fn get_many(&self, keys: &[Key<'_>], mut look: impl FnMut(Option<EntryView<'_>>)) {
        self.latched(keys, |db| keys.iter().for_each(|key| db.read(*key, &mut look)));
    }

    /// Calls `look` with the entry and the number of its version, assigned now if it has none
    /// (memcached's `gets`). A value that is not a string counts as missing.
    pub fn get_versioned<R>(
        &self,
        key: Key<'_>,
        look: impl FnOnce(Option<(EntryView<'_>, u64)>) -> R,
    ) -> R {
        self.get_versioned_and_touch(key, Expiry::Keep, look)
    }

    /// Like [`Database::get_versioned`], then changes the entry's expiry (memcached's `gats`).
    pub fn get_versioned_and_touch<R>(
        &self,
        key: Key<'_>,
        expiry: Expiry,
        look: impl FnOnce(Option<(EntryView<'_>, u64)>) -> R,
    ) -> R {
        if self.leaves_missing(key) {
            self.count_lookup(false);
            return look(None);
        }
        self.write(key, |slot| {
            if slot.string().is_err() {
                self.count_lookup(false);
                return look(None);
            }
            let cas = slot.ensure_cas();
            self.count_lookup_in(slot);
            let result = look(slot.entry().map(|entry| (entry, cas)));
            slot.mark_fetched();
            slot.apply_expiry(expiry);
            result
        })
    }

    /// Calls `look` with the entry of a key. A string without a version number gets one first,
    /// unless the key is claimed. This does not count as an access. Call this within a batch.
    pub fn list_versioned(&self, key: Key<'_>, look: impl FnOnce(EntryView<'_>)) {
        if self.store.spared().is_some_and(|spares| spares(key.hash)) {
            return self.inspect(key, |found| {
                if let Some((entry, _)) = found {
                    look(entry);
                }
            });
        }
        self.untouched().write(key, |slot| {
            if slot.string().is_ok() {
                slot.ensure_cas();
            }
            if let Some(entry) = slot.entry() {
                look(entry);
            }
        });
    }

    /// Calls `look` with the entry of a string, then changes its expiry (GETEX, memcached's `gat`).
    /// `Keep` changes nothing.
    ///
    /// # Errors
    /// The value is not a string; nothing has changed.
    pub fn get_and_touch<R>(
        &self,
        key: Key<'_>,
        expiry: Expiry,
        look: impl FnOnce(Option<EntryView<'_>>) -> R,
    ) -> Result<R, WrongType> {
        self.write(key, |slot| {
            self.count_lookup_in(slot);
            slot.string()?;
            let result = look(slot.entry());
            slot.mark_fetched();
            slot.apply_expiry(expiry);
            Ok(result)
        })
    }

    /// Calls `look` with the string, then removes it (GETDEL).
    ///
    /// # Errors
    /// The value is not a string; nothing has changed.
    pub fn get_and_delete<R>(
        &self,
        key: Key<'_>,
        look: impl FnOnce(Option<StringValue<'_>>) -> R,
    ) -> Result<R, WrongType> {
        self.write(key, |slot| {
            self.count_lookup_in(slot);
            let result = look(slot.string()?);
            slot.delete();
            Ok(result)
        })
    }

    /// Sets a string by APPEND if the key does not exist. Returns whether it was set.
    pub fn append_if_absent<'v>(&self, key: Key<'_>, value: impl Into<StringInput<'v>>) -> bool {
        let value = NewValue::from_input(value);
        self.write_briefly(key, |slot| {
            let is_absent = Condition::IfAbsent.allows(slot);
            if is_absent {
                slot.put_with(value, SetOptions::default(), Event::Append);
            }
            is_absent
        })
    }

    /// Sets a string, regardless of the key's old value. Returns whether the condition allowed it.
    pub fn set<'v>(
        &self,
        key: Key<'_>,
        value: impl Into<StringInput<'v>>,
        options: SetOptions,
    ) -> bool {
        let value = NewValue::from_input(value);
        self.write_briefly(key, |slot| slot.set(value, options))
    }

    /// Calls `look` with the string under the key, then sets it as [`Database::set`] does.
    ///
    /// # Errors
    /// The old value is not a string; nothing has changed.
    pub fn set_and_get<'v, R>(
        &self,
        key: Key<'_>,
        value: impl Into<StringInput<'v>>,
        options: SetOptions,
        look: impl FnOnce(Option<StringValue<'_>>) -> R,
    ) -> Result<(bool, R), WrongType> {
        let value = NewValue::from_input(value);
        self.write_briefly(key, |slot| {
            self.count_lookup_in(slot);
            let result = look(slot.string()?);
            Ok((slot.set(value, options), result))
        })
    }

    /// Sets several strings atomically; with `if_all_absent`, only if none of the keys exists
    /// (MSETNX). Returns whether they were set.
    pub fn set_many(&self, pairs: Vec<(Key<'_>, StringInput<'_>)>, if_all_absent: bool) -> bool {
        let prepared = pairs.into_iter().map(|(key, value)| (key, NewValue::from_input(value)));
        let (keys, values): (Vec<_>, Vec<_>) = prepared.unzip();
        self.latched(&keys, |db| {
            if if_all_absent && keys.iter().any(|key| db.exists(*key)) {
                return false;
            }
            for (key, value) in keys.iter().zip(values) {
                db.write_briefly(*key, |slot| {
                    slot.put(value, Attributes::default());
                    slot.note(Event::Set);
                });
            }
            true
        })
    }

    /// Adds bytes to an end of a string, which is created if `condition` allows. Returns its length
    /// afterwards, or `None` if the condition forbade it.
    ///
    /// # Errors
    /// [`Refusal::TooLong`] beyond `limit_bytes`; [`Refusal::WrongType`].
    pub fn extend(
        &self,
        key: Key<'_>,
        bytes: &[u8],
        end: End,
        condition: Condition,
        limit_bytes: usize,
    ) -> Result<Option<usize>, Refusal> {
        self.write(key, |slot| slot.extend(bytes, end, condition, limit_bytes))
    }

    /// Overwrites a part of a string, which is created or extended with zeros as needed. Returns
    /// its length afterwards. Empty `bytes` change nothing.
    ///
    /// # Errors
    /// [`Refusal::TooLong`] beyond `limit_bytes`; [`Refusal::WrongType`].
    pub fn set_range(
        &self,
        key: Key<'_>,
        offset: usize,
        bytes: &[u8],
        limit_bytes: usize,
    ) -> Result<usize, Refusal> {
        if bytes.is_empty() {
            return Ok(self.len(key)?);
        }
        if offset.checked_add(bytes.len()).is_none_or(|end| end > limit_bytes) {
            self.len(key)?;
            return Err(Refusal::TooLong);
        }
        let patch = Patch::new(offset, bytes);
        Ok(self.write(key, |slot| slot.set_range(&patch))?)
    }

    /// Returns the length of a string in bytes; 0 if there is none.
    ///
    /// # Errors
    /// The value is not a string.
    pub fn len(&self, key: Key<'_>) -> Result<usize, WrongType> {
        self.read(key, |entry| entry.map_or(Ok(0), |entry| Ok(entry.string()?.len())))
    }
}

impl Expiry {
    /// Returns the expiry of a value whose expiry was `old_ms`; `None` for never.
    pub(super) fn at_ms(self, old_ms: Option<u64>) -> Option<u64> {
        match self {
            Expiry::Never => None,
            Expiry::Keep => old_ms,
            Expiry::AtMs(at_ms) => Some(at_ms),
        }
    }
}

impl Condition {
    #[inline]
    fn allows(self, slot: &Slot<'_>) -> bool {
        match self {
            Condition::Always => true,
            Condition::IfAbsent => slot.entry().is_none(),
            Condition::IfPresent => slot.entry().is_some(),
        }
    }
}
