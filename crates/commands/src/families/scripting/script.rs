//! SCRIPT: loads scripts, checks whether they are cached, and kills the running one.

use crate::families::scripting::submission::submit;
use crate::runtime::arguments::is;
use crate::runtime::{gate, help};
use crate::state::scripts::{Killed, TaskKind};
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_script::Digest;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&SCRIPT];

fn script<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::wrong_arity("script"))
}

static SCRIPT: Command = Command {
    name: "SCRIPT",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Scripting,
    since: "2.6.0",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about scripts",
    subcommands: &[&EXISTS, &FLUSH, &HELP, &KILL, &LOAD],
    run: script,
};

fn exists<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    cx.reply.array(args.len() - 2);
    for word in args.from(2) {
        let name = Digest::parse(word);
        let is_known = name.is_some_and(|name| cx.server.scripts().find(&name).is_some());
        cx.reply.integer(is_known.into());
    }
    Ok(())
}

static EXISTS: Command = Command {
    name: "EXISTS",
    syntax: "sha1 [sha1 ...]",
    arity: -3,
    flags: Flags::NOSCRIPT,
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "2.6.0",
    notes: Notes::of("O(N), N being the scripts of the request")
        .tips(&["request_policy:all_shards", "response_policy:agg_logical_and"]),
    summary: "Returns which scripts are known",
    subcommands: &[],
    run: exists,
};

fn flush<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let is_known = match args.get(2) {
        None => true,
        Some(word) => args.len() == 3 && (is(word, "SYNC") || is(word, "ASYNC")),
    };
    if !is_known {
        return Err(Error::fixed("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    cx.server.scripts().flush();
    cx.reply.ok();
    Ok(())
}

static FLUSH: Command = Command {
    name: "FLUSH",
    syntax: "[ASYNC | SYNC]",
    arity: -2,
    flags: Flags::NOSCRIPT,
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "2.6.0",
    notes: Notes::of("O(N), N being the scripts that are known")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    summary: "Removes all scripts",
    subcommands: &[],
    run: flush,
};

fn kill<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    gate::note_slow_script(cx.server);
    let killed = cx.server.scripts().kill(false);
    reply_to_kill(cx, killed)
}

/// Replies with the outcome of killing a script or function.
pub(super) fn reply_to_kill(cx: &mut Context<'_>, killed: Killed) -> Result<(), Error> {
    match killed {
        Killed::Ended => cx.reply.ok(),
        Killed::NotBusy => {
            return Err(Error::fixed("NOTBUSY No scripts in execution right now."));
        }
        Killed::IsOther(busy) => return Err(Error::fixed(busy.text())),
        Killed::HasWritten => {
            return Err(Error::fixed(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. \
                 You can either wait the script termination or kill the server in a hard way \
                 using the SHUTDOWN NOSAVE command.",
            ));
        }
    }
    Ok(())
}

static KILL: Command = Command {
    name: "KILL",
    syntax: "",
    arity: 2,
    flags: Flags::NOSCRIPT.union(Flags::ALLOW_BUSY),
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "2.6.0",
    notes: Notes::of("O(1)").tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
    summary: "Kills the running script, if it is slow and has not written",
    subcommands: &[],
    run: kill,
};

fn load<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    submit(cx, TaskKind::Load, false)
}

static LOAD: Command = Command {
    name: "LOAD",
    syntax: "script",
    arity: 3,
    flags: Flags::NOSCRIPT.union(Flags::STALE).union(Flags::RUNS_SCRIPTS),
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "2.6.0",
    notes: Notes::of("O(N), N being the bytes of the script")
        .tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    summary: "Compiles a script for EVALSHA, and returns its SHA-1",
    subcommands: &[],
    run: load,
};

fn help_text<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &SCRIPT);
    Ok(())
}

static HELP: Command = Command {
    name: "HELP",
    syntax: "",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "5.0.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help_text,
};
