//! Streams as a sequence of parts, in the order of files.

use super::group::Group;
use super::map::Weigh;
use super::node::Node;
use super::{Id, Stream};
use std::ops::ControlFlow;

/// A part of a stream. The nodes come first, then the head, then for each group: the group itself,
/// its pending entries, the number of consumers, and each consumer followed by its pending ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPart<'a> {
    /// A node with its entries.
    Node {
        /// The node's key.
        first: Id,
        /// The node's listpack.
        listpack: &'a [u8],
    },
    /// The stream's own metadata.
    Head {
        /// The number of entries.
        len: u64,
        /// The last id that was assigned.
        last_id: Id,
        /// The first entry's id; 0-0 if there are no entries.
        first_id: Id,
        /// The greatest id of a deleted entry.
        max_deleted_id: Id,
        /// The number of entries ever added; `None` in files written before Redis 7, which do not
        /// contain how many entries groups have read either.
        entries_added: Option<u64>,
        /// The number of groups that follow.
        groups: u64,
    },
    /// A consumer group.
    Group {
        /// The group's name.
        name: &'a [u8],
        /// The id of the last delivered entry.
        last_id: Id,
        /// The number of entries up to that id, if known.
        entries_read: Option<u64>,
        /// The number of pending entries that follow.
        pending: u64,
    },
    /// A pending entry.
    Pending {
        /// The entry's id.
        id: Id,
        /// When it was last delivered, in milliseconds since 1970.
        delivered_ms: u64,
        /// How often it has been delivered.
        deliveries: u64,
    },
    /// The number of the group's consumers, which follow.
    Consumers(u64),
    /// A consumer.
    Consumer {
        /// The consumer's name.
        name: &'a [u8],
        /// When it last tried to read, in milliseconds since 1970.
        seen_ms: u64,
        /// When it last received an entry.
        active_ms: Option<u64>,
        /// The number of its pending ids, which follow.
        pending: u64,
    },
    /// The id of a pending entry of the consumer.
    Owned(Id),
}

impl Stream {
    /// Returns the number of parts.
    #[must_use]
    pub fn parts(&self) -> u64 {
        self.nodes.len() + 1 + self.groups.weight()
    }

    /// Visits the parts after the first `skipped` ones, until `visit` breaks.
    pub fn walk_parts<B>(
        &self,
        skipped: u64,
        mut visit: impl FnMut(StreamPart<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        let broken = self.nodes.walk_after(skipped, |first, node| {
            visit(StreamPart::Node { first: *first, listpack: node.listpack() })
        });
        if broken.is_some() {
            return broken;
        }
        let mut skipped = skipped.saturating_sub(self.nodes.len());
        if skipped == 0 {
            if let ControlFlow::Break(broken) = visit(self.head()) {
                return Some(broken);
            }
        } else {
            skipped -= 1;
        }
        if skipped >= self.groups.weight() {
            return None;
        }
        self.groups
            .walk_rank(skipped, |name, group, skipped| walk_group(name, group, skipped, &mut visit))
    }

    fn head(&self) -> StreamPart<'_> {
        StreamPart::Head {
            len: self.len(),
            last_id: self.last_id,
            first_id: self.first_id(),
            max_deleted_id: self.max_deleted_id,
            entries_added: Some(self.entries_added),
            groups: self.groups.len(),
        }
    }
}

