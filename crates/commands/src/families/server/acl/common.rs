//! What the rows of ACL's subcommands share.

use crate::{Error, Flags};
use nagi_proto::Args;

/// How subcommands behave that every client may use.
pub(super) const PLAIN: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);
/// How subcommands for administrators behave.
pub(super) const ADMIN: Flags = Flags::ADMIN.union(PLAIN);

/// On how many nodes of a cluster users are to be changed.
pub(super) const TIPS: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];

/// The error of a subcommand with arguments that it does not know.
pub(super) fn wrong_use(args: Args<'_>) -> Error {
    let word = String::from_utf8_lossy(args.at(1));
    Error::new(format!(
        "ERR unknown subcommand or wrong number of arguments for '{word}'. Try ACL HELP."
    ))
}
