//! `docs/commands.md`, generated from the rows so that it is always current.

use crate::docs::{check_page, row};
use crate::memcached::VERBS;
use crate::{Entry, Group, REDIS_VERSION, command_table};
use std::fmt::Write as _;

/// The whole page.
fn markdown() -> String {
    let mut page = format!(
        "# Commands\n\n\
         Generated from the rows in `crates/commands`; `cargo test -p nagi-commands` fails while \
         this page differs from them, and says how to regenerate it.\n\n\
         ## Redis\n\n\
         Replies and errors are those of Redis {REDIS_VERSION}, in RESP2 and RESP3; those of \
         newer commands and of ACL are those of Redis 8.0, of COMMANDLOG those of Valkey 8.1, \
         and of HOTKEYS those of Redis 8.6. Any other command is answered with \
         `unknown command`. `nagi` in the second column marks commands that Redis does not have.\n"
    );
    for &group in Group::ALL {
        let _ = write!(page, "\n### {}\n\n| command | since | |\n|---|---|---|\n", group.title());
        let mut entries: Vec<_> = command_table().commands().iter().collect();
        entries.sort_by_key(|entry| entry.command.name);
        for entry in entries.into_iter().filter(|entry| entry.command.group == group) {
            command(&mut page, entry, "");
            for sub in command_table().subcommands(entry) {
                command(&mut page, sub, entry.command.name);
            }
        }
    }
    page.push_str(
        "\n## memcached\n\nThe text protocol and its meta commands; the binary protocol has the \
         same commands by their numbers.\n\n| verb | |\n|---|---|\n",
    );
    let mut verbs: Vec<_> = VERBS.iter().collect();
    verbs.sort_by_key(|verb| verb.name);
    for verb in verbs {
        row(&mut page, &format!("{} {}", verb.name, verb.syntax), &[verb.summary]);
    }
    page.push_str("\n## Settings\n\n[configuration.md](configuration.md) has every option.\n");
    page
}

fn command(page: &mut String, entry: &Entry, parent: &str) {
    let command = entry.command;
    let usage = format!("{parent} {} {}", command.name, command.syntax);
    let since = if command.notes.is_own { "nagi" } else { command.since };
    row(page, &usage, &[since, command.summary]);
}

#[test]
fn the_page_of_commands_is_current() {
    check_page("commands.md", &markdown());
}
