//! The door: a key's place in its shard while the latch is held, and the only way to change what
//! stands there.

use crate::entry::{Attributes, EntryView, NewValue, Record, Stored};
use crate::key::Key;
use crate::shard::Shard;

/// A key's place, occupied or vacant. What has expired has been removed before a slot is handed
/// out.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    shard: &'a mut Shard,
    database: usize,
    key: Key<'a>,
    garbage: &'a mut Vec<Record>,
}

impl<'a> Slot<'a> {
    /// The place of `key`; the second value tells whether an expired entry had to go first.
    pub(crate) fn open(
        shard: &'a mut Shard,
        database: usize,
        key: Key<'a>,
        now_ms: u64,
        garbage: &'a mut Vec<Record>,
    ) -> (Self, bool) {
        let mut slot = Slot { shard, database, key, garbage };
        let due =
            slot.entry().and_then(|entry| entry.expire_at_ms()).is_some_and(|at| at <= now_ms);
        if due {
            slot.remove();
        }
        (slot, due)
    }

    /// What stands here.
    pub(crate) fn entry(&self) -> Option<EntryView<'_>> {
        let table = self.shard.tables.get(self.database)?;
        let (key, record) = table.get_key_value(&(self.key.hash, Box::from(self.key.bytes)))?;
        Some(EntryView { key: &key.1, record })
    }

    /// Puts an entry here, in place of whatever stood here.
    pub(crate) fn put(&mut self, value: NewValue<'_>, attributes: Attributes) {
        let value = match value {
            NewValue::Bytes(bytes) => Stored::Bytes(bytes.into()),
            NewValue::Int(value) => Stored::Int(value),
            NewValue::Rope(rope) => Stored::Rope(rope),
        };
        let key = (self.key.hash, self.key.bytes.into());
        let record = Record { value, attributes };
        self.garbage.extend(self.shard.table(self.database).insert(key, record));
    }

    /// Empties the place; whether there was anything.
    pub(crate) fn remove(&mut self) -> bool {
        let key = (self.key.hash, Box::from(self.key.bytes));
        let removed = self.shard.table(self.database).remove(&key);
        let found = removed.is_some();
        self.garbage.extend(removed);
        found
    }

    /// Changes when the entry expires.
    pub(crate) fn set_expiry(&mut self, expire_at_ms: Option<u64>) {
        if let Some(record) = self.record() {
            record.attributes.expire_at_ms = expire_at_ms;
        }
    }

    /// Changes the value and keeps expiry and flags; the version becomes another.
    pub(crate) fn set_value(&mut self, value: NewValue<'_>) {
        let Some(entry) = self.entry() else { return };
        let attributes = Attributes { cas: None, ..entry.record.attributes };
        self.put(value, attributes);
    }

    /// Appends to a string, whose expiry and flags stay; the version becomes another.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        let Some(record) = self.record() else { return };
        record.attributes.cas = None;
        if let Stored::Rope(rope) = &mut record.value {
            return rope.append(bytes);
        }
        let Some(entry) = self.entry() else { return };
        let whole = entry.value().with_bytes(|old| [old, bytes].concat());
        self.set_value(NewValue::from_bytes(&whole));
    }

    /// The number of the entry's version, given to it now if it has none.
    pub(crate) fn ensure_cas(&mut self) -> u64 {
        self.shard.last_cas += 1;
        let next = self.shard.last_cas;
        self.record().map_or(0, |record| *record.attributes.cas.get_or_insert(next))
    }

    fn record(&mut self) -> Option<&mut Record> {
        let key = (self.key.hash, Box::from(self.key.bytes));
        self.shard.tables.get_mut(self.database)?.get_mut(&key)
    }
}
