//! What the subcommands of CLIENT share.

use crate::{Error, Flags};

/// A subcommand with more words than it takes.
pub(super) fn unknown_use(subcommand: &str) -> Error {
    Error::unknown_form("CLIENT", subcommand.as_bytes())
}

/// How the harmless subcommands behave.
pub(super) const PLAIN: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);
/// How subcommands for administrators behave.
pub(super) const ADMIN: Flags = Flags::ADMIN.union(PLAIN);
