//! A node of a stream: a sequence of entries in a listpack.
//!
//! A node begins with the number of entries, the number of deleted entries, and the field names of
//! the entry for which it was created. An entry's id is stored as the difference from that first
//! entry's, and its field names only if they differ. Deleted entries are marked; a node without
//! remaining entries is removed.

use super::id::Id;
use super::listpack::{self, END, START, push, push_int, read, read_int, reads_backwards};
use super::map::Weigh;
use crate::value::string::StringValue;
use std::sync::Arc;

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// No entry is added to a node of this size, regardless of the settings, because a shared node is
/// copied before it is modified.
pub(super) const MAX_BYTES: usize = 64 * 1024;

/// The limits up to which entries are added to a node.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// `stream-node-max-bytes`, 0 for no limit.
    pub node_bytes: usize,
    /// `stream-node-max-entries`, 0 for no limit.
    pub node_entries: u64,
}

/// The entries of a node. Its first id is the node's key in the stream.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    listpack: Arc<Vec<u8>>,
    /// The number of entries that are not deleted.
    live: u32,
}

impl Weigh for Node {
    fn weight(&self) -> u64 {
        self.live.into()
    }
}

/// An entry of a stream.
#[derive(Clone, Debug)]
pub struct StreamEntry<'a> {
    /// The entry's id.
    pub id: Id,
    fields: Fields<'a>,
}

impl<'a> StreamEntry<'a> {
    /// Returns the entry's fields and values.
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        self.fields.clone()
    }
}

/// An iterator over the fields and values of an entry.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    listpack: &'a [u8],
    at: usize,
    /// The offset of the names, if they are not stored with the values.
    names_at: Option<usize>,
    left: usize,
}

impl<'a> Iterator for Fields<'a> {
    type Item = (StringValue<'a>, StringValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (name, next) = read(self.listpack, self.names_at.unwrap_or(self.at))?;
        match &mut self.names_at {
            Some(names_at) => *names_at = next,
            None => self.at = next,
        }
        let (value, next) = read(self.listpack, self.at)?;
        self.at = next;
        Some((name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Fields<'_> {}

/// The decoded start of a node.
#[derive(Clone, Copy, Debug)]
struct Head {
    live: i64,
    deleted: i64,
    /// The offset of the first name.
    names_at: usize,
    names: usize,
    /// The offset of the first entry.
    entries_at: usize,
}

impl Head {
    fn read(listpack: &[u8]) -> Option<Self> {
        let (live, at) = read_int(listpack, START)?;
        let (deleted, at) = read_int(listpack, at)?;
        let (names, names_at) = read_int(listpack, at)?;
        let names = usize::try_from(names).ok()?;
        let mut at = names_at;
        for _ in 0..names {
            at = read(listpack, at)?.1;
        }
        let (0, entries_at) = read_int(listpack, at)? else { return None };
        Some(Head { live, deleted, names_at, names, entries_at })
    }
}

/// A decoded entry and its position.
#[derive(Clone, Debug)]
struct Placed<'a> {
    entry: StreamEntry<'a>,
    flags_at: usize,
    flags: i64,
    /// Whether its stored number of elements is correct.
    is_counted: bool,
}

/// An iterator over the entries of a node, including deleted ones.
#[derive(Clone, Debug)]
struct Entries<'a> {
    listpack: &'a [u8],
    head: Head,
    first: Id,
    at: usize,
}

impl<'a> Iterator for Entries<'a> {
    type Item = Placed<'a>;

    fn next(&mut self) -> Option<Placed<'a>> {
        let Entries { listpack, head, first, at: flags_at } = *self;
        let (flags, at) = read_int(listpack, flags_at)?;
        let (ms, at) = read_int(listpack, at)?;
        let (seq, mut at) = read_int(listpack, at)?;
        let id = Id {
            ms: first.ms.wrapping_add(ms.cast_unsigned()),
            seq: first.seq.wrapping_add(seq.cast_unsigned()),
        };
        let is_same = flags & SAME_FIELDS != 0;
        let mut left = head.names;
        if !is_same {
            let (count, next) = read_int(listpack, at)?;
            (left, at) = (usize::try_from(count).ok()?, next);
        }
        let names_at = is_same.then_some(head.names_at);
        let fields = Fields { listpack, at, names_at, left };
        for _ in 0..if is_same { left } else { left.checked_mul(2)? } {
            at = read(listpack, at)?.1;
        }
        let (elements, next) = read_int(listpack, at)?;
        self.at = next;
        let expected =
            if is_same { left.checked_add(3)? } else { left.checked_mul(2)?.checked_add(4)? };
        let is_counted = usize::try_from(elements).is_ok_and(|elements| elements == expected);
        Some(Placed { entry: StreamEntry { id, fields }, flags_at, flags, is_counted })
    }
}

/// An entry to be added to a stream: alternating names and values.
#[derive(Debug)]
pub struct NewEntry<'a> {
    fields: &'a [&'a [u8]],
    bytes: usize,
    /// If the entry is large, its own node, created in advance.
    node: Option<Node>,
}

