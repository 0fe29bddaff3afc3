//! The two forms of a collection whose elements are looked up by a string, and the operations that
//! sets and hashes share.

use super::Name;
use crate::packed::{At, Packed, PackedRef};
use crate::tree::blocks::Blocks;
use crate::tree::keyed::Keyed;
use crate::tree::layout::Layout;
use crate::tree::root::Tree;
use crate::value::item::{Item, Text};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A tree, with the name of the encoding that OBJECT ENCODING reports.
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

/// An owned collection, in either form.
#[derive(Debug)]
pub(crate) enum Form<L: Layout> {
    Packed(Packed<L>),
    Tree(Box<Named<L>>),
}

/// A collection borrowed for reading, in either form.
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
    /// Borrows the bytes of a packed collection.
    pub(crate) fn packed(bytes: &'a [u8]) -> Self {
        FormRef::Packed(PackedRef::new(bytes))
    }
    /// Returns the number of elements.
    pub(crate) fn len(self) -> u64 {
        match self {
            FormRef::Packed(packed) => packed.len() as u64,
            FormRef::Tree(named) => named.tree.len(),
        }
    }

    /// Returns the number of elements that expire.
    pub(crate) fn expiring(self) -> u64 {
        match self {
            FormRef::Packed(packed) => packed.expiring() as u64,
            FormRef::Tree(named) => named.tree.expiring(),
        }
    }

    /// Returns the memory in bytes, in addition to the entry's word.
    pub(crate) fn bytes(self) -> u64 {
        match self {
            FormRef::Packed(packed) => packed.as_bytes().len() as u64,
            FormRef::Tree(named) => size_of::<Named<L>>() as u64 + named.tree.bytes(),
        }
    }

    /// Returns the encoding that OBJECT ENCODING reports.
    pub(crate) fn name(self) -> Name {
        match self {
            FormRef::Packed(packed) => Name::from_byte(packed.name()),
            FormRef::Tree(named) => named.name,
        }
    }

    /// Returns the element of a rank. With a uniformly random rank, all elements are equally
    /// likely.
    pub(crate) fn select(self, rank: u64) -> Option<&'a [u8]> {
        match self {
            FormRef::Packed(packed) => packed.select(rank as usize).map(|it| it.element),
            FormRef::Tree(named) => named.tree.select(rank),
        }
    }

    /// Visits elements from a rank on, until `visit` breaks.
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

    /// Returns a copy of the packed bytes, or a reference to the tree.
    #[cfg(test)]
    pub(crate) fn to_owned(self) -> Form<L> {
        match self {
            FormRef::Packed(packed) => Form::Packed(Packed::from_bytes(packed.as_bytes().to_vec())),
            FormRef::Tree(named) => Form::Tree(Box::new(named.clone())),
        }
    }
}

impl<'a, L: Keyed> FormRef<'a, L> {
    /// Returns the element with this name.
    #[inline]
    pub(crate) fn get(self, name: &Text<'_>) -> Option<&'a [u8]> {
        match self {
            FormRef::Packed(packed) => packed.find(name).map(|it| it.element),
            FormRef::Tree(named) => named.tree.get(name),
        }
    }

    /// Visits about `count` elements from a cursor on. Returns the next cursor, 0 at the end. A
    /// packed collection shows all elements for any cursor. Elements that stay in the collection
    /// during a scan from 0 to 0 are visited, even if it becomes a tree meanwhile.
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
    /// Creates an empty collection.
    pub(crate) fn new(name: Name) -> Self {
        Form::Packed(Packed::new(name as u8))
    }

    /// Borrows the collection for reading.
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
    /// Inserts an element, or replaces the one with this name. Returns whether it is new. The
    /// collection takes over the element's references to strings stored out of line.
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

    /// Removes the element with this name. Returns whether it existed.
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

    /// Removes the element of a rank, if there is one.
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

/// Creates a tree with the elements of a packed collection.
fn tree_of<L: Keyed>(packed: PackedRef<'_, L>, blocks: &Arc<Blocks>) -> Tree<L> {
    let mut tree = Tree::new(blocks);
    for At { element, .. } in packed.elements() {
        Item::inline(L::name(element)).with_bytes(|name| tree.set(&Text::new(name), element));
    }
    tree
}

/// An encoded element, and whether any of its strings is stored out of line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New<'a> {
    pub(crate) element: &'a [u8],
    pub(crate) is_long: bool,
}
