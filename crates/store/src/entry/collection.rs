//! The interface of collections in entries. Each type has two encodings: bytes while it is small,
//! and a root when it is large.

use crate::collections::form::{Form, FormRef, Named};
use crate::collections::hash::{Hash, HashRef};
use crate::collections::list::{List, ListForm, ListRef, ListTree};
use crate::collections::set::{Set, SetRef};
use crate::collections::sorted_set::{SortedSet, SortedSetForm, SortedSetRef, SortedTrees};
use crate::entry::encoding::Encoding;
use crate::entry::root::{Root, RootRef};
use crate::packed::{Packed, PackedRef};
use crate::tree::layout::{Fields, Members};

/// A collection being changed, in either encoding. Its default has no elements.
pub(crate) trait Collection: Default {
    /// The type for reading it.
    type Ref<'a>: Copy;
    /// Its large form.
    type Tree;

    /// The encoding of the small form.
    const PACKED: Encoding;

    /// Decodes the bytes of an entry.
    fn from_packed(bytes: Vec<u8>) -> Self;

    /// Wraps the large form.
    fn from_tree(tree: Box<Self::Tree>) -> Self;

    /// Returns its bytes if it is small, otherwise the root.
    fn into_root(self) -> Result<Root, Vec<u8>>;

    /// Returns the number of elements.
    fn len(&self) -> u64;

    /// Borrows the bytes of an entry.
    fn read_packed(bytes: &[u8]) -> Self::Ref<'_>;

    /// Borrows the root of an entry; `None` if it is of another type.
    fn read_root(root: RootRef<'_>) -> Option<Self::Ref<'_>>;
}

impl Collection for Hash {
    type Ref<'a> = HashRef<'a>;
    type Tree = Named<Fields>;
    const PACKED: Encoding = Encoding::PackedHash;

    fn from_packed(bytes: Vec<u8>) -> Self {
        Hash(Form::Packed(Packed::from_bytes(bytes)))
    }

    fn from_tree(tree: Box<Named<Fields>>) -> Self {
        Hash(Form::Tree(tree))
    }

    fn into_root(self) -> Result<Root, Vec<u8>> {
        match self.0 {
            Form::Packed(packed) => Err(packed.into_bytes()),
            Form::Tree(tree) => Ok(Root::Hash(tree)),
        }
    }

    fn len(&self) -> u64 {
        self.read().len()
    }

    fn read_packed(bytes: &[u8]) -> HashRef<'_> {
        HashRef(FormRef::packed(bytes))
    }

    fn read_root(root: RootRef<'_>) -> Option<HashRef<'_>> {
        match root {
            RootRef::Hash(tree) => Some(HashRef(FormRef::Tree(tree))),
            _ => None,
        }
    }
}

impl Collection for Set {
    type Ref<'a> = SetRef<'a>;
    type Tree = Named<Members>;
    const PACKED: Encoding = Encoding::PackedSet;

    fn from_packed(bytes: Vec<u8>) -> Self {
        Set(Form::Packed(Packed::from_bytes(bytes)))
    }

    fn from_tree(tree: Box<Named<Members>>) -> Self {
        Set(Form::Tree(tree))
    }

    fn into_root(self) -> Result<Root, Vec<u8>> {
        match self.0 {
            Form::Packed(packed) => Err(packed.into_bytes()),
            Form::Tree(tree) => Ok(Root::Set(tree)),
        }
    }

    fn len(&self) -> u64 {
        self.read().len()
    }

    fn read_packed(bytes: &[u8]) -> SetRef<'_> {
        SetRef(FormRef::packed(bytes))
    }

    fn read_root(root: RootRef<'_>) -> Option<SetRef<'_>> {
        match root {
            RootRef::Set(tree) => Some(SetRef(FormRef::Tree(tree))),
            _ => None,
        }
    }
}

impl Collection for SortedSet {
    type Ref<'a> = SortedSetRef<'a>;
    type Tree = SortedTrees;
    const PACKED: Encoding = Encoding::PackedSortedSet;

    fn from_packed(bytes: Vec<u8>) -> Self {
        SortedSet::Packed(Packed::from_bytes(bytes))
    }

    fn from_tree(tree: Box<SortedTrees>) -> Self {
        SortedSet::Tree(tree)
    }

    fn into_root(self) -> Result<Root, Vec<u8>> {
        match self {
            SortedSet::Packed(packed) => Err(packed.into_bytes()),
            SortedSet::Tree(trees) => Ok(Root::SortedSet(trees)),
        }
    }

    fn len(&self) -> u64 {
        self.read().len()
    }

    fn read_packed(bytes: &[u8]) -> SortedSetRef<'_> {
        SortedSetRef(SortedSetForm::Packed(PackedRef::new(bytes)))
    }

    fn read_root(root: RootRef<'_>) -> Option<SortedSetRef<'_>> {
        match root {
            RootRef::SortedSet(trees) => Some(SortedSetRef(SortedSetForm::Tree(trees))),
            _ => None,
        }
    }
}

impl Collection for List {
    type Ref<'a> = ListRef<'a>;
    type Tree = ListTree;
    const PACKED: Encoding = Encoding::PackedList;

    fn from_packed(bytes: Vec<u8>) -> Self {
        List::Packed(Packed::from_bytes(bytes))
    }

    fn from_tree(tree: Box<ListTree>) -> Self {
        List::Tree(tree)
    }

    fn into_root(self) -> Result<Root, Vec<u8>> {
        match self {
            List::Packed(packed) => Err(packed.into_bytes()),
            List::Tree(tree) => Ok(Root::List(tree)),
        }
    }

    fn len(&self) -> u64 {
        self.read().len()
    }

    fn read_packed(bytes: &[u8]) -> ListRef<'_> {
        ListRef(ListForm::Packed(PackedRef::new(bytes)))
    }

    fn read_root(root: RootRef<'_>) -> Option<ListRef<'_>> {
        match root {
            RootRef::List(tree) => Some(ListRef(ListForm::Tree(tree))),
            _ => None,
        }
    }
}
