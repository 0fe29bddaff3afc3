//! INFO: the state and the statistics of the server.

use crate::families::server::sections::{SECTIONS, Section};
use crate::runtime::arguments::is;
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&INFO];

fn info<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let asked_for = |section: &Section| {
        args.from(1).any(|word| {
            is(word, section.name)
                || is(word, "all")
                || is(word, "everything")
                || is(word, "default") && section.by_default
        })
    };
    let mut text = String::new();
    for section in SECTIONS {
        let shown = if args.len() == 1 { section.by_default } else { asked_for(section) };
        if shown {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            section.write(cx, &mut text);
        }
    }
    cx.reply.text(&text);
    Ok(())
}

pub(crate) static INFO: Command = Command {
    name: "INFO",
    syntax: "[section ...]",
    arity: -1,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::DANGEROUS,
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("O(1)").history(&[("7.0.0", "Several sections")]).tips(&[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ]),
    summary: "Returns the state and statistics of the server, section by section",
    subcommands: &[],
    run: info,
};

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn info_shows_the_sections_that_are_asked_for() {
        let mut bench = Bench::new();
        bench.expect("MSET a 1 b 2", "+OK|");
        bench.expect("EXPIRE a 10", ":1|");
        bench.expect("MGET a b", "*2|$1|1|$1|2|");
        bench.expect("FOO", "-ERR unknown command 'FOO', with args beginning with: |");
        bench.expect_memcached("get none", "END|");
        bench.expect(
            "INFO keyspace",
            "$60|# Keyspace|db0:keys=2,expires=1,avg_ttl=10000,subexpiry=0||",
        );
        bench.expect("INFO cluster CLUSTER", "$30|# Cluster|cluster_enabled:0||");
        bench.expect("INFO nosuch", "$0||");
        let default = bench.call(&["INFO"]);
        for line in [
            "# Server|redis_version:7.2.4|nagi_version:",
            "|tcp_port:6379|",
            "|# Clients|connected_clients:2|cluster_connections:0|maxclients:10000|",
            "|used_memory_rss:",
            "|# Stats|",
            // The four requests above, memcached's request, three INFO requests, and this one.
            "|total_commands_processed:8|",
            "|keyspace_hits:2|",
            "|keyspace_misses:1|",
            "|role:master|",
            "|used_cpu_user:",
            "|# Errorstats|errorstat_ERR:count=1|",
            "|# Keyspace|db0:keys=2,expires=1,avg_ttl=",
        ] {
            assert!(default.contains(line), "{line} in {default}");
        }
        assert!(!default.contains("# Commandstats"));
        assert_eq!(
            default.matches("||#").count(),
            11,
            "a blank line separates sections: {default}"
        );
        for request in [&["INFO", "everything"][..], &["INFO", "default", "commandstats"]] {
            let all = bench.call(request);
            assert!(
                all.contains("|cmdstat_mget:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,"),
                "{all}"
            );
        }
        bench.expect("CONFIG RESETSTAT", "+OK|");
        assert!(bench.call(&["INFO", "stats"]).contains("|keyspace_hits:0|"));
    }
}
