//! A set of strings.

use super::Name;
use super::form::{Form, FormRef, New};
use crate::packed::Packed;
use crate::tree::blocks::Blocks;
use crate::tree::layout::Members;
use crate::value::item::{Item, Text};
use crate::value::string::StringValue;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The limits up to which OBJECT ENCODING says intset or listpack.
#[derive(Clone, Copy, Debug)]
pub struct SetLimits {
    /// `set-max-intset-entries`.
    pub intset_entries: usize,
    /// `set-max-listpack-entries`.
    pub listpack_entries: usize,
    /// `set-max-listpack-value`, in bytes.
    pub value_bytes: usize,
}

/// A set borrowed for reading.
#[derive(Clone, Copy, Debug)]
pub struct SetRef<'a>(pub(crate) FormRef<'a, Members>);

/// A set that can be changed.
#[derive(Debug)]
pub(crate) struct Set(pub(crate) Form<Members>);

fn value(element: &[u8]) -> StringValue<'_> {
    // SAFETY: elements were written by `Text::write`, and hold references to their strings for as
    // long as the collection is borrowed.
    unsafe { Item::any(element) }.value()
}

impl<'a> SetRef<'a> {
    /// Returns the number of members.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no stored set is empty")]
    pub fn len(self) -> u64 {
        self.0.len()
    }