/// An entry gets a separate node if its names and values have more bytes than this.
const LARGE_BYTES: usize = 16 * 1024;

impl<'a> NewEntry<'a> {
    /// Creates an entry from alternating names and values.
    #[must_use]
    pub fn new(fields: &'a [&'a [u8]]) -> Self {
        let bytes = fields.iter().map(|it| it.len()).sum();
        let node = (bytes > LARGE_BYTES).then(|| {
            let mut node = Node::new(fields);
            node.close();
            node
        });
        NewEntry { fields, bytes, node }
    }
}

impl Node {
    /// Creates a node with one entry, whose id is the node's key.
    fn new(fields: &[&[u8]]) -> Self {
        let mut bytes = listpack::begin();
        let names = fields.len() / 2;
        push_int(&mut bytes, 1);
        push_int(&mut bytes, 0);
        push_int(&mut bytes, names as i64);
        fields.iter().step_by(2).for_each(|name| push(&mut bytes, name));
        push_int(&mut bytes, 0);
        let elements = push_entry(&mut bytes, (0, 0), fields, true);
        bytes.push(END);
        listpack::finish(&mut bytes, (4 + names + elements) as isize);
        Node { listpack: Arc::new(bytes), live: 1 }
    }

    /// Creates the node for an entry that does not fit in the previous one.
    pub(super) fn begin(new: &NewEntry<'_>) -> Self {
        new.node.clone().unwrap_or_else(|| Node::new(new.fields))
    }

    /// Validates a node read from a file; `None` if it is damaged.
    pub(super) fn read(first: Id, listpack: Vec<u8>) -> Option<Self> {
        let head = Head::read(&listpack)?;
        let mut entries = Entries { listpack: &listpack, head, first, at: head.entries_at };
        let (mut live, mut deleted, mut last_live) = (0, 0, None);
        for Placed { entry, flags, is_counted, .. } in &mut entries {
            // Other flags take more than one byte, and deletion rewrites only one.
            let is_flag = flags & !(DELETED | SAME_FIELDS) == 0;
            let is_first = live + deleted == 0;
            if !is_flag || !is_counted || is_first && entry.id != first {
                return None;
            }
            if flags & DELETED != 0 {
                // Once the last entries are deleted, XSETID may permit lower ids after them.
                deleted += 1;
                continue;
            }
            if entry.id < first || last_live.is_some_and(|last| entry.id <= last) {
                return None;
            }
            last_live = Some(entry.id);
            live += 1;
        }
        let is_end = entries.at + 1 == listpack.len() && listpack.last() == Some(&END);
        let len = u32::from_le_bytes(*listpack.first_chunk()?) as usize;
        let is_right =
            is_end && len == listpack.len() && (live, deleted) == (head.live, head.deleted);
        if !is_right || !reads_backwards(&listpack) {
            return None;
        }
        let live = u32::try_from(live).ok()?;
        Some(Node { listpack: Arc::new(listpack), live })
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> u64 {
        self.live.into()
    }

    /// Returns the listpack, which is written to files unchanged.
    pub(crate) fn listpack(&self) -> &[u8] {
        &self.listpack
    }

    /// Returns the node's memory in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.listpack.capacity() as u64
    }

