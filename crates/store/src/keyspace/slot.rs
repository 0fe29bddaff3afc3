//! A key's place in its shard while the latch is held: what stands there, and the changes that
//! types are made of. Every one of them passes the barrier.

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

/// Most bytes of a value that are copied in no time.
const QUICK_BYTES: usize = 1024;

/// A key's place, occupied or vacant. What has expired has been removed before a slot is handed
/// out.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    table: &'a mut Table,
    last_cas: &'a mut u64,
    barrier: MutationBarrier,
    moment: Moment,
    /// What the entry's access clock showed before this operation.
    last_access: u32,
    key: Key<'a>,
    place: Option<Place>,
    garbage: &'a mut Garbage,
    /// Memory for the nodes of collections.
    blocks: &'a Arc<Blocks>,
    /// How often the entry was changed.
    changes: u32,
    /// Whether the entry can expire that could not, or at another time.
    gained_expiry: bool,
    /// Whether an expired entry had to go before the slot was handed out.
    was_expired: bool,
    /// What has been done, if changes are reported.
    record: Option<Box<Record>>,
}

/// Where and when an operation opens slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The number of the database.
    pub(crate) database: usize,
    pub(crate) now_ms: u64,
    pub(crate) access: AccessClock,
    /// Any number that differs between uses.
    pub(crate) random: u64,
}

impl<'a> Slot<'a> {
    /// The place of `key`.
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
        // Made where it is returned: it is large, and a copy of it would be the dearest thing here.
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

    /// Whether something stood here that had expired.
    pub(crate) fn was_expired(&self) -> bool {
        self.was_expired
    }

