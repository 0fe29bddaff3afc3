//! Streams: entries in the order of their ids, which only increase, and groups of consumers that
//! read them.
//!
//! Entries are stored in nodes ([`node`]) in Redis' format, so that trimming whole nodes removes
//! the same entries as in Redis, and files are written without conversion. Nodes, groups and
//! pending entries are in maps that share their nodes with clones ([`map`]): a clone for a snapshot
//! or for a long reply costs a few references.

pub(crate) mod group;
mod id;
mod listpack;
mod map;
pub(crate) mod node;
mod parts;
mod selection;

/// The change of a number of bytes.
fn difference(after: u64, before: u64) -> i64 {
    after.wrapping_sub(before).cast_signed()
}

#[cfg(test)]
mod tests;
pub(crate) mod view;

use crate::memory::reclaim;
use group::{Group, Name};
pub use id::Id;
use map::{Map, Weigh};
use node::{NewEntry, Node, StreamEntry, StreamLimits};
pub use parts::{StreamBuilder, StreamPart};
pub use selection::Selection;
use std::ops::ControlFlow;
use std::sync::Arc;

/// How the id of a new entry is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewId {
    /// By the clock, but always above the last id.
    Next,
    /// The next id of this millisecond.
    NextOf(u64),
    /// Exactly this id.
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

/// The parameters of a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// Which entries are kept.
    pub keep: Keep,
    /// Whether only whole nodes are removed.
    pub is_approximate: bool,
    /// The maximum number of entries removed by an approximate trim; 0 for no limit.
    pub limit: u64,
}

/// Which entries of a stream are kept by a trim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// This many of the last entries.
    Last(u64),
    /// The entries from this id on.
    From(Id),
}

/// A stream. A clone shares its nodes, and does not change when the original does.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// By the first id of each node, which does not change when that entry is deleted.
    nodes: Map<Id, Node>,
    node_bytes: u64,
    last_id: Id,
    max_deleted_id: Id,
    entries_added: u64,
    groups: Map<Name, Arc<Group>>,
}

/// The approximate memory of a map's value in bytes, without the memory that it references.
const PLACE_BYTES: u64 = 48;
/// Streams with more bytes, or with more nodes, are freed by the reclaimer thread.
const SMALL_BYTES: u64 = 256 * 1024;
const FEW_NODES: u64 = 64;

impl Stream {
    /// Returns the number of entries.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "callers need only the length")]
    pub fn len(&self) -> u64 {
        self.nodes.weight()
    }

    /// Returns the last id that was assigned.
    #[must_use]
    pub fn last_id(&self) -> Id {
        self.last_id
    }

    /// Returns the greatest id of a deleted entry.
    #[must_use]
    pub fn max_deleted_id(&self) -> Id {
        self.max_deleted_id
    }

    /// Returns the number of entries ever added.
    #[must_use]
    pub fn entries_added(&self) -> u64 {
        self.entries_added
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> u64 {
        self.nodes.len()
    }

    /// Returns the memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let places = self.nodes.len() + self.groups.weight();
        size_of::<Stream>() as u64 + self.node_bytes + places * PLACE_BYTES
    }

    /// Returns the first entry's id; 0-0 if there are no entries.
    #[must_use]
    pub fn first_id(&self) -> Id {
        if let Some((first, _)) = self.nodes.first().filter(|(_, node)| node.is_single()) {
            return *first;
        }
        let first = |entry: StreamEntry<'_>| ControlFlow::Break(entry.id);
        self.walk(Id::MIN, Id::MAX, first).unwrap_or(Id::MIN)
    }

    /// Returns the last entry's id; 0-0 if there are no entries.
    #[must_use]
    pub fn last_entry_id(&self) -> Id {
        if let Some((first, _)) = self.nodes.last().filter(|(_, node)| node.is_single()) {
            return *first;
        }
        let last = |entry: StreamEntry<'_>| ControlFlow::Break(entry.id);
        self.walk_back(Id::MIN, Id::MAX, last).unwrap_or(Id::MIN)
    }

    /// Visits entries between two ids, both included, until `visit` breaks.
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
                if *first < from && node.is_single() {
                    return ControlFlow::Continue(());
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

    /// Visits the ids of entries from one on, until `visit` breaks. An entry that has a node of its
    /// own, which may be long, is not decoded.
    pub(crate) fn walk_ids<B>(
        &self,
        from: Id,
        mut visit: impl FnMut(Id) -> ControlFlow<B>,
    ) -> Option<B> {
        let start = self.nodes.floor(&from).map(|(first, _)| *first);
        self.nodes.walk(start.as_ref(), |first, node| {
            if node.is_single() {
                return if *first < from { ControlFlow::Continue(()) } else { visit(*first) };
            }
            let ids = node.entries(*first).map(|entry| entry.id);
            ids.skip_while(|id| *id < from).try_for_each(&mut visit)
        })
    }

    /// The same as [`Stream::walk`], in descending order.
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

    /// Visits entries after the first `skipped` ones, until `visit` breaks.
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

    /// Returns the entry with this id.
    #[must_use]
    pub fn get(&self, id: Id) -> Option<StreamEntry<'_>> {
        self.walk(id, id, ControlFlow::Break)
    }