    /// Returns the encoding that OBJECT ENCODING reports.
    #[must_use]
    pub fn encoding_name(self) -> &'static str {
        self.name().word()
    }

    /// Returns the encoding that OBJECT ENCODING reports, as a [`Name`].
    pub(crate) fn name(self) -> Name {
        self.0.name()
    }

    /// Whether the encoding's name changes as soon as a request is about to add this many members,
    /// even if they turn out to be members already.
    pub(crate) fn is_outgrown_by(self, members: usize, limits: SetLimits) -> bool {
        match self.name() {
            Name::Intset => members > limits.intset_entries,
            Name::Listpack => members > limits.listpack_entries,
            _ => false,
        }
    }

    /// Returns the memory of the set in bytes, in addition to the entry's word.
    pub fn bytes(self) -> u64 {
        self.0.bytes()
    }

    /// Whether a string is a member.
    pub fn contains(self, member: &Text<'_>) -> bool {
        self.0.get(member).is_some()
    }

    /// Returns the member at an index. With a uniformly random index, all members are equally
    /// likely.
    pub fn select(self, rank: u64) -> Option<StringValue<'a>> {
        self.0.select(rank).map(value)
    }

    /// Visits members from an index on, until `visit` breaks. They are in ascending order in a
    /// packed intset, in the order of insertion in another packed set, and in the order of their
    /// hashes in a tree.
    pub fn walk<B>(
        self,
        rank: u64,
        mut visit: impl FnMut(StringValue<'_>) -> ControlFlow<B>,
    ) -> Option<B> {
        self.0.walk(rank, |element| visit(value(element)))
    }

    /// Visits about `count` members from a cursor on. Returns the next cursor, 0 at the end
    /// ([`FormRef::scan`]).
    pub fn scan(self, cursor: u64, count: usize, mut show: impl FnMut(StringValue<'_>)) -> u64 {
        self.0.scan(cursor, count, |element| show(value(element)))
    }
}

impl Default for Set {
    fn default() -> Self {
        Set(Form::new(Name::Intset))
    }
}

impl Set {
    /// Creates an empty set. Its encoding's name depends on `first`, which will be its first
    /// member, and on `members`, the expected number of members.
    pub(crate) fn new(first: &Text<'_>, members: usize, limits: SetLimits) -> Self {
        Set(Form::new(if first.integer().is_some() && members <= limits.intset_entries {
            Name::Intset
        } else if members <= limits.listpack_entries {
            Name::Listpack
        } else {
            Name::Hashtable
        }))
    }

    /// Borrows the set for reading.
    pub(crate) fn read(&self) -> SetRef<'_> {
        SetRef(self.0.read())
    }

    /// Sets the encoding's name to that of large sets.
    pub(crate) fn outgrow(&mut self) {
        self.0.set_name(Name::Hashtable);
    }

    /// Creates an empty set that OBJECT ENCODING reports as a listpack.
    pub(crate) fn listpack() -> Self {
        Set(Form::new(Name::Listpack))
    }

    /// Sets the encoding's name of a set of integers to intset.
    pub(crate) fn become_intset(&mut self) {
        if let Form::Packed(packed) = &self.0 {
            let number = |element: &[u8]| match value(element) {
                StringValue::Int(number) => number,
                _ => 0,
            };
            let mut elements: Vec<&[u8]> = packed.read().elements().map(|it| it.element).collect();
            elements.sort_unstable_by_key(|element| number(element));
            let mut sorted = Packed::new(Name::Intset as u8);
            elements.iter().for_each(|element| sorted.insert(sorted.end(), element));
            self.0 = Form::Packed(sorted);
        }
        self.0.set_name(Name::Intset);
    }

    /// Adds a member. Returns whether it is new.
    pub(crate) fn add(
        &mut self,
        member: &Text<'_>,
        limits: SetLimits,
        blocks: &Arc<Blocks>,
    ) -> bool {
        let mut element = Vec::with_capacity(member.item_bytes());
        if let Form::Tree(named) = &mut self.0
            && named.name == Name::Hashtable
            && !member.is_long()
        {
            member.write(&mut element);
            return named.tree.insert_new(member, &element);
        }
        if self.0.read().get(member).is_some() {
            return false;
        }
        self.rename_before(member, limits);
        member.write(&mut element);
        match (&mut self.0, member.integer()) {
            (Form::Packed(packed), Some(number))
                if packed.read().name() == Name::Intset as u8 && packed.fits(element.len()) =>
            {
                let is_above =
                    |element| matches!(value(element), StringValue::Int(it) if it > number);
                let above = packed.read().elements().find(|it| is_above(it.element));
                let start = above.map_or(packed.end(), |it| it.start);
                packed.insert(start, &element);
            }
            (Form::Packed(packed), _) if !member.is_long() && packed.fits(element.len()) => {
                packed.insert(packed.end(), &element);
            }
            (form, _) => {
                let new = New { element: &element, is_long: member.is_long() };
                form.set(member, new, blocks);
            }
        }
        if self.0.read().name() == Name::Intset
            && self.0.read().len() > limits.intset_entries as u64
        {
            self.0.set_name(Name::Hashtable);
        }
        true
    }

    /// Updates the encoding's name for a member that is about to be added, by the rules of
    /// `t_set.c` in Redis 7.2: an intset whose numbers are all short enough becomes a listpack.
    fn rename_before(&mut self, member: &Text<'_>, limits: SetLimits) {
        let set = self.0.read();
        let fits = set.len() < limits.listpack_entries as u64 && member.len() <= limits.value_bytes;
        match set.name() {
            Name::Intset if member.integer().is_some() => {}
            Name::Intset => {
                let is_short = |element: &[u8]| value(element).len() <= limits.value_bytes;
                let is_long = |element: &[u8]| match is_short(element) {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                };
                let becomes_listpack = fits && set.walk(0, is_long).is_none();
                let name = if becomes_listpack { Name::Listpack } else { Name::Hashtable };
                self.0.set_name(name);
            }
            _ if !fits => self.0.set_name(Name::Hashtable),
            _ => {}
        }
    }

    /// Removes a member. Returns whether it existed.
    pub(crate) fn remove(&mut self, member: &Text<'_>) -> bool {
        self.0.delete(member)
    }

    /// Removes the member at an index, if there is one.
    pub(crate) fn remove_at(&mut self, rank: u64) {
        self.0.remove_at(rank);
    }
}
