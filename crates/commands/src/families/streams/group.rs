//! Groups of consumers that read a stream together.

use super::{no_group_of_key, strict_id};
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::help;
use crate::runtime::multi_key::{self, Claimed};
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::stream::{GroupMember, GroupStart, NoGroup};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&XGROUP];

const SUBCOMMANDS: &[&Command] = &[&CREATE, &CREATECONSUMER, &DELCONSUMER, &DESTROY, &HELP, &SETID];

const NO_KEY: Error = Error::fixed(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use \
     the MKSTREAM option to create an empty stream automatically.",
);
const BUSY: Error = Error::fixed("BUSYGROUP Consumer Group name already exists");

fn missing(reason: NoGroup, args: Args<'_>) -> Error {
    match reason {
        NoGroup::Key => NO_KEY,
        reason => no_group_of_key(reason, args.at(2), args.at(3)),
    }
}

fn xgroup<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::wrong_arity("xgroup"))
}

pub(crate) static XGROUP: Command = Command {
    name: "XGROUP",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about groups of consumers",
    subcommands: SUBCOMMANDS,
    run: xgroup,
};

/// Parses the options after the id: the number of entries read up to it, and whether to create the
/// stream.
fn options(args: Args<'_>, name: &str) -> Result<(Option<u64>, bool), Error> {
    let is_create = name == "CREATE";
    let (mut rest, mut entries_read, mut make) = (RemainingArguments::from(args, 5), None, false);
    while let Some(option) = rest.next() {
        if is_create && is(option, "MKSTREAM") {
            make = true;
        } else if is(option, "ENTRIESREAD") && rest.len() > 0 {
            entries_read = match integer(rest.value()?)? {
                -1 => None,
                read => Some(u64::try_from(read).map_err(|_| {
                    Error::fixed("ERR value for ENTRIESREAD must be positive or -1")
                })?),
            };
        } else {
            return Err(Error::unknown_form("XGROUP", args.at(1)));
        }
    }
    Ok((entries_read, make))
}

fn create<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (entries_read, make) = options(args, "CREATE")?;
    let key = cx.key(args.at(2));
    if !cx.db.read_stream(key, |stream| stream.is_some())? && !make {
        return Err(NO_KEY);
    }
    if args.len() > 8 {
        return Err(Error::unknown_form("XGROUP", args.at(1)));
    }
    let start = match args.at(4) {
        b"$" => GroupStart::End,
        id => GroupStart::Behind(strict_id(id, 0)?),
    };
    let created = cx.db.create_group(key, args.at(3), (start, entries_read), make);
    if !created.map_err(|reason| missing(reason, args))? {
        return Err(BUSY);
    }
    cx.reply.ok();
    Ok(())
}

static CREATE: Command = Command {
    name: "CREATE",
    syntax: "key group <id | $> [MKSTREAM] [ENTRIESREAD entriesread]",
    arity: -5,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::only(KeyGroup::at(2, Access::RW.union(Access::INSERT))),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(log N), N being the groups").history(&[("7.0.0", "ENTRIESREAD")]),
    summary: "Creates a group that reads a stream after an id",
    subcommands: &[],
    run: create,
};

fn set_id<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (entries_read, _) = options(args, "SETID")?;
    let key = cx.key(args.at(2));
    let found = cx.db.read_stream(key, |stream| {
        let stream = stream.ok_or(NoGroup::Key)?;
        stream.view_group(args.at(3)).map(drop).ok_or(NoGroup::Group)
    })?;
    found.map_err(|reason| missing(reason, args))?;
    if args.len() > 7 {
        return Err(Error::unknown_form("XGROUP", args.at(1)));
    }
    let start = match args.at(4) {
        b"$" => GroupStart::End,
        id => GroupStart::Behind(super::any_id(id, 0)?),
    };
    let set = cx.db.set_group_id(key, args.at(3), (start, entries_read));
    set.map_err(|reason| missing(reason, args))?;
    cx.reply.ok();
    Ok(())
}

static SETID: Command = Command {
    name: "SETID",
    syntax: "key group <id | $> [ENTRIESREAD entriesread]",
    arity: -5,
    flags: Flags::WRITE,
    keys: Keys::only(KeyGroup::at(2, Access::RW.union(Access::UPDATE))),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(log N), N being the groups").history(&[("7.0.0", "ENTRIESREAD")]),
    summary: "Sets the id after which a group continues to read",
    subcommands: &[],
    run: set_id,
};

fn destroy<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let destroyed = cx.db.destroy_group(cx.key(args.at(2)), args.at(3));
    let destroyed = destroyed.map_err(|reason| missing(reason, args))?;
    cx.reply.integer(destroyed.into());
    Ok(())
}

static DESTROY: Command = Command {
    name: "DESTROY",
    syntax: "key group",
    arity: 4,
    flags: Flags::WRITE,
    keys: Keys::only(KeyGroup::at(2, Access::RW.union(Access::DELETE))),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(log N), N being the groups; what is pending is freed later"),
    summary: "Removes a group, and returns whether there was one",
    subcommands: &[],
    run: destroy,
};

fn create_consumer<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let member = GroupMember { group: args.at(3), consumer: args.at(4) };
    let created = cx.db.create_consumer(cx.key(args.at(2)), member);
    let created = created.map_err(|reason| missing(reason, args))?;
    cx.reply.integer(created.into());
    Ok(())
}

static CREATECONSUMER: Command = Command {
    name: "CREATECONSUMER",
    syntax: "key group consumer",
    arity: 5,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::only(KeyGroup::at(2, Access::RW.union(Access::INSERT))),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "6.2.0",
    notes: Notes::of("O(log N), N being the consumers"),
    summary: "Creates a consumer of a group, and returns whether there was none",
    subcommands: &[],
    run: create_consumer,
};

fn delete_consumer<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let mut removed = 0;
    multi_key::claimed(cx, Claimed::all(&DELCONSUMER.keys), move |cx, slice| {
        let args = cx.args;
        let member = GroupMember { group: args.at(3), consumer: args.at(4) };
        loop {
            let part = cx.db.remove_consumer(cx.key(args.at(2)), member);
            let (more, is_gone) = part.map_err(|reason| missing(reason, args))?;
            removed += more;
            if is_gone {
                cx.reply.integer(removed as i64);
                return Ok(true);
            }
            if slice.is_over() {
                return Ok(false);
            }
        }
    })
}

static DELCONSUMER: Command = Command {
    name: "DELCONSUMER",
    syntax: "key group consumer",
    arity: 5,
    flags: Flags::WRITE,
    keys: Keys::only(KeyGroup::at(2, Access::RW.union(Access::DELETE))),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(N log M), N being what is pending for the consumer and M for the group"),
    summary: "Removes a consumer of a group, and returns how many entries were pending for it",
    subcommands: &[],
    run: delete_consumer,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &XGROUP);
    Ok(())
}

static HELP: Command = Command {
    name: "HELP",
    syntax: "",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};