fn walk_group<B>(
    name: &[u8],
    group: &Group,
    skipped: u64,
    visit: &mut impl FnMut(StreamPart<'_>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    let Group { last_id, entries_read, pending, consumers, .. } = group;
    let (last_id, entries_read) = (*last_id, *entries_read);
    let mut left = skipped;
    // Whether the next part is to be visited.
    let mut is_next = || match left.checked_sub(1) {
        None => true,
        Some(less) => {
            left = less;
            false
        }
    };
    if is_next() {
        visit(StreamPart::Group { name, last_id, entries_read, pending: pending.len() })?;
    }
    let after = left.min(pending.len());
    left -= after;
    let broken = pending.walk_after(after, |id, it| {
        let (delivered_ms, deliveries) = (it.delivered_ms, it.deliveries);
        visit(StreamPart::Pending { id: *id, delivered_ms, deliveries })
    });
    if let Some(broken) = broken {
        return ControlFlow::Break(broken);
    }
    match left.checked_sub(1) {
        None => visit(StreamPart::Consumers(consumers.len()))?,
        Some(less) => left = less,
    }
    if left > 0 && left >= consumers.weight() {
        return ControlFlow::Continue(());
    }
    let broken = consumers.walk_rank(left, |name, consumer, skipped| {
        let (seen_ms, active_ms) = (consumer.seen_ms, consumer.active_ms);
        let pending = consumer.pending.len();
        if skipped == 0 {
            visit(StreamPart::Consumer { name, seen_ms, active_ms, pending })?;
        }
        let owned = skipped.saturating_sub(1);
        let broken = consumer.pending.walk_after(owned, |id, ()| visit(StreamPart::Owned(*id)));
        broken.map_or(ControlFlow::Continue(()), ControlFlow::Break)
    });
    broken.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Builds a stream from its parts, in the same order.
#[derive(Debug, Default)]
pub struct StreamBuilder {
    stream: Stream,
    /// The group whose parts are being added.
    group: Option<(Vec<u8>, Group)>,
    consumer: Vec<u8>,
    /// Whether the numbers of entries read by groups are estimated.
    estimates_reads: bool,
    /// Which parts have been added, and how many are still expected.
    left: Left,
}

#[derive(Debug, Default)]
struct Left {
    has_head: bool,
    groups: u64,
    pending: u64,
    /// `None` until their number is known.
    consumers: Option<u64>,
    owned: u64,
}

impl StreamBuilder {
    /// Creates a builder without parts.
    #[must_use]
    pub fn new() -> Self {
        StreamBuilder::default()
    }

    /// Adds the next part. Returns whether it is valid there.
    pub fn add(&mut self, part: StreamPart<'_>) -> bool {
        let is_added = self.try_add(part).is_some();
        let Left { groups, pending, consumers, owned, .. } = self.left;
        let is_last = (groups, pending, consumers, owned) == (0, 0, Some(0), 0);
        is_added && (!is_last || self.end_group().is_some())
    }

    fn try_add(&mut self, part: StreamPart<'_>) -> Option<()> {
        let StreamBuilder { stream, group, consumer, estimates_reads, left } = self;
        match part {
            StreamPart::Node { first, listpack } => {
                let is_behind = stream.nodes.last().is_none() || stream.last_entry_id() < first;
                let node = Node::read(first, listpack.to_vec())?;
                if left.has_head || !is_behind {
                    return None;
                }
                // A node without entries would never be removed.
                if node.weight() > 0 {
                    stream.node_bytes += node.bytes();
                    stream.nodes.insert(first, node);
                }
            }
            StreamPart::Head { len, last_id, max_deleted_id, entries_added, groups, .. } => {
                if left.has_head || len != stream.len() || last_id < stream.last_entry_id() {
                    return None;
                }
                (left.has_head, left.groups) = (true, groups);
                let added = entries_added.unwrap_or(len);
                stream.set_last_id(last_id, Some(added), Some(max_deleted_id));
                *estimates_reads = entries_added.is_none();
            }
            StreamPart::Group { name, last_id, entries_read, pending } => {
                if !left.has_head || left.owned > 0 || group.is_some() && left.consumers != Some(0)
                {
                    return None;
                }
                self.end_group()?;
                let entries_read = match self.estimates_reads {
                    true => self.stream.distance(last_id),
                    false => entries_read,
                };
                let left = &mut self.left;
                left.groups = left.groups.checked_sub(1)?;
                (left.pending, left.consumers) = (pending, None);
                self.group = Some((name.to_vec(), Group::new(last_id, entries_read)));
            }
            StreamPart::Pending { id, delivered_ms, deliveries } => {
                left.pending = left.pending.checked_sub(1)?;
                let (_, group) = group.as_mut()?;
                return group.restore_pending(id, delivered_ms, deliveries).then_some(());
            }
            StreamPart::Consumers(count) => {
                if left.pending > 0 || left.consumers.is_some() || group.is_none() {
                    return None;
                }
                left.consumers = Some(count);
            }
            StreamPart::Consumer { name, seen_ms, active_ms, pending } => {
                if left.owned > 0 {
                    return None;
                }
                left.consumers = Some(left.consumers?.checked_sub(1)?);
                left.owned = pending;
                *consumer = name.to_vec();
                let (_, group) = group.as_mut()?;
                return group.restore_consumer(name, seen_ms, active_ms).then_some(());
            }
            StreamPart::Owned(id) => {
                left.owned = left.owned.checked_sub(1)?;
                let (_, group) = group.as_mut()?;
                return group.restore_owner(id, consumer).then_some(());
            }
        }
        Some(())
    }

    fn end_group(&mut self) -> Option<()> {
        let Some((name, group)) = self.group.take() else { return Some(()) };
        (group.is_consistent() && self.stream.add_group(&name, group)).then_some(())
    }

    /// Returns the stream, if all of its parts have been added.
    #[must_use]
    pub fn end(mut self) -> Option<Stream> {
        let Left { has_head, groups, pending, consumers, owned } = self.left;
        let is_open = self.group.is_some() && consumers != Some(0);
        if !has_head || groups > 0 || pending > 0 || owned > 0 || is_open {
            return None;
        }
        self.end_group()?;
        Some(self.stream)
    }
}
