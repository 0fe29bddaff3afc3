//! Connections: PING, login, selection of a database, and QUIT.

use crate::families::connections::client;
use crate::families::pubsub::subscription::leave;
use crate::runtime::admission;
use crate::runtime::arguments::{RemainingArguments, database, integer, is, value};
use crate::runtime::rights;
use crate::runtime::shown;
use crate::{
    Category, Command, Context, Error, Flags, Group, Keys, Marks, Notes, REDIS_VERSION, ReplyMode,
};
use nagi_proto::Args;
use nagi_proto::resp::Version;
use nagi_store::StringInput;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&AUTH, &ECHO, &HELLO, &PING, &QUIT, &RESET, &SELECT];

/// Flags of commands that are accepted in any state of the connection or of the server.
const ALWAYS: Flags = Flags::NOSCRIPT
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::FAST)
    .union(Flags::NO_AUTH)
    .union(Flags::ALLOW_BUSY);

/// A RESP2 client with subscriptions gets a reply in the form of a message.
fn ping<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.len() <= 2 && cx.client.receives_messages_only() {
        cx.reply.array(2);
        cx.reply.bulk(b"pong");
        cx.reply.bulk(args.get(1).unwrap_or_default());
        return Ok(());
    }
    match args.len() {
        1 => cx.reply.simple("PONG"),
        2 => return echo(cx, args),
        _ => return Err(Error::wrong_arity("ping")),
    }
    Ok(())
}

pub(crate) static PING: Command = Command {
    name: "PING",
    syntax: "[message]",
    arity: -1,
    flags: Flags::FAST.union(Flags::PROBE).union(Flags::WHILE_SUBSCRIBED),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "1.0.0",
    notes: Notes::of("O(1)").tips(&["request_policy:all_shards", "response_policy:all_succeeded"]),
    summary: "Answers PONG, or the message",
    subcommands: &[],
    run: ping,
};

fn echo<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    match value(args, 1) {
        StringInput::Bytes(bytes) => cx.reply.bulk(bytes),
        StringInput::Rope(rope) => cx.reply.bulk_chunks(rope.share(), 0..rope.len()),
    }
    Ok(())
}

pub(crate) static ECHO: Command = Command {
    name: "ECHO",
    syntax: "message",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE).union(Flags::FAST),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Answers the message",
    subcommands: &[],
    run: echo,
};

fn select<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    cx.client.select(database(cx, args.at(1))?);
    cx.reply.ok();
    Ok(())
}

pub(crate) static SELECT: Command = Command {
    name: "SELECT",
    syntax: "index",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE).union(Flags::FAST),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Chooses the database that the connection's further commands work on",
    subcommands: &[],
    run: select,
};

fn quit<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.client.quit();
    cx.reply.ok();
    Ok(())
}

pub(crate) static QUIT: Command = Command {
    name: "QUIT",
    syntax: "",
    arity: -1,
    flags: ALWAYS.union(Flags::NOT_QUEUED).union(Flags::WHILE_SUBSCRIBED),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "1.0.0",
    notes: Notes::of("O(1)").replaced("7.2.0", "closing the connection"),
    summary: "Closes the connection after earlier requests are answered",
    subcommands: &[],
    run: quit,
};

fn reset<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    // First, since messages that have arrived are in the version of the connection.
    leave(cx);
    cx.client.select(0);
    cx.client.speak(Version::Two);
    cx.client.info.rename(String::new());
    drop(cx.client.end_transaction());
    cx.client.restrictions = admission::restrictions(cx.server.config(), cx.client.restrictions);
    cx.client.reply_mode = ReplyMode::All;
    cx.client.become_user(cx.server.config().users(), admission::DEFAULT_USER);
    cx.client.info.mark(Marks::NO_EVICT | Marks::NO_TOUCH, false);
    client::tracking::stop(cx);
    shown::stop_monitoring(cx.server, &cx.client.info);
    cx.reply.set_version(Version::Two);
    cx.reply.simple("RESET");
    Ok(())
}

pub(crate) static RESET: Command = Command {
    name: "RESET",
    syntax: "",
    arity: 1,
    flags: ALWAYS.union(Flags::NOT_QUEUED).union(Flags::WHILE_SUBSCRIBED),
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "6.2.0",
    notes: Notes::of("O(1)"),
    summary: "Resets the connection to the state of a new one",
    subcommands: &[],
    run: reset,
};

/// Logs a client in, or records the failure.
fn log_in(
    cx: &mut Context<'_>,
    args: Args<'_>,
    user: Option<&[u8]>,
    password: &[u8],
) -> Result<(), Error> {
    let config = cx.server.config();
    let outcome = admission::log_in(cx.client, config, user, password);
    if outcome == Err(admission::WRONGPASS) {
        let user = user.unwrap_or(admission::DEFAULT_USER);
        rights::note_failed_login(cx, args.at(0), user);
    }
    outcome
}

fn auth<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (user, password) = match args.len() {
        2 => (None, args.at(1)),
        3 => (Some(args.at(1)), args.at(2)),
        _ => return Err(Error::SYNTAX),
    };
    log_in(cx, args, user, password)?;
    cx.reply.ok();
    Ok(())
}

pub(crate) static AUTH: Command = Command {
    name: "AUTH",
    syntax: "[username] password",
    arity: -2,
    flags: ALWAYS,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "1.0.0",
    notes: Notes::of("O(1)")
        .history(&[("6.0.0", "A username")])
        .secrets(|args| (1..args.len()).collect()),
    summary: "Logs a user in, by default the one called default, whose password is requirepass",
    subcommands: &[],
    run: auth,
};

