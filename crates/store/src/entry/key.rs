//! A key together with its hash, so that it is hashed once per request.

use crate::entry::long_key::{Kept, LongKey};
use crate::siphash::SipHash13;

/// A key and its keyed hash.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) hash: u64,
    /// The key's stored form, if it is long and has been looked up.
    pub(crate) long: Option<&'a LongKey>,
}

/// Identifies a key while a latch is held. Short keys are ordered by their bytes, long keys
/// arbitrarily.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name<'a> {
    Inline(&'a [u8]),
    Elsewhere(*const Kept),
}

impl<'a> Key<'a> {
    /// Returns the key's bytes.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the key's hash, with which a caller can tell eviction to spare the key.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns this key with the result of its lookup.
    #[inline]
    pub(crate) fn kept_as<'k>(self, long: Option<&'k LongKey>) -> Key<'k>
    where
        'a: 'k,
    {
        Key { long, ..self }
    }

    /// Returns the name that entries with this key have. A long key that the lookup did not find
    /// has a name that no entry has.
    pub(crate) fn name(self) -> Name<'a> {
        self.long.map_or(Name::Inline(self.bytes), |long| Name::Elsewhere(long.address()))
    }
}

/// A key's name that outlives the latch.
#[derive(Clone, Debug)]
pub(crate) enum OwnedName {
    Inline(Box<[u8]>),
    Elsewhere(LongKey),
}

impl OwnedName {
    pub(crate) fn get(&self) -> Name<'_> {
        match self {
            OwnedName::Inline(bytes) => Name::Inline(bytes),
            OwnedName::Elsewhere(long) => Name::Elsewhere(long.address()),
        }
    }
}

/// The hash function of one store: SipHash-1-3 with a random seed, so that clients cannot choose
/// keys that collide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    siphash: SipHash13,
    /// A mask of the bits that may differ between hashes, to test collisions.
    #[cfg(test)]
    pub(crate) mask: u64,
}

impl Hasher {
    pub(crate) fn new(seed: u128) -> Self {
        Hasher {
            siphash: SipHash13::new((seed >> 64) as u64, seed as u64),
            #[cfg(test)]
            mask: u64::MAX,
        }
    }

    #[inline]
    pub(crate) fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        let hash = self.siphash.hash(bytes);
        #[cfg(test)]
        let hash = hash & self.mask;
        Key { bytes, hash, long: None }
    }
}
