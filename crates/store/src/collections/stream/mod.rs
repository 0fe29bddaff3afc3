//! Streams: entries in the order of their ids, which only grow, and groups of consumers that read
//! them.
//!
//! Entries lie in nodes ([`node`]) as Redis has them, so that what is trimmed by whole nodes is
//! what Redis trims, and files are written without another form between. Nodes, groups and pending
//! entries are in maps that share their parts with clones ([`map`]): a clone for a snapshot or for
//! a long reply costs a few references.

pub(crate) mod group;
mod id;
mod listpack;
mod map;
pub(crate) mod node;
mod parts;
mod selection;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use crate::memory::reclaim;
use group::{Group, Name};
pub use id::Id;
use map::Map;
use node::{NewEntry, Node, StreamEntry, StreamLimits};
pub use parts::{StreamBuilder, StreamPart};
pub use selection::Selection;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Which id an entry gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// By the clock, and above the last one in any case.
    Next,
    /// The next of a millisecond.
    NextOf(u64),
    /// This one.
    Exact(Id),
}

/// Why an entry is not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddRefusal {
    /// The id is not above the last one.
    TooSmall,
    /// There is no id above the last one.
    Exhausted,
}

/// What is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// What stays.
    pub keep: Keep,
    /// Whether only whole nodes go.
    pub is_approximate: bool,
    /// Most entries that go with whole nodes, 0 for no limit.
    pub limit: u64,
}

/// What stays of a stream that is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// So many entries.
    Last(u64),
    /// Those from this id on.
    From(Id),
}

/// A stream. A clone shares its parts, and stays as it is when the other is changed.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// By their first ids, which stay when the entries of these are deleted.
    nodes: Map<Id, Node>,
    node_bytes: u64,
    last_id: Id,
    max_deleted_id: Id,
    entries_added: u64,
    groups: Map<Name, Arc<Group>>,
}

/// Bytes of a value of a map, beside what it holds elsewhere.
const PLACE_BYTES: u64 = 48;
/// Streams of more bytes are dropped by the reclaimer, and those of more nodes.
const SMALL_BYTES: u64 = 256 * 1024;
const FEW_NODES: u64 = 64;

impl Stream {
    /// How many entries there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a stream without entries is kept as well")]
    pub fn len(&self) -> u64 {
        self.nodes.weight()
    }

    /// The last id that was given.
    #[must_use]
    pub fn last_id(&self) -> Id {
        self.last_id
    }

    /// The greatest id of an entry that was deleted.
    #[must_use]
    pub fn max_deleted_id(&self) -> Id {
        self.max_deleted_id
    }

    /// How many entries there have ever been.
    #[must_use]
    pub fn entries_added(&self) -> u64 {
        self.entries_added
    }

