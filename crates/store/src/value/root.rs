//! Roots: large values, which an entry owns by one word and which share their parts with their
//! clones.
//!
//! This is the one place that knows what such a word points to. A type whose values can be large
//! adds its root here: how it is shared, counted and dropped. Dropping what takes long is left to
//! the reclaimer by the root itself.

use crate::value::encoding::Encoding;
use crate::value::rope::Rope;
use std::ptr::NonNull;

/// A large value.
#[derive(Debug)]
pub(crate) enum Root {
    /// A long string.
    Rope(Box<Rope>),
}

impl Root {
    pub(crate) fn encoding(&self) -> Encoding {
        match self {
            Root::Rope(_) => Encoding::Rope,
        }
    }

    /// Gives it to an entry of the keyspace, where it counts as data from now on.
    pub(crate) fn into_word(mut self) -> NonNull<u8> {
        match &mut self {
            Root::Rope(rope) => rope.keep(),
        }
        self.into_image_word()
    }

    /// Gives it to a copy of an entry outside the keyspace.
    pub(crate) fn into_image_word(self) -> NonNull<u8> {
        match self {
            Root::Rope(rope) => NonNull::from(Box::leak(rope)).cast(),
        }
    }

    /// Takes it back from an entry; `None` if values of this encoding have none.
    ///
    /// # Safety
    /// Of an encoding that has a root, the word came from [`Root::into_word`] of a root of this
    /// encoding and is not used again.
    pub(crate) unsafe fn take(
        encoding: Encoding,
        word: impl FnOnce() -> NonNull<u8>,
    ) -> Option<Root> {
        match encoding {
            Encoding::Rope => {
                let rope = word().cast::<Rope>();
                // SAFETY: the word came from a box of a rope, by the caller's promise.
                Some(Root::Rope(unsafe { Box::from_raw(rope.as_ptr()) }))
            }
            Encoding::Bytes
            | Encoding::Raw
            | Encoding::Text
            | Encoding::Int
            | Encoding::PackedHash => None,
        }
    }

    fn borrow(&self) -> RootRef<'_> {
        match self {
            Root::Rope(rope) => RootRef::Rope(rope),
        }
    }

    /// The same value; parts are copied when one of both changes them.
    pub(crate) fn share(&self) -> Root {
        self.borrow().share()
    }
}

/// A root that an entry owns.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RootRef<'a> {
    Rope(&'a Rope),
}

impl RootRef<'_> {
    /// The root of an entry; `None` if values of this encoding have none.
    ///
    /// # Safety
    /// Of an encoding that has a root, the word came from [`Root::into_word`] of a root of this
    /// encoding, and the entry neither gives it up nor changes it during `'a`.
    pub(crate) unsafe fn of_word<'a>(
        encoding: Encoding,
        word: impl FnOnce() -> NonNull<u8>,
    ) -> Option<RootRef<'a>> {
        match encoding {
            // SAFETY: the caller's promise.
            Encoding::Rope => Some(RootRef::Rope(unsafe { word().cast::<Rope>().as_ref() })),
            Encoding::Bytes
            | Encoding::Raw
            | Encoding::Text
            | Encoding::Int
            | Encoding::PackedHash => None,
        }
    }

    /// The same value; parts are copied when one of both changes them.
    pub(crate) fn share(self) -> Root {
        match self {
            RootRef::Rope(rope) => Root::Rope(Box::new(rope.clone())),
        }
    }

    /// Bytes that it takes outside the entry, shared or not.
    pub(crate) fn bytes(self) -> usize {
        match self {
            RootRef::Rope(rope) => rope.len(),
        }
    }
}
