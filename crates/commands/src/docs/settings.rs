//! `docs/configuration.md`, made from the rows so that it says what there is.

use crate::config::{Kind, Place, Setting, settings};
use crate::docs::{check_page, code};
use std::fmt::Write as _;

/// What stands above the tables.
const INTRODUCTION: &str = "\
# Configuration

Made from the rows in `crates/commands/src/config`; `cargo test -p nagi-commands` fails while this
page differs from them and says how to make it anew.

    nagi serve [FILE] [--OPTION VALUE ...] ...

`FILE` is a `redis.conf`; `-` reads one from the standard input. `serve` may be left out. Options of
the command line hold over those of the file, wherever they stand, and what is given later holds
over what was given before. An option's value is the words behind it as far as the next `--`:
`--bind 127.0.0.1 -::1 --port 7000`.

A file has an option and its values on each line. `#` at a line's beginning makes it a comment.
Words are quoted as in Redis: `\"...\"` with `\\n`, `\\r`, `\\t`, `\\\"` and `\\xHH`, or `'...'`.
`include PATH` reads another file in its place; the path may hold `*`, `?` and `[...]`. Numbers of
bytes take a unit: `k` is 1000 and `kb` 1024, likewise `m`, `mb`, `g` and `gb`.

An unknown option stops the start, with its file and line and the name that was probably meant.
CONFIG GET and CONFIG SET know the same names. CONFIG REWRITE writes what was changed into the
file and keeps its comments, its order and whatever it does not know.

Redis finds its own options here. Those that change nothing are accepted, kept for CONFIG GET and
named once in the log. Those that promise something that is not there stop the start, unless
`--ignore-unsupported` is given: then they are left out, and the log says so.
";

/// What stands below the options.
const RESERVED_CONNECTIONS: &str = "
When there are `maxclients` connections, 8 more may come from this machine. They may run what Redis
flags `admin` or `no_auth`, and what it flags neither `fast` nor `readonly` nor `write`: ACL, AUTH,
BGSAVE, CLIENT, COMMAND, CONFIG, DEBUG, HELLO, INFO, LATENCY, MEMORY STATS, MONITOR, QUIT, RESET,
SAVE, SHUTDOWN, SLOWLOG and the like. Anything else, PING and SELECT too, answers `-ERR max number
of clients reached` and closes the connection.
";

/// The whole page.
fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    page.push_str("\n## Options\n\n| option | values | default | CONFIG SET | |\n");
    page.push_str("|---|---|---|---|---|\n");
    for setting in settings().filter(|setting| setting.has_effect()) {
        row(&mut page, setting);
    }
    page.push_str(RESERVED_CONNECTIONS);
    page.push_str(
        "\n## Options that stop the start\n\nA value other than the default does.\n\n\
         | option | values | default | CONFIG SET | why |\n|---|---|---|---|---|\n",
    );
    let stops = |it: &&Setting| matches!(it.place, Place::Refused(_) | Place::Directive);
    settings().filter(stops).for_each(|setting| row(&mut page, setting));
    page.push_str(
        "\n## Options without effect\n\n| option | values | default | CONFIG SET | why |\n\
         |---|---|---|---|---|\n",
    );
    let unused = settings().filter(|setting| matches!(setting.place, Place::Unused));
    unused.for_each(|setting| row(&mut page, setting));
    page
}

fn row(page: &mut String, setting: &Setting) {
    let names: Vec<String> = setting.names().map(code).collect();
    let default = if setting.default.is_empty() { String::new() } else { code(setting.default) };
    let is_changeable = setting.changeable;
    let changeable = if is_changeable { "yes" } else { "" };
    // Writing to a string cannot fail.
    let _ = writeln!(
        page,
        "| {} | {} | {default} | {changeable} | {} |",
        names.join(", "),
        values(&setting.kind),
        setting.summary
    );
}

/// What values there are, in a few words.
fn values(kind: &Kind) -> String {
    match kind {
        Kind::Integer(range) if *range.end() >= i64::from(i32::MAX) => {
            format!("number from {}", range.start())
        }
        Kind::Integer(range) => format!("{} to {}", range.start(), range.end()),
        Kind::Memory(_) => "bytes".to_owned(),
        Kind::Switch => "`yes`, `no`".to_owned(),
        Kind::Choice(words) => words.iter().map(|word| code(word)).collect::<Vec<_>>().join(", "),
        Kind::Port => "port".to_owned(),
        Kind::Permissions => "octal number".to_owned(),
        Kind::Letters(_) => "letters".to_owned(),
        Kind::Text | Kind::Checked(_) => "text".to_owned(),
        Kind::MemoryOrPercent => "bytes or percent".to_owned(),
        Kind::Password => "word".to_owned(),
        Kind::Words | Kind::Lines(_) => "words".to_owned(),
    }
}

#[test]
fn the_page_of_settings_is_current() {
    check_page("configuration.md", &markdown());
}
