//! `docs/commands.md`, made from the rows so that it says what there is.

use crate::memcached::VERBS;
use crate::registry::table::{self, Entry};
use crate::{Group, REDIS_VERSION};
use std::fmt::Write as _;

/// The whole page.
#[must_use]
pub fn markdown() -> String {
    let mut page = format!(
        "# Commands\n\n\
         Made from the rows in `crates/commands`; `cargo test -p nagi-commands` fails while this \
         page differs from them and says how to make it anew.\n\n\
         ## Redis\n\n\
         Replies and errors are those of Redis {REDIS_VERSION}, in RESP2 and RESP3. Any other \
         command answers `unknown command`.\n"
    );
    let groups = [
        Group::String,
        Group::Bitmap,
        Group::HyperLogLog,
        Group::Generic,
        Group::Connection,
        Group::Server,
    ];
    for group in groups {
        let _ = write!(page, "\n### {}\n\n| command | since | |\n|---|---|---|\n", title(group));
        let mut entries: Vec<_> = table::commands().iter().collect();
        entries.sort_by_key(|entry| entry.command.name);
        for entry in entries.into_iter().filter(|entry| entry.command.group == group) {
            command(&mut page, entry, "");
            for sub in entry.subcommands() {
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

fn title(group: Group) -> &'static str {
    match group {
        Group::String => "Strings",
        Group::Bitmap => "Bitmaps",
        Group::HyperLogLog => "HyperLogLog",
        Group::Generic => "Keys",
        Group::Connection => "Connections",
        Group::Server => "Server",
    }
}

fn command(page: &mut String, entry: &Entry, parent: &str) {
    let command = entry.command;
    let usage = format!("{parent} {} {}", command.name, command.syntax);
    row(page, &usage, &[command.since, command.summary]);
}

/// Writes a table's row, its first cell as code.
fn row(page: &mut String, first: &str, rest: &[&str]) {
    // Writing to a string cannot fail.
    let _ = writeln!(page, "| {} | {} |", code(first.trim()), rest.join(" | "));
}

/// A text as code in a cell of a table.
pub(crate) fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Compares a page of docs/ with what the rows say, or writes it.
    pub(crate) fn check_page(name: &str, page: &str) {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("NAGI_WRITE_DOCS").is_some() {
            std::fs::write(&path, page).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        let hint = "make it anew with: NAGI_WRITE_DOCS=1 cargo test -p nagi-commands docs";
        assert!(written == page, "docs/{name} differs from the rows; {hint}");
    }

    #[test]
    fn the_page_is_current() {
        check_page("commands.md", &markdown());
    }
}
