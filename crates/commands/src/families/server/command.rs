//! COMMAND: the contents of the rows, for clients that query the supported commands.

use crate::families::elements::in_strides;
use crate::families::server::describe::{access_names, describe, document};
use crate::glob::Pattern;
use crate::runtime::arguments::is;
use crate::runtime::help;
use crate::{
    Category, Command, CommandTable, Context, Entry, Error, Flags, Group, KeyGroup, Keys, Notes,
};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&COMMAND];

const SUBCOMMANDS: &[&Command] = &[&COUNT, &DOCS, &GETKEYS, &GETKEYSANDFLAGS, &HELP, &INFO, &LIST];

fn command<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let table = cx.server.commands();
    cx.reply.array(table.callable().count());
    for entry in table.callable() {
        describe(&mut cx.reply, table, entry);
    }
    Ok(())
}

pub(crate) static COMMAND: Command = Command {
    name: "COMMAND",
    syntax: "[subcommand]",
    arity: -1,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Server,
    since: "2.8.13",
    notes: Notes::of("O(N), N being the commands").tips(&["nondeterministic_output_order"]),
    summary: "Describes all commands",
    subcommands: SUBCOMMANDS,
    run: command,
};

fn count<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.integer(cx.server.commands().callable().count() as i64);
    Ok(())
}

static COUNT: Command = Command {
    name: "COUNT",
    syntax: "",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Server,
    since: "2.8.13",
    notes: Notes::of("O(1)"),
    summary: "Returns how many commands there are",
    subcommands: &[],
    run: count,
};

fn info<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.len() == 2 {
        return command(cx, args);
    }
    let table = cx.server.commands();
    let entries: Vec<Option<&Entry>> = args.from(2).map(|name| table.find_full(name)).collect();
    cx.reply.array(entries.len());
    let mut left = entries.into_iter();
    in_strides(cx, move |reply| {
        match left.next() {
            None => return true,
            Some(None) => reply.null(),
            Some(Some(entry)) => describe(reply, table, entry),
        }
        left.len() == 0
    })
}

static INFO: Command = Command {
    name: "INFO",
    syntax: "[command-name ...]",
    arity: -2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Server,
    since: "2.8.13",
    notes: Notes::of("O(N), N being the commands asked for")
        .history(&[("7.0.0", "All commands, if none is named")])
        .tips(&["nondeterministic_output_order"]),
    summary: "Describes commands: arity, flags, keys, ACL categories, subcommands",
    subcommands: &[],
    run: info,
};

fn docs<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let table = cx.server.commands();
    let entries: Vec<&Entry> = if args.len() == 2 {
        table.callable().collect()
    } else {
        args.from(2).filter_map(|name| table.find_full(name)).collect()
    };
    cx.reply.map(entries.len());
    let mut left = entries.into_iter();
    in_strides(cx, move |reply| {
        let Some(entry) = left.next() else { return true };
        document(reply, table, entry);
        left.len() == 0
    })
}

static DOCS: Command = Command {
    name: "DOCS",
    syntax: "[command-name ...]",
    arity: -2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Server,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the commands asked for")
        .tips(&["nondeterministic_output_order"]),
    summary: "Returns the documentation of commands",
    subcommands: &[],
    run: docs,
};

fn list<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let commands = cx.server.commands().entries().iter().filter(|entry| !entry.is_disabled);
    let chosen: Vec<&Entry> = match (args.get(2), args.get(3), args.get(4)) {
        (None, ..) => commands.collect(),
        (Some(filter), Some(by), Some(value)) if is(filter, "FILTERBY") && args.len() == 5 => {
            if is(by, "MODULE") {
                Vec::new()
            } else if is(by, "ACLCAT") {
                let is_meant = |(name, _)| is(value, name);
                let in_category =
                    |entry: &&Entry| entry.command.all_categories().iter_names().any(is_meant);
                commands.filter(in_category).collect()
            } else if is(by, "PATTERN") {
                let pattern = Pattern::in_any_case(value);
                commands.filter(|entry| pattern.matches(entry.full_name.as_bytes())).collect()
            } else {
                return Err(Error::SYNTAX);
            }
        }
        _ => return Err(Error::SYNTAX),
    };
    cx.reply.array(chosen.len());
    for entry in chosen {
        cx.reply.bulk(entry.full_name.as_bytes());
    }
    Ok(())
}

