//! Restores serialized entries with their access times.

use super::string::{Expiry, SetOptions};
use crate::effects::event::Event;
use crate::entry::attributes::{Attributes, Marks};
use crate::entry::key::Key;
use crate::entry::value::NewValue;
use crate::entry::view::EntryView;
pub use crate::eviction::access::Usage;
use crate::keyspace::database::Database;
use crate::types::collection::NewCollection;
use crate::value::string::StringInput;

/// An entry's attributes in a file, besides key and value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// When it expires, in milliseconds since 1970.
    pub expire_at_ms: Option<u64>,
    /// memcached's client flags.
    pub flags: u32,
    /// memcached's unique number of this version.
    pub cas: Option<u64>,
    /// memcached's marks on this version.
    pub marks: Marks,
    /// Its access time or frequency.
    pub usage: Option<Usage>,
}

impl Database<'_> {
    /// Returns the access time or frequency, if the eviction policy uses it.
    #[must_use]
    pub fn usage_of(&self, entry: &EntryView<'_>) -> Option<Usage> {
        let (_, policy) = self.store.limit();
        let access = entry.access();
        if policy.counts_uses() {
            let counter = u8::try_from(self.access.frequency(access)).unwrap_or(u8::MAX);
            return Some(Usage::Frequency(counter));
        }
        policy.looks_at_uses().then(|| Usage::IdleMs(self.access.idle_ms(access)))
    }

    /// Stores a string under a key as it was when saved; returns `false`, with nothing changed, if
    /// the key exists.
    pub fn load<'v>(&self, key: Key<'_>, value: impl Into<StringInput<'v>>, known: &Known) -> bool {
        self.load_value(key, NewValue::from_input(value), known)
    }

    /// Like [`Database::load`], for a collection.
    pub fn load_collection(&self, key: Key<'_>, value: NewCollection, known: &Known) -> bool {
        self.note_consumers(&value);
        self.load_value(key, value.into_new_value(&mut Vec::new()), known)
    }

    /// Records that a value has consumers, before it is stored.
    fn note_consumers(&self, value: &NewCollection) {
        if value.has_consumers() {
            self.store.note_consumer();
        }
    }

    fn load_value(&self, key: Key<'_>, value: NewValue<'_>, known: &Known) -> bool {
        let Known { expire_at_ms, flags, cas, marks, usage } = *known;
        self.write_briefly(key, |slot| {
            if slot.entry().is_some() {
                return false;
            }
            // Loading a file does not count as a change.
            slot.forget_record();
            slot.put(value, Attributes { expire_at_ms, flags, cas, marks });
            slot.pass_cas(cas.unwrap_or(0));
            usage.into_iter().for_each(|usage| slot.set_usage(usage));
            true
        })
    }

    /// Stores a collection under `key` as [`Database::restore`] stores a string.
    pub fn restore_collection(
        &self,
        key: Key<'_>,
        value: NewCollection,
        expiry: Expiry,
        replace: bool,
        usage: Option<Usage>,
    ) -> bool {
        self.note_consumers(&value);
        let mut packed = Vec::new();
        let value = value.into_new_value(&mut packed);
        self.restore_value(key, value, expiry, replace, usage)
    }

    /// Stores a string under `key`. Returns whether that was allowed; with `replace`, it always is.
    /// The access time or frequency is used only if the policy needs it.
    pub fn restore<'v>(
        &self,
        key: Key<'_>,
        value: impl Into<StringInput<'v>>,
        expiry: Expiry,
        replace: bool,
        usage: Option<Usage>,
    ) -> bool {
        self.restore_value(key, NewValue::from_input(value), expiry, replace, usage)
    }

    fn restore_value(
        &self,
        key: Key<'_>,
        value: NewValue<'_>,
        expiry: Expiry,
        replace: bool,
        usage: Option<Usage>,
    ) -> bool {
        self.write(key, |slot| {
            let allowed = replace || slot.entry().is_none();
            if allowed {
                let options = SetOptions { expiry, ..SetOptions::default() };
                slot.put_until(value, options, Event::Restore);
                if slot.entry().is_some() {
                    slot.choose_new(true);
                }
                usage.into_iter().for_each(|usage| slot.set_usage(usage));
            }
            allowed
        })
    }
}