    /// How often the entry was changed by the operation.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.into()
    }

    /// Counts what was done as so many changes more.
    pub(crate) fn add_changes(&mut self, more: u32) {
        self.changes += more;
    }

    /// Notes what happened to the key.
    #[inline]
    pub(crate) fn note(&mut self, event: Event) {
        if let Some(record) = &mut self.record {
            record.events.push(event);
        }
    }

    /// Whether what is done here is reported.
    pub(crate) fn is_reported(&self) -> bool {
        self.record.is_some()
    }

    /// Says whether the key counts as new, where that does not follow from what stands here: what
    /// replaces an entry that is removed first is new, and what was reported as new is not again.
    pub(crate) fn choose_new(&mut self, is_new: bool) {
        if let Some(record) = &mut self.record {
            record.is_new = Some(is_new);
        }
    }

    /// Notes what happened to a collection, which may have lost its last element.
    #[inline]
    pub(crate) fn note_removal(&mut self, event: Event) {
        self.note(event);
        if self.place.is_none() {
            self.note(Event::Del);
        }
    }

    /// Says what the effect is, or that there is none, where it is another than what follows from
    /// what was done here.
    pub(crate) fn choose_effect(&mut self, effect: impl FnOnce() -> Option<Effect>) {
        if let Some(record) = &mut self.record {
            record.chosen = Some(effect());
        }
    }

    /// Notes nothing of what is done here: it is no change of the keyspace.
    pub(crate) fn forget_record(&mut self) {
        self.record = None;
    }

    /// What was done here, if changes are reported and anything happened.
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

    /// Whether what stands here can go for expiring that could not.
    pub(crate) fn gained_expiry(&self) -> bool {
        self.gained_expiry
    }

    /// The time of the operation, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        self.moment.now_ms
    }

    /// Whether looking at the entry counts as a use of it.
    pub(crate) fn leaves_traces(&self) -> bool {
        self.moment.access.leaves_traces()
    }

    /// What stands here.
    pub(crate) fn entry(&self) -> Option<EntryView<'_>> {
        // SAFETY: changing the entry takes the slot exclusively, which ends this borrow.
        self.occupant().map(|(_, entry)| unsafe { EntryView::new(entry) })
    }

    /// The string that stands here, if anything does.
    #[inline]
    pub(crate) fn string(&self) -> Result<Option<StringValue<'_>>, WrongType> {
        self.entry().map(|entry| entry.string()).transpose()
    }

    /// The collection that stands here, if anything does.
    #[inline]
    pub(crate) fn collection<C: Collection>(&self) -> Result<Option<C::Ref<'_>>, WrongType> {
        self.entry().map(|entry| entry.collection::<C>()).transpose()
    }

    /// Has `change` change the collection that stands here, an empty one if there is nothing, and
    /// say for how many changes that counts: with none, the collection must be as it was. An empty
    /// one does not stay. Expiry and flags stay; the version becomes another.
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

    /// Changes what OBJECT ENCODING says of the collection that stands here, which counts as no
    /// change of the keyspace.
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

    /// What [`Slot::change_collection`] does, for a collection that is a root.
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
        // SAFETY: the word is the entry's, which keeps it: a tree stays where it is however it
        // changes, and what is made of it here is not dropped.
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

    /// The stream that stands here, if anything does.
    pub(crate) fn stream(&self) -> Result<Option<&Stream>, WrongType> {
        self.entry().map(|entry| entry.value().stream()).transpose()
    }

    /// Lets `change` change the stream that stands here, an empty one if there is nothing, and say
    /// for how many changes that counts: with none, what was empty does not stay. Expiry and flags
    /// stay; the version becomes another.
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
        // SAFETY: the entry is a stream, which it keeps in a box and which nothing else borrows
        // while the latch is held; the mutation barrier has seen it.
        let (result, count) = change(unsafe { word.cast().as_mut() });
        if let Some(record) = self.record.as_mut().filter(|_| count > 0) {
            record.is_put = true;
        }
        self.changes = changes_before + count;
        Ok(result)
    }

    /// Puts an entry here, in place of whatever stood here.
    pub(crate) fn put(&mut self, value: NewValue<'_>, attributes: Attributes) {
        self.record.iter_mut().for_each(|record| record.is_put = true);
        self.put_as(value, attributes, ValueOutcome::Goes);
    }

    /// The same, told what becomes of the value that stood here.
    fn put_as(&mut self, value: NewValue<'_>, attributes: Attributes, outcome: ValueOutcome) {
        self.changes += 1;
        if let Some(bytes) = value.piece().filter(|bytes| bytes.len() > QUICK_BYTES) {
            latch::slow();
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

    /// Empties the place; whether there was anything.
    pub(crate) fn remove(&mut self) -> bool {
        let Some((place, entry)) = self.occupant() else { return false };
        let entry = self.table.mutable(self.barrier, entry, ValueOutcome::Goes);
        self.changes += 1;
        self.garbage.add(self.table.remove(place, entry));
        self.place = None;
        true
    }

    /// Sets what the entry knows of its use.
    pub(crate) fn set_usage(&mut self, usage: Usage) {
        if let Some((_, entry)) = self.occupant()
            && let Some(access) = usage.access(self.moment.access)
        {
            entry.set_access(access);
        }
    }

    /// Changes when the entry expires.
    pub(crate) fn set_expiry(&mut self, expire_at_ms: Option<u64>) {
        let Some((place, entry)) = self.occupant() else { return };
        self.gained_expiry = expire_at_ms.is_some();
        let attributes = entry.attributes();
        match (attributes.expire_at_ms, expire_at_ms) {
            (None, None) => {}
            (Some(_), Some(at_ms)) => {
                let entry = self.table.mutable(self.barrier, entry, ValueOutcome::Stays);
                self.changes += 1;
                self.record.iter_mut().for_each(|record| record.is_reshaped = true);
                // SAFETY: it has an expiry, which this is to replace.
                unsafe { self.table.move_expiry(place, entry, at_ms) };
            }
            _ => self.reshape(Attributes { expire_at_ms, ..attributes }),
        }
    }

    /// Changes the value and keeps expiry and flags; the version becomes another.
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
                // SAFETY: its encoding says that it is an integer.
                unsafe { entry.replace_int(value) };
            }
            value => {
                self.put_as(value, Attributes { cas: None, ..attributes }, ValueOutcome::Goes);
            }
        }
    }

    /// The same, made where nothing stands.
    pub(crate) fn set_or_put(&mut self, value: NewValue<'_>) {
        match self.place {
            Some(_) => self.set_value(value),
            None => self.put(value, Attributes::default()),
        }
    }

    /// Appends to a string, whose expiry and flags stay; the version becomes another.
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

    /// Has `change` change a string where it lies, after it was made or grown with zeros to
    /// `least_len` bytes. Expiry and flags stay; the version becomes another.
    pub(crate) fn change<R>(
        &mut self,
        least_len: usize,
        change: impl FnOnce(&mut StringMut<'_>) -> R,
    ) -> Result<R, WrongType> {
        self.change_counted(least_len, |string, _| (change(string), 1))
    }

    /// The same where `change` gets whether the string was made or has grown, and says for how
    /// many changes it counts.
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
            // What is changed in place is neither stale nor won.
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
            // It was written as it was.
            record.written.clear();
        }
        Ok(result)
    }

    /// Makes a string that can be changed where it lies, and is of `least_len` bytes or a rope.
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

    /// How long the entry had not been used when the slot was opened, in milliseconds.
    pub(crate) fn idle_ms(&self) -> u64 {
        self.moment.access.idle_ms(self.last_access)
    }

    /// The number that the youngest version was given.
    pub(crate) fn last_cas(&self) -> u64 {
        *self.last_cas
    }

    /// Makes numbers that are given out from now on greater than this one.
    pub(crate) fn pass_cas(&mut self, cas: u64) {
        *self.last_cas = (*self.last_cas).max(cas);
    }

    /// A number for a version that is about to be stored.
    pub(crate) fn next_cas(&mut self) -> u64 {
        *self.last_cas += 1;
        *self.last_cas
    }

    /// Notes that a client has been given the value, which is no change.
    pub(crate) fn mark_fetched(&mut self) {
        self.occupant().into_iter().for_each(|(_, entry)| entry.mark_fetched());
    }

    /// Changes what clients have learned about the entry; value and version stay.
    pub(crate) fn set_marks(&mut self, marks: Marks) {
        let Some((_, entry)) = self.occupant() else { return };
        self.record.iter_mut().for_each(|record| record.is_reshaped = true);
        self.table.mutable(self.barrier, entry, ValueOutcome::Stays).replace_marks(marks);
    }

    /// Makes the entry one of which clients have been told nothing.
    pub(crate) fn forget_marks(&mut self) {
        if self.entry().is_some_and(|entry| entry.marks() != Marks::default()) {
            self.set_marks(Marks::default());
        }
    }

    /// Changes the version's number; none is as good as one that no client has seen.
    pub(crate) fn set_cas(&mut self, cas: Option<u64>) {
        let Some((_, entry)) = self.occupant() else { return };
        let attributes = entry.attributes();
        if attributes.cas != cas {
            self.reshape(Attributes { cas, ..attributes });
        }
    }

    /// The number of the entry's version, given to it now if it has none.
    pub(crate) fn ensure_cas(&mut self) -> u64 {
        let Some((_, entry)) = self.occupant() else { return 0 };
        let attributes = entry.attributes();
        attributes.cas.unwrap_or_else(|| {
            let cas = self.next_cas();
            self.reshape(Attributes { cas: Some(cas), ..attributes });
            cas
        })
    }

    /// A copy of what stands here, to be put elsewhere; a root's parts are shared. The copy has
    /// no version yet.
    pub(crate) fn copy(&self) -> Option<(OwnedValue, Attributes)> {
        let (_, entry) = self.occupant()?;
        let value = self.entry()?.to_owned_value();
        Some((value, Attributes { cas: None, ..entry.attributes() }))
    }

    /// Gives the entry attributes as another has them.
    pub(crate) fn set_attributes(&mut self, attributes: Attributes) {
        self.reshape(attributes);
        self.pass_cas(attributes.cas.unwrap_or(0));
    }

    /// Gives the entry other attributes, which changes its size; the value stays.
    fn reshape(&mut self, attributes: Attributes) {
        // A copy, since the entry may be rewritten where it lies.
        let Some((value, _)) = self.copy() else { return };
        self.record.iter_mut().for_each(|record| record.is_reshaped = true);
        self.put_as(value.as_new(), attributes, ValueOutcome::Stays);
    }

    /// When the fields of the hash that stands here are to be swept, if any expires.
    fn fields_due_ms(&self) -> Option<u64> {
        self.entry().and_then(|entry| entry.fields_due_ms())
    }

    fn occupant(&self) -> Option<(Place, Entry)> {
        let place = self.place?;
        Some((place, self.table.entry(place)?))
    }
}

/// A key's bytes, which a long one shares.
pub(crate) fn kept_key(key: Key<'_>) -> Chunk {
    key.long.map_or_else(|| key.bytes.into(), |long| Arc::clone(long.bytes()).into())
}
