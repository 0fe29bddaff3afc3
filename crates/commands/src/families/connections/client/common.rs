//! What the subcommands of CLIENT share.

use crate::{Error, Flags};

/// The error of a subcommand with more words than it takes.
pub(super) fn unknown_use(subcommand: &str) -> Error {
    Error::unknown_form("CLIENT", subcommand.as_bytes())
}

/// Flags of subcommands that every client may use.
pub(super) const PLAIN: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);
/// How subcommands for administrators behave.
pub(super) const ADMIN: Flags = Flags::ADMIN.union(PLAIN);
