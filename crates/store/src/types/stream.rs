//! Streams: entries ordered by id, and the groups of consumers that read them.
//!
//! Readers take a clone, which shares the stream's nodes, and hold no latch while they reply.
//! Operations on many entries of a group work in parts of at most [`PART_ENTRIES`]; if one part is
//! not enough, the caller claims the key.

use crate::collections::stream::group::Group;
use crate::collections::stream::node::{NewEntry, StreamLimits};
use crate::collections::stream::{AddRefusal, Id, NewId, Stream, Trim};
use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::entry::value::{Value, WrongType};
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use std::ops::ControlFlow;

pub use crate::collections::stream::view::{ConsumerView, GroupView, PendingView};

/// The maximum number of a group's entries that are delivered, claimed or removed while a latch is
/// held once.
pub const PART_ENTRIES: u64 = 128;

/// An entry to be added.
#[derive(Debug)]
pub struct Addition<'a> {
    /// The id of the entry.
    pub id: NewId,
    /// The fields of the entry.
    pub entry: &'a NewEntry<'a>,
    /// Whether nothing is added if there is no stream (NOMKSTREAM).
    pub only_existing: bool,
    /// Which entries are trimmed afterwards.
    pub trim: Option<Trim>,
    /// Limits of a node's size.
    pub limits: StreamLimits,
}

/// The result of adding an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The entry was added with this id.
    As(Id),
    /// There is no stream.
    NoStream,
    /// The id is not greater than the last one.
    Refused(AddRefusal),
}

/// The values that XSETID sets.
#[derive(Clone, Copy, Debug)]
pub struct LastId {
    /// The last id assigned.
    pub id: Id,
    /// The number of entries ever added.
    pub entries_added: Option<u64>,
    /// The greatest id ever deleted.
    pub max_deleted_id: Option<Id>,
}

/// The result of XSETID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastIdSet {
    /// The values were set.
    Done,
    /// There is no stream.
    NoStream,
    /// The last id would be less than the greatest deleted one.
    BelowDeleted,
    /// The last id would be less than that of the last entry.
    BelowLast,
    /// There are more entries than were ever added.
    TooFew,
}

/// Why an operation on a group was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoGroup {
    /// The value is of another type.
    WrongType,
    /// There is no stream.
    Key,
    /// The stream has no group of this name.
    Group,
}

impl From<WrongType> for NoGroup {
    fn from(_: WrongType) -> Self {
        NoGroup::WrongType
    }
}

/// Where a group starts to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupStart {
    /// After this id.
    Behind(Id),
    /// After the last entry.
    End,
}

/// A group and one of its consumers.
#[derive(Clone, Copy, Debug)]
pub struct GroupMember<'a> {
    /// The group's name.
    pub group: &'a [u8],
    /// The consumer's name.
    pub consumer: &'a [u8],
}

/// Entries that were delivered.
#[derive(Debug, Default)]
pub struct Delivered {
    /// The first and the last id.
    pub ids: Option<(Id, Id)>,
    /// The number of entries.
    pub count: u64,
    /// The stream, if any entries were delivered, shared so that it can be read after the latch is
    /// released. While this exists, a change copies the shared nodes that it modifies.
    pub stream: Option<Stream>,
}

/// Options for claiming entries.
#[derive(Clone, Copy, Debug)]
pub struct ClaimRules {
    /// Only entries delivered at least this many milliseconds ago.
    pub min_idle_ms: u64,
    /// The delivery time to set; by default, now.
    pub delivered_ms: Option<u64>,
    /// The delivery count to set.
    pub deliveries: Option<u64>,
    /// Whether entries that are not pending become so (FORCE).
    pub force: bool,
    /// Whether the delivery count stays the same (JUSTID).
    pub just_id: bool,
    /// The group's last delivered id becomes at least this one.
    pub last_id: Id,
}

/// The result of searching pending entries for some to claim.
#[derive(Clone, Debug, Default)]
pub struct AutoClaimed {
    /// Where to continue; 0-0 at the end.
    pub next: Id,
    /// The claimed entries.
    pub claimed: Vec<Id>,
    /// Ids that were pending but have been deleted from the stream.
    pub deleted: Vec<Id>,
    /// The number of pending entries examined.
    pub looked_at: u64,
    /// The stream in which the claimed entries exist.
    pub stream: Option<Stream>,
}

