//! How far those have come that go through a table in steps: from bucket to bucket, and within one
//! that is too large for a step.

use crate::entry::key::OwnedName;

/// How far a visit of a bucket has come that takes several holds.
#[derive(Clone, Debug)]
pub(crate) struct BucketCursor {
    /// What was visited last; the order is that of names.
    pub(crate) after: OwnedName,
    /// The first position after what is visited in this order.
    pub(crate) next: u64,
}

/// How far a sweep has come.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// What comes next: a segment's first position, or a bucket's where a segment has keys of
    /// equal hash beyond its places, which may be too many for one step.
    pub(crate) position: u64,
    /// How far it has come in that bucket.
    pub(crate) within: Option<BucketCursor>,
    /// Nothing that it has left behind in that segment expires before this, nor what was written
    /// since, in milliseconds since 1970.
    pub(crate) earliest_ms: u64,
}

impl Sweep {
    pub(crate) fn from(position: u64) -> Self {
        Sweep { position, within: None, earliest_ms: u64::MAX }
    }
}
