//! The kinds of subscriptions.

use std::sync::Arc;

/// The name of a channel, or a pattern.
pub(crate) type Name = Arc<[u8]>;

/// The kind of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A channel.
    Channel,
    /// All channels whose names match a pattern.
    Pattern,
    /// A channel of a shard, which no pattern matches.
    Shard,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];
}

/// A value for each kind.
#[derive(Debug, Default)]
pub struct ByKind<T> {
    channels: T,
    patterns: T,
    shards: T,
}

impl<T> ByKind<T> {
    /// The value of a kind.
    #[inline]
    pub(crate) fn of(&self, kind: Kind) -> &T {
        match kind {
            Kind::Channel => &self.channels,
            Kind::Pattern => &self.patterns,
            Kind::Shard => &self.shards,
        }
    }

    pub(super) fn of_mut(&mut self, kind: Kind) -> &mut T {
        match kind {
            Kind::Channel => &mut self.channels,
            Kind::Pattern => &mut self.patterns,
            Kind::Shard => &mut self.shards,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.channels, &self.patterns, &self.shards].into_iter()
    }
}
