//! The servers ejected from the ring, and the keys written elsewhere during that.

use std::collections::HashSet;
use std::time::Instant;

use super::identity::Identity;
use crate::ring::Ring;

/// The state of ejections.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// For each server, its ejection; empty before the first one.
    pub(super) out: Vec<Option<Out>>,
    /// The ring with all servers, during an ejection.
    pub(super) home: Option<Ring>,
    /// Servers with keys of which they may hold a copy that is stale when the ring changes.
    pub(super) away: HashSet<(usize, Vec<u8>)>,
}

/// An ejected server.
#[derive(Clone, Debug)]
pub(super) struct Out {
    /// When it is tried again.
    pub(super) until: Instant,
    /// The process that failed.
    pub(super) earlier: Option<Identity>,
    /// Whether it has answered since.
    pub(super) answered: bool,
}

impl Watch {
    pub(super) fn is_out(&self, server: usize) -> bool {
        matches!(self.out.get(server), Some(Some(_)))
    }
}
