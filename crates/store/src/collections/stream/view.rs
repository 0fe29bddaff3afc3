//! Groups, consumers and pending entries as commands show them.

use super::group::{Consumer, Group, Name};
use super::map::Map;
use super::{Id, Stream};
use std::ops::ControlFlow;

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

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct PendingView<'a> {
    /// Its id.
    pub id: Id,
    /// The name of the consumer that has it.
    pub consumer: &'a [u8],
    /// When it was delivered last, in milliseconds since 1970.
    pub delivered_ms: u64,
    /// How often it was.
    pub deliveries: u64,
}

impl Stream {
    /// How many groups there are.
    #[must_use]
    pub fn group_count(&self) -> u64 {
        self.groups().len()
    }

    /// The group of a name.
    #[must_use]
    pub fn view_group(&self, name: &[u8]) -> Option<GroupView<'_>> {
        let (name, group) = self.groups().floor(name).filter(|(it, _)| &***it == name)?;
        Some(GroupView { stream: self, name, group })
    }

    /// Shows the groups after so many, until `visit` breaks off.
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
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        self.name
    }

    /// The last entry that was delivered.
    #[must_use]
    pub fn last_id(self) -> Id {
        self.group.last_id
    }

    /// How many entries come up to that one, if that is known.
    #[must_use]
    pub fn entries_read(self) -> Option<u64> {
        self.group.entries_read
    }

    /// How many entries it has not read yet, if that is known.
    #[must_use]
    pub fn lag(self) -> Option<i64> {
        self.stream.lag(self.group)
    }

    /// How many consumers it has.
    #[must_use]
    pub fn consumer_count(self) -> u64 {
        self.group.consumers.len()
    }

    /// How many entries are pending.
    #[must_use]
    pub fn pending_count(self) -> u64 {
        self.group.pending.len()
    }

    /// The first and the last pending entry.
    #[must_use]
    pub fn pending_ends(self) -> Option<(Id, Id)> {
        Some((*self.group.pending.first()?.0, *self.group.pending.last()?.0))
    }

    /// The consumer of a name.
    #[must_use]
    pub fn consumer(self, name: &[u8]) -> Option<ConsumerView<'a>> {
        let consumers: &Map<Name, Consumer> = &self.group.consumers;
        let (name, consumer) = consumers.floor(name).filter(|(it, _)| &***it == name)?;
        Some(ConsumerView { group: self.group, name, consumer })
    }

    /// Shows the consumers after so many, until `visit` breaks off.
    pub fn walk_consumers<B>(
        self,
        skipped: u64,
        mut visit: impl FnMut(ConsumerView<'a>) -> ControlFlow<B>,
    ) -> Option<B> {
        self.group.consumers.walk_after(skipped, |name, consumer| {
            visit(ConsumerView { group: self.group, name, consumer })
        })
    }

    /// Shows pending entries from an id on, until `visit` breaks off.
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
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        self.name
    }

    /// When it last asked for anything, in milliseconds since 1970.
    #[must_use]
    pub fn seen_ms(self) -> u64 {
        self.consumer.seen_ms
    }

    /// When it was last given anything.
    #[must_use]
    pub fn active_ms(self) -> Option<u64> {
        self.consumer.active_ms
    }

    /// How many entries are pending for it.
    #[must_use]
    pub fn pending_count(self) -> u64 {
        self.consumer.pending.len()
    }

    /// Shows them from an id on, until `visit` breaks off.
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
