//! A slot: the position of a key in its shard while the latch is held, with the primitive changes
//! on which types are built. Every change passes the mutation barrier.

use crate::collections::stream::Stream;
use crate::effects::change::Effect;
use crate::effects::event::Event;
use crate::effects::record::{Record, Recorded};
use crate::entry::attributes::{Attributes, Marks};
use crate::entry::block::Entry;
use crate::entry::collection::Collection;
use crate::entry::garbage::Garbage;
use crate::entry::key::Key;
use crate::entry::root::Root;
use crate::entry::value::{Encoding, NewValue, OwnedValue, WrongType};
use crate::entry::view::EntryView;
use crate::eviction::access::{AccessClock, Usage};
use crate::index::table::{Place, Table};
use crate::keyspace::shard::Shard;
use crate::snapshot::ValueOutcome;
use crate::snapshot::mutation_barrier::MutationBarrier;
use crate::sync::holds::{self, Work};
use crate::sync::latch;
use crate::tree::blocks::Blocks;
use crate::value::rope::{Rope, StringMut, ZEROS};
use crate::value::string::StringValue;
use nagi_chunk::{CHUNK_BYTES, Chunk};
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// Values up to this length are copied in negligible time.
const QUICK_BYTES: usize = 1024;

/// The position of a key, occupied or vacant. An expired entry is removed before the slot is passed
/// to an operation.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    table: &'a mut Table,
    last_cas: &'a mut u64,
    barrier: MutationBarrier,
    moment: Moment,
    /// The entry's access clock before this operation.
    last_access: u32,
    key: Key<'a>,
    place: Option<Place>,
    garbage: &'a mut Garbage,
    /// Allocates the nodes of collections.
    blocks: &'a Arc<Blocks>,
    /// Number of changes of the entry.
    changes: u32,
    /// Whether the entry's expiry was set or changed.
    gained_expiry: bool,
    /// Whether an expired entry was removed before the operation.
    was_expired: bool,
    /// A record of the operation, if changes are reported.
    record: Option<Box<Record>>,
}

/// The context in which an operation opens slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The number of the database.
    pub(crate) database: usize,
    pub(crate) now_ms: u64,
    pub(crate) access: AccessClock,
    /// A number that differs between uses.
    pub(crate) random: u64,
}

impl<'a> Slot<'a> {
    /// Opens the slot of `key`.
    pub(crate) fn open(
        shard: &'a mut Shard,
        barrier: MutationBarrier,
        moment: Moment,
        key: Key<'a>,
        garbage: &'a mut Garbage,
    ) -> Self {
        let (table, last_cas, blocks) = shard.table_mut(moment.database);
        let mut place = table.find(key);
        let (mut last_access, mut was_expired) = (0, false);
        if let Some(found) = place
            && let Some(entry) = table.entry(found)
        {
            if entry.expire_at_ms().is_some_and(|at_ms| at_ms <= moment.now_ms) {
                let entry = table.mutable(barrier, entry, ValueOutcome::Goes);
                garbage.add(table.remove(found, entry));
                (place, was_expired) = (None, true);
            } else {
                last_access = entry.access();
                moment.access.note(entry, key.hash ^ moment.random);
            }
        }
        let record = barrier.is_listening().then(|| Record::begin(place.is_some()));
        // Constructed in the return slot: it is large, and a copy would be the most expensive part
        // here.
        Slot {
            table,
            last_cas,
            barrier,
            moment,
            last_access,
            key,
            place,
            garbage,
            blocks,
            changes: 0,
            gained_expiry: false,
            was_expired,
            record,
        }
    }

    /// Whether the key had an expired entry.
    pub(crate) fn was_expired(&self) -> bool {
        self.was_expired
    }

