//! Inspecting files without loading them: their integrity and their contents.

mod check;
mod distinct;
mod render;
mod stats;

pub use check::{Checked, Checking, check};
pub use stats::{Biggest, Expiry, Group, Grouping, Named, Stats, TypeName, stats};

use serde::{Serialize, Serializer};

/// Told every now and then how many bytes and keys have been read.
pub type Watch<'a> = dyn FnMut(u64, u64) + 'a;

/// Keys between two reports of progress.
const KEYS_A_REPORT: u64 = 4096;

/// Bytes as text: those that are not ASCII's printable ones escaped.
fn escaped<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&bytes.escape_ascii())
}

/// A name that is reported as a part of something else.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct Field {
    /// `redis-ver` and others.
    #[serde(serialize_with = "escaped")]
    pub name: Vec<u8>,
    /// What the file says under it.
    #[serde(serialize_with = "escaped")]
    pub value: Vec<u8>,
}
