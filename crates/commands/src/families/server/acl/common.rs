//! Helpers that the rows of ACL's subcommands share.

use crate::{Error, Flags};
use nagi_proto::Args;

/// Flags of subcommands that every client may use.
pub(super) const PLAIN: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);
/// Flags of subcommands for administrators.
pub(super) const ADMIN: Flags = Flags::ADMIN.union(PLAIN);

/// Tips for clusters: users must be changed on all nodes.
pub(super) const TIPS: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// The error for a subcommand with wrong arguments.
pub(super) fn wrong_use(args: Args<'_>) -> Error {
    let word = String::from_utf8_lossy(args.at(1));
    Error::new(format!(
        "ERR unknown subcommand or wrong number of arguments for '{word}'. Try ACL HELP."
    ))
}
