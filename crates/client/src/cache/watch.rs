//! The servers ejected from the ring, and the keys that were written to other servers meanwhile.

use std::collections::HashSet;
use std::time::Instant;

use super::identity::Identity;
use crate::ring::Ring;

/// The state of ejections.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// The ejection of each server, by index; empty before the first ejection.
    pub(super) out: Vec<Option<Out>>,
    /// The ring with all servers, while any server is ejected.
    pub(super) home: Option<Ring>,
    /// Pairs of a server and a key whose copy there may be stale when the ring changes.
    pub(super) away: HashSet<(usize, Vec<u8>)>,
}

/// An ejected server.
#[derive(Clone, Debug)]
pub(super) struct Out {
    /// When the server is tried again.
    pub(super) until: Instant,
    /// The identity of the process that failed.
    pub(super) earlier: Option<Identity>,
    /// Whether the server has answered since its ejection.
    pub(super) answered: bool,
}

impl Watch {
    pub(super) fn is_out(&self, server: usize) -> bool {
        matches!(self.out.get(server), Some(Some(_)))
    }
}
