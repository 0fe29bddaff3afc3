//! The HELP subcommand that all commands with subcommands have.

use crate::{Command, Context};

/// Lists the subcommands of `command`, two lines each, by the name that the request has for it.
pub(crate) fn reply(cx: &mut Context<'_>, command: &Command) {
    cx.reply.array(1 + 2 * command.subcommands.len());
    let name = String::from_utf8_lossy(cx.args.at(0)).to_ascii_uppercase();
    cx.reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for sub in command.subcommands {
        cx.reply.simple(format!("{} {}", sub.name, sub.syntax).trim_end());
        cx.reply.simple(&format!("    {}.", sub.summary));
    }
}
