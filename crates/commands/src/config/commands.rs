//! CONFIG: settings and statistics while the server runs.

use super::{Origin, SETTINGS, Setting, Value, find};
use crate::glob::Pattern;
use crate::{Category, Command, Context, Error, Flags, Group, Keys, help};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&CONFIG];

const SUBCOMMANDS: &[&Command] = &[&GET, &HELP, &RESETSTAT, &REWRITE, &SET];

fn config<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::wrong_arity("config"))
}

pub(crate) static CONFIG: Command = Command {
    name: "CONFIG",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.0.0",
    summary: "Commands about settings and statistics",
    subcommands: SUBCOMMANDS,
    run: config,
};

/// How subcommands for administrators behave.
const ADMIN: Flags = Flags::ADMIN.union(Flags::NOSCRIPT).union(Flags::LOADING).union(Flags::STALE);

fn get<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let is_asked_for = |setting: &&Setting| {
        args.from(2).any(|word| Pattern::in_any_case(word).matches(setting.name.as_bytes()))
    };
    let settings: Vec<_> = SETTINGS.iter().filter(is_asked_for).collect();
    cx.reply.map(settings.len());
    for setting in settings {
        cx.reply.bulk(setting.name.as_bytes());
        cx.reply.bulk(setting.value(cx.server.config()).as_bytes());
    }
    Ok(())
}

static GET: Command = Command {
    name: "GET",
    syntax: "pattern [pattern ...]",
    arity: -3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.0.0",
    summary: "Returns the settings whose names match a pattern, with their values",
    subcommands: &[],
    run: get,
};

fn set<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if !args.len().is_multiple_of(2) {
        return Err(Error::SYNTAX);
    }
    let pairs = args.from(2).step_by(2).zip(args.from(3).step_by(2));
    let known = pairs.map(|(name, value)| Ok((setting(name)?, value)));
    let known = known.collect::<Result<Vec<_>, Error>>()?;
    // All are checked before the first is set, so that none is set if one is wrong.
    let mut checked: Vec<(&Setting, Value)> = Vec::new();
    for (setting, value) in known {
        let value = String::from_utf8_lossy(value);
        let value = if checked.iter().any(|(other, _)| std::ptr::eq(*other, setting)) {
            Err("duplicate parameter".into())
        } else {
            setting.check(&value, Origin::Runtime)
        };
        let value = value.map_err(|reason| {
            let name = setting.name;
            Error::new(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}"
            ))
        })?;
        checked.push((setting, value));
    }
    for (setting, value) in checked {
        setting.kind.store(cx.server.config(), value);
    }
    cx.server.config().limit_memory(cx.db.store());
    cx.reply.ok();
    Ok(())
}

fn setting(name: &[u8]) -> Result<&'static Setting, Error> {
    let name = String::from_utf8_lossy(name);
    find(&name).ok_or_else(|| {
        Error::new(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"))
    })
}

static SET: Command = Command {
    name: "SET",
    syntax: "name value [name value ...]",
    arity: -4,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.0.0",
    summary: "Changes settings, all of them or none",
    subcommands: &[],
    run: set,
};

fn resetstat<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.db.store().reset_counters();
    cx.server.statistics().reset();
    cx.reply.ok();
    Ok(())
}

static RESETSTAT: Command = Command {
    name: "RESETSTAT",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.0.0",
    summary: "Starts the statistics of INFO again from zero",
    subcommands: &[],
    run: resetstat,
};

fn rewrite<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::fixed("ERR The server is running without a config file"))
}

static REWRITE: Command = Command {
    name: "REWRITE",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "2.8.0",
    summary: "Answers that there is no configuration file to write",
    subcommands: &[],
    run: rewrite,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &CONFIG);
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
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};