static LIST: Command = Command {
    name: "LIST",
    syntax: "[FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]",
    arity: -2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Server,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the commands").tips(&["nondeterministic_output_order"]),
    summary: "Returns the names of commands",
    subcommands: &[],
    run: list,
};

/// The entry and the words of the request that follows the words of the subcommand, and whose keys
/// are to be extracted.
fn request_words<'a>(
    table: &'static CommandTable,
    args: Args<'a>,
) -> Result<(&'static Command, Args<'a>), Error> {
    const UNKNOWN: Error = Error::fixed("ERR Invalid command specified");
    let container = table.find(args.at(2)).ok_or(UNKNOWN)?;
    let entry = match args.get(3) {
        Some(word) if !container.command.subcommands.is_empty() => {
            table.subcommand(container, word).ok_or(UNKNOWN)?
        }
        _ => container,
    };
    if entry.command.keys.all_groups().is_empty() {
        return Err(Error::fixed("ERR The command has no key arguments"));
    }
    if !entry.command.accepts(args.len() - 2) {
        return Err(Error::fixed("ERR Invalid number of arguments specified for command"));
    }
    Ok((entry.command, args.skip(2)))
}

/// The keys of a request, each with its group.
fn found_keys<'a>(
    command: &'static Command,
    args: Args<'a>,
) -> Result<Vec<(&'a [u8], &'static KeyGroup)>, Error> {
    let groups = command.keys.all_groups().iter();
    let keys: Vec<_> =
        groups.flat_map(|group| group.of(args).map(move |key| (key, group))).collect();
    let may_lack = command.flags.contains(Flags::NO_MANDATORY_KEYS);
    match keys.is_empty() && !may_lack {
        true => Err(Error::fixed("ERR Invalid arguments specified for command")),
        false => Ok(keys),
    }
}

fn getkeys<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (command, args) = request_words(cx.server.commands(), args)?;
    let keys = found_keys(command, args)?;
    cx.reply.array(keys.len());
    for (key, _) in keys {
        cx.reply.bulk(key);
    }
    Ok(())
}

static GETKEYS: Command = Command {
    name: "GETKEYS",
    syntax: "command [arg ...]",
    arity: -3,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Server,
    since: "2.8.13",
    notes: Notes::of("O(N), N being the arguments"),
    summary: "Returns the keys among the arguments of a command",
    subcommands: &[],
    run: getkeys,
};

fn getkeysandflags<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (command, args) = request_words(cx.server.commands(), args)?;
    let keys = found_keys(command, args)?;
    cx.reply.array(keys.len());
    for (key, group) in keys {
        cx.reply.array(2);
        cx.reply.bulk(key);
        access_names(&mut cx.reply, group.access_in(args));
    }
    Ok(())
}

static GETKEYSANDFLAGS: Command = Command {
    name: "GETKEYSANDFLAGS",
    syntax: "command [arg ...]",
    arity: -3,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Server,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the arguments"),
    summary: "Returns the keys among the arguments of a command, with what it does with each",
    subcommands: &[],
    run: getkeysandflags,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &COMMAND);
    Ok(())
}

