//! Hashes in one piece, as small ones stand in their entries.
//!
//! ```text
//!   encoding:1 | field length | field | value length | value | ...     in order of insertion
//! ```
//!
//! Lengths are LEB128: seven bits a byte, the low ones first, the highest bit set where another
//! byte follows.

/// The longest hash in one piece, in bytes: what is copied within a latch in no time.
pub const LONGEST_PACKED_BYTES: usize = 8192;

/// OBJECT ENCODING's name for it is `listpack`.
const LISTPACK: u8 = 0;

/// A hash that a caller hands over to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedHash(Vec<u8>);

impl PackedHash {
    /// Packs fields, no two of which have the same name, with their values; `None` if they take
    /// more than [`LONGEST_PACKED_BYTES`], or if there are none, which is no hash.
    #[must_use]
    pub fn from_fields<'f>(
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Option<PackedHash> {
        let mut packed = vec![LISTPACK];
        for (field, value) in fields {
            for text in [field, value] {
                if packed.len() + text.len() > LONGEST_PACKED_BYTES {
                    return None;
                }
                push(&mut packed, text);
            }
        }
        (2..=LONGEST_PACKED_BYTES).contains(&packed.len()).then_some(PackedHash(packed))
    }

    /// The blob.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A hash as a reader sees it, for as long as the latch is held.
#[derive(Clone, Copy, Debug)]
pub struct HashValue<'a> {
    packed: &'a [u8],
}

impl<'a> HashValue<'a> {
    pub(crate) fn of_packed(packed: &'a [u8]) -> Self {
        HashValue { packed }
    }

    /// The fields with their values, in order of insertion.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let mut rest = self.packed.get(1..).unwrap_or_default();
        std::iter::from_fn(move || Some((take(&mut rest)?, take(&mut rest)?)))
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.fields().count()
    }

    /// Whether there is none, which no hash that is kept is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields().next().is_none()
    }

    /// How Redis would keep it, by the name that OBJECT ENCODING gives it.
    pub(crate) fn encoding_name(self) -> &'static str {
        "listpack"
    }
}

fn push(packed: &mut Vec<u8>, text: &[u8]) {
    let mut len = text.len();
    while len > 0x7f {
        packed.push((len & 0x7f) as u8 | 0x80);
        len >>= 7;
    }
    packed.push(len as u8);
    packed.extend_from_slice(text);
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (mut len, mut shift) = (0, 0);
    loop {
        let (byte, behind) = rest.split_first()?;
        *rest = behind;
        len |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if *byte < 0x80 {
            break;
        }
    }
    let (text, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hash_has_a_field_and_a_longest_length() {
        assert!(PackedHash::from_fields([]).is_none());
        let text = vec![b'x'; LONGEST_PACKED_BYTES - 5];
        assert!(PackedHash::from_fields([(&b"f"[..], &text[..])]).is_some());
        assert!(PackedHash::from_fields([(&b"fi"[..], &text[..])]).is_none());
    }

    proptest! {
        #[test]
        fn packed_fields_are_read_back(
            fields in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..300),
                 proptest::collection::vec(any::<u8>(), 0..300)),
                1..12,
            ),
        ) {
            let pairs = fields.iter().map(|(field, value)| (&field[..], &value[..]));
            let packed = PackedHash::from_fields(pairs.clone()).unwrap();
            let hash = HashValue::of_packed(packed.bytes());
            prop_assert!(hash.fields().eq(pairs));
            prop_assert_eq!((hash.len(), hash.is_empty()), (fields.len(), false));
        }
    }
}
