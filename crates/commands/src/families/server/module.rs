//! MODULE: the list of modules is empty, and none can be loaded.

use crate::runtime::admission;
use crate::runtime::help;
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&MODULE];

const SUBCOMMANDS: &[&Command] = &[&HELP, &LIST, &LOAD, &LOADEX, &UNLOAD];

pub(crate) static MODULE: Command = Command {
    name: "MODULE",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "4.0.0",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about modules, of which there are none",
    subcommands: SUBCOMMANDS,
    run: |_, _| Err(Error::wrong_arity("module")),
};

/// Flags of subcommands that load or unload modules.
const CHANGES: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::NO_ASYNC_LOADING);

const REFUSED: Error = Error::fixed(
    "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you \
     can run it from a local connection, otherwise you need to set this option in the \
     configuration file, and then restart the server.",
);

fn check(cx: &Context<'_>) -> Result<(), Error> {
    let is_allowed = admission::is_permitted(&cx.server.config().enable_module_command, cx.client);
    if is_allowed { Ok(()) } else { Err(REFUSED) }
}

fn list<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.array(0);
    Ok(())
}

static LIST: Command = Command {
    name: "LIST",
    syntax: "",
    arity: 2,
    flags: Flags::ADMIN.union(Flags::NOSCRIPT),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "4.0.0",
    notes: Notes::of("O(1)").tips(&["nondeterministic_output_order"]),
    summary: "Returns an empty list",
    subcommands: &[],
    run: list,
};

fn load<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    check(cx)?;
    Err(Error::fixed("ERR Error loading the extension. nagi has no modules."))
}

static LOAD: Command = Command {
    name: "LOAD",
    syntax: "path [arg ...]",
    arity: -3,
    flags: CHANGES,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "4.0.0",
    notes: Notes::of("O(1)"),
    summary: "Answers that there are no modules",
    subcommands: &[],
    run: load,
};

static LOADEX: Command = Command {
    name: "LOADEX",
    syntax: "path [CONFIG name value [CONFIG name value ...]] [ARGS args [args ...]]",
    arity: -3,
    flags: CHANGES,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "7.0.0",
    notes: Notes::of("O(1)"),
    summary: "Answers that there are no modules",
    subcommands: &[],
    run: load,
};

fn unload<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    check(cx)?;
    Err(Error::fixed("ERR Error unloading module: no such module with that name"))
}

static UNLOAD: Command = Command {
    name: "UNLOAD",
    syntax: "name",
    arity: 3,
    flags: CHANGES,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "4.0.0",
    notes: Notes::of("O(1)"),
    summary: "Answers that there is no such module",
    subcommands: &[],
    run: unload,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &MODULE);
    Ok(())
}

static HELP: Command = Command {
    name: "HELP",
    syntax: "",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "5.0.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Origin;
    use crate::testing::Bench;

    #[test]
    fn no_module_can_be_listed_loaded_or_unloaded() {
        let mut bench = Bench::new();
        bench.expect("MODULE LIST", "*0|");
        bench.expect("MODULE LOAD x", &format!("-{}|", String::from_utf8_lossy(&REFUSED.0)));
        bench.process.config.set("enable-module-command", "local", Origin::Startup).unwrap();
        for (request, reply) in [
            ("MODULE LOAD x", "-ERR Error loading the extension. nagi has no modules.|"),
            ("MODULE LOADEX x", "-ERR Error loading the extension. nagi has no modules.|"),
            ("MODULE UNLOAD x", "-ERR Error unloading module: no such module with that name|"),
            ("MODULE LOAD", "-ERR wrong number of arguments for 'module|load' command|"),
            ("MODULE FOO", "-ERR unknown subcommand 'FOO'. Try MODULE HELP.|"),
        ] {
            bench.expect(request, reply);
        }
    }
}
