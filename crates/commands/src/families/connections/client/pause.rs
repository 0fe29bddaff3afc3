//! Pausing commands for a while, so that no data changes: for a failover, or an inspection.

use super::common::{ADMIN, unknown_use};
use crate::runtime::arguments::{integer, is};
use crate::state::hooks::Paused;
use crate::{Category, Command, Context, Error, Group, Keys, Notes};
use nagi_proto::Args;

fn pause<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let paused = match args.get(3) {
        _ if args.len() > 4 => return Err(unknown_use("PAUSE")),
        Some(mode) if is(mode, "WRITE") => Paused::Writes,
        Some(mode) if !is(mode, "ALL") => {
            return Err(Error::fixed("ERR CLIENT PAUSE mode must be WRITE or ALL"));
        }
        _ => Paused::All,
    };
    let timeout_ms = integer(args.at(2))
        .map_err(|_| Error::fixed("ERR timeout is not an integer or out of range"))?;
    let timeout_ms =
        u64::try_from(timeout_ms).map_err(|_| Error::fixed("ERR timeout is negative"))?;
    let now_ms = cx.db.now_ms();
    let until_ms = now_ms.checked_add(timeout_ms).filter(|ms| i64::try_from(*ms).is_ok());
    let until_ms = until_ms.ok_or(Error::fixed("ERR timeout is out of range"))?;
    cx.hooks.pause(paused, until_ms, now_ms);
    cx.server.check_timers();
    cx.reply.ok();
    Ok(())
}

pub(super) static PAUSE: Command = Command {
    name: "PAUSE",
    syntax: "timeout [WRITE | ALL]",
    arity: -3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "3.0.0",
    notes: Notes::of("O(1)").history(&[("6.2.0", "WRITE")]),
    summary: "Pauses all commands for some milliseconds, or those that write",
    subcommands: &[],
    run: pause,
};

fn unpause<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.hooks.unpause();
    cx.reply.ok();
    Ok(())
}

pub(super) static UNPAUSE: Command = Command {
    name: "UNPAUSE",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "6.2.0",
    notes: Notes::of("O(N), N being the clients held up"),
    summary: "Resumes commands that CLIENT PAUSE has paused",
    subcommands: &[],
    run: unpause,
};

#[cfg(test)]
mod tests {
    use crate::HookFlags;
    use crate::testing::{Bench, START_MS, converse};

    #[test]
    fn invalid_arguments_are_refused() {
        converse(
            "CLIENT PAUSE => -ERR wrong number of arguments for 'client\u{7c}pause' command|
             CLIENT PAUSE x => -ERR timeout is not an integer or out of range|
             CLIENT PAUSE -1 => -ERR timeout is negative|
             CLIENT PAUSE 9223372036854775807 => -ERR timeout is out of range|
             CLIENT PAUSE 1 FOO => -ERR CLIENT PAUSE mode must be WRITE or ALL|
             CLIENT PAUSE 1 ALL x => -ERR unknown subcommand or wrong number of arguments for
             ... 'PAUSE'. Try CLIENT HELP.|
             CLIENT UNPAUSE => +OK|",
        );
    }

    #[test]
    fn a_pause_never_becomes_shorter_or_weaker() {
        let mut bench = Bench::new();
        bench.expect("CLIENT PAUSE 1000 WRITE", "+OK|");
        bench.expect("CLIENT PAUSE 100", "+OK|");
        bench.process.hooks.pause(super::Paused::Writes, START_MS + 10, START_MS);
        let held = |bench: &Bench, writes, now_ms| {
            let hooks = &bench.process.hooks;
            hooks.holds(hooks.reasons(), writes, &bench.client, now_ms)
        };
        assert!(held(&bench, true, START_MS + 999) && held(&bench, false, START_MS + 999));
        assert!(!held(&bench, true, START_MS + 1000));
        assert_eq!(bench.process.hooks.call_due(START_MS + 999), START_MS + 1000);
        assert_eq!(bench.process.hooks.call_due(START_MS + 1000), u64::MAX);
        assert!(bench.process.hooks.reasons().is_empty());
        bench.expect("CLIENT PAUSE 1000 WRITE", "+OK|");
        assert!(held(&bench, true, START_MS) && !held(&bench, false, START_MS));
        bench.expect("CLIENT UNPAUSE", "+OK|");
        assert_eq!(bench.process.hooks.reasons(), HookFlags::empty());
    }
}