fn hello<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let mut rest = RemainingArguments::from(args, 1);
    let version = match rest.next().map(integer) {
        None => cx.client.version,
        Some(Ok(2)) => Version::Two,
        Some(Ok(3)) => Version::Three,
        Some(Ok(_)) => return Err(Error::fixed("NOPROTO unsupported protocol version")),
        Some(Err(_)) => {
            return Err(Error::fixed("ERR Protocol version is not an integer or out of range"));
        }
    };
    let (mut login, mut name) = (None, None);
    while let Some(option) = rest.next() {
        let word = rest.next();
        let password = if is(option, "AUTH") { rest.next() } else { None };
        match (word, password) {
            (Some(user), Some(password)) => login = Some((user, password)),
            (Some(word), None) if is(option, "SETNAME") => name = Some(client::name(word)?),
            _ => {
                return Err(Error::quoting("ERR Syntax error in HELLO option '", option, "'"));
            }
        }
    }
    if let Some((user, password)) = login {
        log_in(cx, args, Some(user), password)?;
    }
    if admission::must_log_in(cx.client, cx.server.config()) {
        return Err(NOT_LOGGED_IN);
    }
    if let Some(name) = name {
        cx.client.info.rename(name);
    }
    cx.client.speak(version);
    cx.reply.set_version(version);
    describe(cx);
    Ok(())
}

const NOT_LOGGED_IN: Error = Error::fixed(
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
     <proto> AUTH <user> <pass> option can be used to authenticate the client and select the \
     RESP protocol version at the same time",
);

/// Describes the server. It is called redis because clients use the name to determine the supported
/// commands.
fn describe(cx: &mut Context<'_>) {
    let Context { reply, client, .. } = cx;
    reply.map(7);
    reply.bulk(b"server");
    reply.bulk(b"redis");
    reply.bulk(b"version");
    reply.bulk(REDIS_VERSION.as_bytes());
    reply.bulk(b"proto");
    reply.integer(client.version.number().into());
    reply.bulk(b"id");
    reply.integer(i64::try_from(client.info.id).unwrap_or(i64::MAX));
    reply.bulk(b"mode");
    reply.bulk(b"standalone");
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"modules");
    reply.array(0);
}

/// The username and the password after each AUTH.
fn login_in_hello(args: Args<'_>) -> Vec<usize> {
    let (mut at, mut secrets) = (1, Vec::new());
    while let Some(word) = args.get(at) {
        if is(word, "AUTH") {
            secrets.extend([at + 1, at + 2]);
            at += 2;
        }
        at += 1;
    }
    secrets
}

pub(crate) static HELLO: Command = Command {
    name: "HELLO",
    syntax: "[protover [AUTH username password] [SETNAME clientname]]",
    arity: -1,
    flags: ALWAYS,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "6.0.0",
    notes: Notes::of("O(1)")
        .history(&[("6.2.0", "The version may be left out")])
        .secrets(login_in_hello),
    summary: "Chooses RESP2 or RESP3 and tells about the server",
    subcommands: &[],
    run: hello,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn ping_echo_select_and_auth_reply_as_in_redis() {
        converse(
            "PING => +PONG|
             ping a => $1|a|
             PING a b => -ERR wrong number of arguments for 'ping' command|
             ECHO a => $1|a|
             ECHO => -ERR wrong number of arguments for 'echo' command|
             SELECT 15 => +OK|
             SELECT 16 => -ERR DB index is out of range|
             SELECT -1 => -ERR DB index is out of range|
             SELECT 2147483648 => -ERR value is out of range, value must between -2147483648 and
             ... 2147483647|
             SELECT x => -ERR value is not an integer or out of range|
             AUTH a => -ERR AUTH <password> called without any password configured for the
             ... default user. Are you sure your configuration is correct?|
             AUTH default a => +OK|
             AUTH other a => -WRONGPASS invalid username-password pair or user is disabled.|
             AUTH a b c => -ERR syntax error|",
        );
    }

    #[test]
    fn hello_switches_versions_and_checks_its_options() {
        let two = "*14|$6|server|$5|redis|$7|version|$5|7.2.4|$5|proto|:2|$2|id|:1|$4|mode|$10|\
                   standalone|$4|role|$6|master|$7|modules|*0|";
        let three = two.replace("*14", "%7").replace("proto|:2", "proto|:3");
        let mut bench = Bench::new();
        bench.expect("HELLO", two);
        bench.expect("HELLO 3", &three);
        bench.expect("HELLO", &three);
        bench.expect("HELLO 3 AUTH default x SETNAME me", &three);
        bench.expect("CLIENT GETNAME", "$2|me|");
        for (request, reply) in [
            ("HELLO x", "-ERR Protocol version is not an integer or out of range|"),
            ("HELLO 1", "-NOPROTO unsupported protocol version|"),
            ("HELLO 4", "-NOPROTO unsupported protocol version|"),
            ("HELLO 2 FOO", "-ERR Syntax error in HELLO option 'FOO'|"),
            ("HELLO 2 AUTH a", "-ERR Syntax error in HELLO option 'AUTH'|"),
            ("HELLO 2 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'|"),
            ("HELLO 2 AUTH a b FOO", "-ERR Syntax error in HELLO option 'FOO'|"),
            ("HELLO 2 AUTH a b", "-WRONGPASS invalid username-password pair or user is disabled.|"),
            (
                "HELLO 2 SETNAME 'a b'",
                "-ERR Client names cannot contain spaces, newlines or special characters.|",
            ),
            ("GET none", "_|"),
            ("RESET", "+RESET|"),
            ("GET none", "$-1|"),
            ("CLIENT GETNAME", "$-1|"),
        ] {
            bench.expect(request, reply);
        }
        assert!(!bench.client.closing);
        bench.expect("QUIT now", "+OK|");
        assert!(bench.client.closing);
    }
}
