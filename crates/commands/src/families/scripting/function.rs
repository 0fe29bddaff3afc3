//! FUNCTION: libraries of functions.

use crate::families::scripting::script::reply_to_kill;
use crate::families::scripting::submission::submit;
use crate::glob::Pattern;
use crate::runtime::arguments::is;
use crate::runtime::{gate, help};
use crate::state::libraries::Policy;
use crate::state::libraries::{Libraries, Library};
use crate::state::scripts::TaskKind;
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_persist::payload::dump_libraries;
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&FUNCTION];

fn function<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::wrong_arity("function"))
}

static FUNCTION: Command = Command {
    name: "FUNCTION",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about libraries of functions",
    subcommands: &[&DELETE, &DUMP, &FLUSH, &HELP, &KILL, &LIST, &LOAD, &RESTORE, &STATS],
    run: function,
};

fn delete<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let name = args.at(2);
    if !cx.server.scripts().change_libraries(|libraries| libraries.remove(name)) {
        return Err(Error::fixed("ERR Library not found"));
    }
    cx.db.note_change();
    cx.reply.ok();
    Ok(())
}

static DELETE: Command = Command {
    name: "DELETE",
    syntax: "library-name",
    arity: 3,
    flags: Flags::NOSCRIPT.union(Flags::WRITE),
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("O(1)").tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    summary: "Removes a library and its functions",
    subcommands: &[],
    run: delete,
};

fn dump<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let codes = cx.server.scripts().library_codes();
    cx.reply.bulk(&dump_libraries(codes.iter().map(|code| &**code)));
    Ok(())
}

static DUMP: Command = Command {
    name: "DUMP",
    syntax: "",
    arity: 2,
    flags: Flags::NOSCRIPT,
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the functions"),
    summary: "Returns all libraries in one payload",
    subcommands: &[],
    run: dump,
};

fn flush<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.len() > 3 {
        return Err(Error::unknown_form("FUNCTION", args.at(1)));
    }
    if !args.get(2).is_none_or(|word| is(word, "SYNC") || is(word, "ASYNC")) {
        return Err(Error::fixed("ERR FUNCTION FLUSH only supports SYNC|ASYNC option"));
    }
    cx.server.scripts().change_libraries(|libraries| *libraries = Libraries::default());
    cx.db.note_change();
    cx.reply.ok();
    Ok(())
}

static FLUSH: Command = Command {
    name: "FLUSH",
    syntax: "[ASYNC | SYNC]",
    arity: -2,
    flags: Flags::NOSCRIPT.union(Flags::WRITE),
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the functions")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    summary: "Removes all libraries",
    subcommands: &[],
    run: flush,
};

fn kill<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    gate::note_slow_script(cx.server);
    let killed = cx.server.scripts().kill(true);
    reply_to_kill(cx, killed)
}

static KILL: Command = Command {
    name: "KILL",
    syntax: "",
    arity: 2,
    flags: Flags::NOSCRIPT.union(Flags::ALLOW_BUSY),
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("O(1)").tips(&["request_policy:all_shards", "response_policy:one_succeeded"]),
    summary: "Kills the running function, if it is slow and has not written",
    subcommands: &[],
    run: kill,
};

fn list<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = args.from(2);
    while let Some(word) = words.next() {
        if !with_code && is(word, "WITHCODE") {
            with_code = true;
        } else if pattern.is_none() && is(word, "LIBRARYNAME") {
            let name = words.next();
            pattern = Some(name.ok_or(Error::fixed("ERR library name argument was not given"))?);
        } else {
            return Err(Error::ending_in("ERR Unknown argument ", word));
        }
    }
    let libraries = cx.server.scripts().libraries();
    let pattern = pattern.map(Pattern::in_any_case);
    let is_meant = |library: &&std::sync::Arc<Library>| {
        pattern.as_ref().is_none_or(|pattern| pattern.matches(library.name.as_bytes()))
    };
    let meant: Vec<_> = libraries.iter().filter(is_meant).collect();
    cx.reply.array(meant.len());
    meant.into_iter().for_each(|library| describe(cx, library, with_code));
    Ok(())
}

fn describe(cx: &mut Context<'_>, library: &Library, with_code: bool) {
    cx.reply.map(3 + usize::from(with_code));
    cx.reply.bulk(b"library_name");
    cx.reply.bulk(library.name.as_bytes());
    cx.reply.bulk(b"engine");
    cx.reply.bulk(b"LUA");
    cx.reply.bulk(b"functions");
    cx.reply.array(library.functions.len());
    for function in &library.functions {
        cx.reply.map(3);
        cx.reply.bulk(b"name");
        cx.reply.bulk(function.name.as_bytes());
        cx.reply.bulk(b"description");
        match &function.description {
            Some(description) => cx.reply.bulk(description.as_bytes()),
            None => cx.reply.null(),
        }
        cx.reply.bulk(b"flags");
        cx.reply.set(function.flags.names().count());
        function.flags.names().for_each(|name| cx.reply.simple(name));
    }
    if with_code {
        cx.reply.bulk(b"library_code");
        cx.reply.bulk(&library.code);
    }
}

