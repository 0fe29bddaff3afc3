//! CLIENT: what is known of connections.

use crate::arguments::{Rest, integer, is};
use crate::context::Slice;
use crate::{Category, ClientInfo, Command, Context, Error, Flags, Flow, Group, Keys, help, table};
use nagi_proto::Args;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&CLIENT];

const SUBCOMMANDS: &[&Command] = &[&GETNAME, &HELP, &ID, &INFO, &LIST, &SETINFO, &SETNAME];

fn client<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::wrong_arity("client"))
}

pub(crate) static CLIENT: Command = Command {
    name: "CLIENT",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Connection,
    since: "2.4.0",
    summary: "Commands about connections",
    subcommands: SUBCOMMANDS,
    run: client,
};

/// How the harmless subcommands behave.
const PLAIN: Flags = Flags::NOSCRIPT.union(Flags::LOADING).union(Flags::STALE);

fn id<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.integer(i64::try_from(cx.client.info.id).unwrap_or(i64::MAX));
    Ok(())
}

static ID: Command = Command {
    name: "ID",
    syntax: "",
    arity: 2,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "5.0.0",
    summary: "Returns the connection's number, which no other ever has",
    subcommands: &[],
    run: id,
};

fn getname<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let names = cx.client.info.names();
    match names.name.as_str() {
        "" => cx.reply.null(),
        name => cx.reply.bulk(name.as_bytes()),
    }
    Ok(())
}

static GETNAME: Command = Command {
    name: "GETNAME",
    syntax: "",
    arity: 2,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "2.6.9",
    summary: "Returns the connection's name",
    subcommands: &[],
    run: getname,
};

fn setname<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    cx.client.info.rename(name(args.at(2))?);
    cx.reply.ok();
    Ok(())
}

static SETNAME: Command = Command {
    name: "SETNAME",
    syntax: "name",
    arity: 3,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "2.6.9",
    summary: "Gives the connection a name, or takes it away if it is empty",
    subcommands: &[],
    run: setname,
};

/// Reads a connection's name.
pub(crate) fn name(word: &[u8]) -> Result<String, Error> {
    printable(word).ok_or(Error::fixed(
        "ERR Client names cannot contain spaces, newlines or special characters.",
    ))
}

/// A word that CLIENT LIST can show, its fields being parted by spaces.
fn printable(word: &[u8]) -> Option<String> {
    word.iter().all(u8::is_ascii_graphic).then(|| String::from_utf8_lossy(word).into_owned())
}

fn setinfo<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let attribute = args.at(2);
    let shown = || String::from_utf8_lossy(attribute);
    let value = printable(args.at(3)).ok_or_else(|| {
        let shown = shown();
        Error::new(format!("ERR {shown} cannot contain spaces, newlines or special characters."))
    });
    let mut names = cx.client.info.names();
    if is(attribute, "LIB-NAME") {
        names.library_name = value?;
    } else if is(attribute, "LIB-VER") {
        names.library_version = value?;
    } else {
        return Err(Error::new(format!("ERR Unrecognized option '{}'", shown())));
    }
    cx.reply.ok();
    Ok(())
}

static SETINFO: Command = Command {
    name: "SETINFO",
    syntax: "LIB-NAME name | LIB-VER version",
    arity: 4,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "7.2.0",
    summary: "Notes which client library the connection uses",
    subcommands: &[],
    run: setinfo,
};

fn info<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let mut line = String::new();
    describe(&cx.client.info, cx.db.now_ms(), &mut line);
    cx.reply.text(&line);
    Ok(())
}

static INFO: Command = Command {
    name: "INFO",
    syntax: "",
    arity: 2,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "6.2.0",
    summary: "Returns the connection's own line of CLIENT LIST",
    subcommands: &[],
    run: info,
};

fn list<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let mut clients = chosen(cx, args)?.into_iter();
    let mut text = String::new();
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        for client in clients.by_ref() {
            describe(&client, cx.db.now_ms(), &mut text);
            if slice.is_over() {
                return Ok(Flow::More);
            }
        }
        cx.reply.text(&text);
        Ok(Flow::Done)
    }))
}

/// The clients that the arguments of CLIENT LIST mean.
fn chosen(cx: &Context<'_>, args: Args<'_>) -> Result<Vec<Arc<ClientInfo>>, Error> {
    let all = || {
        let mut clients = cx.server.clients();
        clients.sort_by_key(|client| client.id);
        clients
    };
    let Some(option) = args.get(2) else { return Ok(all()) };
    if is(option, "TYPE") && args.len() == 4 {
        let kind = args.at(3);
        if is(kind, "normal") {
            return Ok(all());
        }
        if ["master", "replica", "slave", "pubsub"].iter().any(|known| is(kind, known)) {
            return Ok(Vec::new());
        }
        let kind = String::from_utf8_lossy(kind);
        return Err(Error::new(format!("ERR Unknown client type '{kind}'")));
    }
    if is(option, "ID") && args.len() > 3 {
        let clients = all();
        let mut chosen = Vec::new();
        for id in Rest::from(args, 3) {
            let id = integer(id).map_err(|_| Error::fixed("ERR Invalid client ID"))?;
            let place = clients.binary_search_by_key(&id, |client| client.id as i64).ok();
            chosen.extend(place.and_then(|place| clients.get(place)).cloned());
        }
        return Ok(chosen);
    }
    Err(Error::SYNTAX)
}

static LIST: Command = Command {
    name: "LIST",
    syntax: "[TYPE NORMAL | MASTER | REPLICA | PUBSUB] [ID id [id ...]]",
    arity: -2,
    flags: Flags::ADMIN.union(PLAIN),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "2.4.0",
    summary: "Returns a line about each connection, memcached's included",
    subcommands: &[],
    run: list,
};

/// Appends a connection's line: the fields of Redis that are known here, under their names there.
fn describe(client: &ClientInfo, now_ms: u64, line: &mut String) {
    let names = client.names().clone();
    let seconds_since = |ms: u64| now_ms.saturating_sub(ms) / 1000;
    let output_bytes = client.output_bytes.load(Relaxed);
    // Writing to a string cannot fail.
    let _ = writeln!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags=N db={} sub=0 psub=0 ssub=0 \
         multi=-1 watch=0 qbuf={} omem={} events={} cmd={} user=default redir=-1 resp={} \
         lib-name={} lib-ver={}",
        client.id,
        client.address,
        client.local_address,
        client.descriptor,
        names.name,
        seconds_since(client.connected_at_ms),
        seconds_since(client.active_at_ms.load(Relaxed)),
        client.database.load(Relaxed),
        client.query_bytes.load(Relaxed),
        output_bytes,
        if output_bytes > 0 { "rw" } else { "r" },
        table::label(client.last_command.load(Relaxed)),
        client.resp.load(Relaxed),
        names.library_name,
        names.library_version,
    );
}

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &CLIENT);
    Ok(())
}

static HELP: Command = Command {
    name: "HELP",
    syntax: "",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "5.0.0",
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};
