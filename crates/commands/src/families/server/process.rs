//! The process: TIME and SHUTDOWN.

use crate::families::server::persistence::check_file;
use crate::runtime::arguments::{RemainingArguments, is};
use crate::runtime::gate;
use crate::{Category, Command, Context, Error, Flags, Group, HookFlags, JobProgress, Keys, Notes};
use nagi_proto::Args;
use nagi_store::since_1970;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&SHUTDOWN, &TIME];

fn time<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let frozen = cx.client.frozen_time.map(|time| time.since_1970);
    let now = frozen.unwrap_or_else(since_1970);
    cx.reply.array(2);
    cx.reply.bulk(now.as_secs().to_string().as_bytes());
    cx.reply.bulk(now.subsec_micros().to_string().as_bytes());
    Ok(())
}

pub(crate) static TIME: Command = Command {
    name: "TIME",
    syntax: "",
    arity: 1,
    flags: Flags::LOADING.union(Flags::STALE).union(Flags::FAST),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.6.0",
    notes: Notes::of("O(1)").tips(&["nondeterministic_output"]),
    summary: "Returns the time, in seconds since 1970 and the microseconds of the current one",
    subcommands: &[],
    run: time,
};

fn shutdown<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (mut save, mut abort, mut force) = (None, false, false);
    for option in RemainingArguments::from(args, 1) {
        if is(option, "SAVE") && save != Some(false) {
            save = Some(true);
        } else if is(option, "NOSAVE") && save != Some(true) {
            save = Some(false);
        } else if is(option, "ABORT") {
            abort = true;
        } else if is(option, "FORCE") {
            force = true;
        } else if !is(option, "NOW") {
            return Err(Error::SYNTAX);
        }
    }
    if abort {
        if args.len() > 2 {
            return Err(Error::SYNTAX);
        }
        if !cx.server.saves().abort_shutdown(cx.hooks) {
            return Err(Error::fixed("ERR No shutdown in progress."));
        }
        cx.reply.ok();
        return Ok(());
    }
    if cx.hooks.reasons().contains(HookFlags::LOADING) {
        // The file that is being loaded has all the data in memory, and more.
        save = Some(false);
    }
    if save != Some(false)
        && gate::note_slow_script(cx.server)
        && let Some(busy) = cx.server.scripts().busy()
    {
        return Err(Error::fixed(busy.text()));
    }
    let config = cx.server.config();
    if save == Some(true) && !force {
        check_file(config)?;
    }
    let saves = save.unwrap_or(config.has_save_points()) && config.has_dump_file();
    if !saves {
        cx.client.quit();
        cx.server.shut_down(false);
        return Ok(());
    }
    shut_down_saved(cx, force)
}

/// Stops the server once its data is saved; with `force`, even if saving fails.
fn shut_down_saved(cx: &mut Context<'_>, force: bool) -> Result<(), Error> {
    // The saver stops the server, or continues writes, even if this client has disconnected.
    let ticket = cx.server.saves().order_before_shutdown(cx.hooks, force);
    cx.start(Box::new(move |cx| {
        let saves = cx.server.saves();
        let outcome = saves.outcome(ticket, &cx.client.waker);
        let Some(outcome) = outcome else { return Ok(JobProgress::WOKEN) };
        if outcome.is_err() && (!force || saves.is_shutdown_aborted(ticket)) {
            return Err(Error::fixed("ERR Errors trying to SHUTDOWN. Check logs."));
        }
        cx.client.quit();
        Ok(JobProgress::Done)
    }))
}

pub(crate) static SHUTDOWN: Command = Command {
    name: "SHUTDOWN",
    syntax: "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
    arity: -1,
    flags: Flags::ADMIN
        .union(Flags::NOSCRIPT)
        .union(Flags::LOADING)
        .union(Flags::STALE)
        .union(Flags::NO_MULTI)
        .union(Flags::ALLOW_BUSY),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "1.0.0",
    notes: Notes::of("O(1)").history(&[("7.0.0", "NOW, FORCE and ABORT")]),
    summary: "Stops the server, as SIGTERM does, once its data is saved",
    subcommands: &[],
    run: shutdown,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn time_is_in_seconds_and_microseconds() {
        let mut bench = Bench::new();
        let reply = bench.call(&["TIME"]);
        let words: Vec<_> = reply.split('|').collect();
        assert_eq!((words[0], words[1]), ("*2", "$10"));
        assert!(words[2].parse::<u64>().unwrap() > 1_700_000_000);
        assert!(words[4].parse::<u64>().unwrap() < 1_000_000);
    }

    #[test]
    fn shutdown_checks_its_options_and_stops_the_server() {
        converse(
            "SHUTDOWN FOO => -ERR syntax error|
             SHUTDOWN SAVE NOSAVE => -ERR syntax error|
             SHUTDOWN ABORT => -ERR No shutdown in progress.|
             SHUTDOWN ABORT NOW => -ERR syntax error|",
        );
        let mut bench = Bench::new();
        assert!(!*bench.process.asked_to_stop.lock());
        bench.expect("SHUTDOWN NOSAVE NOW FORCE", "");
        assert!(*bench.process.asked_to_stop.lock());
        assert!(bench.client.closing);
    }
}
