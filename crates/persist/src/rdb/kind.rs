//! The types of values, identified by the byte before the key.

use super::collection::CollectionType;

/// The type of a value and its encoding in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are those of rdb.h, and `row` describes each")]
pub enum ValueType {
    String,
    List,
    Set,
    SortedSet,
    Hash,
    SortedSet2,
    ModuleOfAPrerelease,
    Module,
    HashZipmap,
    ListZiplist,
    SetIntset,
    SortedSetZiplist,
    HashZiplist,
    ListQuicklist,
    Stream,
    HashListpack,
    SortedSetListpack,
    ListQuicklist2,
    Stream2,
    SetListpack,
    Stream3,
    HashExpiringOfAPrerelease,
    HashListpackExpiringOfAPrerelease,
    HashExpiring,
    HashListpackExpiring,
    HashExpiringOfValkey,
}

/// The layout of the data after a key of this type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Text,
    /// A count, and that many groups of this many strings.
    Texts(u64),
    /// A count, and that many strings, each with a score in digits or in eight bytes.
    ScoredInDigits,
    Scored,
    /// A string with all elements; this many packed ones make up one element of the value.
    Packed(Packing, u64),
    /// A count, and that many strings with elements.
    Ziplists,
    /// Like `Ziplists`, but each string may also be one large element.
    Quicklist,
    /// In its first, second or third format.
    Stream(u8),
    Module,
    UnknownModule,
    /// A hash with fields that expire, with or without its earliest expiry before it.
    ExpiringFields {
        first: bool,
    },
    ExpiringListpack {
        first: bool,
    },
    /// Like `ExpiringFields`, but each expiry follows its field.
    FieldsThenExpiry,
}

/// How a string contains elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Zipmap,
    Ziplist,
    Intset,
    Listpack,
}

/// The number of a type, its name in TYPE and in OBJECT ENCODING, and its layout.
type Row = (u8, &'static str, &'static str, Layout);

impl ValueType {
    /// All types, except those whose numbers have another meaning in Valkey's files.
    const COMMON: [ValueType; 25] = [
        ValueType::String,
        ValueType::List,
        ValueType::Set,
        ValueType::SortedSet,
        ValueType::Hash,
        ValueType::SortedSet2,
        ValueType::ModuleOfAPrerelease,
        ValueType::Module,
        ValueType::HashZipmap,
        ValueType::ListZiplist,
        ValueType::SetIntset,
        ValueType::SortedSetZiplist,
        ValueType::HashZiplist,
        ValueType::ListQuicklist,
        ValueType::Stream,
        ValueType::HashListpack,
        ValueType::SortedSetListpack,
        ValueType::ListQuicklist2,
        ValueType::Stream2,
        ValueType::SetListpack,
        ValueType::Stream3,
        ValueType::HashExpiringOfAPrerelease,
        ValueType::HashListpackExpiringOfAPrerelease,
        ValueType::HashExpiring,
        ValueType::HashListpackExpiring,
    ];

    /// Returns the type with this number in a file of Redis, or of Valkey's own versions.
    pub(crate) fn from_number(number: u8, valkey: bool) -> Option<ValueType> {
        match (number, valkey) {
            (0, _) => Some(ValueType::String),
            (22, true) => Some(ValueType::HashExpiringOfValkey),
            (23.., true) => None,
            _ => Self::COMMON.into_iter().find(|it| it.row().0 == number),
        }
    }

    fn row(self) -> Row {
        use Layout::{
            ExpiringFields, ExpiringListpack, FieldsThenExpiry, Packed, Quicklist, Scored,
            ScoredInDigits, Text, Texts, UnknownModule, Ziplists,
        };
        use Packing::{Intset, Listpack, Ziplist, Zipmap};
        match self {
            ValueType::String => (0, "string", "string", Text),
            ValueType::List => (1, "list", "linkedlist", Texts(1)),
            ValueType::Set => (2, "set", "hashtable", Texts(1)),
            ValueType::SortedSet => (3, "zset", "skiplist", ScoredInDigits),
            ValueType::Hash => (4, "hash", "hashtable", Texts(2)),
            ValueType::SortedSet2 => (5, "zset", "skiplist", Scored),
            ValueType::ModuleOfAPrerelease => (6, "module", "module", UnknownModule),
            ValueType::Module => (7, "module", "module", Layout::Module),
            ValueType::HashZipmap => (9, "hash", "zipmap", Packed(Zipmap, 2)),
            ValueType::ListZiplist => (10, "list", "ziplist", Packed(Ziplist, 1)),
            ValueType::SetIntset => (11, "set", "intset", Packed(Intset, 1)),
            ValueType::SortedSetZiplist => (12, "zset", "ziplist", Packed(Ziplist, 2)),
            ValueType::HashZiplist => (13, "hash", "ziplist", Packed(Ziplist, 2)),
            ValueType::ListQuicklist => (14, "list", "quicklist", Ziplists),
            ValueType::Stream => (15, "stream", "stream", Layout::Stream(1)),
            ValueType::HashListpack => (16, "hash", "listpack", Packed(Listpack, 2)),
            ValueType::SortedSetListpack => (17, "zset", "listpack", Packed(Listpack, 2)),
            ValueType::ListQuicklist2 => (18, "list", "quicklist", Quicklist),
            ValueType::Stream2 => (19, "stream", "stream", Layout::Stream(2)),
            ValueType::SetListpack => (20, "set", "listpack", Packed(Listpack, 1)),
            ValueType::Stream3 => (21, "stream", "stream", Layout::Stream(3)),
            ValueType::HashExpiringOfAPrerelease => {
                (22, "hash", "hashtable", ExpiringFields { first: false })
            }
            ValueType::HashListpackExpiringOfAPrerelease => {
                (23, "hash", "listpackex", ExpiringListpack { first: false })
            }
            ValueType::HashExpiring => (24, "hash", "hashtable", ExpiringFields { first: true }),
            ValueType::HashListpackExpiring => {
                (25, "hash", "listpackex", ExpiringListpack { first: true })
            }
            ValueType::HashExpiringOfValkey => (22, "hash", "hashtable", FieldsThenExpiry),
        }
    }

    /// Returns the byte that identifies it.
    #[must_use]
    pub fn number(self) -> u8 {
        self.row().0
    }

    /// Returns its name in TYPE.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns its name in OBJECT ENCODING.
    #[must_use]
    pub fn encoding(self) -> &'static str {
        self.row().2
    }

    /// Returns the type of the collection, if it is one.
    #[must_use]
    pub fn collection(self) -> Option<CollectionType> {
        Some(match self.name() {
            "list" => CollectionType::List,
            "set" => CollectionType::Set,
            "zset" => CollectionType::SortedSet,
            "hash" => CollectionType::Hash,
            "stream" => CollectionType::Stream,
            _ => return None,
        })
    }

    pub(super) fn layout(self) -> Layout {
        self.row().3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_denotes_one_type() {
        for number in 0..=u8::MAX {
            let there = matches!(number, 0..=7 | 9..=25);
            let found = ValueType::from_number(number, false);
            assert_eq!(found.map(ValueType::number), there.then_some(number));
            let of_valkey = ValueType::from_number(number, true);
            assert_eq!(of_valkey.is_some(), there && number < 23, "{number}");
        }
        assert_eq!(ValueType::from_number(22, true), Some(ValueType::HashExpiringOfValkey));
    }
}
