//! Fields of hashes that expire: setting fields with an expiry, changing it, and reading or
//! removing such fields in one step.
//!
//! Each operation takes a few fields; a caller with more claims the key.

use crate::collections::hash::{Field, FieldExpiry, Hash, HashLimits};
use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::entry::value::WrongType;
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use crate::tree::blocks::Blocks;
use crate::types::hash::Pair;
use crate::types::key::ExpireWhen;
use crate::value::item::Text;
use std::sync::Arc;

/// The maximum number of fields that one step of active expiry removes.
const FIELDS_PER_STEP: usize = 64;

/// The result of setting a field's expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOutcome {
    /// There is no such field.
    Missing,
    /// The condition was not met.
    Refused,
    /// The field has the new expiry.
    Set,
    /// The expiry had passed, so the field was removed.
    Removed,
}

/// Which fields have to exist for any to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldsWhen {
    /// No condition.
    Always,
    /// None of them (FNX).
    NonePresent,
    /// All of them (FXX).
    AllPresent,
}

/// The effects of an operation on fields of a hash.
#[derive(Clone, Copy, Default)]
struct Done {
    expired_later: u32,
    persisted: u32,
    removed: u32,
}

impl Done {
    fn changes(self) -> u32 {
        self.expired_later + self.persisted + self.removed
    }
}

impl Slot<'_> {
    /// Calls `change` with the fields of a hash, if there is one, and records the effects.
    fn change_fields(
        &mut self,
        change: impl FnOnce(&mut Hash, &mut Done, &Arc<Blocks>),
    ) -> Result<bool, WrongType> {
        if self.collection::<Hash>()?.is_none() {
            return Ok(false);
        }
        let done = self.change_collection(|hash: &mut Hash, blocks| {
            let mut done = Done::default();
            change(hash, &mut done, blocks);
            (done, done.changes())
        })?;
        for (count, event) in
            [(done.expired_later, Event::HExpire), (done.persisted, Event::HPersist)]
        {
            if count > 0 {
                self.note(event);
            }
        }
        if done.removed > 0 {
            self.note_removal(Event::HDel);
        }
        Ok(true)
    }

    /// Records that a field has expired if it has, but is still in memory and about to be replaced.
    /// Returns how many have.
    pub(crate) fn note_due_field(&mut self, name: &Text<'_>) -> Result<u64, WrongType> {
        let now_ms = self.now_ms();
        let is_due = self.collection::<Hash>()?.is_some_and(|hash| {
            let is_in_memory = || hash.get(name, 0).is_some();
            hash.expiring() > 0 && hash.get(name, now_ms).is_none() && is_in_memory()
        });
        if is_due {
            self.note(Event::HExpired);
        }
        Ok(is_due.into())
    }

    /// Sets fields with an expiry that has passed, which removes them.
    fn set_expired(&mut self, pairs: &[Pair<'_>]) -> Result<(), WrongType> {
        self.note(Event::HSet);
        let is_there = self.collection::<Hash>()?.is_some();
        if is_there {
            self.change_collection(|hash: &mut Hash, _| {
                let removed = pairs.iter().filter(|(name, _)| hash.remove(name, 0)).count();
                ((), removed as u32)
            })?;
        }
        self.note_removal(Event::HDel);
        Ok(())
    }
}

