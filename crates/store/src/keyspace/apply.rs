//! Applies the effects reported by another store to this one.

use crate::effects::change::{Effect, EntryEffect, StoreChange};
use crate::keyspace::slot::Slot;
use crate::keyspace::store::{Scope, Store};
use crate::sync::counters::Counters;
use crate::value::rope::{Patch, StringMut};

impl Store {
    /// Applies a change reported by another store. Changes must be applied by one thread, in order.
    /// Expired keys stay until an effect removes them.
    pub fn apply(&self, counters: &Counters, change: &StoreChange) {
        change.effects.iter().for_each(|effect| self.apply_effect(counters, effect));
    }

    fn apply_effect(&self, counters: &Counters, effect: &Effect) {
        // At time 0, nothing has expired.
        let database = |index| self.database(index, counters, 0);
        match effect {
            Effect::Key(effect) => {
                let db = database(effect.database);
                db.write(db.key(&effect.key), |slot| slot.apply(&effect.entry));
            }
            Effect::Transfer { from, to, is_moved } => {
                let (db, there) = (database(from.0), database(to.0));
                let (from, to) = (db.key(&from.1), there.key(&to.1));
                db.latched(&[from, to], |db| {
                    let there = db.sibling(there.index());
                    db.transfer(from, (there, to), *is_moved, (None, None));
                });
            }
            Effect::Flush(Some(index)) => {
                self.flush(Scope::Database(*index));
            }
            Effect::Flush(None) => {
                self.flush(Scope::All);
            }
            Effect::Swap(first, second) => self.swap(*first, *second),
        }
    }
}

impl Slot<'_> {
    fn apply(&mut self, effect: &EntryEffect) {
        match effect {
            EntryEffect::Remove => {
                self.remove();
            }
            EntryEffect::Put(value, attributes) => {
                self.put(value.0.as_new(), *attributes);
                self.pass_cas(attributes.cas.unwrap_or(0));
            }
            EntryEffect::Write(parts, len, attributes) => {
                let write = |string: &mut StringMut<'_>| {
                    parts.iter().for_each(|(at, bytes)| string.write(&Patch::new(*at, bytes)));
                };
                // Such an effect is reported only for strings, so this value is a string as well.
                if self.change(*len, write).is_ok() {
                    self.set_attributes(*attributes);
                }
            }
            EntryEffect::Attributes(attributes) => self.set_attributes(*attributes),
        }
    }
}
