//! CLIENT: the state of connections, and commands that change it.

mod common;
mod kill;
mod list;
mod pause;
pub(crate) mod tracking;

use self::common::{ADMIN, PLAIN};
use crate::runtime::arguments::is;
use crate::runtime::help;
use crate::{Category, Command, Context, Error, Flags, Group, Keys, Marks, Notes, ReplyMode};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&CLIENT];

const SUBCOMMANDS: &[&Command] = &[
    &tracking::CACHING,
    &GETNAME,
    &tracking::GETREDIR,
    &HELP,
    &ID,
    &list::INFO,
    &kill::KILL,
    &list::LIST,
    &NO_EVICT,
    &NO_TOUCH,
    &pause::PAUSE,
    &REPLY,
    &SETINFO,
    &SETNAME,
    &tracking::TRACKING,
    &tracking::TRACKINGINFO,
    &kill::UNBLOCK,
    &pause::UNPAUSE,
];

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
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about connections",
    subcommands: SUBCOMMANDS,
    run: client,
};

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
    notes: Notes::of("O(1)"),
    summary: "Returns the connection's unique ID",
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
    notes: Notes::of("O(1)"),
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
    syntax: "connection-name",
    arity: 3,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "2.6.9",
    notes: Notes::of("O(1)").tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    summary: "Sets the connection's name; an empty one removes it",
    subcommands: &[],
    run: setname,
};

/// The longest name of a connection or a library, in bytes: the logs keep it with each entry.
const NAME_BYTES: usize = 4096;
const NAME_TOO_LONG: Error = Error::fixed("ERR Names of clients must have at most 4096 bytes");

/// Parses a connection's name.
pub(crate) fn name(word: &[u8]) -> Result<String, Error> {
    if word.len() > NAME_BYTES {
        return Err(NAME_TOO_LONG);
    }
    printable(word).ok_or(Error::fixed(
        "ERR Client names cannot contain spaces, newlines or special characters.",
    ))
}

/// A word for CLIENT LIST, whose fields are separated by spaces; `None` unless all bytes are
/// printable ASCII characters other than a space.
fn printable(word: &[u8]) -> Option<String> {
    word.iter().all(u8::is_ascii_graphic).then(|| String::from_utf8_lossy(word).into_owned())
}

fn setinfo<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let attribute = args.at(2);
    if args.at(3).len() > NAME_BYTES {
        return Err(NAME_TOO_LONG);
    }
    let value = printable(args.at(3)).ok_or_else(|| {
        let after = " cannot contain spaces, newlines or special characters.";
        Error::quoting("ERR ", attribute, after)
    });
    let mut names = cx.client.info.names();
    if is(attribute, "LIB-NAME") {
        names.library_name = value?;
    } else if is(attribute, "LIB-VER") {
        names.library_version = value?;
    } else {
        return Err(Error::quoting("ERR Unrecognized option '", attribute, "'"));
    }
    cx.reply.ok();
    Ok(())
}

static SETINFO: Command = Command {
    name: "SETINFO",
    syntax: "<LIB-NAME libname | LIB-VER libver>",
    arity: 4,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "7.2.0",
    notes: Notes::of("O(1)").tips(&["request_policy:all_nodes", "response_policy:all_succeeded"]),
    summary: "Sets the client library of the connection",
    subcommands: &[],
    run: setinfo,
};

fn reply<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let mode = args.at(2);
    if is(mode, "ON") {
        cx.client.reply_mode = ReplyMode::All;
        cx.reply.ok();
    } else if is(mode, "OFF") {
        cx.client.reply_mode = ReplyMode::Nothing;
    } else if is(mode, "SKIP") {
        if cx.client.reply_mode != ReplyMode::Nothing {
            cx.client.reply_mode = ReplyMode::AllButNext;
        }
    } else {
        return Err(Error::SYNTAX);
    }
    Ok(())
}

static REPLY: Command = Command {
    name: "REPLY",
    syntax: "<ON | OFF | SKIP>",
    arity: 3,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "3.2.0",
    notes: Notes::of("O(1)"),
    summary: "Turns replies on or off, or skips the next one",
    subcommands: &[],
    run: reply,
};

fn no_evict<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    switch(cx, args.at(2), Marks::NO_EVICT)
}