impl Database<'_> {
    /// Sets the expiry of fields of a hash, in milliseconds since 1970 (HEXPIRE); `report` is
    /// called with the result for each.
    ///
    /// # Errors
    /// The value is not a hash.
    pub fn expire_fields(
        &self,
        key: Key<'_>,
        names: &[Text<'_>],
        at_ms: u64,
        when: ExpireWhen,
        mut report: impl FnMut(FieldOutcome),
    ) -> Result<(), WrongType> {
        let now_ms = self.now_ms();
        self.write(key, |slot| {
            let mut expired = 0;
            let is_there = slot.change_fields(|hash, done, blocks| {
                for name in names {
                    let before = hash.read().get(name, now_ms).map(|field| field.expires_at_ms);
                    let outcome = match before {
                        None => FieldOutcome::Missing,
                        Some(before) if !when.allows(before, at_ms) => FieldOutcome::Refused,
                        Some(_) if at_ms <= now_ms => FieldOutcome::Removed,
                        Some(_) => FieldOutcome::Set,
                    };
                    if outcome == FieldOutcome::Removed {
                        done.removed += u32::from(hash.remove(name, now_ms));
                        expired = done.removed;
                    } else if outcome == FieldOutcome::Set {
                        done.expired_later += u32::from(hash.expire(name, Some(at_ms), blocks));
                    }
                    report(outcome);
                }
            })?;
            self.counters.expired_fields.add(expired.into());
            if !is_there {
                names.iter().for_each(|_| report(FieldOutcome::Missing));
            }
            Ok(())
        })
    }

    /// Removes the expiry of fields of a hash (HPERSIST). `report` is called for each with whether
    /// it had one, `None` if there is no such field.
    ///
    /// # Errors
    /// The value is not a hash.
    pub fn persist_fields(
        &self,
        key: Key<'_>,
        names: &[Text<'_>],
        mut report: impl FnMut(Option<bool>),
    ) -> Result<(), WrongType> {
        let now_ms = self.now_ms();
        self.write(key, |slot| {
            let is_there = slot.change_fields(|hash, done, blocks| {
                for name in names {
                    let field = hash.read().get(name, now_ms);
                    let expires = field.map(|field| field.expires_at_ms.is_some());
                    if expires == Some(true) {
                        done.persisted += u32::from(hash.expire(name, None, blocks));
                    }
                    report(expires);
                }
            })?;
            if !is_there {
                names.iter().for_each(|_| report(None));
            }
            Ok(())
        })
    }

    /// Calls `show` with fields of a hash, `None` for each missing one, and sets or removes their
    /// expiry (HGETEX).
    ///
    /// # Errors
    /// The value is not a hash.
    pub fn read_and_expire_fields(
        &self,
        key: Key<'_>,
        names: &[Text<'_>],
        at_ms: Option<u64>,
        mut show: impl FnMut(Option<Field<'_>>),
    ) -> Result<(), WrongType> {
        let now_ms = self.now_ms();
        self.write(key, |slot| {
            let mut expired = 0;
            let is_there = slot.change_fields(|hash, done, blocks| {
                for name in names {
                    let field = hash.read().get(name, now_ms);
                    let before = field.map(|field| field.expires_at_ms);
                    show(field);
                    match (before, at_ms) {
                        (None, _) | (Some(None), None) => {}
                        (Some(_), Some(at_ms)) if at_ms <= now_ms => {
                            done.removed += u32::from(hash.remove(name, now_ms));
                            expired = done.removed;
                        }
                        (Some(_), Some(at_ms)) => {
                            done.expired_later += u32::from(hash.expire(name, Some(at_ms), blocks));
                        }
                        (Some(Some(_)), None) => {
                            done.persisted += u32::from(hash.expire(name, None, blocks));
                        }
                    }
                }
            })?;
            self.counters.expired_fields.add(expired.into());
            if !is_there {
                names.iter().for_each(|_| show(None));
            }
            Ok(())
        })
    }

    /// Calls `show` with fields of a hash, `None` for each missing one, and removes them (HGETDEL).
    ///
    /// # Errors
    /// The value is not a hash.
    pub fn read_and_remove_fields(
        &self,
        key: Key<'_>,
        names: &[Text<'_>],
        mut show: impl FnMut(Option<Field<'_>>),
    ) -> Result<(), WrongType> {
        let now_ms = self.now_ms();
        self.write(key, |slot| {
            let is_there = slot.change_fields(|hash, done, _| {
                for name in names {
                    show(hash.read().get(name, now_ms));
                    done.removed += u32::from(hash.remove(name, now_ms));
                }
            })?;
            if !is_there {
                names.iter().for_each(|_| show(None));
            }
            Ok(())
        })
    }

    /// Whether fields of a hash meet HSETEX's condition `when`.
    ///
    /// # Errors
    /// The value is not a hash.
    pub fn are_fields_present<'t>(
        &self,
        key: Key<'_>,
        mut names: impl Iterator<Item = Text<'t>>,
        when: FieldsWhen,
    ) -> Result<bool, WrongType> {
        let now_ms = self.now_ms();
        self.unnoticed().read_hash(key, |hash| {
            let is_there =
                |name: Text<'_>| hash.is_some_and(|hash| hash.get(&name, now_ms).is_some());
            match when {
                FieldsWhen::Always => true,
                FieldsWhen::NonePresent => !names.any(&is_there),
                FieldsWhen::AllPresent => names.all(is_there),
            }
        })
    }

    /// Sets fields of a hash, which is created if there is none, and their expiry (HSETEX), if they
    /// meet the condition `when`. The whole request has `expected` of them. Returns whether they
    /// were set.
    ///
    /// # Errors
    /// The value is not a hash.
    pub fn set_expiring_fields(
        &self,
        key: Key<'_>,
        pairs: &[Pair<'_>],
        (expiry, when): (FieldExpiry, FieldsWhen),
        (expected, limits): (usize, HashLimits),
    ) -> Result<bool, WrongType> {
        let now_ms = self.now_ms();
        self.write(key, |slot| {
            let hash = slot.collection::<Hash>()?;
            let mut is_there = pairs
                .iter()
                .map(|(name, _)| hash.is_some_and(|hash| hash.get(name, now_ms).is_some()));
            let is_refused = match when {
                FieldsWhen::Always => false,
                FieldsWhen::NonePresent => is_there.any(|is_there| is_there),
                FieldsWhen::AllPresent => is_there.any(|is_there| !is_there),
            };
            if is_refused {
                return Ok(false);
            }
            if when == FieldsWhen::NonePresent {
                for (name, _) in pairs {
                    self.counters.expired_fields.add(slot.note_due_field(name)?);
                }
            }
            if matches!(expiry, FieldExpiry::At(at_ms) if at_ms <= now_ms) {
                slot.set_expired(pairs)?;
                self.counters.expired_fields.add(pairs.len() as u64);
                return Ok(true);
            }
            slot.change_collection(|hash: &mut Hash, blocks| {
                hash.expect(expected, limits);
                for (name, value) in pairs {
                    hash.set(name, value, (expiry, now_ms), limits, blocks);
                }
                ((), pairs.len() as u32)
            })?;
            slot.note(Event::HSet);
            if matches!(expiry, FieldExpiry::At(_)) {
                slot.note(Event::HExpire);
            }
            Ok(true)
        })
    }

    /// Removes some expired fields of a hash. Returns their number.
    pub(crate) fn remove_expired_fields(&self, key: Key<'_>) -> usize {
        let now_ms = self.now_ms();
        let removed = self.write(key, |slot| {
            if !matches!(slot.collection::<Hash>(), Ok(Some(hash)) if hash.expiring() > 0) {
                return Ok(0);
            }
            let removed = slot.change_collection(|hash: &mut Hash, _| {
                let removed = hash.sweep(now_ms, FIELDS_PER_STEP, |_| ());
                (removed, removed as u32)
            })?;
            if removed > 0 {
                slot.note_removal(Event::HExpired);
            }
            Ok::<_, WrongType>(removed)
        });
        let removed = removed.unwrap_or(0);
        self.counters.expired_fields.add(removed as u64);
        removed
    }
}
