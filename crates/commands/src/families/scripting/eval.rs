//! EVAL, its variants, and FCALL.

use crate::families::scripting::submission::submit;
use crate::state::scripts::TaskKind;
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_store::parse_i64;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&EVAL, &EVALSHA, &EVALSHA_RO, &EVAL_RO, &FCALL, &FCALL_RO];

/// Flags of all these commands.
const SCRIPT: Flags = Flags::NOSCRIPT
    .union(Flags::STALE)
    .union(Flags::RUNS_SCRIPTS)
    .union(Flags::SKIP_MONITOR)
    .union(Flags::NO_MANDATORY_KEYS);

const READS: Keys = Keys::only(KeyGroup::counted(2, Access::RO.union(Access::ACCESS)));
const WRITES: Keys =
    Keys::only(KeyGroup::counted(2, Access::RW.union(Access::ACCESS).union(Access::UPDATE)));

/// Checks the number of keys that a request declares.
fn check_number_of_keys(args: Args<'_>) -> Result<(), Error> {
    let count = parse_i64(args.at(2)).ok_or(Error::NOT_AN_INTEGER)?;
    match usize::try_from(count) {
        Ok(count) if count > args.len() - 3 => {
            Err(Error::fixed("ERR Number of keys can't be greater than number of args"))
        }
        Ok(_) => Ok(()),
        Err(_) => Err(Error::fixed("ERR Number of keys can't be negative")),
    }
}

const NO_SCRIPT: Error = Error::fixed("NOSCRIPT No matching script. Please use EVAL.");

/// Refuses an argument that cannot be a script's digest, before any other check.
fn check_digest(args: Args<'_>) -> Result<(), Error> {
    const DIGITS: usize = 40;
    if args.at(1).len() == DIGITS { Ok(()) } else { Err(NO_SCRIPT) }
}

fn eval<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    check_number_of_keys(args)?;
    submit(cx, TaskKind::Eval, false)
}

static EVAL: Command = Command {
    name: "EVAL",
    syntax: "script numkeys [key ...] [arg ...]",
    arity: -3,
    flags: SCRIPT.union(Flags::PAUSED_AS_WRITE),
    keys: WRITES,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "2.6.0",
    notes: Notes::of("Depends on the script"),
    summary: "Runs a script in Lua",
    subcommands: &[],
    run: eval,
};

fn evalsha<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    check_digest(args)?;
    check_number_of_keys(args)?;
    submit(cx, TaskKind::EvalSha, false)
}

static EVALSHA: Command = Command {
    name: "EVALSHA",
    syntax: "sha1 numkeys [key ...] [arg ...]",
    arity: -3,
    flags: SCRIPT.union(Flags::PAUSED_AS_WRITE),
    keys: WRITES,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "2.6.0",
    notes: Notes::of("Depends on the script"),
    summary: "Runs a script that was run or loaded before, by the SHA-1 of its text",
    subcommands: &[],
    run: evalsha,
};

fn eval_ro<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    check_number_of_keys(args)?;
    submit(cx, TaskKind::Eval, true)
}

static EVAL_RO: Command = Command {
    name: "EVAL_RO",
    syntax: "script numkeys [key ...] [arg ...]",
    arity: -3,
    flags: SCRIPT.union(Flags::READONLY),
    keys: READS,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("Depends on the script"),
    summary: "Runs a script in Lua that changes nothing",
    subcommands: &[],
    run: eval_ro,
};

fn evalsha_ro<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    check_digest(args)?;
    check_number_of_keys(args)?;
    submit(cx, TaskKind::EvalSha, true)
}

static EVALSHA_RO: Command = Command {
    name: "EVALSHA_RO",
    syntax: "sha1 numkeys [key ...] [arg ...]",
    arity: -3,
    flags: SCRIPT.union(Flags::READONLY),
    keys: READS,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("Depends on the script"),
    summary: "Runs a script that changes nothing, by the SHA-1 of its text",
    subcommands: &[],
    run: evalsha_ro,
};

/// Checks that the function exists, and the number of keys that a request declares.
fn check_function(cx: &Context<'_>, args: Args<'_>) -> Result<(), Error> {
    if cx.server.scripts().library_of(args.at(1)).is_none() {
        return Err(Error::fixed("ERR Function not found"));
    }
    check_number_of_keys(args).map_err(|error| match error == Error::NOT_AN_INTEGER {
        true => Error::fixed("ERR Bad number of keys provided"),
        false => error,
    })
}

fn fcall<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    check_function(cx, args)?;
    submit(cx, TaskKind::Call, false)
}

static FCALL: Command = Command {
    name: "FCALL",
    syntax: "function numkeys [key ...] [arg ...]",
    arity: -3,
    flags: SCRIPT.union(Flags::PAUSED_AS_WRITE),
    keys: WRITES,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("Depends on the function"),
    summary: "Calls a function of a library",
    subcommands: &[],
    run: fcall,
};

fn fcall_ro<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    check_function(cx, args)?;
    submit(cx, TaskKind::Call, true)
}

static FCALL_RO: Command = Command {
    name: "FCALL_RO",
    syntax: "function numkeys [key ...] [arg ...]",
    arity: -3,
    flags: SCRIPT.union(Flags::READONLY),
    keys: READS,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("Depends on the function"),
    summary: "Calls a function of a library that changes nothing",
    subcommands: &[],
    run: fcall_ro,
};
