//! The state of iterations over a table in steps: from bucket to bucket, and within a bucket that
//! is too large for one step.

use crate::entry::key::OwnedName;

/// The position within a bucket whose visit takes several holds.
#[derive(Clone, Debug)]
pub(crate) struct BucketCursor {
    /// The last name visited, in the order of names.
    pub(crate) after: OwnedName,
    /// The first position after the bucket.
    pub(crate) next: u64,
}

/// The position of a sweep.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// The next position: the first one of a segment, or of a bucket in segments with an overflow
    /// list, which may be too large for one step.
    pub(crate) position: u64,
    /// The position within that bucket.
    pub(crate) within: Option<BucketCursor>,
    /// A lower bound of the expiry times of entries that the sweep has passed in that segment, and
    /// of entries written since, in milliseconds since 1970.
    pub(crate) earliest_ms: u64,
}

impl Sweep {
    pub(crate) fn from(position: u64) -> Self {
        Sweep { position, within: None, earliest_ms: u64::MAX }
    }
}
