//! Read access to groups, consumers and pending entries, for commands.

use super::group::{Consumer, Group, Name};
use super::map::Map;
use super::{Id, Stream};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A group of a stream.
#[derive(Clone, Copy, Debug)]
pub struct GroupView<'a> {
    stream: &'a Stream,
    name: &'a [u8],
    group: &'a Group,
}

/// A consumer of a group.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerView<'a> {
    group: &'a Group,
    name: &'a [u8],
    consumer: &'a Consumer,
}

/// An entry that has been delivered but not acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct PendingView<'a> {
    /// The entry's id.
    pub id: Id,
    /// The name of the entry's consumer, which may be long.
    pub consumer: &'a Arc<[u8]>,
    /// When it was last delivered, in milliseconds since 1970.
    pub delivered_ms: u64,
    /// How often it has been delivered.
    pub deliveries: u64,
}

impl Stream {
    /// Returns the number of groups.
    #[must_use]
    pub fn group_count(&self) -> u64 {
        self.groups().len()
    }

    /// Returns the group with this name.
    #[must_use]
    pub fn view_group(&self, name: &[u8]) -> Option<GroupView<'_>> {
        let (name, group) = self.groups().floor(name).filter(|(it, _)| &***it == name)?;
        Some(GroupView { stream: self, name, group })
    }

    /// Whether any group has a consumer.
    #[must_use]
    pub fn has_consumers(&self) -> bool {
        let has_some = |group: GroupView<'_>| match group.consumer_count() {
            0 => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        };
        self.walk_groups(0, has_some).is_some()
    }

    /// Visits the groups after the first `skipped` ones, until `visit` breaks.
    pub fn walk_groups<'a, B>(
        &'a self,
        skipped: u64,
        mut visit: impl FnMut(GroupView<'a>) -> ControlFlow<B>,
    ) -> Option<B> {
        self.groups()
            .walk_after(skipped, |name, group| visit(GroupView { stream: self, name, group }))
    }
}

impl<'a> GroupView<'a> {
    /// Returns the group's name.
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        self.name
    }

    /// Returns the id of the last delivered entry.
    #[must_use]
    pub fn last_id(self) -> Id {
        self.group.last_id
    }

    /// Returns the number of entries up to that id, if known.
    #[must_use]
    pub fn entries_read(self) -> Option<u64> {
        self.group.entries_read
    }

    /// Returns the number of entries that the group has not read yet, if known.
    #[must_use]
    pub fn lag(self) -> Option<i64> {
        self.stream.lag(self.group)
    }

    /// Whether the stream has entries that have not been delivered to any consumer of the group.
    #[must_use]
    pub fn has_new_entries(self) -> bool {
        let delivered = self.group.last_id;
        // The last id is known without decoding the last node, and usually rules them out.
        self.stream.last_id() > delivered && self.stream.last_entry_id() > delivered
    }

    /// Returns the number of consumers.
    #[must_use]
    pub fn consumer_count(self) -> u64 {
        self.group.consumers.len()
    }

    /// Returns the number of pending entries.
    #[must_use]
    pub fn pending_count(self) -> u64 {
        self.group.pending.len()
    }

    /// Returns the ids of the first and the last pending entry.
    #[must_use]
    pub fn pending_ends(self) -> Option<(Id, Id)> {
        Some((*self.group.pending.first()?.0, *self.group.pending.last()?.0))
    }

    /// Returns the consumer with this name.
    #[must_use]
    pub fn consumer(self, name: &[u8]) -> Option<ConsumerView<'a>> {
        let consumers: &Map<Name, Consumer> = &self.group.consumers;
        let (name, consumer) = consumers.floor(name).filter(|(it, _)| &***it == name)?;
        Some(ConsumerView { group: self.group, name, consumer })
    }

    /// Visits the consumers after the first `skipped` ones, until `visit` breaks.
    pub fn walk_consumers<B>(
        self,
        skipped: u64,
        mut visit: impl FnMut(ConsumerView<'a>) -> ControlFlow<B>,
    ) -> Option<B> {
        self.group.consumers.walk_after(skipped, |name, consumer| {
            visit(ConsumerView { group: self.group, name, consumer })
        })
    }

    /// Visits pending entries from an id on, until `visit` breaks.
    pub fn walk_pending<B>(
        self,
        from: Id,
        mut visit: impl FnMut(PendingView<'a>) -> ControlFlow<B>,
    ) -> Option<B> {
        self.group.pending.walk(Some(&from), |id, _| match pending_view(self.group, *id) {
            Some(pending) => visit(pending),
            None => ControlFlow::Continue(()),
        })
    }
}

impl<'a> ConsumerView<'a> {
    /// Returns the consumer's name.
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        self.name
    }

    /// Returns when the consumer last tried to read, in milliseconds since 1970.
    #[must_use]
    pub fn seen_ms(self) -> u64 {
        self.consumer.seen_ms
    }

    /// Returns when the consumer last received an entry, in milliseconds since 1970.
    #[must_use]
    pub fn active_ms(self) -> Option<u64> {
        self.consumer.active_ms
    }

    /// Returns the number of the consumer's pending entries.
    #[must_use]
    pub fn pending_count(self) -> u64 {
        self.consumer.pending.len()
    }

    /// Visits the consumer's pending entries from an id on, until `visit` breaks.
    pub fn walk_pending<B>(
        self,
        from: Id,
        mut visit: impl FnMut(PendingView<'a>) -> ControlFlow<B>,
    ) -> Option<B> {
        self.consumer.pending.walk(Some(&from), |id, ()| match pending_view(self.group, *id) {
            Some(pending) => visit(pending),
            None => ControlFlow::Continue(()),
        })
    }
}

fn pending_view(group: &Group, id: Id) -> Option<PendingView<'_>> {
    let pending = group.pending.get(&id)?;
    let consumer = group.name_of(pending)?;
    let (delivered_ms, deliveries) = (pending.delivered_ms, pending.deliveries);
    Some(PendingView { id, consumer, delivered_ms, deliveries })
}
