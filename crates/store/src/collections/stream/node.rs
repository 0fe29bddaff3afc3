//! A node of a stream: a sequence of entries in a listpack.
//!
//! It begins with how many entries there are and how many were deleted, and the fields of the entry
//! that it was made for. An entry has its id as the difference from that one's, and names its
//! fields only if they differ. Entries that are deleted are marked; a node in which no entry is
//! left is removed.

use super::id::Id;
use super::listpack::{self, END, START, push, push_int, read, read_int, reads_backwards};
use super::map::Weigh;
use crate::value::string::StringValue;
use std::sync::Arc;

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// Bytes beyond which no entry is added to a node, whatever the settings say: what is changed while
/// it is shared has to be copied first.
pub(super) const MAX_BYTES: usize = 64 * 1024;

/// Up to where entries are added to a node.
#[derive(Clone, Copy, Debug)]
pub struct StreamLimits {
    /// `stream-node-max-bytes`, 0 for no limit.
    pub node_bytes: usize,
    /// `stream-node-max-entries`, 0 for no limit.
    pub node_entries: u64,
}

/// Entries from the id on by which the stream knows the node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    listpack: Arc<Vec<u8>>,
    /// Entries that are there.
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
    /// Its id.
    pub id: Id,
    fields: Fields<'a>,
}

impl<'a> StreamEntry<'a> {
    /// Its fields with their values.
    #[must_use]
    pub fn fields(&self) -> Fields<'a> {
        self.fields.clone()
    }
}

/// The fields of an entry, with their values.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    listpack: &'a [u8],
    at: usize,
    /// Where the names are, if not before the values.
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

/// What a node begins with.
#[derive(Clone, Copy, Debug)]
struct Head {
    live: i64,
    deleted: i64,
    /// Where the names begin.
    names_at: usize,
    names: usize,
    /// Where the first entry begins.
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

/// An entry where it lies.
#[derive(Clone, Debug)]
struct Placed<'a> {
    entry: StreamEntry<'a>,
    flags_at: usize,
    flags: i64,
    /// Whether it says rightly how many elements it has.
    is_counted: bool,
}

/// Goes through a node, deleted entries included.
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

/// An entry on its way into a stream: names and values in turn.
#[derive(Debug)]
pub struct NewEntry<'a> {
    fields: &'a [&'a [u8]],
    bytes: usize,
    /// It as a node of its own, made in advance if it is large.
    node: Option<Node>,
}

/// Bytes from which on an entry is a node of its own.
const LARGE_BYTES: usize = 16 * 1024;

impl<'a> NewEntry<'a> {
    /// One of these names and values in turn.
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
    /// One with the entry of the id by which it is known.
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

    /// The node for an entry that begins one.
    pub(super) fn begin(new: &NewEntry<'_>) -> Self {
        new.node.clone().unwrap_or_else(|| Node::new(new.fields))
    }

    /// One that was read from a file; `None` if that is damaged.
    pub(super) fn read(first: Id, listpack: Vec<u8>) -> Option<Self> {
        let head = Head::read(&listpack)?;
        let mut entries = Entries { listpack: &listpack, head, first, at: head.entries_at };
        let (mut live, mut deleted, mut before) = (0, 0, None);
        for Placed { entry, flags, is_counted, .. } in &mut entries {
            // Other flags would be rewritten over more than the byte that they are.
            let is_flag = flags & !(DELETED | SAME_FIELDS) == 0;
            if !is_flag
                || !is_counted
                || entry.id < first
                || before.is_some_and(|before| entry.id <= before)
            {
                return None;
            }
            before = Some(entry.id);
            *if flags & DELETED == 0 { &mut live } else { &mut deleted } += 1;
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

    /// How many entries there are.
    pub(super) fn len(&self) -> u64 {
        self.live.into()
    }

    /// It as files have it.
    pub(crate) fn listpack(&self) -> &[u8] {
        &self.listpack
    }

    /// Memory that it takes, in bytes.
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

    /// The entries, of the id by which the node is known.
    pub(super) fn entries(&self, first: Id) -> impl Iterator<Item = StreamEntry<'_>> {
        self.all(first).filter(|it| it.flags & DELETED == 0).map(|it| it.entry)
    }

    /// The last id that an entry has had.
    pub(super) fn last_id(&self, first: Id) -> Option<Id> {
        self.all(first).last().map(|it| it.entry.id)
    }

    /// Adds an entry at the end, if the node takes one more.
    pub(super) fn append(
        &mut self,
        first: Id,
        id: Id,
        new: &NewEntry<'_>,
        limits: StreamLimits,
    ) -> bool {
        let Some(head) = Head::read(&self.listpack) else { return false };
        // What stands around the strings counts as well.
        let bytes = self.listpack.len() + new.bytes;
        let is_full = new.node.is_some()
            || bytes > MAX_BYTES
            || limits.node_bytes > 0 && bytes >= limits.node_bytes
            || limits.node_entries > 0
                && head.live.saturating_add(head.deleted) as u64 >= limits.node_entries;
        if is_full {
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

    /// Gives back what it has in advance, since no more is added.
    pub(super) fn close(&mut self) {
        if self.listpack.capacity() - self.listpack.len() > 64 {
            Arc::make_mut(&mut self.listpack).shrink_to_fit();
        }
    }

    /// Deletes the entries of an id, in order, for which `choose` says so, until it says `None`;
    /// the ids of those that were.
    pub(super) fn delete(
        &mut self,
        first: Id,
        mut choose: impl FnMut(Id) -> Option<bool>,
    ) -> Vec<Id> {
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
        // One without entries is removed as a whole.
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

/// Rewrites the first two elements.
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

/// Appends an entry. Returns how many elements it has.
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
