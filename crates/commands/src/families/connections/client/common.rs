//! Helpers that the subcommands of CLIENT share.

use crate::{Error, Flags};

/// The error for a subcommand with too many arguments.
pub(super) fn unknown_use(subcommand: &str) -> Error {
    Error::unknown_form("CLIENT", subcommand.as_bytes())
}

/// Flags of subcommands that every client may use.
pub(super) const PLAIN: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);
/// Flags of subcommands for administrators.
pub(super) const ADMIN: Flags = Flags::ADMIN.union(PLAIN);
