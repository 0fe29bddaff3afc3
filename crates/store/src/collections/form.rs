//! The two forms of a collection whose elements are found by a string, and the operations that sets
//! and hashes share.

use super::Name;
use crate::packed::{At, Packed, PackedRef};
use crate::tree::blocks::Blocks;
use crate::tree::keyed::Keyed;
use crate::tree::layout::Layout;
use crate::tree::root::Tree;
use crate::value::item::{Item, Text};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A tree and what it is called.
#[derive(Debug)]
pub(crate) struct Named<L: Layout> {
    pub(crate) tree: Tree<L>,
    pub(crate) name: Name,
}

impl<L: Layout> Clone for Named<L> {
    fn clone(&self) -> Self {
        Named { tree: self.tree.clone(), name: self.name }
    }
}

/// A collection that is owned, in either form.
#[derive(Debug)]
pub(crate) enum Form<L: Layout> {
    Packed(Packed<L>),
    Tree(Box<Named<L>>),
}

/// A collection that is read where it lies.
#[derive(Debug)]
pub(crate) enum FormRef<'a, L: Layout> {
    Packed(PackedRef<'a, L>),
    Tree(&'a Named<L>),
}

impl<L: Layout> Clone for FormRef<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: Layout> Copy for FormRef<'_, L> {}

impl<'a, L: Layout> FormRef<'a, L> {
    /// A packed collection's bytes.
    pub(crate) fn packed(bytes: &'a [u8]) -> Self {
        FormRef::Packed(PackedRef::new(bytes))
    }
    /// How many elements there are.
    pub(crate) fn len(self) -> u64 {
        match self {
            FormRef::Packed(packed) => packed.len() as u64,
            FormRef::Tree(named) => named.tree.len(),
        }
    }

    /// How many elements expire.
    pub(crate) fn expiring(self) -> u64 {
        match self {
            FormRef::Packed(packed) => packed.expiring() as u64,
            FormRef::Tree(named) => named.tree.expiring(),
        }
    }

    /// Memory that it takes, in bytes, beside that of the entry's word.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            FormRef::Packed(packed) => packed.as_bytes().len() as u64,
            FormRef::Tree(named) => size_of::<Named<L>>() as u64 + named.tree.bytes(),
        }
    }

    /// What OBJECT ENCODING says.
    pub(crate) fn name(self) -> Name {
        match self {
            FormRef::Packed(packed) => Name::from_byte(packed.name()),
            FormRef::Tree(named) => named.name,
        }
    }

    /// The element with so many before it: a rank that is drawn evenly gives each the same chance.
    pub(crate) fn select(self, rank: u64) -> Option<&'a [u8]> {
        match self {
            FormRef::Packed(packed) => packed.select(rank as usize).map(|it| it.element),
            FormRef::Tree(named) => named.tree.select(rank),
        }
    }

    /// Shows elements from the one with so many before it on, until `visit` breaks off.
    pub(crate) fn walk<B>(
        self,
        rank: u64,
        mut visit: impl FnMut(&[u8]) -> ControlFlow<B>,
    ) -> Option<B> {
        match self {
            FormRef::Packed(packed) => {
                let shown = packed.elements().skip(rank as usize);
                shown.map(|it| visit(it.element)).find_map(ControlFlow::break_value)
            }
            FormRef::Tree(named) => named.tree.walk(rank, visit),
        }
    }

    /// A copy of its own: the bytes of a packed one, a reference to a tree.
    #[cfg(test)]
    pub(crate) fn to_owned(self) -> Form<L> {
        match self {
            FormRef::Packed(packed) => Form::Packed(Packed::from_bytes(packed.as_bytes().to_vec())),
            FormRef::Tree(named) => Form::Tree(Box::new(named.clone())),
        }
    }
}

