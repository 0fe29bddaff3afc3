//! A client's options for tracking keys (CLIENT TRACKING).

use std::collections::BTreeSet;
use std::sync::Arc;

/// The options of a client that tracks keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TrackingOptions {
    /// The client that receives its invalidations (REDIRECT).
    pub(crate) redirect: Option<u64>,
    /// Whether it receives invalidations of all keys with its prefixes, whether or not it has read
    /// them (BCAST).
    pub(crate) is_broadcast: bool,
    pub(crate) prefixes: BTreeSet<Box<[u8]>>,
    /// Whether it tracks only the requests that it announces (OPTIN).
    pub(crate) opts_in: bool,
    /// Whether it tracks all requests except those that it announces (OPTOUT).
    pub(crate) opts_out: bool,
    /// Whether its own changes are ignored (NOLOOP).
    pub(crate) ignores_own: bool,
}

/// The client's own state of tracking.
#[derive(Clone, Debug)]
pub(crate) struct ClientTracking {
    pub(crate) options: Arc<TrackingOptions>,
    /// The setting of CLIENT CACHING for the next request.
    pub(crate) caching: Option<bool>,
}
