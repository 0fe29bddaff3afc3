//! The types of values and their encodings in entries.

/// The type of a value, as in TYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string, in any encoding.
    String,
    /// A map from fields to strings.
    Hash,
    /// Distinct strings.
    Set,
    /// Distinct strings with scores, ordered by score.
    SortedSet,
    /// Strings in insertion order.
    List,
    /// Entries in the order of their ids, which consumer groups read.
    Stream,
}

impl Kind {
    /// All types.
    pub const ALL: [Kind; 6] =
        [Kind::String, Kind::Hash, Kind::Set, Kind::SortedSet, Kind::List, Kind::Stream];

    /// Returns the name in TYPE.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::List => "list",
            Kind::Stream => "stream",
        }
    }
}

/// The encoding of an entry's value, in six bits.
///
/// Strings have the numbers from 0. Other types have 32 plus twice the type's number, plus 1 for
/// the form that is a root ([`crate::entry::root`]) instead of a blob. 63 is not an encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Encoding {
    /// Contiguous, as it was stored.
    Bytes = 0,
    /// Contiguous, and created or modified by a partial change: OBJECT ENCODING distinguishes
    /// these.
    Raw = 1,
    /// Contiguous, and not an integer to OBJECT ENCODING even if it looks like one.
    Text = 2,
    Int = 3,
    Rope = 4,
    /// Collections in contiguous form, and as trees.
    PackedHash = 34,
    TreeHash = 35,
    PackedSet = 36,
    TreeSet = 37,
    PackedSortedSet = 38,
    TreeSortedSet = 39,
    PackedList = 40,
    TreeList = 41,
    /// Streams are always roots.
    Stream = 43,
}

impl Encoding {
    /// Returns the encoding with this number.
    #[inline]
    pub(crate) fn of_number(number: u8) -> Self {
        match number {
            0 => Encoding::Bytes,
            1 => Encoding::Raw,
            2 => Encoding::Text,
            3 => Encoding::Int,
            4 => Encoding::Rope,
            34 => Encoding::PackedHash,
            35 => Encoding::TreeHash,
            36 => Encoding::PackedSet,
            37 => Encoding::TreeSet,
            38 => Encoding::PackedSortedSet,
            39 => Encoding::TreeSortedSet,
            40 => Encoding::PackedList,
            41 => Encoding::TreeList,
            43 => Encoding::Stream,
            _ => {
                debug_assert!(false, "{number} is no encoding");
                Encoding::Bytes
            }
        }
    }

    /// Returns the type of a value of this encoding.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Encoding::Bytes | Encoding::Raw | Encoding::Text | Encoding::Int | Encoding::Rope => {
                Kind::String
            }
            Encoding::PackedHash | Encoding::TreeHash => Kind::Hash,
            Encoding::PackedSet | Encoding::TreeSet => Kind::Set,
            Encoding::PackedSortedSet | Encoding::TreeSortedSet => Kind::SortedSet,
            Encoding::PackedList | Encoding::TreeList => Kind::List,
            Encoding::Stream => Kind::Stream,
        }
    }

    /// Whether a value of this encoding is a root, which the entry points to.
    #[inline]
    pub(crate) fn has_root(self) -> bool {
        self == Encoding::Rope || (self as u8 >= 32 && self as u8 & 1 == 1)
    }

    /// Whether a value of this encoding is stored contiguously in the entry.
    #[inline]
    pub(crate) fn is_in_one_piece(self) -> bool {
        self != Encoding::Int && !self.has_root()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_has_its_number() {
        for number in (0..5).chain(34..42).chain([43]) {
            let encoding = Encoding::of_number(number);
            assert_eq!(encoding as u8, number);
            let is_tree = format!("{encoding:?}").starts_with("Tree");
            let is_root = is_tree || matches!(encoding, Encoding::Rope | Encoding::Stream);
            assert_eq!(encoding.has_root(), is_root);
        }
    }
}
