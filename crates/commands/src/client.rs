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

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn names() {
        converse(
            "CLIENT ID => :1|
             CLIENT GETNAME => $-1|
             CLIENT SETNAME me => +OK|
             CLIENT GETNAME => $2|me|
             CLIENT SETNAME 'a b' => -ERR Client names cannot contain spaces, newlines or
             ... special characters.|
             CLIENT SETNAME '' => +OK|
             CLIENT GETNAME => $-1|
             CLIENT SETINFO lib-name redis-py => +OK|
             CLIENT SETINFO LIB-VER 5.0 => +OK|
             CLIENT SETINFO lib-name 'a b' => -ERR lib-name cannot contain spaces, newlines or
             ... special characters.|
             CLIENT SETINFO foo bar => -ERR Unrecognized option 'foo'|
             CLIENT => -ERR wrong number of arguments for 'client' command|
             CLIENT FOO => -ERR unknown subcommand 'FOO'. Try CLIENT HELP.|",
        );
    }

    #[test]
    fn lists() {
        let mut bench = Bench::new();
        bench.expect_memcached("get a", "END|");
        bench.expect("SELECT 3", "+OK|");
        bench.expect("CLIENT SETNAME me", "+OK|");
        bench.expect("CLIENT SETINFO lib-name redis-py", "+OK|");
        bench.advance_ms(2500);
        let own = "id=1 addr=127.0.0.1:50001 laddr=127.0.0.1:6379 fd=7 name=me age=2 idle=2 \
                   flags=N db=3 sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=0 omem=0 events=r \
                   cmd=client|info user=default redir=-1 resp=2 lib-name=redis-py lib-ver=\n";
        let other = "id=2 addr=127.0.0.1:50002 laddr=127.0.0.1:6379 fd=7 name= age=2 idle=2 \
                     flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 watch=0 qbuf=0 omem=0 events=r \
                     cmd=get user=default redir=-1 resp=0 lib-name= lib-ver=\n";
        let bulk = |text: String| format!("${}|{text}|", text.len());
        bench.expect("CLIENT INFO", &bulk(own.to_owned()));
        let own = own.replace("client|info", "client|list");
        for request in ["CLIENT LIST", "CLIENT LIST TYPE normal", "CLIENT LIST ID 1 2 99"] {
            bench.expect(request, &bulk(format!("{own}{other}")));
        }
        bench.expect("CLIENT LIST ID 2", &bulk(other.to_owned()));
        bench.expect("CLIENT LIST TYPE pubsub", "$0||");
        for (request, reply) in [
            ("CLIENT LIST TYPE foo", "-ERR Unknown client type 'foo'|"),
            ("CLIENT LIST TYPE", "-ERR syntax error|"),
            ("CLIENT LIST TYPE normal x", "-ERR syntax error|"),
            ("CLIENT LIST ID", "-ERR syntax error|"),
            ("CLIENT LIST ID x", "-ERR Invalid client ID|"),
            ("CLIENT LIST FOO", "-ERR syntax error|"),
        ] {
            bench.expect(request, reply);
        }
        bench.resp(b"HELLO 3\r\n");
        bench.expect("CLIENT LIST TYPE replica", "=4|txt:|");
    }

    #[test]
    fn help() {
        let mut bench = Bench::new();
        let help = bench.call(&["CLIENT", "HELP"]);
        assert!(help.starts_with("*15|+CLIENT <subcommand> [<arg> [value]"), "{help}");
        assert!(help.contains("|+SETNAME name|+    Gives the connection a name"), "{help}");
    }
}
