//! Inspecting files without loading them: their integrity and their contents.

mod check;
mod distinct;
mod render;
mod stats;

pub use check::{Checked, Checking, check};
pub use stats::{Biggest, Expiry, Group, Grouping, Named, Stats, TypeName, stats};

use serde::{Serialize, Serializer};

/// Called from time to time with the numbers of bytes and keys read.
pub type Watch<'a> = dyn FnMut(u64, u64) + 'a;

/// The number of keys between two reports of progress.
const KEYS_PER_REPORT: u64 = 4096;

/// Serializes bytes as text; bytes that are not printable ASCII are escaped.
fn escaped<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&bytes.escape_ascii())
}

/// An auxiliary field.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Field {
    /// `redis-ver`, for example.
    #[serde(serialize_with = "escaped")]
    pub name: Vec<u8>,
    /// Its value.
    #[serde(serialize_with = "escaped")]
    pub value: Vec<u8>,
}