static NO_EVICT: Command = Command {
    name: "NO-EVICT",
    syntax: "<ON | OFF>",
    arity: 3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "7.0.0",
    notes: Notes::of("O(1)"),
    summary: "Exempts the connection from being closed to save memory, or does not",
    subcommands: &[],
    run: no_evict,
};

fn no_touch<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    switch(cx, args.at(2), Marks::NO_TOUCH)
}

static NO_TOUCH: Command = Command {
    name: "NO-TOUCH",
    syntax: "<ON | OFF>",
    arity: 3,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "7.2.0",
    notes: Notes::of("O(1)"),
    summary: "Sets whether the connection's reads count as accesses, for eviction",
    subcommands: &[],
    run: no_touch,
};

fn switch(cx: &mut Context<'_>, word: &[u8], marks: Marks) -> Result<(), Error> {
    let on = is(word, "ON");
    if !on && !is(word, "OFF") {
        return Err(Error::SYNTAX);
    }
    cx.client.info.mark(marks, on);
    cx.reply.ok();
    Ok(())
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
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn names_and_library_attributes_are_checked_and_returned() {
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
    fn client_list_and_info_show_connections() {
        let mut bench = Bench::new();
        bench.expect_memcached("get a", "END|");
        bench.expect("SELECT 3", "+OK|");
        bench.expect("CLIENT SETNAME me", "+OK|");
        bench.expect("CLIENT SETINFO lib-name redis-py", "+OK|");
        bench.advance_ms(2500);
        let shown = |start: &str, database, request_bytes: usize, end: &str| {
            let memory_bytes = 1600 + request_bytes;
            format!(
                "{start} age=2 idle=2 flags=N db={database} sub=0 psub=0 ssub=0 multi=-1 watch=0 \
                 qbuf={request_bytes} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 \
                 omem=0 tot-mem={memory_bytes} events=r {end} tot-net-in=0 tot-net-out=0 \
                 tot-cmds=0\n"
            )
        };
        let own = |request: &str, label: &str| {
            let start = "id=1 addr=127.0.0.1:50001 laddr=127.0.0.1:6379 fd=7 name=me";
            let end = "user=default redir=-1 resp=2 lib-name=redis-py lib-ver=";
            shown(start, 3, request.len() + 2, &format!("cmd={label} {end}"))
        };
        let other = shown(
            "id=2 addr=127.0.0.1:50002 laddr=127.0.0.1:6379 fd=7 name=",
            0,
            0,
            "cmd=get user=default redir=-1 resp=0 lib-name= lib-ver=",
        );
        let bulk = |text: String| format!("${}|{text}|", text.len());
        bench.expect("CLIENT INFO", &bulk(own("CLIENT INFO", "client|info")));
        for request in ["CLIENT LIST", "CLIENT LIST TYPE normal", "CLIENT LIST ID 1 2 99"] {
            let own = own(request, "client|list");
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
    fn no_evict_and_no_touch_set_flags() {
        let mut bench = Bench::new();
        bench.expect("CLIENT NO-EVICT on", "+OK|");
        bench.expect("CLIENT NO-TOUCH ON", "+OK|");
        assert!(bench.call(&["CLIENT", "INFO"]).contains(" flags=eT "));
        bench.expect("CLIENT NO-TOUCH off", "+OK|");
        assert!(bench.call(&["CLIENT", "INFO"]).contains(" flags=e "));
        bench.expect(
            "CLIENT NO-TOUCH",
            "-ERR wrong number of arguments for 'client|no-touch' command|",
        );
        bench.expect("CLIENT NO-EVICT x", "-ERR syntax error|");
        bench.expect("CLIENT REPLY x", "-ERR syntax error|");
        bench.expect("CLIENT GETREDIR", ":-1|");
        let info = "*6|$5|flags|*1|$3|off|$8|redirect|:-1|$8|prefixes|*0|";
        bench.expect("CLIENT TRACKINGINFO", info);
    }

    #[test]
    fn help_lists_the_subcommands() {
        let mut bench = Bench::new();
        let help = bench.call(&["CLIENT", "HELP"]);
        assert!(help.starts_with("*37|+CLIENT <subcommand> [<arg> [value]"), "{help}");
        assert!(
            help.contains("|+SETNAME connection-name|+    Sets the connection's name"),
            "{help}"
        );
    }
}
