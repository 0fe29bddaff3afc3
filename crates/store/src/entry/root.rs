//! Roots: large values, which an entry owns through one pointer, and which share their parts with
//! their clones.
//!
//! Only this module interprets the pointer. A type with large values adds its root here: how it is
//! shared, counted and dropped. Roots whose drop takes long leave it to the reclaimer themselves.

use crate::collections::form::{FormRef, Named};
use crate::collections::list::{ListForm, ListRef, ListTree};
use crate::collections::sorted_set::{SortedSetForm, SortedSetRef, SortedTrees};
use crate::collections::stream::Stream;
use crate::entry::encoding::Encoding;
use crate::tree::layout::{Fields, Members};
use crate::value::rope::Rope;
use nagi_chunk::CHUNK_BYTES;
use std::ptr::NonNull;

/// A large value.
#[derive(Debug)]
pub(crate) enum Root {
    /// A long string.
    Rope(Box<Rope>),
    Hash(Box<Named<Fields>>),
    Set(Box<Named<Members>>),
    SortedSet(Box<SortedTrees>),
    List(Box<ListTree>),
    Stream(Box<Stream>),
}

impl Root {
    pub(crate) fn encoding(&self) -> Encoding {
        match self {
            Root::Rope(_) => Encoding::Rope,
            Root::Hash(_) => Encoding::TreeHash,
            Root::Set(_) => Encoding::TreeSet,
            Root::SortedSet(_) => Encoding::TreeSortedSet,
            Root::List(_) => Encoding::TreeList,
            Root::Stream(_) => Encoding::Stream,
        }
    }

    /// Transfers the root to an entry of the keyspace; it counts as data from now on.
    pub(crate) fn into_word(mut self) -> NonNull<u8> {
        if let Root::Rope(rope) = &mut self {
            rope.keep();
        }
        self.into_image_word()
    }

    /// Transfers the root to a copy of an entry outside the keyspace.
    pub(crate) fn into_image_word(self) -> NonNull<u8> {
        match self {
            Root::Rope(rope) => NonNull::from(Box::leak(rope)).cast(),
            Root::Hash(tree) => NonNull::from(Box::leak(tree)).cast(),
            Root::Set(tree) => NonNull::from(Box::leak(tree)).cast(),
            Root::SortedSet(trees) => NonNull::from(Box::leak(trees)).cast(),
            Root::List(tree) => NonNull::from(Box::leak(tree)).cast(),
            Root::Stream(stream) => NonNull::from(Box::leak(stream)).cast(),
        }
    }

    /// Takes the root back from an entry; `None` if values of this encoding have no root.
    ///
    /// # Safety
    /// If the encoding has a root, the word came from [`Root::into_word`] of a root of this
    /// encoding and is not used again.
    pub(crate) unsafe fn take(
        encoding: Encoding,
        word: impl FnOnce() -> NonNull<u8>,
    ) -> Option<Root> {
        if !encoding.has_root() {
            return None;
        }
        let word = word().as_ptr();
        // SAFETY: the caller guarantees that the word came from a box of the type that the encoding
        // implies.
        unsafe {
            match encoding {
                Encoding::Rope => Some(Root::Rope(Box::from_raw(word.cast()))),
                Encoding::TreeHash => Some(Root::Hash(Box::from_raw(word.cast()))),
                Encoding::TreeSet => Some(Root::Set(Box::from_raw(word.cast()))),
                Encoding::TreeSortedSet => Some(Root::SortedSet(Box::from_raw(word.cast()))),
                Encoding::TreeList => Some(Root::List(Box::from_raw(word.cast()))),
                Encoding::Stream => Some(Root::Stream(Box::from_raw(word.cast()))),
                _ => None,
            }
        }
    }

    pub(crate) fn borrow(&self) -> RootRef<'_> {
        match self {
            Root::Rope(rope) => RootRef::Rope(rope),
            Root::Hash(tree) => RootRef::Hash(tree),
            Root::Set(tree) => RootRef::Set(tree),
            Root::SortedSet(trees) => RootRef::SortedSet(trees),
            Root::List(tree) => RootRef::List(tree),
            Root::Stream(stream) => RootRef::Stream(stream),
        }
    }

    /// Returns a clone, which shares all parts until either is modified.
    pub(crate) fn share(&self) -> Root {
        self.borrow().share()
    }
}

/// A reference to the root that an entry owns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RootRef<'a> {
    Rope(&'a Rope),
    Hash(&'a Named<Fields>),
    Set(&'a Named<Members>),
    SortedSet(&'a SortedTrees),
    List(&'a ListTree),
    Stream(&'a Stream),
}

impl RootRef<'_> {
    /// Borrows the root of an entry; `None` if values of this encoding have none.
    ///
    /// # Safety
    /// If the encoding has a root, the word came from [`Root::into_word`] of a root of this
    /// encoding, and the entry neither drops nor changes it during `'a`.
    pub(crate) unsafe fn of_word<'a>(
        encoding: Encoding,
        word: impl FnOnce() -> NonNull<u8>,
    ) -> Option<RootRef<'a>> {
        if !encoding.has_root() {
            return None;
        }
        let word = word();
        // SAFETY: the caller guarantees that the word points to the type that the encoding implies.
        unsafe {
            match encoding {
                Encoding::Rope => Some(RootRef::Rope(word.cast().as_ref())),
                Encoding::TreeHash => Some(RootRef::Hash(word.cast().as_ref())),
                Encoding::TreeSet => Some(RootRef::Set(word.cast().as_ref())),
                Encoding::TreeSortedSet => Some(RootRef::SortedSet(word.cast().as_ref())),
                Encoding::TreeList => Some(RootRef::List(word.cast().as_ref())),
                Encoding::Stream => Some(RootRef::Stream(word.cast().as_ref())),
                _ => None,
            }
        }
    }

    /// Returns a clone, which shares all parts until either is modified.
    pub(crate) fn share(self) -> Root {
        match self {
            RootRef::Rope(rope) => Root::Rope(Box::new(rope.clone())),
            RootRef::Hash(tree) => Root::Hash(Box::new(tree.clone())),
            RootRef::Set(tree) => Root::Set(Box::new(tree.clone())),
            RootRef::SortedSet(trees) => Root::SortedSet(Box::new(trees.clone())),
            RootRef::List(tree) => Root::List(Box::new(tree.clone())),
            RootRef::Stream(stream) => Root::Stream(Box::new(stream.clone())),
        }
    }

    /// Returns its memory outside the entry in bytes, shared or not.
    pub(crate) fn bytes(self) -> usize {
        match self {
            RootRef::Rope(rope) => rope.len(),
            RootRef::Hash(tree) => FormRef::Tree(tree).bytes() as usize,
            RootRef::Set(tree) => FormRef::Tree(tree).bytes() as usize,
            RootRef::SortedSet(trees) => SortedSetRef(SortedSetForm::Tree(trees)).bytes() as usize,
            RootRef::List(tree) => ListRef(ListForm::Tree(tree)).bytes() as usize,
            RootRef::Stream(stream) => stream.bytes() as usize,
        }
    }

    /// Returns the bytes of a rope's full chunks. They are counted as data with the rope of the
    /// store, not with those of images.
    pub(crate) fn chunk_bytes(self) -> usize {
        match self {
            RootRef::Rope(rope) => rope.len() / CHUNK_BYTES * CHUNK_BYTES,
            _ => 0,
        }
    }
}