static HELP: Command = Command {
    name: "HELP",
    syntax: "",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Server,
    since: "5.0.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    const GET: &str = "*10|$3|get|:2|*2|+readonly|+fast|:1|:1|:1|*3|+@read|+@string|+@fast|*0|*1|\
                       *6|$5|flags|*2|+RO|+access|$12|begin_search|*4|$4|type|$5|index|$4|spec|*2|\
                       $5|index|:1|$9|find_keys|*4|$4|type|$5|range|$4|spec|*6|$7|lastkey|:0|$7|\
                       keystep|:1|$5|limit|:0|*0|";

    #[test]
    fn command_info_describes_commands_as_redis_does() {
        let mut bench = Bench::new();
        bench.expect("COMMAND INFO get nosuch", &format!("*2|{GET}$-1|"));
        bench.expect(
            "COMMAND INFO Config|GET",
            "*1|*10|$10|config|get|:-3|*4|+admin|+noscript|+loading|+stale|:0|:0|:0|*3|+@admin|\
             +@slow|+@dangerous|*0|*0|*0|",
        );
        let count = crate::command_table().commands().len();
        bench.expect("COMMAND COUNT", &format!(":{count}|"));
        let all = bench.call(&["COMMAND"]);
        assert_eq!(all, bench.call(&["COMMAND", "INFO"]));
        assert!(all.starts_with(&format!("*{count}|*10|")) && all.contains(GET), "{all}");
        bench.resp(b"HELLO 3\r\n");
        let three = bench.call(&["COMMAND", "INFO", "get", "nosuch"]);
        assert!(three.contains("|:2|~2|+readonly|+fast|:1|"), "{three}");
        assert!(three.contains("|~0|~1|%3|$5|flags|~2|") && three.ends_with("_|"), "{three}");
    }

    #[test]
    fn command_docs_and_getkeysandflags_reply_as_redis_does() {
        converse(
            "COMMAND DOCS nosuch => *0|
             COMMAND DOCS get => *2|$3|get|*10|$7|summary|$37|Returns the string stored under a
             ... key|$5|since|$5|1.0.0|$5|group|$6|string|$10|complexity|$4|O(1)|$9|arguments|*1|
             ...*8|$4|name|$3|key|$4|type|$3|key|$12|display_text|$3|key|$14|key_spec_index|:0|
             COMMAND GETKEYSANDFLAGS copy a b => *2|*2|$1|a|*2|+RO|+access|*2|$1|b|*2|+OW|+update|
             COMMAND GETKEYSANDFLAGS get a => *1|*2|$1|a|*2|+RO|+access|
             COMMAND GETKEYSANDFLAGS set a b EX 1 => *1|*2|$1|a|*2|+OW|+update|
             COMMAND GETKEYSANDFLAGS set a b get => *1|*2|$1|a|*3|+RW|+access|+update|
             COMMAND GETKEYSANDFLAGS bitfield a overflow sat get u8 0 => *1|*2|$1|a|*2|+RO|+access|
             COMMAND GETKEYSANDFLAGS bitfield a get u8 => *1|*2|$1|a|*3|+RW|+access|+update|
             COMMAND GETKEYS client nosuch => -ERR Invalid command specified|
             COMMAND GETKEYSANDFLAGS ping => -ERR The command has no key arguments|",
        );
    }

    #[test]
    fn command_list_filters_by_pattern_category_and_module() {
        converse(
            "COMMAND LIST FILTERBY PATTERN GETD* => *1|$6|getdel|
             COMMAND LIST filterby module x => *0|
             COMMAND LIST FILTERBY ACLCAT nosuch => *0|
             COMMAND LIST FOO => -ERR syntax error|
             COMMAND LIST FILTERBY FOO x => -ERR syntax error|
             COMMAND LIST FILTERBY ACLCAT => -ERR syntax error|",
        );
        let mut bench = Bench::new();
        let admin = bench.call(&["COMMAND", "LIST", "FILTERBY", "ACLCAT", "Admin"]);
        assert!(admin.contains("|$8|shutdown|") && admin.contains("|$10|config|set|"), "{admin}");
        let all = bench.call(&["COMMAND", "LIST"]);
        assert!(all.contains("|$3|get|") && !all.contains('\u{7c}'.to_string().repeat(2).as_str()));
    }

    #[test]
    fn command_getkeys_finds_the_keys_of_a_request() {
        converse(
            "COMMAND GETKEYS get a => *1|$1|a|
             COMMAND GETKEYS mset a b c d => *2|$1|a|$1|c|
             COMMAND GETKEYS mset a b c => *2|$1|a|$1|c|
             COMMAND GETKEYS del a b c => *3|$1|a|$1|b|$1|c|
             COMMAND GETKEYS foo bar => -ERR Invalid command specified|
             COMMAND GETKEYS get => -ERR Invalid number of arguments specified for command|
             COMMAND GETKEYS ping => -ERR The command has no key arguments|
             COMMAND GETKEYS config get a => -ERR The command has no key arguments|
             COMMAND GETKEYS config => -ERR The command has no key arguments|
             COMMAND GETKEYS => -ERR wrong number of arguments for 'command|getkeys' command|",
        );
    }
}
