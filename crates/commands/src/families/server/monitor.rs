//! MONITOR: shows its client every request of all clients, as it is executed.

use crate::{Category, Command, Context, Error, Flags, Group, HookFlags, Keys, Marks, Notes};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&MONITOR];

fn monitor<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    if cx.client.is_executing {
        return Err(Error::fixed("ERR MONITOR isn't allowed for DENY BLOCKING client"));
    }
    let hooks = cx.hooks;
    cx.client.info.mark(Marks::MONITOR, true);
    hooks.monitors.add(&cx.client.info, || hooks.set(HookFlags::MONITORED, true));
    cx.reply.ok();
    Ok(())
}

pub(crate) static MONITOR: Command = Command {
    name: "MONITOR",
    syntax: "",
    arity: 1,
    flags: Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of(""),
    summary: "Shows the connection every request of all clients from now on",
    subcommands: &[],
    run: monitor,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::monitors::QUEUE_BYTES;
    use crate::testing::Bench;

    /// The requests shown to the first client as a monitor, without time and address.
    fn shown(bench: &Bench) -> Vec<String> {
        let queues = bench.process.hooks.monitors.take(0);
        let lines = queues.into_iter().flat_map(|(_, lines)| lines).collect();
        let lines: String = String::from_utf8(lines).unwrap();
        lines.lines().map(|line| line.split_once("] ").unwrap().1.to_owned()).collect()
    }

    #[test]
    fn requests_are_shown_to_monitors_without_secrets() {
        let mut bench = Bench::new();
        bench.expect("MONITOR", "+OK|");
        bench.expect("ECHO \"a\\\"b\\x00\\n\"", "$5|a\"b\0\n|");
        bench.expect("AUTH default x", "+OK|");
        bench.resp(b"HELLO 2 AUTH default x SETNAME me\r\n");
        bench.expect("CONFIG GET nosuch", "*0|");
        bench.expect("GET key", "-ERR Replica can't interact with the keyspace|");
        bench.expect("PING", "+PONG|");
        assert_eq!(
            shown(&bench),
            [
                r#""ECHO" "a\"b\x00\n""#,
                r#""AUTH" "(redacted)" "(redacted)""#,
                r#""HELLO" "2" "AUTH" "(redacted)" "(redacted)" "SETNAME" "me""#,
                r#""PING""#,
            ]
        );
        bench.expect("RESET", "+RESET|");
        bench.expect("GET key", "$-1|");
        assert_eq!(shown(&bench), [r#""RESET""#; 0]);
    }

    #[test]
    fn a_monitor_that_does_not_read_is_closed() {
        let mut bench = Bench::new();
        bench.expect("MONITOR", "+OK|");
        let word = "x".repeat(QUEUE_BYTES / 3);
        for _ in 0..2 {
            bench.call(&["ECHO", &word]);
            assert!(!bench.client.info.marks().contains(Marks::KILLED));
        }
        bench.call(&["ECHO", &word]);
        assert!(bench.client.info.marks().contains(Marks::KILLED));
    }
}
