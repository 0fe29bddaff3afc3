//! Versions of the format, and the types that each supports.

use super::collection::CollectionHead;
use super::kind::ValueType;
use crate::encoding::{NEWEST_VERSION, VALKEY_VERSIONS, VERSION};
use nagi_store::Value;
use std::fmt;

/// The version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A version of Redis.
    Redis(u16),
    /// A version that only Valkey has.
    Valkey(u16),
}

impl Default for Version {
    fn default() -> Self {
        Version::LOWEST
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Version::Redis(number) | Version::Valkey(number)) = self;
        number.fmt(f)
    }
}

impl Version {
    /// The lowest version that is written; it supports strings with all their metadata.
    pub const LOWEST: Version = Version::Redis(VERSION);

    /// The lowest version with the times at which consumers of streams last received an entry.
    pub const WITH_CONSUMERS: Version = Version::Redis(11);

    /// The lowest of Redis' versions that supports fields which expire.
    pub const WITH_EXPIRING_FIELDS: Version = Version::Redis(12);

    /// Returns the version with this number, if it can be written.
    #[must_use]
    pub fn from_number(number: u16) -> Option<Version> {
        if (VERSION..=NEWEST_VERSION).contains(&number) {
            Some(Version::Redis(number))
        } else {
            VALKEY_VERSIONS.contains(&number).then_some(Version::Valkey(number))
        }
    }

    /// Whether files of this version can contain values of a type.
    #[must_use]
    pub fn holds(self, value_type: ValueType) -> bool {
        match self {
            Version::Valkey(_) => {
                value_type.number() < 22 || value_type == ValueType::HashExpiringOfValkey
            }
            Version::Redis(version) => {
                let since = match value_type {
                    ValueType::SetListpack | ValueType::Stream3 => 11,
                    ValueType::HashExpiringOfValkey => return false,
                    other if other.number() >= 22 => 12,
                    _ => VERSION,
                };
                version >= since
            }
        }
    }

    /// Whether files of this version can contain a value of the store.
    pub(crate) fn holds_value(self, value: &Value<'_>) -> bool {
        match value {
            Value::Hash(hash) if hash.expiring() > 0 => CollectionHead::of(value, self)
                .is_none_or(|head| self.holds(head.form.value_type())),
            _ => true,
        }
    }

    /// Returns the beginning of the file.
    pub(super) fn magic(self) -> String {
        match self {
            Version::Redis(version) => format!("REDIS{version:04}"),
            Version::Valkey(version) => format!("VALKEY{version:03}"),
        }
    }
}