impl<'a, L: Keyed> FormRef<'a, L> {
    /// The element of this name.
    #[inline]
    pub(crate) fn get(self, name: &Text<'_>) -> Option<&'a [u8]> {
        match self {
            FormRef::Packed(packed) => packed.find(name).map(|it| it.element),
            FormRef::Tree(named) => named.tree.get(name),
        }
    }

    /// Shows some elements, about `count` of them, from a cursor on; the cursor to go on with, 0 at
    /// the end. A packed one shows all, whatever the cursor. What stays in the collection during a
    /// scan from 0 to 0 is shown, also if it becomes a tree meanwhile.
    pub(crate) fn scan(self, cursor: u64, count: usize, mut show: impl FnMut(&[u8])) -> u64 {
        match self {
            FormRef::Packed(packed) => {
                packed.elements().for_each(|it| show(it.element));
                0
            }
            FormRef::Tree(named) => named.tree.scan(cursor, count, show),
        }
    }
}

impl<L: Layout> Form<L> {
    /// One without elements.
    pub(crate) fn new(name: Name) -> Self {
        Form::Packed(Packed::new(name as u8))
    }

    /// It to be read.
    #[inline]
    pub(crate) fn read(&self) -> FormRef<'_, L> {
        match self {
            Form::Packed(packed) => FormRef::Packed(packed.read()),
            Form::Tree(named) => FormRef::Tree(named),
        }
    }

    pub(crate) fn set_name(&mut self, name: Name) {
        match self {
            Form::Packed(packed) => packed.set_name(name as u8),
            Form::Tree(named) => named.name = name,
        }
    }
}

impl<L: Keyed> Form<L> {
    /// Inserts an element, or puts it in the place of the one of this name. Returns whether there
    /// was none. What the element has elsewhere belongs to the collection from now on.
    pub(crate) fn set(&mut self, name: &Text<'_>, new: New<'_>, blocks: &Arc<Blocks>) -> bool {
        if let Form::Packed(packed) = self
            && !new.is_long
            && packed.fits(new.element.len())
        {
            let before = packed.read().find(name).map(|it| it.start);
            match before {
                Some(start) => packed.replace(start, new.element),
                None => packed.insert(packed.end(), new.element),
            }
            return before.is_none();
        }
        match self {
            Form::Packed(packed) => {
                let mut tree = tree_of(packed.read(), blocks);
                let is_new = tree.set(name, new.element);
                let encoding = self.read().name();
                *self = Form::Tree(Box::new(Named { tree, name: encoding }));
                is_new
            }
            Form::Tree(named) => named.tree.set(name, new.element),
        }
    }

    /// Removes the element of this name. Returns whether there was one.
    pub(crate) fn delete(&mut self, name: &Text<'_>) -> bool {
        match self {
            Form::Packed(packed) => {
                let found = packed.read().find(name).map(|it| it.start);
                found.into_iter().for_each(|start| packed.remove(start));
                found.is_some()
            }
            Form::Tree(named) => named.tree.delete(name),
        }
    }

    /// Removes the element with so many before it, if there is one.
    pub(crate) fn remove_at(&mut self, rank: u64) {
        match self {
            Form::Packed(packed) => {
                let found = packed.read().select(rank as usize).map(|it| it.start);
                found.into_iter().for_each(|start| packed.remove(start));
            }
            Form::Tree(named) if rank < named.tree.len() => named.tree.remove_at(rank),
            Form::Tree(_) => {}
        }
    }
}

/// A tree with the elements of a packed collection.
fn tree_of<L: Keyed>(packed: PackedRef<'_, L>, blocks: &Arc<Blocks>) -> Tree<L> {
    let mut tree = Tree::new(blocks);
    for At { element, .. } in packed.elements() {
        Item::inline(L::name(element)).with_bytes(|name| tree.set(&Text::new(name), element));
    }
    tree
}

/// An element as it is written, and whether a part of it lies elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New<'a> {
    pub(crate) element: &'a [u8],
    pub(crate) is_long: bool,
}
