//! COMMAND: what the rows say, for clients that want to know what there is.

use crate::arguments::is;
use crate::glob::Pattern;
use crate::table::{self, Entry};
use crate::{Access, Category, Command, Context, Error, Flags, Group, Keys, help};
use nagi_proto::Args;
use nagi_proto::resp::Writer;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&COMMAND];

const SUBCOMMANDS: &[&Command] = &[&COUNT, &DOCS, &GETKEYS, &HELP, &INFO, &LIST];

fn command<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.array(table::commands().len());
    for entry in table::commands() {
        describe(&mut cx.reply, entry);
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
    summary: "Describes all commands",
    subcommands: SUBCOMMANDS,
    run: command,
};

fn count<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.integer(table::commands().len() as i64);
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
    summary: "Returns how many commands there are",
    subcommands: &[],
    run: count,
};

fn info<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.len() == 2 {
        return command(cx, args);
    }
    let names = args.from(2);
    cx.reply.array(names.len());
    for name in names {
        match find(name) {
            Some(entry) => describe(&mut cx.reply, entry),
            None => cx.reply.null(),
        }
    }
    Ok(())
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
    summary: "Describes commands: arity, flags, keys, ACL categories, subcommands",
    subcommands: &[],
    run: info,
};

/// The entry of a command or, as in `config|get`, of a subcommand.
fn find(name: &[u8]) -> Option<&'static Entry> {
    let mut words = name.splitn(2, |byte| *byte == b'|');
    let entry = table::find(words.next()?)?;
    words.next().map_or(Some(entry), |word| entry.subcommand(word))
}

/// Writes the ten fields of COMMAND INFO.
fn describe(reply: &mut Writer<'_>, entry: &Entry) {
    let Command { arity, flags, keys, .. } = *entry.command;
    reply.array(10);
    reply.bulk(entry.full_name.as_bytes());
    reply.integer(arity.into());
    flag_names(reply, flags, "");
    for position in [keys.first, keys.last, keys.step] {
        reply.integer(position.into());
    }
    flag_names(reply, entry.command.all_categories(), "@");
    // No tips: they tell a cluster's clients how to split a command, and there is no cluster.
    reply.set(0);
    key_specification(reply, keys);
    reply.array(entry.subcommands().len());
    for sub in entry.subcommands() {
        describe(reply, sub);
    }
}

/// Writes a set of flags by their names in small letters, behind a prefix.
fn flag_names<F: bitflags::Flags + Copy>(reply: &mut Writer<'_>, flags: F, prefix: &str) {
    reply.set(flags.iter_names().count());
    for (name, _) in flags.iter_names() {
        reply.simple(&format!("{prefix}{}", name.to_ascii_lowercase()));
    }
}

fn key_specification(reply: &mut Writer<'_>, keys: Keys) {
    if keys == Keys::NONE {
        return reply.set(0);
    }
    reply.set(1);
    reply.map(3);
    reply.bulk(b"flags");
    access_names(reply, keys.access);
    reply.bulk(b"begin_search");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"index");
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.integer(keys.first.into());
    reply.bulk(b"find_keys");
    reply.map(2);
    reply.bulk(b"type");
    reply.bulk(b"range");
    reply.bulk(b"spec");
    reply.map(3);
    reply.bulk(b"lastkey");
    // Counted from the first key here, unless negative.
    reply.integer((if keys.last < 0 { keys.last } else { keys.last - keys.first }).into());
    reply.bulk(b"keystep");
    reply.integer(keys.step.into());
    reply.bulk(b"limit");
    reply.integer(0);
}

/// Writes what is done with keys: whether values are read, overwritten or removed in capitals, the
/// rest in small letters.
fn access_names(reply: &mut Writer<'_>, access: Access) {
    reply.set(access.iter_names().count());
    for (name, _) in access.iter_names() {
        if name.len() == 2 {
            reply.simple(name);
        } else {
            reply.simple(&name.to_ascii_lowercase());
        }
    }
}

fn docs<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let entries: Vec<&Entry> = if args.len() == 2 {
        table::commands().iter().collect()
    } else {
        args.from(2).filter_map(find).collect()
    };
    document(&mut cx.reply, &entries);
    Ok(())
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
    summary: "Returns what documentation says about commands",
    subcommands: &[],
    run: docs,
};

fn document(reply: &mut Writer<'_>, entries: &[&Entry]) {
    reply.map(entries.len());
    for entry in entries {
        let subcommands: Vec<&Entry> = entry.subcommands().iter().collect();
        reply.bulk(entry.full_name.as_bytes());
        reply.map(if subcommands.is_empty() { 3 } else { 4 });
        reply.bulk(b"summary");
        reply.bulk(entry.command.summary.as_bytes());
        reply.bulk(b"since");
        reply.bulk(entry.command.since.as_bytes());
        reply.bulk(b"group");
        reply.bulk(entry.command.group.name().as_bytes());
        if !subcommands.is_empty() {
            reply.bulk(b"subcommands");
            document(reply, &subcommands);
        }
    }
}

fn list<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let commands = table::commands().iter();
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
    cx.reply.set(chosen.len());
    for entry in chosen {
        cx.reply.bulk(entry.full_name.as_bytes());
    }
    Ok(())
}

static LIST: Command = Command {
    name: "LIST",
    syntax: "[FILTERBY MODULE module-name | ACLCAT category | PATTERN pattern]",
    arity: -2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Server,
    since: "7.0.0",
    summary: "Returns the names of commands",
    subcommands: &[],
    run: list,
};

fn getkeys<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let entry = table::find(args.at(2)).ok_or(Error::fixed("ERR Invalid command specified"))?;
    let entry = args.get(3).and_then(|word| entry.subcommand(word)).unwrap_or(entry);
    let keys = entry.command.keys;
    if keys == Keys::NONE {
        return Err(Error::fixed("ERR The command has no key arguments"));
    }
    if !entry.command.accepts(args.len() - 2) {
        return Err(Error::fixed("ERR Invalid number of arguments specified for command"));
    }
    let keys = keys.of(args.skip(2));
    cx.reply.array(keys.clone().count());
    for key in keys {
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
    summary: "Returns the keys among the arguments of a command",
    subcommands: &[],
    run: getkeys,
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
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};
