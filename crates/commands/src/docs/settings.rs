//! `docs/configuration.md`, generated from the rows so that it is always current.

use crate::config::{Kind, Place, Setting, settings};
use crate::docs::{check_page, code};
use std::fmt::Write as _;

/// The text above the tables.
const INTRODUCTION: &str = "\
# Configuration

Generated from the rows in `crates/commands/src/config`; `cargo test -p nagi-commands` fails while
this page differs from them, and says how to regenerate it.

    nagi serve [FILE] [--OPTION VALUE ...] ...

`FILE` is a `redis.conf`; `-` reads one from standard input. `serve` may be omitted. Options on the
command line override those in the file, and later ones override earlier ones, except that several
`save` options add up: `--save '' --save '60 10'` replaces those of the file. The values of an
option extend to the next `--`: `--bind 127.0.0.1 -::1 --port 7000`. After `=`, a value is taken as
it is, without quotes: `--requirepass='a \"b\"'`.

A file has one option with its values per line. Lines that begin with `#` are comments. Words are
quoted as in Redis: `\"...\"` with `\\n`, `\\r`, `\\t`, `\\\"` and `\\xHH`, or `'...'`.
`include PATH` is replaced by the contents of another file; the path may contain `*`, `?` and
`[...]`. `--include PATH` does the same on a command line. Sizes take a unit: `k` is 1000 and `kb`
1024, likewise `m`, `mb`, `g` and `gb`.

With an unknown option the server does not start: the error names file, line and the closest known
name. CONFIG GET and CONFIG SET use the same names. CONFIG REWRITE writes changed settings into the
file and keeps its comments, its order and lines that it does not know.

Under the name `redis-server`, such as by a link, the program takes the arguments of Redis, which
are the same, and has other defaults: `bind * -::*`, `memcached-port 0`, `http-port 0` and
`save 3600 1 300 100 60 10000`. A configuration file without `save` has these save points as well.
The arguments of memcached are on a [page of their own](memcached.md).

All options in the `redis.conf` of Redis are known. Those without effect are accepted, kept for
CONFIG GET and listed once in the log. With those that ask for a missing feature the server does
not start, unless `--ignore-unsupported` is given: then they are ignored, with a line in the log.
";

/// The text below the table of options.
const RESERVED_CONNECTIONS: &str = "
Beyond `maxclients`, 8 more connections over loopback are accepted. They may run commands that
Redis flags `admin` or `no_auth`, and those that it flags neither `fast`, `readonly` nor `write`:
ACL, AUTH, BGSAVE, CLIENT, COMMAND, CONFIG, DEBUG, HELLO, INFO, LATENCY, MEMORY STATS, MONITOR,
QUIT, RESET, SAVE, SHUTDOWN, SLOWLOG and the like. Any other command, including PING and SELECT, is
answered with `-ERR max number of clients reached`, and the connection is closed.
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
        "\n## Unsupported options\n\nWith a value other than the default the server does not \
         start.\n\n\
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

/// A short description of a setting's values.
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
