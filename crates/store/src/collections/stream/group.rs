//! Consumer groups: the last id delivered to each, and the entries that its consumers have not
//! acknowledged.

use super::id::Id;
use super::map::{Map, Weigh};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The name of a group or a consumer.
pub(crate) type Name = Arc<[u8]>;

/// An entry that has been delivered but not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    /// The index of its consumer in the group.
    consumer: u32,
    /// When it was last delivered, in milliseconds since 1970.
    pub(crate) delivered_ms: u64,
    /// How often it has been delivered.
    pub(crate) deliveries: u64,
}

impl Weigh for Pending {
    fn weight(&self) -> u64 {
        1
    }
}

/// A consumer of a group.
#[derive(Clone, Debug)]
pub(crate) struct Consumer {
    number: u32,
    /// When it last tried to read, in milliseconds since 1970.
    pub(crate) seen_ms: u64,
    /// When it last received an entry.
    pub(crate) active_ms: Option<u64>,
    /// The entries delivered to it that it has not acknowledged.
    pub(crate) pending: Map<Id, ()>,
}

impl Weigh for Consumer {
    fn weight(&self) -> u64 {
        1 + self.pending.len()
    }
}

/// A consumer group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The id of the last delivered entry.
    pub(crate) last_id: Id,
    /// The number of entries that the stream has ever had up to that id, if known.
    pub(crate) entries_read: Option<u64>,
    pub(crate) pending: Map<Id, Pending>,
    pub(crate) consumers: Map<Name, Consumer>,
    names: Map<u32, NameOf>,
    next_number: u32,
}

#[derive(Clone, Debug)]
struct NameOf(Name);

impl Weigh for NameOf {
    fn weight(&self) -> u64 {
        1
    }
}

impl Weigh for Arc<Group> {
    /// Returns the number of the group's parts in a file: the group itself, its pending entries,
    /// the number of consumers, and each consumer with its pending ids.
    fn weight(&self) -> u64 {
        2 + self.pending.len() + self.consumers.weight()
    }
}

impl Group {
    pub(crate) fn new(last_id: Id, entries_read: Option<u64>) -> Self {
        Group {
            last_id,
            entries_read,
            pending: Map::default(),
            consumers: Map::default(),
            names: Map::default(),
            next_number: 0,
        }
    }

    /// Returns the name of the consumer that owns a pending entry.
    pub(crate) fn name_of(&self, pending: &Pending) -> Option<&Name> {
        self.names.get(&pending.consumer).map(|it| &it.0)
    }

    /// Adds a consumer, unless one with this name exists. Returns whether it was added.
    pub(crate) fn add_consumer(&mut self, name: &[u8], now_ms: u64) -> bool {
        self.restore_consumer(name, now_ms, None)
    }

    /// Sets the time at which a consumer was last seen, and adds it unless it exists. Returns
    /// whether it was added.
    pub(crate) fn see_consumer(&mut self, name: &[u8], now_ms: u64) -> bool {
        let is_there = self.consumers.update(name, |it| it.seen_ms = now_ms).is_some();
        !is_there && self.add_consumer(name, now_ms)
    }

    /// The same as [`Group::add_consumer`], with times loaded from a file.
    pub(crate) fn restore_consumer(
        &mut self,
        name: &[u8],
        seen_ms: u64,
        active_ms: Option<u64>,
    ) -> bool {
        if self.consumers.get(name).is_some() {
            return false;
        }
        while self.names.get(&self.next_number).is_some() {
            self.next_number = self.next_number.wrapping_add(1);
        }
        let (number, name) = (self.next_number, Name::from(name));
        self.next_number = self.next_number.wrapping_add(1);
        self.names.insert(number, NameOf(Arc::clone(&name)));
        let pending = Map::default();
        self.consumers.insert(name, Consumer { number, seen_ms, active_ms, pending });
        true
    }

    /// Removes up to `most` pending entries of a consumer, and the consumer once it has none.
    /// Returns how many entries were removed, and whether the consumer was.
    pub(crate) fn remove_consumer(&mut self, name: &[u8], most: u64) -> (u64, bool) {
        let Some(consumer) = self.consumers.get(name) else { return (0, true) };
        let (number, mut ids) = (consumer.number, Vec::new());
        consumer.pending.walk::<Id, _>(None, |id, ()| {
            if ids.len() as u64 == most {
                return ControlFlow::Break(());
            }
            ids.push(*id);
            ControlFlow::Continue(())
        });
        let is_gone = consumer.pending.len() == ids.len() as u64;
        for id in &ids {
            self.pending.remove(id);
        }
        if is_gone {
            self.consumers.remove(name);
            self.names.remove(&number);
        } else {
            self.consumers.update(name, |it| drop(it.pending.cut_front(ids.len() as u64)));
        }
        (ids.len() as u64, is_gone)
    }

    /// Assigns an entry to an existing consumer, and removes it from its previous one.
    pub(crate) fn assign(&mut self, id: Id, to: &[u8], delivered_ms: u64, deliveries: u64) {
        let Some(consumer) = self.consumers.get(to).map(|it| it.number) else { return };
        let before = self.pending.insert(id, Pending { consumer, delivered_ms, deliveries });
        if before.is_some_and(|it| it.consumer == consumer) {
            return;
        }
        before.into_iter().for_each(|it| self.forget(id, it.consumer));
        self.consumers.update(to, |it| it.pending.insert(id, ()));
    }

    fn forget(&mut self, id: Id, consumer: u32) {
        if let Some(name) = self.names.get(&consumer).map(|it| Arc::clone(&it.0)) {
            self.consumers.update(&*name, |it| it.pending.remove(&id));
        }
    }

    /// Restores a pending entry whose consumer is not known yet.
    pub(crate) fn restore_pending(&mut self, id: Id, delivered_ms: u64, deliveries: u64) -> bool {
        let consumer = u32::MAX;
        self.pending.insert(id, Pending { consumer, delivered_ms, deliveries }).is_none()
    }

    /// Assigns a restored pending entry to a consumer. Returns whether it is pending and had no
    /// consumer before.
    pub(crate) fn restore_owner(&mut self, id: Id, to: &[u8]) -> bool {
        let Some(consumer) = self.consumers.get(to).map(|it| it.number) else { return false };
        let is_free = |it: &mut Pending| std::mem::replace(&mut it.consumer, consumer) == u32::MAX;
        self.pending.update(&id, is_free) == Some(true)
            && self.consumers.update(to, |it| it.pending.insert(id, ()).is_none()) == Some(true)
    }

    /// Acknowledges an entry. Returns whether it was pending.
    pub(crate) fn acknowledge(&mut self, id: Id) -> bool {
        let removed = self.pending.remove(&id);
        removed.into_iter().for_each(|it| self.forget(id, it.consumer));
        removed.is_some()
    }

    /// Whether each pending entry has a consumer, and each entry of a consumer is pending.
    pub(crate) fn is_consistent(&self) -> bool {
        self.consumers.weight() - self.consumers.len() == self.pending.len()
    }
}
