//! Hashes, lists, sets and sorted sets as values: their operations, in either of the two forms.
//!
//! A collection is *packed* while it is small: bytes that its entry holds (`packed/`). Beyond
//! [`MAX_PACKED_BYTES`](crate::packed::MAX_PACKED_BYTES), or with a long string in it, it is a
//! *tree* (`tree/`), which does not become packed again. `Ref` types borrow either form for
//! reading; the others own a collection and modify it: [`Form`] for both.
//!
//! The encoding that OBJECT ENCODING reports ([`Name`]) follows the settings of Redis, 7.2 and
//! later. It is stored with the elements, because it does not depend on the form.

pub(crate) mod form;
pub(crate) mod hash;
pub(crate) mod list;
pub(crate) mod set;
pub(crate) mod sorted_range;
pub(crate) mod sorted_set;
pub(crate) mod stream;
#[cfg(test)]
mod tests;

/// The encoding that OBJECT ENCODING reports for a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Name {
    Listpack = 1,
    /// A listpack of a hash that has had fields with an expiry.
    ListpackEx = 2,
    Intset = 3,
    Hashtable = 4,
    Skiplist = 5,
    Quicklist = 6,
}

impl Name {
    /// Decodes a stored byte.
    fn from_byte(byte: u8) -> Self {
        match byte {
            2 => Name::ListpackEx,
            3 => Name::Intset,
            4 => Name::Hashtable,
            5 => Name::Skiplist,
            6 => Name::Quicklist,
            _ => Name::Listpack,
        }
    }

    /// Returns Redis' name of the encoding.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Name::Listpack => "listpack",
            Name::ListpackEx => "listpackex",
            Name::Intset => "intset",
            Name::Hashtable => "hashtable",
            Name::Skiplist => "skiplist",
            Name::Quicklist => "quicklist",
        }
    }
}
