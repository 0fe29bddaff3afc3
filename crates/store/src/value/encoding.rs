//! The types of values, and the forms in which entries keep them.

/// The type of a value, by the name that TYPE gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string, of whatever encoding.
    String,
    /// A map from fields to strings.
    Hash,
}

impl Kind {
    /// Redis' name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
        }
    }
}

/// How an entry keeps its value, in six bits.
///
/// Strings have the numbers from 0 on. Of other types it is 32, twice the type's number, and 1 for
/// the form that is a root ([`crate::value::root`]) instead of a blob. 63 is no encoding.
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
    /// A hash in one piece.
    PackedHash = 32 + (1 << 1),
}

impl Encoding {
    /// The encoding of a number, as an entry keeps it.
    pub(crate) fn of_number(number: u8) -> Self {
        match number {
            code if code == Encoding::Bytes as u8 => Encoding::Bytes,
            code if code == Encoding::Raw as u8 => Encoding::Raw,
            code if code == Encoding::Text as u8 => Encoding::Text,
            code if code == Encoding::Int as u8 => Encoding::Int,
            code if code == Encoding::Rope as u8 => Encoding::Rope,
            code => {
                debug_assert!(code == Encoding::PackedHash as u8, "{code} is no encoding");
                Encoding::PackedHash
            }
        }
    }

    /// The type of a value of this encoding.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Encoding::Bytes | Encoding::Raw | Encoding::Text | Encoding::Int | Encoding::Rope => {
                Kind::String
            }
            Encoding::PackedHash => Kind::Hash,
        }
    }

    /// Whether a value of this encoding is bytes that stand in the entry as they were given.
    pub(crate) fn is_in_one_piece(self) -> bool {
        !matches!(self, Encoding::Int | Encoding::Rope)
    }
}