static LIST: Command = Command {
    name: "LIST",
    syntax: "[LIBRARYNAME library-name-pattern] [WITHCODE]",
    arity: -2,
    flags: Flags::NOSCRIPT,
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the functions").tips(&["nondeterministic_output_order"]),
    summary: "Lists libraries and their functions",
    subcommands: &[],
    run: list,
};

/// The flags of commands that load libraries. They need the script thread, which a transaction must
/// reserve before it claims its keys.
const LOADING: Flags =
    Flags::NOSCRIPT.union(Flags::WRITE).union(Flags::DENYOOM).union(Flags::RUNS_SCRIPTS);

fn load<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    // The options are before the code, which is the last argument.
    let mut options = args.from(2).take(args.len() - 3);
    if let Some(other) = options.find(|option| !is(option, "REPLACE")) {
        return Err(Error::quoting("ERR Unknown option given: ", other, ""));
    }
    let replaces = args.len() > 3;
    submit(cx, TaskKind::LoadLibrary { replaces }, false)
}

static LOAD: Command = Command {
    name: "LOAD",
    syntax: "[REPLACE] function-code",
    arity: -3,
    flags: LOADING,
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("O(1)").tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    summary: "Loads a library of functions, and returns its name",
    subcommands: &[],
    run: load,
};

fn restore<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let policy = match args.get(3) {
        _ if args.len() > 4 => return Err(Error::unknown_form("FUNCTION", args.at(1))),
        None => Policy::Append,
        Some(word) if is(word, "FLUSH") => Policy::Flush,
        Some(word) if is(word, "APPEND") => Policy::Append,
        Some(word) if is(word, "REPLACE") => Policy::Replace,
        Some(_) => {
            return Err(Error::fixed(
                "ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
            ));
        }
    };
    submit(cx, TaskKind::RestoreLibraries(policy), false)
}

static RESTORE: Command = Command {
    name: "RESTORE",
    syntax: "serialized-value [FLUSH | APPEND | REPLACE]",
    arity: -3,
    flags: LOADING,
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the functions of the payload")
        .tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    summary: "Loads the libraries of a payload",
    subcommands: &[],
    run: restore,
};

fn stats<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    if let Some(busy) = cx.server.scripts().busy().filter(|busy| !busy.is_function()) {
        return Err(Error::fixed(busy.text()));
    }
    cx.reply.map(2);
    cx.reply.bulk(b"running_script");
    match cx.server.scripts().running_function() {
        None => cx.reply.null(),
        Some(running) => {
            cx.reply.map(3);
            cx.reply.bulk(b"name");
            cx.reply.bulk(running.name.as_bytes());
            cx.reply.bulk(b"command");
            cx.reply.array(running.command.len());
            running.command.iter().for_each(|word| cx.reply.bulk(word));
            cx.reply.bulk(b"duration_ms");
            cx.reply.integer(i64::try_from(running.took.as_millis()).unwrap_or(i64::MAX));
        }
    }
    let (libraries, functions) = cx.server.scripts().libraries().counts();
    cx.reply.bulk(b"engines");
    cx.reply.map(1);
    cx.reply.bulk(b"LUA");
    cx.reply.map(2);
    cx.reply.bulk(b"libraries_count");
    cx.reply.integer(i64::try_from(libraries).unwrap_or(i64::MAX));
    cx.reply.bulk(b"functions_count");
    cx.reply.integer(i64::try_from(functions).unwrap_or(i64::MAX));
    Ok(())
}

static STATS: Command = Command {
    name: "STATS",
    syntax: "",
    arity: 2,
    flags: Flags::NOSCRIPT.union(Flags::ALLOW_BUSY),
    keys: Keys::NONE,
    categories: Category::SCRIPTING,
    group: Group::Scripting,
    since: "7.0.0",
    notes: Notes::of("O(1)").tips(&[
        "nondeterministic_output",
        "request_policy:all_shards",
        "response_policy:special",
    ]),
    summary: "Returns which function runs, and how many exist",
    subcommands: &[],
    run: stats,
};

fn help_text<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &FUNCTION);
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
    since: "7.0.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help_text,
};