impl Slot<'_> {
    fn change_group<R>(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&mut Group, &Stream) -> (R, u32),
    ) -> Result<R, NoGroup> {
        let Some(stream) = self.stream()? else { return Err(NoGroup::Key) };
        if stream.group(name).is_none() {
            return Err(NoGroup::Group);
        }
        self.keep_content();
        let changed = self.change_stream(|stream| match stream.change_group(name, change) {
            Some((result, count)) => (Some(result), count),
            None => (None, 0),
        })?;
        changed.ok_or(NoGroup::Group)
    }

    /// Adds a consumer. Returns whether it is new.
    fn note_consumer(&mut self, member: GroupMember<'_>) -> Result<bool, NoGroup> {
        let now_ms = self.now_ms();
        let is_new = self.change_group(member.group, |group, _| {
            let is_new = group.see_consumer(member.consumer, now_ms);
            (is_new, u32::from(is_new))
        })?;
        if is_new {
            self.note(Event::XGroupCreateConsumer);
        }
        Ok(is_new)
    }
}

fn count(many: u64) -> u32 {
    u32::try_from(many).unwrap_or(u32::MAX)
}

impl Database<'_> {
    /// Returns the stream under a key, shared so that it can be read after the latch is released.
    ///
    /// # Errors
    /// The value is not a stream.
    pub fn stream(&self, key: Key<'_>) -> Result<Option<Stream>, WrongType> {
        self.read_stream(key, |stream| stream.cloned())
    }

    /// Returns the streams under several keys, read atomically.
    pub fn streams(&self, keys: &[Key<'_>]) -> Vec<Result<Option<Stream>, WrongType>> {
        self.latched(keys, |db| keys.iter().map(|key| db.stream(*key)).collect())
    }

    /// Calls `look` with the stream under a key.
    ///
    /// # Errors
    /// The value is not a stream.
    pub fn read_stream<R>(
        &self,
        key: Key<'_>,
        look: impl FnOnce(Option<&Stream>) -> R,
    ) -> Result<R, WrongType> {
        self.read(key, |entry| match entry.map(|entry| entry.value()) {
            None => Ok(look(None)),
            Some(Value::Stream(stream)) => Ok(look(Some(stream))),
            Some(_) => Err(WrongType),
        })
    }

    /// Adds an entry to a stream (XADD), which is created if there is none.
    ///
    /// # Errors
    /// The value is not a stream.
    pub fn add_to_stream(&self, key: Key<'_>, new: &Addition<'_>) -> Result<Added, WrongType> {
        self.write(key, |slot| {
            if slot.stream()?.is_none() && new.only_existing {
                return Ok(Added::NoStream);
            }
            let now_ms = slot.now_ms();
            let (added, trimmed) = slot.change_stream(|stream| {
                match stream.add(new.id, now_ms, new.entry, new.limits) {
                    Err(refusal) => ((Added::Refused(refusal), 0), 0),
                    Ok(id) => {
                        let trimmed = new.trim.map_or(0, |trim| stream.trim(&trim));
                        ((Added::As(id), trimmed), 1)
                    }
                }
            })?;
            if matches!(added, Added::As(_)) {
                slot.note(Event::XAdd);
            }
            if trimmed > 0 {
                slot.note(Event::XTrim);
            }
            Ok(added)
        })
    }

    /// Deletes the entries of a request, or one part of them (XDEL). Returns how many existed. With
    /// `event`, the deletion is reported.
    ///
    /// # Errors
    /// The value is not a stream.
    pub fn delete_from_stream(
        &self,
        key: Key<'_>,
        ids: &[Id],
        event: bool,
    ) -> Result<u64, WrongType> {
        self.change_there(key, event.then_some(Event::XDel), |stream| {
            ids.iter().filter(|id| stream.delete(**id)).count() as u64
        })
    }

    /// Records that entries were deleted.
    pub fn note_deleted_from_stream(&self, key: Key<'_>) {
        self.write(key, |slot| slot.note(Event::XDel));
    }

    /// Removes entries (XTRIM). Returns how many.
    ///
    /// # Errors
    /// The value is not a stream.
    pub fn trim_stream(&self, key: Key<'_>, trim: &Trim) -> Result<u64, WrongType> {
        self.change_there(key, Some(Event::XTrim), |stream| stream.trim(trim))
    }

    fn change_there(
        &self,
        key: Key<'_>,
        event: Option<Event>,
        change: impl FnOnce(&mut Stream) -> u64,
    ) -> Result<u64, WrongType> {
        self.write(key, |slot| {
            if slot.stream()?.is_none() {
                return Ok(0);
            }
            let removed = slot.change_stream(|stream| {
                let removed = change(stream);
                (removed, count(removed))
            })?;
            if let Some(event) = event.filter(|_| removed > 0) {
                slot.note(event);
            }
            Ok(removed)
        })
    }

    /// Sets a stream's last id and counters (XSETID).
    ///
    /// # Errors
    /// The value is not a stream.
    pub fn set_last_id(&self, key: Key<'_>, new: LastId) -> Result<LastIdSet, WrongType> {
        let LastId { id, entries_added, max_deleted_id } = new;
        self.write(key, |slot| {
            let Some(stream) = slot.stream()? else { return Ok(LastIdSet::NoStream) };
            if id < stream.max_deleted_id() {
                return Ok(LastIdSet::BelowDeleted);
            }
            if stream.len() > 0 && id < stream.last_entry_id() {
                return Ok(LastIdSet::BelowLast);
            }
            if stream.len() > 0 && entries_added.is_some_and(|added| added < stream.len()) {
                return Ok(LastIdSet::TooFew);
            }
            slot.keep_content();
            slot.change_stream(|stream| {
                (stream.set_last_id(id, entries_added, max_deleted_id), 1)
            })?;
            slot.note(Event::XSetId);
            Ok(LastIdSet::Done)
        })
    }

    /// Adds a group (XGROUP CREATE), creating the stream if `make`. Returns whether the group is
    /// new.
    ///
    /// # Errors
    /// The value is not a stream, or there is none and `make` is not set.
    pub fn create_group(
        &self,
        key: Key<'_>,
        name: &[u8],
        (start, entries_read): (GroupStart, Option<u64>),
        make: bool,
    ) -> Result<bool, NoGroup> {
        self.write(key, |slot| {
            if slot.stream()?.is_none() && !make {
                return Err(NoGroup::Key);
            }
            slot.keep_content();
            let is_new = slot.change_stream(|stream| {
                let last_id = start_id(stream, start);
                let is_new = stream.add_group(name, Group::new(last_id, entries_read));
                (is_new, u32::from(is_new))
            })?;
            if is_new {
                slot.note(Event::XGroupCreate);
            }
            Ok(is_new)
        })
    }

    /// Sets the id that a group has read up to (XGROUP SETID).
    ///
    /// # Errors
    /// There is no such group.
    pub fn set_group_id(
        &self,
        key: Key<'_>,
        name: &[u8],
        (start, entries_read): (GroupStart, Option<u64>),
    ) -> Result<(), NoGroup> {
        self.write(key, |slot| {
            slot.change_group(name, |group, stream| {
                group.last_id = start_id(stream, start);
                group.entries_read = entries_read;
                ((), 1)
            })?;
            slot.note(Event::XGroupSetId);
            Ok(())
        })
    }

    /// Removes a group (XGROUP DESTROY). Returns whether it existed.
    ///
    /// # Errors
    /// There is no stream.
    pub fn destroy_group(&self, key: Key<'_>, name: &[u8]) -> Result<bool, NoGroup> {
        self.write(key, |slot| {
            if slot.stream()?.is_none() {
                return Err(NoGroup::Key);
            }
            slot.keep_content();
            let removed = slot.change_stream(|stream| {
                let removed = stream.remove_group(name);
                (removed, u32::from(removed))
            })?;
            if removed {
                slot.note(Event::XGroupDestroy);
            }
            Ok(removed)
        })
    }

    /// Adds a consumer to a group (XGROUP CREATECONSUMER). Returns whether the consumer is new.
    ///
    /// # Errors
    /// There is no such group.
    pub fn create_consumer(&self, key: Key<'_>, member: GroupMember<'_>) -> Result<bool, NoGroup> {
        let GroupMember { group, consumer } = member;
        self.store.note_consumer();
        self.write(key, |slot| {
            let now_ms = slot.now_ms();
            let is_new = slot.change_group(group, |group, _| {
                let is_new = group.add_consumer(consumer, now_ms);
                (is_new, u32::from(is_new))
            })?;
            if is_new {
                slot.note(Event::XGroupCreateConsumer);
            }
            Ok(is_new)
        })
    }

    /// Removes up to [`PART_ENTRIES`] pending entries of a consumer, and the consumer once it has
    /// none (XGROUP DELCONSUMER). Returns how many, and whether the consumer was removed.
    ///
    /// # Errors
    /// There is no such group.
    pub fn remove_consumer(
        &self,
        key: Key<'_>,
        member: GroupMember<'_>,
    ) -> Result<(u64, bool), NoGroup> {
        let GroupMember { group, consumer } = member;
        self.write(key, |slot| {
            let (taken, is_gone, was_there) = slot.change_group(group, |group, _| {
                let was_there = group.consumers.get(consumer).is_some();
                let (taken, is_gone) = group.remove_consumer(consumer, PART_ENTRIES);
                ((taken, is_gone, was_there), u32::from(was_there && is_gone))
            })?;
            if was_there && is_gone {
                slot.note(Event::XGroupDelConsumer);
            }
            Ok((taken, is_gone))
        })
    }

    /// Creates a consumer if needed, and sets the time at which it was last seen to now.
    ///
    /// # Errors
    /// There is no such group.
    pub fn note_consumer(&self, key: Key<'_>, member: GroupMember<'_>) -> Result<(), NoGroup> {
        self.store.note_consumer();
        self.write(key, |slot| slot.note_consumer(member).map(drop))
    }

    /// Delivers the next entries of a group, at most `most` and [`PART_ENTRIES`], to a consumer
    /// (XREADGROUP), which is created if needed and has been seen now. Without `keep`, they do not
    /// become pending.
    ///
    /// # Errors
    /// There is no such group.
    pub fn deliver(
        &self,
        key: Key<'_>,
        member: GroupMember<'_>,
        most: u64,
        keep: bool,
    ) -> Result<Delivered, NoGroup> {
        let GroupMember { group, consumer } = member;
        let most = most.min(PART_ENTRIES);
        self.store.note_consumer();
        self.write(key, |slot| {
            let now_ms = slot.now_ms();
            let (is_new, mut delivered) = slot.change_group(group, |group, stream| {
                let is_new = group.see_consumer(consumer, now_ms);
                let (mut delivered, first) = (Delivered::default(), stream.first_id());
                if let Some(from) = group.last_id.next().filter(|_| most > 0) {
                    stream.walk_ids(from, |id| {
                        group.entries_read = stream.entries_read(group, first, id);
                        group.last_id = id;
                        if keep {
                            group.assign(id, consumer, now_ms, 1);
                        }
                        let before = delivered.ids.map_or(id, |ids| ids.0);
                        delivered.ids = Some((before, id));
                        delivered.count += 1;
                        // Checked here, so that the node of the next entry is not decoded.
                        let is_last = delivered.count == most;
                        if is_last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    });
                }
                if keep && delivered.count > 0 {
                    group.consumers.update(consumer, |it| it.active_ms = Some(now_ms));
                }
                let changes = u32::from(is_new) + u32::from(delivered.count > 0);
                ((is_new, delivered), changes)
            })?;
            if is_new {
                slot.note(Event::XGroupCreateConsumer);
            }
            if delivered.count > 0 {
                delivered.stream = slot.stream()?.cloned();
            }
            Ok(delivered)
        })
    }

    /// Delivers again the pending entries of a consumer from an id on, at most `most` and
    /// [`PART_ENTRIES`]. Returns their ids. Deleted entries do not count as delivered.
    ///
    /// # Errors
    /// There is no such group.
    pub fn deliver_again(
        &self,
        key: Key<'_>,
        member: GroupMember<'_>,
        from: Id,
        most: u64,
    ) -> Result<Vec<Id>, NoGroup> {
        let most = most.min(PART_ENTRIES) as usize;
        self.write(key, |slot| {
            let now_ms = slot.now_ms();
            slot.change_group(member.group, |group, stream| {
                let mut ids = Vec::new();
                let Some(consumer) = group.consumers.get(member.consumer) else { return (ids, 0) };
                consumer.pending.walk(Some(&from), |id, ()| {
                    if ids.len() == most {
                        return ControlFlow::Break(());
                    }
                    ids.push(*id);
                    ControlFlow::Continue(())
                });
                for id in ids.iter().filter(|id| stream.has(**id)) {
                    group.pending.update(id, |it| {
                        it.delivered_ms = now_ms;
                        it.deliveries = it.deliveries.saturating_add(1);
                    });
                }
                (ids, 0)
            })
        })
    }

    /// Acknowledges entries (XACK). Returns how many were pending.
    ///
    /// # Errors
    /// There is no such group.
    pub fn acknowledge(&self, key: Key<'_>, group: &[u8], ids: &[Id]) -> Result<u64, NoGroup> {
        self.write(key, |slot| {
            slot.change_group(group, |group, _| {
                let done = ids.iter().filter(|id| group.acknowledge(**id)).count() as u64;
                (done, count(done))
            })
        })
    }

    /// Assigns pending entries with these ids to a consumer, which is created if needed (XCLAIM).
    /// Returns the ids that were assigned, and the stream in which these entries exist. Deleted
    /// entries are no longer pending afterwards.
    ///
    /// # Errors
    /// There is no such group.
    pub fn claim_entries(
        &self,
        key: Key<'_>,
        member: GroupMember<'_>,
        ids: &[Id],
        rules: &ClaimRules,
    ) -> Result<(Vec<Id>, Option<Stream>), NoGroup> {
        self.store.note_consumer();
        self.write(key, |slot| {
            let now_ms = slot.now_ms();
            // The group's last id is updated first, even if this creates the consumer.
            slot.change_group(member.group, |group, _| {
                let is_above = rules.last_id > group.last_id;
                group.last_id = group.last_id.max(rules.last_id);
                ((), u32::from(is_above))
            })?;
            slot.note_consumer(member)?;
            let claimed = slot.change_group(member.group, |group, stream| {
                let (mut claimed, mut changes) = (Vec::new(), 0);
                for id in ids.iter().copied() {
                    if !stream.has(id) {
                        changes += u32::from(group.acknowledge(id));
                    } else if claim(group, member, id, now_ms, rules) {
                        claimed.push(id);
                    }
                }
                let changes = count(claimed.len() as u64).saturating_add(changes);
                (claimed, changes)
            })?;
            Ok((claimed, slot.stream()?.cloned()))
        })
    }

    /// Examines pending entries from an id on, at most `look_at` and [`PART_ENTRIES`], and claims
    /// up to `most` of them for a consumer, which is created if needed (XAUTOCLAIM).
    ///
    /// # Errors
    /// There is no such group.
    pub fn claim_pending(
        &self,
        key: Key<'_>,
        member: GroupMember<'_>,
        from: Id,
        (most, look_at): (u64, u64),
        rules: &ClaimRules,
    ) -> Result<AutoClaimed, NoGroup> {
        let look_at = look_at.min(PART_ENTRIES) as usize;
        self.store.note_consumer();
        self.write(key, |slot| {
            let now_ms = slot.now_ms();
            slot.note_consumer(member)?;
            let mut done = slot.change_group(member.group, |group, stream| {
                let mut ids = Vec::new();
                group.pending.walk(Some(&from), |id, _| {
                    ids.push(*id);
                    if ids.len() > look_at {
                        return ControlFlow::Break(());
                    }
                    ControlFlow::Continue(())
                });
                let mut done = AutoClaimed::default();
                let mut left = ids.into_iter();
                for id in left.by_ref() {
                    let found = done.claimed.len() + done.deleted.len();
                    if found as u64 >= most || done.looked_at as usize >= look_at {
                        done.next = id;
                        break;
                    }
                    done.looked_at += 1;
                    if !stream.has(id) {
                        group.acknowledge(id);
                        done.deleted.push(id);
                    } else if claim(group, member, id, now_ms, rules) {
                        done.claimed.push(id);
                    }
                }
                let changes = done.claimed.len() + done.deleted.len();
                (done, count(changes as u64))
            })?;
            done.stream = slot.stream()?.cloned();
            Ok(done)
        })
    }
}

fn start_id(stream: &Stream, start: GroupStart) -> Id {
    match start {
        GroupStart::Behind(id) => id,
        GroupStart::End => stream.last_id(),
    }
}

/// Assigns an existing entry to an existing consumer, if the options allow it.
fn claim(
    group: &mut Group,
    member: GroupMember<'_>,
    id: Id,
    now_ms: u64,
    rules: &ClaimRules,
) -> bool {
    let deliveries = match group.pending.get(&id) {
        None if !rules.force => return false,
        // The entry has not been delivered, but will count as delivered.
        None => 1,
        Some(pending) => {
            if now_ms.saturating_sub(pending.delivered_ms) < rules.min_idle_ms {
                return false;
            }
            pending.deliveries
        }
    };
    let more = deliveries.saturating_add(u64::from(!rules.just_id));
    let deliveries = rules.deliveries.unwrap_or(more);
    let delivered_ms = rules.delivered_ms.unwrap_or(now_ms);
    group.assign(id, member.consumer, delivered_ms, deliveries);
    group.consumers.update(member.consumer, |it| it.active_ms = Some(now_ms));
    true
}