    /// Returns how many times the operation has changed the entry.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.into()
    }

    /// Adds to the number of changes.
    pub(crate) fn add_changes(&mut self, more: u32) {
        self.changes += more;
    }

    /// Records an event of the key.
    #[inline]
    pub(crate) fn note(&mut self, event: Event) {
        if let Some(record) = &mut self.record {
            record.events.push(event);
        }
    }

    /// Whether changes are reported.
    pub(crate) fn is_reported(&self) -> bool {
        self.record.is_some()
    }

    /// Sets whether the key counts as new, if that does not follow from the slot: a replacement of
    /// an entry that is removed first is new, and a key is not reported as new twice.
    pub(crate) fn choose_new(&mut self, is_new: bool) {
        if let Some(record) = &mut self.record {
            record.is_new = Some(is_new);
        }
    }

    /// Records an event of a collection, which may have lost its last element.
    #[inline]
    pub(crate) fn note_removal(&mut self, event: Event) {
        self.note(event);
        if self.place.is_none() {
            self.note(Event::Del);
        }
    }

    /// Records an event, if any, of a collection that may have lost its last element.
    pub(crate) fn note_some_removal(&mut self, event: Option<Event>) {
        event.into_iter().for_each(|event| self.note(event));
        if self.entry().is_none() {
            self.note(Event::Del);
        }
    }

    /// Sets the effect, or that there is none, if it differs from the default.
    pub(crate) fn choose_effect(&mut self, effect: impl FnOnce() -> Option<Effect>) {
        if let Some(record) = &mut self.record {
            record.chosen = Some(effect());
        }
    }

    /// Records that only a stream's groups or ids change, not its entries: as in Redis, that
    /// affects neither clients that watch the key nor those that cache it.
    pub(crate) fn keep_content(&mut self) {
        if let Some(record) = &mut self.record {
            record.keeps_content = true;
        }
    }

    /// Makes the key count as modified though nothing has changed, for clients that watch or cache
    /// it.
    pub(crate) fn touch(&mut self) {
        if let Some(record) = &mut self.record {
            record.is_touched = true;
        }
    }

    /// Stops recording: this operation is not a change of the keyspace.
    pub(crate) fn forget_record(&mut self) {
        self.record = None;
    }

    /// Takes the record, if changes are reported and anything has changed.
    #[inline]
    pub(crate) fn take_record(&mut self) -> Option<Box<Recorded>> {
        let record = self.record.take()?;
        self.close_record(*record)
    }

    #[cold]
    fn close_record(&self, record: Record) -> Option<Box<Recorded>> {
        let key = (self.moment.database, kept_key(self.key));
        let reports_effects = self.barrier.reports_effects();
        record.close(key, self.entry(), self.changes, reports_effects).map(Box::new)
    }

    /// Whether the slot now has an expiry that it did not have.
    pub(crate) fn gained_expiry(&self) -> bool {
        self.gained_expiry
    }

    /// Returns the time of the operation, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.moment.now_ms
    }

    /// Whether reading the entry counts as an access.
    pub(crate) fn leaves_traces(&self) -> bool {
        self.moment.access.leaves_traces()
    }

    /// Returns the entry, if there is one.
    pub(crate) fn entry(&self) -> Option<EntryView<'_>> {
        // SAFETY: changing the entry takes the slot exclusively, which ends this borrow.
        self.occupant().map(|(_, entry)| unsafe { EntryView::new(entry) })
    }

    /// Returns the string, if there is an entry.
    #[inline]
    pub(crate) fn string(&self) -> Result<Option<StringValue<'_>>, WrongType> {
        self.entry().map(|entry| entry.string()).transpose()
    }

    /// Returns the collection, if there is an entry.
    #[inline]
    pub(crate) fn collection<C: Collection>(&self) -> Result<Option<C::Ref<'_>>, WrongType> {
        self.entry().map(|entry| entry.collection::<C>()).transpose()
    }

    /// Passes the collection, an empty one if there is no entry, to `change`, which returns the
    /// number of changes: with 0, the collection must be unchanged. An empty collection is removed.
    /// Expiry and flags stay; the version changes.
    pub(crate) fn change_collection<C: Collection, R>(
        &mut self,
        change: impl FnOnce(&mut C, &Arc<Blocks>) -> (R, u32),
    ) -> Result<R, WrongType> {
        let mut collection = match self.entry() {
            None => C::default(),
            Some(entry) => match entry.packed_collection::<C>()? {
                Some(packed) => C::from_packed(packed.to_vec()),
                None => return Ok(self.change_root(change)),
            },
        };
        let (result, count) = change(&mut collection, self.blocks);
        let changes = self.changes + count;
        if count > 0 && collection.len() == 0 {
            self.remove();
        } else if count > 0 {
            self.set_or_put(NewValue::from_collection(collection, &mut Vec::new()));
        }
        self.changes = changes;
        Ok(result)
    }

    /// Changes the collection's name for OBJECT ENCODING, which is not a change of the keyspace.
    pub(crate) fn recode_collection<C: Collection>(
        &mut self,
        change: impl FnOnce(&mut C),
    ) -> Result<(), WrongType> {
        let changes = self.changes;
        self.change_collection(|collection: &mut C, _| {
            change(collection);
            ((), 1)
        })?;
        self.changes = changes;
        Ok(())
    }

    /// [`Slot::change_collection`] for a collection in the large form.
    fn change_root<C: Collection, R>(
        &mut self,
        change: impl FnOnce(&mut C, &Arc<Blocks>) -> (R, u32),
    ) -> R {
        let changes_before = self.changes;
        if self.entry().is_some_and(|entry| entry.cas().is_some()) {
            self.give_up_version();
        }
        let word = self.occupant().and_then(|(_, entry)| {
            self.table.mutable(self.barrier, entry, ValueOutcome::Stays).root_word()
        });
        let Some(word) = word else {
            return change(&mut C::default(), self.blocks).0;
        };
        let fields_due = self.fields_due_ms();
        let tree: *mut C::Tree = word.cast().as_ptr();
        // SAFETY: the word is the entry's and still belongs to it: a tree does not move when it
        // changes, and the box created here is not dropped.
        let mut collection = ManuallyDrop::new(C::from_tree(unsafe { Box::from_raw(tree) }));
        let (result, count) = change(&mut collection, self.blocks);
        let is_empty = collection.len() == 0;
        self.table.note_fields(self.key.hash, fields_due, self.fields_due_ms());
        if is_empty {
            self.remove();
        } else if let Some(record) = self.record.as_mut().filter(|_| count > 0) {
            record.is_put = true;
        }
        self.changes = changes_before + count;
        result
    }

    /// Returns the stream, if there is an entry.
    pub(crate) fn stream(&self) -> Result<Option<&Stream>, WrongType> {
        self.entry().map(|entry| entry.value().stream()).transpose()
    }

    /// Passes the stream, an empty one if there is no entry, to `change`, which returns the number
    /// of changes: with 0, an empty stream is removed. Expiry and flags stay; the version changes.
    pub(crate) fn change_stream<R>(
        &mut self,
        change: impl FnOnce(&mut Stream) -> (R, u32),
    ) -> Result<R, WrongType> {
        let changes_before = self.changes;
        if self.stream()?.is_none() {
            let mut stream = Stream::default();
            let (result, count) = change(&mut stream);
            if count > 0 {
                self.set_or_put(NewValue::Root(Root::Stream(Box::new(stream))));
            }
            self.changes = changes_before + count;
            return Ok(result);
        }
        if self.entry().is_some_and(|entry| entry.cas().is_some()) {
            self.give_up_version();
        }
        let word = self.occupant().and_then(|(_, entry)| {
            self.table.mutable(self.barrier, entry, ValueOutcome::Stays).root_word()
        });
        let Some(word) = word else {
            return Ok(change(&mut Stream::default()).0);
        };
        // SAFETY: the entry is a stream, which it owns as a box; nothing else borrows it while the
        // latch is held; the entry has passed the mutation barrier.
        let (result, count) = change(unsafe { word.cast().as_mut() });
        if let Some(record) = self.record.as_mut().filter(|_| count > 0) {
            record.is_put = true;
        }
        self.changes = changes_before + count;
        Ok(result)
    }

    /// Stores an entry, replacing any other.
    pub(crate) fn put(&mut self, value: NewValue<'_>, attributes: Attributes) {
        self.record.iter_mut().for_each(|record| record.is_put = true);
        self.put_as(value, attributes, ValueOutcome::Goes);
    }

    /// Stores an entry, replacing any other; `outcome` tells whether the old value stays in the
    /// store.
    fn put_as(&mut self, value: NewValue<'_>, attributes: Attributes, outcome: ValueOutcome) {
        self.changes += 1;
        self.gained_expiry |= attributes.expire_at_ms.is_some();
        if let Some(bytes) = value.piece().filter(|bytes| bytes.len() > QUICK_BYTES) {
            latch::time_from_here();
            holds::note(Work { bytes: bytes.len() as u64, ..Work::default() });
        }
        match self.occupant() {
            None => {
                let place = self.table.insert(self.barrier, self.key, value, &attributes);
                let access = self.moment.access.first();
                self.table.entry(place).into_iter().for_each(|entry| entry.set_access(access));
                self.place = Some(place);
            }
            Some((mut place, entry)) => {
                let old = self.table.mutable(self.barrier, entry, outcome);
                let (barrier, key) = (self.barrier, self.key);
                let owned = self.table.replace(barrier, &mut place, old, key, value, &attributes);
                self.place = Some(place);
                self.garbage.add(owned);
            }
        }
    }

    /// Removes the entry; returns whether there was one.
    pub(crate) fn remove(&mut self) -> bool {
        self.remove_as(ValueOutcome::Goes)
    }

    /// Removes the entry, whose value may stay elsewhere; returns whether there was one.
    pub(crate) fn remove_as(&mut self, outcome: ValueOutcome) -> bool {
        let Some((place, entry)) = self.occupant() else { return false };
        let entry = self.table.mutable(self.barrier, entry, outcome);
        self.changes += 1;
        self.garbage.add(self.table.remove(place, entry));
        self.place = None;
        true
    }

    /// Sets the entry's access clock.
    pub(crate) fn set_usage(&mut self, usage: Usage) {
        if let Some((_, entry)) = self.occupant()
            && let Some(access) = usage.access(self.moment.access)
        {
            entry.set_access(access);
        }
    }

    /// Gives the entry the access clock of another one.
    pub(crate) fn set_access(&mut self, access: u32) {
        if let Some((_, entry)) = self.occupant() {
            entry.set_access(access);
        }
    }

    /// Changes when the entry expires.
    pub(crate) fn set_expiry(&mut self, expire_at_ms: Option<u64>) {
        let Some((place, entry)) = self.occupant() else { return };
        self.gained_expiry |= expire_at_ms.is_some();
        let attributes = entry.attributes();
        match (attributes.expire_at_ms, expire_at_ms) {
            (None, None) => {}
            (Some(_), Some(at_ms)) => {
                let entry = self.table.mutable(self.barrier, entry, ValueOutcome::Stays);
                self.changes += 1;
                self.record.iter_mut().for_each(|record| record.is_reshaped = true);
                // SAFETY: the entry has an expiry, which is replaced next.
                unsafe { self.table.move_expiry(place, entry, at_ms) };
            }
            _ => self.reshape(Attributes { expire_at_ms, ..attributes }),
        }
    }

    /// Changes the value and keeps expiry and flags; the version changes.
    pub(crate) fn set_value(&mut self, value: NewValue<'_>) {
        self.record.iter_mut().for_each(|record| record.is_put = true);
        self.replace_value(value);
    }

    fn replace_value(&mut self, value: NewValue<'_>) {
        let Some((_, entry)) = self.occupant() else { return };
        let attributes = entry.attributes();
        match value {
            NewValue::Int(value)
                if entry.encoding() == Encoding::Int && attributes.cas.is_none() =>
            {
                self.changes += 1;
                let mut entry = self.table.mutable(self.barrier, entry, ValueOutcome::Stays);
                // SAFETY: the entry's encoding says that its value is an integer.
                unsafe { entry.replace_int(value) };
            }
            value => {
                self.put_as(value, Attributes { cas: None, ..attributes }, ValueOutcome::Goes);
            }
        }
    }

    /// Like [`Slot::set_value`], but creates the entry if there is none.
    pub(crate) fn set_or_put(&mut self, value: NewValue<'_>) {
        match self.place {
            Some(_) => self.set_value(value),
            None => self.put(value, Attributes::default()),
        }
    }

    /// Appends to a string, whose expiry and flags stay; the version changes.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), WrongType> {
        let Some((_, entry)) = self.occupant() else { return Ok(()) };
        let old_len = match &self.record {
            Some(_) => self.string()?.map_or(0, |string| string.len()),
            None => 0,
        };
        if entry.encoding() == Encoding::Rope {
            if entry.attributes().cas.is_some() {
                self.give_up_version();
            }
            let Some((_, entry)) = self.occupant() else { return Ok(()) };
            self.changes += 1;
            let mut entry = self.table.mutable(self.barrier, entry, ValueOutcome::Stays);
            // SAFETY: the slot is borrowed exclusively and nothing else refers to the rope.
            if let Some(rope) = unsafe { entry.rope_mut() } {
                rope.append(bytes);
                rope.keep();
            }
        } else if let Some(view) = self.entry() {
            let whole = view.string()?.with_bytes(|old| [old, bytes].concat());
            self.replace_value(NewValue::changed(&whole));
        }
        if let Some(record) = &mut self.record {
            record.written.push(old_len..old_len + bytes.len());
        }
        Ok(())
    }

    /// Passes a string to `change` in place, after it was created or extended with zeros to
    /// `least_len` bytes. Expiry and flags stay; the version changes.
    pub(crate) fn change<R>(
        &mut self,
        least_len: usize,
        change: impl FnOnce(&mut StringMut<'_>) -> R,
    ) -> Result<R, WrongType> {
        self.change_counted(least_len, |string, _| (change(string), 1))
    }

    /// Like [`Slot::change`], but `change` also receives whether the string was created or
    /// extended, and returns the number of changes.
    pub(crate) fn change_counted<R>(
        &mut self,
        least_len: usize,
        change: impl FnOnce(&mut StringMut<'_>, bool) -> (R, u32),
    ) -> Result<R, WrongType> {
        let changes_before = self.changes;
        let old = self.string()?;
        let is_longer = old.is_none_or(|old| old.len() < least_len);
        self.prepare(least_len)?;
        let Some((_, entry)) = self.occupant() else {
            return Ok(change(&mut StringMut::of_bytes(&mut [], None), is_longer).0);
        };
        let mut entry = self.table.mutable(self.barrier, entry, ValueOutcome::Stays);
        let written = self.record.as_mut().map(|record| {
            record.is_resized |= is_longer;
            // A value that is changed in place is neither stale nor won.
            let marks = entry.entry().marks();
            record.is_reshaped |= marks.stale || marks.won;
            &mut record.written
        });
        // SAFETY: the slot is borrowed exclusively and nothing else refers to the value.
        let (result, count) = match unsafe { (entry.bytes_mut(), entry.rope_mut()) } {
            (_, Some(rope)) => {
                rope.grow(least_len);
                rope.keep();
                change(&mut StringMut::of_rope(rope, written), is_longer)
            }
            (bytes, None) => {
                change(&mut StringMut::of_bytes(bytes.unwrap_or_default(), written), is_longer)
            }
        };
        self.changes = changes_before + count;
        if let Some(record) = self.record.as_mut().filter(|_| count == 0) {
            // The string was rewritten with the same bytes.
            record.written.clear();
        }
        Ok(result)
    }

    /// Makes a string that can be changed in place, of `least_len` bytes or a rope.
    fn prepare(&mut self, least_len: usize) -> Result<(), WrongType> {
        let Some(view) = self.entry() else {
            let value = if least_len > CHUNK_BYTES {
                NewValue::rope(Rope::zeros(least_len))
            } else {
                NewValue::raw(ZEROS.get(..least_len).unwrap_or_default())
            };
            self.put(value, Attributes::default());
            return Ok(());
        };
        match view.string()? {
            StringValue::Rope(_) => {
                if view.cas().is_some() {
                    self.give_up_version();
                }
            }
            StringValue::Bytes(bytes) if bytes.len() >= least_len && view.cas().is_none() => {}
            value if least_len > CHUNK_BYTES => {
                let mut rope = value.with_bytes(Rope::from_bytes);
                rope.grow(least_len);
                self.replace_value(NewValue::rope(rope));
            }
            value => {
                let mut bytes = value.with_bytes(<[u8]>::to_vec);
                bytes.resize(least_len.max(bytes.len()), 0);
                self.replace_value(NewValue::raw(&bytes));
            }
        }
        Ok(())
    }

    fn give_up_version(&mut self) {
        let Some((_, entry)) = self.occupant() else { return };
        self.reshape(Attributes { cas: None, ..entry.attributes() });
    }

    /// Returns the entry's idle time when the slot was opened, in milliseconds.
    pub(crate) fn idle_ms(&self) -> u64 {
        self.moment.access.idle_ms(self.last_access)
    }

    /// Returns the number of the latest version.
    pub(crate) fn last_cas(&self) -> u64 {
        *self.last_cas
    }

    /// Makes version numbers from now on greater than this one, unless it is so great that a client
    /// must have chosen it: the numbers must not run out.
    pub(crate) fn pass_cas(&mut self, cas: u64) {
        if cas < u64::MAX / 2 {
            *self.last_cas = (*self.last_cas).max(cas);
        }
    }

    /// Returns the number for a version that is about to be stored.
    pub(crate) fn next_cas(&mut self) -> u64 {
        *self.last_cas += 1;
        *self.last_cas
    }

    /// Records that a client has fetched the value, which is not a change.
    pub(crate) fn mark_fetched(&mut self) {
        self.occupant().into_iter().for_each(|(_, entry)| entry.mark_fetched());
    }

    /// Changes the marks of the entry; value and version stay.
    pub(crate) fn set_marks(&mut self, marks: Marks) {
        let Some((_, entry)) = self.occupant() else { return };
        self.record.iter_mut().for_each(|record| record.is_reshaped = true);
        self.table.mutable(self.barrier, entry, ValueOutcome::Stays).replace_marks(marks);
    }

    /// Resets the marks of the entry.
    pub(crate) fn forget_marks(&mut self) {
        if self.entry().is_some_and(|entry| entry.marks() != Marks::default()) {
            self.set_marks(Marks::default());
        }
    }

    /// Sets the version's number; `None` is equivalent to a number that no client has seen.
    pub(crate) fn set_cas(&mut self, cas: Option<u64>) {
        let Some((_, entry)) = self.occupant() else { return };
        let attributes = entry.attributes();
        if attributes.cas != cas {
            self.reshape(Attributes { cas, ..attributes });
        }
    }

    /// Returns the number of the entry's version, assigned now if it has none. That is no change of
    /// the entry: clients may watch or cache it.
    pub(crate) fn ensure_cas(&mut self) -> u64 {
        let Some((_, entry)) = self.occupant() else { return 0 };
        let attributes = entry.attributes();
        attributes.cas.unwrap_or_else(|| {
            let (cas, changes) = (self.next_cas(), self.changes);
            self.reshape(Attributes { cas: Some(cas), ..attributes });
            self.changes = changes;
            cas
        })
    }

    /// Copies the entry, to be stored elsewhere; the parts of a large value are shared. The copy
    /// has no version yet.
    pub(crate) fn copy(&self) -> Option<(OwnedValue, Attributes)> {
        let (_, entry) = self.occupant()?;
        let value = self.entry()?.to_owned_value();
        Some((value, Attributes { cas: None, ..entry.attributes() }))
    }

    /// Sets the entry's attributes.
    pub(crate) fn set_attributes(&mut self, attributes: Attributes) {
        self.reshape(attributes);
        self.pass_cas(attributes.cas.unwrap_or(0));
    }

    /// Changes which attributes the entry has, and with them its size; the value stays.
    fn reshape(&mut self, attributes: Attributes) {
        // A copy, since the entry may be rewritten in place.
        let Some((value, _)) = self.copy() else { return };
        self.record.iter_mut().for_each(|record| record.is_reshaped = true);
        self.put_as(value.as_new(), attributes, ValueOutcome::Stays);
    }

    /// Returns when the fields of the hash must next be swept, if any expires.
    fn fields_due_ms(&self) -> Option<u64> {
        self.entry().and_then(|entry| entry.fields_due_ms())
    }

    fn occupant(&self) -> Option<(Place, Entry)> {
        let place = self.place?;
        Some((place, self.table.entry(place)?))
    }
}

/// Returns a key's bytes; those of a long key are shared.
pub(crate) fn kept_key(key: Key<'_>) -> Chunk {
    key.long.map_or_else(|| key.bytes.into(), |long| Arc::clone(long.bytes()).into())
}
