//! Metadata of a command for documentation and cluster clients.

use nagi_proto::Args;
use std::ops::Range;

/// Which of a request's arguments are channels that it publishes or subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channels {
    /// The first.
    First,
    /// All.
    All,
    /// All, as patterns.
    Patterns,
}

impl Channels {
    /// Where they stand in a request.
    pub(crate) fn positions(self, args: Args<'_>) -> Range<usize> {
        1..if self == Channels::First { 2 } else { args.len() }
    }

    pub(crate) fn are_patterns(self) -> bool {
        self == Channels::Patterns
    }
}

/// Finds the positions of arguments that are secret.
pub(crate) type Secrets = fn(Args<'_>) -> Vec<usize>;

/// Made by [`Notes::of`], to which the rest is added where there is something to say.
#[derive(Clone, Copy, Debug)]
pub struct Notes {
    /// How its time grows; empty where that is not known.
    pub complexity: &'static str,
    /// What later versions of Redis have added: version and addition.
    pub history: &'static [(&'static str, &'static str)],
    /// Whether two calls answer the same, and how a cluster's clients spread it, in Redis' words.
    pub tips: &'static [&'static str],
    /// Since which version something else is better, and what.
    pub replaced: Option<(&'static str, &'static str)>,
    /// Whether it is for tests of the server rather than for clients.
    pub internal: bool,
    /// Whether Redis has no such command.
    pub is_own: bool,
    /// Which of a request's arguments are passwords or come with one, and are never shown.
    pub(crate) secrets: Option<Secrets>,
    /// Which of a request's arguments are channels that a user must be permitted to use.
    pub(crate) channels: Option<Channels>,
}

impl Notes {
    /// Those of a command of which there is nothing to say but how its time grows.
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

    /// With what later versions of Redis have added.
    #[must_use]
    pub const fn history(self, history: &'static [(&'static str, &'static str)]) -> Self {
        Notes { history, ..self }
    }

    /// With tips.
    #[must_use]
    pub const fn tips(self, tips: &'static [&'static str]) -> Self {
        Notes { tips, ..self }
    }

    /// Of a command for which there is something better since a version.
    #[must_use]
    pub const fn replaced(self, since: &'static str, by: &'static str) -> Self {
        Notes { replaced: Some((since, by)), ..self }
    }

    /// Of a command that Redis lacks.
    #[must_use]
    pub const fn own(self) -> Self {
        Notes { is_own: true, ..self }
    }

    /// Of a command with arguments that are never shown.
    #[must_use]
    pub(crate) const fn secrets(self, secrets: Secrets) -> Self {
        Notes { secrets: Some(secrets), ..self }
    }

    /// Of a command that publishes or subscribes to channels.
    #[must_use]
    pub(crate) const fn channels(self, channels: Channels) -> Self {
        Notes { channels: Some(channels), ..self }
    }

    /// Of a command that tests of the server use.
    #[must_use]
    pub const fn internal(self) -> Self {
        Notes { internal: true, ..self }
    }
}