    /// Whether there is an entry with this id.
    #[must_use]
    pub fn has(&self, id: Id) -> bool {
        match self.nodes.floor(&id) {
            None => false,
            Some((first, node)) if node.is_single() => *first == id,
            Some((first, node)) => node.entries(*first).any(|entry| entry.id == id),
        }
    }

    /// Returns the number of entries with lower ids.
    fn rank(&self, id: Id) -> u64 {
        let Some((first, node)) = self.nodes.floor(&id) else { return 0 };
        let below = match node.is_single() {
            true => u64::from(*first < id),
            false => node.entries(*first).take_while(|entry| entry.id < id).count() as u64,
        };
        self.nodes.weight_below(first) + below
    }

    /// Returns the number of entries between two ids, both included.
    #[must_use]
    pub fn count(&self, from: Id, to: Id) -> u64 {
        let up_to = to.next().map_or_else(|| self.len(), |after| self.rank(after));
        up_to.saturating_sub(self.rank(from))
    }

    /// Adds an entry. Returns its id.
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
        // Restored streams may have any number.
        self.entries_added = self.entries_added.wrapping_add(1);
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
                (is_in, difference(node.bytes(), before))
            })
        });
        let (is_in, more) = appended.unwrap_or_default();
        self.node_bytes = self.node_bytes.saturating_add_signed(more);
        if !is_in {
            let node = Node::begin(new);
            self.node_bytes += node.bytes();
            self.nodes.insert(id, node);
        }
    }

    /// Deletes the entry with this id. Returns whether it existed.
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
            (deleted, difference(node.bytes(), before), node.len() == 0)
        });
        let Some((deleted, more, is_empty)) = deleted else { return 0 };
        // Saturating, since a trim estimates the bytes that it removes.
        self.node_bytes = self.node_bytes.saturating_add_signed(more);
        if is_empty && let Some(node) = self.nodes.remove(&first) {
            self.node_bytes = self.node_bytes.saturating_sub(node.bytes());
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
        let (bytes, cut) = (self.node_bytes, self.nodes.cut_front(most));
        if self.nodes.len() != nodes && self.nodes.len() <= FEW_NODES {
            self.node_bytes = 0;
            let left = &mut self.node_bytes;
            self.nodes.walk::<Id, ()>(None, |_, node| {
                *left += node.bytes();
                ControlFlow::Continue(())
            });
        } else if self.nodes.len() != nodes {
            // The average size of a node is accurate enough, because the result is only reported.
            let rest = u128::from(self.node_bytes) * u128::from(self.nodes.len());
            self.node_bytes = (rest / u128::from(nodes)) as u64;
        }
        if cut.is_large() {
            reclaim::free_data(cut, bytes.saturating_sub(self.node_bytes));
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

    /// Sets the fields that XSETID sets.
    pub(crate) fn set_last_id(&mut self, id: Id, added: Option<u64>, max_deleted: Option<Id>) {
        self.last_id = id;
        self.entries_added = added.unwrap_or(self.entries_added);
        self.max_deleted_id = max_deleted.unwrap_or(self.max_deleted_id);
    }

    /// Returns the groups by name.
    pub(crate) fn groups(&self) -> &Map<Name, Arc<Group>> {
        &self.groups
    }

    /// Returns the group with this name.
    pub(crate) fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name).map(|group| &**group)
    }

    /// Adds a group, unless one with this name exists. Returns whether it was added.
    pub(crate) fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        let is_new = self.groups.get(name).is_none();
        if is_new {
            self.groups.insert(name.into(), Arc::new(group));
        }
        is_new
    }

    /// Removes a group. Returns whether it existed.
    pub(crate) fn remove_group(&mut self, name: &[u8]) -> bool {
        let removed = self.groups.remove(name);
        let is_there = removed.is_some();
        if let Some(large) = removed.filter(|group| group.weight() > 1000) {
            reclaim::free_elsewhere(large);
        }
        is_there
    }

    /// Updates the group with this name, if it exists; `change` may also read the stream.
    pub(crate) fn change_group<R>(
        &mut self,
        name: &[u8],
        change: impl FnOnce(&mut Group, &Stream) -> R,
    ) -> Option<R> {
        // The group is moved out of the map meanwhile, so that it is not shared and need not be
        // copied.
        let taken = |group: &mut _| std::mem::replace(group, Arc::new(Group::new(Id::MIN, None)));
        let mut group = self.groups.update(name, taken)?;
        let result = change(Arc::make_mut(&mut group), self);
        self.groups.update(name, |it| *it = group);
        Some(result)
    }

    /// Whether an entry at this id or after it may have been deleted.
    fn has_holes_from(&self, id: Id) -> bool {
        self.len() > 0 && self.max_deleted_id != Id::MIN && id <= self.max_deleted_id
    }

    /// Returns the number of entries ever added up to an id, if known.
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

    /// Returns the number of entries that a group has not read yet, if known.
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

    /// Returns the new number of entries read by a group, once it reads the entry `id`.
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
            let bytes = self.bytes();
            let removed = (std::mem::take(&mut self.nodes), std::mem::take(&mut self.groups));
            reclaim::free_data(removed, bytes);
        }
    }
}
