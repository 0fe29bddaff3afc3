//! Checks that each command and verb is sent by some test.

use harness::Server;

/// The test files that are searched.
const SOURCES: &[&str] = &[
    include_str!("administration.rs"),
    include_str!("bitmap.rs"),
    include_str!("blocking.rs"),
    include_str!("client_command.rs"),
    include_str!("cluster.rs"),
    include_str!("connection.rs"),
    include_str!("hash.rs"),
    include_str!("geo.rs"),
    include_str!("hotkeys.rs"),
    include_str!("hyperloglog.rs"),
    include_str!("key.rs"),
    include_str!("latency.rs"),
    include_str!("list.rs"),
    include_str!("memcached/text.rs"),
    include_str!("memcached/meta.rs"),
    include_str!("migrate.rs"),
    include_str!("monitor.rs"),
    include_str!("memcached/operators.rs"),
    include_str!("persistence.rs"),
    include_str!("pubsub.rs"),
    include_str!("relocation.rs"),
    include_str!("functions.rs"),
    include_str!("scripting.rs"),
    include_str!("serialization.rs"),
    include_str!("server.rs"),
    include_str!("set.rs"),
    include_str!("settings.rs"),
    include_str!("slowlog.rs"),
    include_str!("sort.rs"),
    include_str!("sorted_set.rs"),
    include_str!("stream.rs"),
    include_str!("stream_groups.rs"),
    include_str!("string.rs"),
    include_str!("tracking.rs"),
    include_str!("transaction.rs"),
];

/// Requests that `hash_expiry.rs` sends, one per line.
const RECORDED: &str = include_str!("reference/field-expiry.txt");

/// Whether some test sends a request that begins with `words`, which are then at the beginning of a
/// string.
fn is_sent(words: &str) -> bool {
    let ends = [" ", "\"", "\\r"];
    let is_recorded = RECORDED.lines().any(|line| line.starts_with(&format!("{words} ")));
    is_recorded
        || ends.iter().any(|end| {
            let request = format!("\"{words}{end}");
            SOURCES.iter().any(|source| source.contains(&request))
        })
}

#[test]
fn every_command_and_subcommand_is_sent() {
    let server = Server::nagi();
    let mut missing = Vec::new();
    for command in server.connect_resp().run("COMMAND").list() {
        let subcommands = command.list()[9].list();
        let rows = subcommands.iter().chain(subcommands.is_empty().then_some(command));
        let names = rows.map(|row| row.list()[0].text().replace('|', " ").to_uppercase());
        missing.extend(names.filter(|name| !is_sent(name)));
    }
    assert!(missing.is_empty(), "no test sends {missing:?}");
}

#[test]
fn every_verb_is_sent() {
    let documented = include_str!("../docs/commands.md");
    let (_, verbs) = documented.split_once("\n## memcached\n").expect("memcached's section");
    let (verbs, _) = verbs.split_once("\n## ").expect("another section");
    let rows = verbs.lines().filter_map(|line| line.strip_prefix("| `"));
    let names: Vec<_> = rows.filter_map(|row| row.split([' ', '`']).next()).collect();
    assert!(names.len() > 10, "{names:?}");
    let missing: Vec<_> = names.into_iter().filter(|name| !is_sent(name)).collect();
    assert!(missing.is_empty(), "no test sends {missing:?}");
}
