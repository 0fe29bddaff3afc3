//! What is known of a command apart from what it does: one literal row each, from which lookup,
//! the arity check, key extraction, COMMAND and the documentation derive.

use crate::{Context, Error};
use nagi_proto::Args;

/// A command's row.
#[derive(Debug)]
pub struct Command {
    /// Its name in capitals; of a subcommand, the second word alone.
    pub name: &'static str,
    /// Number of arguments, the name (of a subcommand, both words) included; negative for "at
    /// least".
    pub arity: i8,
    /// How it behaves, in Redis' words.
    pub flags: Flags,
    /// Which of its arguments are keys.
    pub keys: Keys,
    /// ACL categories beside those that follow from the flags.
    pub categories: Category,
    /// The family that documentation lists it under.
    pub group: Group,
    /// The first version of Redis to have it.
    pub since: &'static str,
    /// What it does, in one sentence without a full stop.
    pub summary: &'static str,
    /// The rows of its subcommands, where its first argument chooses among them.
    pub subcommands: &'static [&'static Command],
    /// Its handler; of a row with subcommands, what runs when it is called without one.
    pub run: Handler,
}

impl Command {
    /// Whether a request of so many words, the name included, has the right number.
    #[must_use]
    #[inline]
    pub fn accepts(&self, words: usize) -> bool {
        let least = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { words >= least } else { words == least }
    }
}

/// Runs a command. The arity has been checked; a reply is written unless an error is returned.
pub type Handler = for<'a> fn(&mut Context<'a>, Args<'a>) -> Result<(), Error>;

bitflags::bitflags! {
    /// How a command behaves, in the words of Redis' COMMAND.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Flags: u32 {
        /// Changes the keyspace.
        const WRITE = 1 << 0;
        /// Reads keys.
        const READONLY = 1 << 1;
        /// Refused when memory has run out.
        const DENYOOM = 1 << 2;
        /// For administrators.
        const ADMIN = 1 << 3;
        /// Publishes, subscribes or unsubscribes.
        const PUBSUB = 1 << 4;
        /// Not allowed from scripts.
        const NOSCRIPT = 1 << 5;
        /// May wait for another client.
        const BLOCKING = 1 << 6;
        /// Answered while the dataset is loading.
        const LOADING = 1 << 7;
        /// Answered by a replica that has lost its primary.
        const STALE = 1 << 8;
        /// Not shown to MONITOR.
        const SKIP_MONITOR = 1 << 9;
        /// Takes constant or logarithmic time.
        const FAST = 1 << 10;
        /// Answered before the client has authenticated.
        const NO_AUTH = 1 << 11;
    }
}

bitflags::bitflags! {
    /// ACL categories.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Category: u32 {
        /// Keys of any type.
        const KEYSPACE = 1 << 0;
        /// Strings.
        const STRING = 1 << 1;
        /// Connections and clients.
        const CONNECTION = 1 << 2;
        /// What can hurt when used carelessly.
        const DANGEROUS = 1 << 3;
    }
}

/// The family that a command is documented under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Keys of any type.
    Generic,
    /// Strings.
    String,
    /// Connections and clients.
    Connection,
    /// The server.
    Server,
}

/// Which arguments are keys: from `first` to `last` (negative: counted from the end) in steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Position of the first key; 0 for no keys.
    pub first: i8,
    /// Position of the last key; -1 is the last argument.
    pub last: i8,
    /// Distance from one key to the next.
    pub step: i8,
}

impl Keys {
    /// No keys.
    pub const NONE: Keys = Keys { first: 0, last: 0, step: 0 };
    /// The first argument is the only key.
    pub const ONE: Keys = Keys { first: 1, last: 1, step: 1 };
    /// Every argument is a key.
    pub const ALL: Keys = Keys { first: 1, last: -1, step: 1 };
    /// Keys and values alternate.
    pub const PAIRS: Keys = Keys { first: 1, last: -1, step: 2 };

    /// The first key of a request.
    #[must_use]
    #[inline]
    pub fn first_of<'a>(&self, args: Args<'a>) -> Option<&'a [u8]> {
        usize::try_from(self.first)
            .ok()
            .filter(|first| *first > 0)
            .and_then(|first| args.get(first))
    }

    /// The keys of a request, in order.
    pub fn of<'a>(&self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let first = usize::try_from(self.first).unwrap_or(0);
        let last = usize::try_from(self.last)
            .unwrap_or_else(|_| args.len().saturating_sub(usize::from(self.last.unsigned_abs())));
        let count = if first == 0 { 0 } else { (last + 1).saturating_sub(first) };
        let step = usize::try_from(self.step).unwrap_or(1).max(1);
        args.from(first).take(count).step_by(step)
    }
}
