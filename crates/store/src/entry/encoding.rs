//! The types of values, and the forms in which entries keep them.

/// The type of a value, by the name that TYPE gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string, of whatever encoding.
    String,
    /// A map from fields to strings.
    Hash,
    /// Strings, each at most once.
    Set,
    /// Strings with scores, in their order.
    SortedSet,
    /// Strings in the order in which they were put there.
    List,
    /// Entries by their ids, which groups of consumers read.
    Stream,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] =
        [Kind::String, Kind::Hash, Kind::Set, Kind::SortedSet, Kind::List, Kind::Stream];

    /// Redis' name for it.
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

/// How an entry keeps its value, in six bits.
///
/// Strings have the numbers from 0 on. Of other types it is 32, twice the type's number, and 1 for
/// the form that is a root ([`crate::entry::root`]) instead of a blob. 63 is no encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Encoding {
    /// In one piece, as it was stored.
    Bytes = 0,
    /// In one piece, and changed since or made by changes: OBJECT ENCODING tells them apart.
    Raw = 1,
    /// In one piece, and no number to OBJECT ENCODING even where it reads like one.
    Text = 2,
    Int = 3,
    Rope = 4,
    /// Collections in one piece, and as trees.
    PackedHash = 34,
    TreeHash = 35,
    PackedSet = 36,
    TreeSet = 37,
    PackedSortedSet = 38,
    TreeSortedSet = 39,
    PackedList = 40,
    TreeList = 41,
    /// Streams are roots whatever their size.
    Stream = 43,
}

impl Encoding {
    /// The encoding of a number, as an entry keeps it.
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

    /// The type of a value of this encoding.
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

    /// Whether a value of this encoding is a root, which the entry refers to.
    #[inline]
    pub(crate) fn has_root(self) -> bool {
        self == Encoding::Rope || (self as u8 >= 32 && self as u8 & 1 == 1)
    }

    /// Whether a value of this encoding is bytes that stand in the entry as they were given.
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
