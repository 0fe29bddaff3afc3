//! Which servers are ejected from the ring, and which keys were written elsewhere because of that.

use std::collections::HashSet;
use std::time::Instant;

use super::identity::Identity;
use crate::ring::Ring;

/// Which servers are left out.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// For each server, since one was left out.
    pub(super) out: Vec<Option<Out>>,
    /// The ring with every server, while one is left out.
    pub(super) home: Option<Ring>,
    /// Servers with keys of which they may hold a copy that is old when the ring changes.
    pub(super) away: HashSet<(usize, Vec<u8>)>,
}

/// A server that is left out.
#[derive(Clone, Debug)]
pub(super) struct Out {
    /// When it is asked again.
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
