//! Metadata of a command for documentation and cluster clients.

use nagi_proto::Args;
use std::ops::Range;

/// The channels among a request's arguments that it publishes or subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channels {
    /// The first argument.
    First,
    /// All arguments.
    All,
    /// All arguments, as patterns.
    Patterns,
}

impl Channels {
    /// Their positions in a request.
    pub(crate) fn positions(self, args: Args<'_>) -> Range<usize> {
        1..if self == Channels::First { 2 } else { args.len() }
    }

    pub(crate) fn are_patterns(self) -> bool {
        self == Channels::Patterns
    }
}

/// Finds the positions of arguments that are secret.
pub(crate) type Secrets = fn(Args<'_>) -> Vec<usize>;

/// A command's metadata, created by [`Notes::of`]; other methods add to it.
#[derive(Clone, Copy, Debug)]
pub struct Notes {
    /// Its complexity; empty if unknown.
    pub complexity: &'static str,
    /// Additions in later versions of Redis, with the version.
    pub history: &'static [(&'static str, &'static str)],
    /// Tips for clients of a cluster, such as on nondeterministic output, as in Redis.
    pub tips: &'static [&'static str],
    /// The version since which it is deprecated, and its replacement.
    pub replaced: Option<(&'static str, &'static str)>,
    /// Whether it is for tests of the server rather than for clients.
    pub internal: bool,
    /// Whether Redis lacks the command.
    pub is_own: bool,
    /// Finds the arguments that are passwords or belong to one, and are never shown.
    pub(crate) secrets: Option<Secrets>,
    /// The arguments that are channels, which a user needs permission to use.
    pub(crate) channels: Option<Channels>,
}

impl Notes {
    /// Notes of a command with only its complexity.
    #[must_use]
    pub const fn of(complexity: &'static str) -> Self {
        let (history, tips) = (&[], &[]);
        Notes {
            complexity,
            history,
            tips,
            replaced: None,
            internal: false,
            is_own: false,
            secrets: None,
            channels: None,
        }
    }

    /// With additions in later versions of Redis.
    #[must_use]
    pub const fn history(self, history: &'static [(&'static str, &'static str)]) -> Self {
        Notes { history, ..self }
    }

    /// With tips.
    #[must_use]
    pub const fn tips(self, tips: &'static [&'static str]) -> Self {
        Notes { tips, ..self }
    }

    /// With a replacement since a version.
    #[must_use]
    pub const fn replaced(self, since: &'static str, by: &'static str) -> Self {
        Notes { replaced: Some((since, by)), ..self }
    }

    /// For a command that Redis lacks.
    #[must_use]
    pub const fn own(self) -> Self {
        Notes { is_own: true, ..self }
    }

    /// For a command with arguments that are never shown.
    #[must_use]
    pub(crate) const fn secrets(self, secrets: Secrets) -> Self {
        Notes { secrets: Some(secrets), ..self }
    }

    /// For a command that publishes or subscribes to channels.
    #[must_use]
    pub(crate) const fn channels(self, channels: Channels) -> Self {
        Notes { channels: Some(channels), ..self }
    }

    /// For a command that tests of the server use.
    #[must_use]
    pub const fn internal(self) -> Self {
        Notes { internal: true, ..self }
    }
}