    fn all(&self, first: Id) -> impl Iterator<Item = Placed<'_>> {
        let listpack = self.listpack.as_slice();
        let head = Head::read(listpack);
        head.into_iter().flat_map(move |head| Entries {
            listpack,
            head,
            first,
            at: head.entries_at,
        })
    }

    /// Returns the entries; `first` is the node's key.
    pub(super) fn entries(&self, first: Id) -> impl Iterator<Item = StreamEntry<'_>> {
        self.all(first).filter(|it| it.flags & DELETED == 0).map(|it| it.entry)
    }

    /// Whether the node has never had more than its first entry. That entry may be long, so callers
    /// compare its id, which is the node's key, without decoding it.
    pub(super) fn is_single(&self) -> bool {
        let counts = read_int(&self.listpack, START)
            .and_then(|(live, at)| Some((live, read_int(&self.listpack, at)?.0)));
        self.live == 1 && counts == Some((1, 0))
    }

    /// Returns the greatest id that an entry of the node has had.
    pub(super) fn last_id(&self, first: Id) -> Option<Id> {
        if self.is_single() {
            return Some(first);
        }
        self.all(first).last().map(|it| it.entry.id)
    }

    /// Appends an entry, if the node has room for it.
    pub(super) fn append(
        &mut self,
        first: Id,
        id: Id,
        new: &NewEntry<'_>,
        limits: StreamLimits,
    ) -> bool {
        // The bytes around the strings count as well.
        let bytes = self.listpack.len() + new.bytes;
        let is_long = new.node.is_some()
            || bytes > MAX_BYTES
            || limits.node_bytes > 0 && bytes >= limits.node_bytes;
        if is_long {
            return false;
        }
        let Some(head) = Head::read(&self.listpack) else { return false };
        let entries = head.live.saturating_add(head.deleted) as u64;
        if limits.node_entries > 0 && entries >= limits.node_entries {
            return false;
        }
        let names = new.fields.iter().step_by(2);
        let is_same = names.len() == head.names && {
            let mut at = head.names_at;
            let listpack = self.listpack.as_slice();
            names.copied().all(|name| {
                let Some((own, next)) = read(listpack, at) else { return false };
                at = next;
                own.with_bytes(|own| own == name)
            })
        };
        let delta = |own: u64, first: u64| own.wrapping_sub(first).cast_signed();
        let deltas = (delta(id.ms, first.ms), delta(id.seq, first.seq));
        let listpack = Arc::make_mut(&mut self.listpack);
        listpack.pop();
        let elements = push_entry(listpack, deltas, new.fields, is_same);
        listpack.push(END);
        self.live += 1;
        note_counts(listpack, head.live + 1, head.deleted);
        listpack::finish(listpack, elements as isize);
        true
    }

    /// Releases unused capacity, because no more entries are added.
    pub(super) fn close(&mut self) {
        if self.listpack.capacity() - self.listpack.len() > 64 {
            // A copy: mimalloc does not move a block that shrinks to half of its size or more.
            self.listpack = Arc::new(self.listpack.as_slice().to_vec());
        }
    }

    /// Deletes the entries with these ascending ids for which `choose` returns true, until it
    /// returns `None`. Returns the deleted ids.
    pub(super) fn delete(
        &mut self,
        first: Id,
        mut choose: impl FnMut(Id) -> Option<bool>,
    ) -> Vec<Id> {
        if self.is_single() {
            let chosen = choose(first) == Some(true);
            self.live -= u32::from(chosen);
            return if chosen { vec![first] } else { Vec::new() };
        }
        let (mut places, mut ids) = (Vec::new(), Vec::new());
        for Placed { entry, flags_at, flags, .. } in self.all(first) {
            if flags & DELETED != 0 {
                continue;
            }
            match choose(entry.id) {
                Some(true) => {
                    places.push((flags_at, flags));
                    ids.push(entry.id);
                }
                Some(false) => {}
                None => break,
            }
        }
        self.live -= ids.len() as u32;
        // A node without entries is removed as a whole.
        if ids.is_empty() || self.live == 0 {
            return ids;
        }
        let Some(head) = Head::read(&self.listpack) else { return ids };
        let listpack = Arc::make_mut(&mut self.listpack);
        for (at, flags) in places {
            // Flags are integers of one byte.
            if let Some(byte) = listpack.get_mut(at) {
                *byte = (flags | DELETED) as u8;
            }
        }
        let deleted = ids.len() as i64;
        note_counts(listpack, head.live - deleted, head.deleted + deleted);
        listpack::finish(listpack, 0);
        ids
    }
}

/// Overwrites the first two elements: the numbers of live and of deleted entries.
fn note_counts(listpack: &mut Vec<u8>, live: i64, deleted: i64) {
    let counts = read_int(listpack, START).and_then(|it| read_int(listpack, it.1));
    let Some((_, end)) = counts else { return };
    let mut new = Vec::with_capacity(8);
    push_int(&mut new, live);
    push_int(&mut new, deleted);
    match listpack.get_mut(START..end) {
        Some(old) if old.len() == new.len() => old.copy_from_slice(&new),
        _ => drop(listpack.splice(START..end, new)),
    }
}

/// Appends an entry. Returns its number of elements.
fn push_entry(out: &mut Vec<u8>, (ms, seq): (i64, i64), fields: &[&[u8]], is_same: bool) -> usize {
    push_int(out, if is_same { SAME_FIELDS } else { 0 });
    push_int(out, ms);
    push_int(out, seq);
    let elements = if is_same {
        fields.iter().skip(1).step_by(2).for_each(|value| push(out, value));
        fields.len() / 2 + 3
    } else {
        push_int(out, (fields.len() / 2) as i64);
        fields.iter().for_each(|text| push(out, text));
        fields.len() + 4
    };
    push_int(out, elements as i64);
    elements + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::stream::Stream;
    use std::ops::ControlFlow;

    /// The nodes are cut off after their counts, so that no entry can be decoded.
    #[test]
    fn the_ids_of_single_entries_are_read_without_the_entries() {
        const COUNTS_BYTES: usize = 4;
        let (mut stream, ids) = (Stream::default(), [1, 2, 3].map(|ms| Id { ms, seq: 0 }));
        let fields: [&[u8]; 2] = [b"field", b"value"];
        for id in ids {
            let mut node = Node::new(&fields);
            Arc::make_mut(&mut node.listpack).truncate(START + COUNTS_BYTES + 1);
            stream.nodes.insert(id, node);
        }
        assert!(stream.walk(Id::MIN, Id::MAX, ControlFlow::Break).is_none());
        let mut visited = Vec::new();
        stream.walk_ids(ids[1], |id| {
            visited.push(id);
            ControlFlow::<()>::Continue(())
        });
        assert_eq!(visited, ids[1..]);
    }
}
