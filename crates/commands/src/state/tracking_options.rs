//! How a client tracks keys (CLIENT TRACKING).

use std::collections::BTreeSet;
use std::sync::Arc;

/// What a client that tracks keys has asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrackingOptions {
    /// The client that receives its invalidations (REDIRECT).
    pub(crate) redirect: Option<u64>,
    /// Whether it receives invalidations of all keys with its prefixes, whatever it has read
    /// (BCAST).
    pub(crate) is_broadcast: bool,
    pub(crate) prefixes: BTreeSet<Box<[u8]>>,
    /// Whether it tracks only what it says so of, one request at a time.
    pub(crate) opts_in: bool,
    /// Whether it tracks all but what it says so of.
    pub(crate) opts_out: bool,
    /// Whether its own changes are left out (NOLOOP).
    pub(crate) ignores_own: bool,
}

/// How a client tracks keys, as it knows itself.
#[derive(Clone, Debug)]
pub(crate) struct ClientTracking {
    pub(crate) options: Arc<TrackingOptions>,
    /// What CLIENT CACHING has said of the next request.
    pub(crate) caching: Option<bool>,
}