    /// How many nodes there are.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.nodes.len()
    }

    /// Memory that it takes, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let places = self.nodes.len() + self.groups.weight();
        size_of::<Stream>() as u64 + self.node_bytes + places * PLACE_BYTES
    }

    /// The first entry's id, 0-0 without entries.
    #[must_use]
    pub fn first_id(&self) -> Id {
        let first = |entry: StreamEntry<'_>| ControlFlow::Break(entry.id);
        self.walk(Id::MIN, Id::MAX, first).unwrap_or(Id::MIN)
    }

    /// The last entry's id, 0-0 without entries.
    #[must_use]
    pub fn last_entry_id(&self) -> Id {
        let last = |entry: StreamEntry<'_>| ControlFlow::Break(entry.id);
        self.walk_back(Id::MIN, Id::MAX, last).unwrap_or(Id::MIN)
    }

    /// Shows entries from one id to another, both included, until `visit` breaks off.
    pub fn walk<'a, B>(
        &'a self,
        from: Id,
        to: Id,
        mut visit: impl FnMut(StreamEntry<'a>) -> ControlFlow<B>,
    ) -> Option<B> {
        let start = self.nodes.floor(&from).map(|(first, _)| *first);
        self.nodes
            .walk(start.as_ref(), |first, node| {
                if *first > to {
                    return ControlFlow::Break(None);
                }
                for entry in node.entries(*first).skip_while(|entry| entry.id < from) {
                    if entry.id > to {
                        return ControlFlow::Break(None);
                    }
                    if let ControlFlow::Break(broken) = visit(entry) {
                        return ControlFlow::Break(Some(broken));
                    }
                }
                ControlFlow::Continue(())
            })
            .flatten()
    }

    /// The same from the last to the first.
    pub fn walk_back<'a, B>(
        &'a self,
        from: Id,
        to: Id,
        mut visit: impl FnMut(StreamEntry<'a>) -> ControlFlow<B>,
    ) -> Option<B> {
        self.nodes
            .walk_back(Some(&to), |first, node| {
                let entries: Vec<_> =
                    node.entries(*first).take_while(|entry| entry.id <= to).collect();
                for entry in entries.into_iter().rev() {
                    if entry.id < from {
                        return ControlFlow::Break(None);
                    }
                    if let ControlFlow::Break(broken) = visit(entry) {
                        return ControlFlow::Break(Some(broken));
                    }
                }
                if *first < from { ControlFlow::Break(None) } else { ControlFlow::Continue(()) }
            })
            .flatten()
    }

    /// Shows entries after so many, until `visit` breaks off.
    pub fn walk_after<'a, B>(
        &'a self,
        skipped: u64,
        mut visit: impl FnMut(StreamEntry<'a>) -> ControlFlow<B>,
    ) -> Option<B> {
        if skipped >= self.len() {
            return None;
        }
        self.nodes.walk_rank(skipped, |first, node, skipped| {
            node.entries(*first).skip(skipped as usize).try_for_each(&mut visit)
        })
    }

    /// The entry of an id.
    #[must_use]
    pub fn get(&self, id: Id) -> Option<StreamEntry<'_>> {
        self.walk(id, id, ControlFlow::Break)
    }

    /// How many entries have ids below this one.
    fn rank(&self, id: Id) -> u64 {
        let Some((first, node)) = self.nodes.floor(&id) else { return 0 };
        let below = node.entries(*first).take_while(|entry| entry.id < id).count() as u64;
        self.nodes.weight_below(first) + below
    }

    /// How many entries there are from one id to another, both included.
    #[must_use]
    pub fn count(&self, from: Id, to: Id) -> u64 {
        let up_to = to.next().map_or_else(|| self.len(), |after| self.rank(after));
        up_to.saturating_sub(self.rank(from))
    }

    /// Adds an entry; its id.
    pub(crate) fn add(
        &mut self,
        id: NewId,
        now_ms: u64,
        new: &NewEntry<'_>,
        limits: StreamLimits,
    ) -> Result<Id, AddRefusal> {
        let last = self.last_id;
        let above = last.next().ok_or(AddRefusal::Exhausted)?;
        let id = match id {
            NewId::Next if now_ms > last.ms => Id { ms: now_ms, seq: 0 },
            NewId::Next => above,
            NewId::NextOf(ms) if ms == last.ms => {
                let seq = last.seq.checked_add(1).ok_or(AddRefusal::TooSmall)?;
                Id { ms, seq }
            }
            NewId::NextOf(ms) => Id { ms, seq: 0 },
            NewId::Exact(id) => id,
        };
        if id <= last {
            return Err(AddRefusal::TooSmall);
        }
        self.append(id, new, limits);
        self.last_id = id;
        self.entries_added += 1;
        Ok(id)
    }

    fn append(&mut self, id: Id, new: &NewEntry<'_>, limits: StreamLimits) {
        let last = self.nodes.last().map(|(first, _)| *first);
        let appended = last.and_then(|first| {
            self.nodes.update(&first, |node| {
                let before = node.bytes();
                let is_in = node.append(first, id, new, limits);
                if !is_in {
                    node.close();
                }
                (is_in, node.bytes().wrapping_sub(before))
            })
        });
        let (is_in, more) = appended.unwrap_or_default();
        self.node_bytes = self.node_bytes.wrapping_add(more);
        if !is_in {
            let node = Node::begin(new);
            self.node_bytes += node.bytes();
            self.nodes.insert(id, node);
        }
    }

    /// Deletes the entry of an id. Returns whether there was one.
    pub(crate) fn delete(&mut self, id: Id) -> bool {
        let Some(first) = self.nodes.floor(&id).map(|(first, _)| *first) else { return false };
        let deleted = self.delete_of_node(first, |it| (it <= id).then_some(it == id));
        if deleted > 0 {
            self.max_deleted_id = self.max_deleted_id.max(id);
        }
        deleted > 0
    }

    fn delete_of_node(&mut self, first: Id, choose: impl FnMut(Id) -> Option<bool>) -> u64 {
        let deleted = self.nodes.update(&first, |node| {
            let before = node.bytes();
            let deleted = node.delete(first, choose).len() as u64;
            (deleted, node.bytes().wrapping_sub(before), node.len() == 0)
        });
        let Some((deleted, more, is_empty)) = deleted else { return 0 };
        self.node_bytes = self.node_bytes.wrapping_add(more);
        if is_empty && let Some(node) = self.nodes.remove(&first) {
            self.node_bytes -= node.bytes();
        }
        deleted
    }

    /// Removes the entries that a trim selects. Returns how many.
    pub(crate) fn trim(&mut self, trim: &Trim) -> u64 {
        let before = self.len();
        let whole = match trim.keep {
            Keep::Last(count) => before.saturating_sub(count),
            Keep::From(id) => match self.nodes.floor(&id) {
                None => 0,
                Some((first, node)) => {
                    let goes = node.last_id(*first).is_some_and(|last| last < id);
                    self.nodes.weight_below(first) + if goes { node.len() } else { 0 }
                }
            },
        };
        let most = if trim.limit == 0 { whole } else { whole.min(trim.limit) };
        let nodes = self.nodes.len();
        let cut = self.nodes.cut_front(most);
        if self.nodes.len() != nodes {
            // What a node takes on average is near enough for what is only shown.
            let rest = u128::from(self.node_bytes) * u128::from(self.nodes.len());
            self.node_bytes = (rest / u128::from(nodes)) as u64;
        }
        if cut.is_large() {
            reclaim::free_elsewhere(cut);
        }
        if !trim.is_approximate
            && let Some(first) = self.nodes.first().map(|(first, _)| *first)
        {
            match trim.keep {
                Keep::Last(count) => {
                    let mut left = self.len().saturating_sub(count);
                    self.delete_of_node(first, |_| {
                        left = left.checked_sub(1)?;
                        Some(true)
                    });
                }
                Keep::From(id) => {
                    self.delete_of_node(first, |it| (it < id).then_some(true));
                }
            }
        }
        before - self.len()
    }

    /// Sets what XSETID sets.
    pub(crate) fn set_last_id(&mut self, id: Id, added: Option<u64>, max_deleted: Option<Id>) {
        self.last_id = id;
        self.entries_added = added.unwrap_or(self.entries_added);
        self.max_deleted_id = max_deleted.unwrap_or(self.max_deleted_id);
    }

    /// The groups by their names.
    pub(crate) fn groups(&self) -> &Map<Name, Arc<Group>> {
        &self.groups
    }

    /// The group of a name.
    pub(crate) fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name).map(|group| &**group)
    }

    /// Adds a group, unless there is one of this name. Returns whether there was none.
    pub(crate) fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        let is_new = self.groups.get(name).is_none();
        if is_new {
            self.groups.insert(name.into(), Arc::new(group));
        }
        is_new
    }

    /// Removes a group. Returns whether there was one.
    pub(crate) fn remove_group(&mut self, name: &[u8]) -> bool {
        let removed = self.groups.remove(name);
        let is_there = removed.is_some();
        if let Some(large) = removed.filter(|group| group.pending.len() > 1000) {
            reclaim::free_elsewhere(large);
        }
        is_there
    }

    /// Changes a group, if there is one of this name; `change` sees the stream as well.
    pub(crate) fn change_group<R>(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&mut Group, &Stream) -> R,
    ) -> Option<R> {
        // It is taken out meanwhile, so that nothing of it is shared and has to be copied.
        let taken = |group: &mut _| std::mem::replace(group, Arc::new(Group::new(Id::MIN, None)));
        let mut group = self.groups.update(name, taken)?;
        let result = change(Arc::make_mut(&mut group), self);
        self.groups.update(name, |it| *it = group);
        Some(result)
    }

    /// Whether an entry may have been deleted at this id or after it.
    fn has_holes_from(&self, id: Id) -> bool {
        self.len() > 0 && self.max_deleted_id != Id::MIN && id <= self.max_deleted_id
    }

    /// How many entries there have been up to an id, if that is known.
    pub(crate) fn distance(&self, id: Id) -> Option<u64> {
        let (added, len) = (self.entries_added, self.len());
        if added == 0 {
            return Some(0);
        }
        if len == 0 && id <= self.last_id {
            return Some(added);
        }
        if id != Id::MIN && id < self.max_deleted_id {
            return None;
        }
        match id.cmp(&self.last_id) {
            std::cmp::Ordering::Equal => return Some(added),
            std::cmp::Ordering::Greater => return None,
            std::cmp::Ordering::Less => {}
        }
        let first = self.first_id();
        if self.max_deleted_id != Id::MIN && self.max_deleted_id >= first {
            return None;
        }
        match id.cmp(&first) {
            std::cmp::Ordering::Less => Some(added.saturating_sub(len)),
            std::cmp::Ordering::Equal => Some(added.saturating_sub(len) + 1),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// How many entries a group has not read yet, if that is known.
    pub(crate) fn lag(&self, group: &Group) -> Option<i64> {
        if self.entries_added == 0 || self.len() == 0 {
            return Some(0);
        }
        let first = self.first_id();
        if group.last_id < first && self.max_deleted_id < first {
            return Some(self.len() as i64);
        }
        let read = group.entries_read.filter(|_| !self.has_holes_from(group.last_id));
        let read = read.or_else(|| self.distance(group.last_id))?;
        Some(self.entries_added.wrapping_sub(read).cast_signed())
    }

    /// What the number of entries read becomes when a group, of which it is known as this, reads
    /// the entry of an id next.
    pub(crate) fn entries_read(&self, group: &Group, first: Id, id: Id) -> Option<u64> {
        let counted = group
            .entries_read
            .filter(|_| group.last_id >= first && !self.has_holes_from(group.last_id));
        match counted {
            Some(read) => Some(read.saturating_add(1)),
            None if self.entries_added > 0 => self.distance(id),
            None => group.entries_read,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let is_large = self.bytes() > SMALL_BYTES || self.nodes.len() > FEW_NODES;
        if is_large && (self.nodes.is_sole() || self.groups.is_sole()) {
            reclaim::free_elsewhere((
                std::mem::take(&mut self.nodes),
                std::mem::take(&mut self.groups),
            ));
        }
    }
}
