//! The rules of users, and the client's own user.

use super::common::{ADMIN, PLAIN, TIPS};
use crate::runtime::rights;
use crate::state::pubsub::Kind;
use crate::state::users::{
    Acl, DEFAULT_USER, Name, RuleError, Selector, User, UsersByName, is_name,
};
use crate::{Category, ClientInfo, Command, Context, Error, Group, Keys, Notes};
use nagi_proto::{Args, resp};
use std::sync::Arc;

fn whoami<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    cx.reply.bulk(cx.client.user_name());
    Ok(())
}

pub(super) static WHOAMI: Command = Command {
    name: "WHOAMI",
    syntax: "",
    arity: 2,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the name of the connection's user",
    subcommands: &[],
    run: whoami,
};

fn users<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let users = cx.server.config().users().all();
    cx.reply.array(users.len());
    users.keys().for_each(|name| cx.reply.bulk(name));
    Ok(())
}

pub(super) static USERS: Command = Command {
    name: "USERS",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the names of all users",
    subcommands: &[],
    run: users,
};

fn list<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let users = cx.server.config().users().all();
    cx.reply.array(users.len());
    users.iter().for_each(|(name, user)| cx.reply.bulk(&user.line(name)));
    Ok(())
}

pub(super) static LIST: Command = Command {
    name: "LIST",
    syntax: "",
    arity: 2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the rules of all users, one line each",
    subcommands: &[],
    run: list,
};

/// The arguments that are secret: users, and their rules, which may contain passwords.
fn users_and_rules(args: Args<'_>) -> Vec<usize> {
    (2..args.len()).collect()
}

fn getuser<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let Some(user) = cx.server.config().users().get(args.at(2)) else {
        cx.reply.null();
        return Ok(());
    };
    let reply = &mut cx.reply;
    reply.map(6);
    reply.bulk(b"flags");
    let flags = user.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk(flag.as_bytes()));
    reply.bulk(b"passwords");
    reply.array(user.passwords().len());
    user.passwords().iter().for_each(|hash| reply.bulk(hash.as_bytes()));
    describe(reply, user.root());
    reply.bulk(b"selectors");
    reply.array(user.selectors().len());
    for selector in user.selectors() {
        reply.map(3);
        describe(reply, selector);
    }
    Ok(())
}

/// Writes the three fields with the permissions of a selector.
fn describe(reply: &mut resp::Writer<'_>, selector: &Selector) {
    reply.bulk(b"commands");
    reply.bulk(&selector.describe_commands());
    reply.bulk(b"keys");
    reply.bulk(&selector.describe_keys());
    reply.bulk(b"channels");
    reply.bulk(&selector.describe_channels());
}

pub(super) static GETUSER: Command = Command {
    name: "GETUSER",
    syntax: "username",
    arity: 3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)")
        .history(&[("6.2.0", "Channels"), ("7.0.0", "Selectors; patterns as one line of rules")])
        .secrets(users_and_rules),
    summary: "Returns what a user may do",
    subcommands: &[],
    run: getuser,
};

fn setuser<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    const BAD_NAME: Error = Error::fixed("ERR Usernames can't contain spaces or null characters");
    let config = cx.server.config();
    let name = args.at(2);
    if !is_name(name) {
        return Err(BAD_NAME);
    }
    let acl = Acl::new(cx.server.commands(), config.acl_pubsub_default.is_on());
    let changed = config.users().change(|users| {
        let before = users.get(name).cloned();
        let mut user = before.as_deref().cloned().unwrap_or_else(|| acl.new_user());
        acl.apply_all(&mut user, args.from(3))?;
        users.insert(name.into(), Arc::new(user));
        Ok(before)
    });
    let before = changed.map_err(|error: RuleError| Error::new(format!("ERR {error}")))?;
    let before: UsersByName = before.into_iter().map(|user| (name.into(), user)).collect();
    take_effect(cx, &before);
    cx.reply.ok();
    Ok(())
}

/// Applies changed users to connected clients: requests are checked from now on; clients of removed
/// users are closed, and so are subscribers to channels that their users may no longer use.
pub(super) fn take_effect(cx: &mut Context<'_>, before: &UsersByName) {
    rights::note_users(cx.server);
    let users = cx.server.config().users().all();
    let is_over = |client: &Arc<ClientInfo>| {
        let name = client.user();
        match (before.get(&name), users.get(&name)) {
            (Some(_), None) => true,
            (Some(_), Some(user)) => !may_listen(cx, client, user),
            (None, _) => false,
        }
    };
    let mut clients = cx.server.clients();
    clients.retain(is_over);
    let own_id = cx.client.info.id;
    // If it closes itself, the requesting client first gets its reply.
    cx.client.closing |= clients.iter().any(|client| client.id == own_id);
    clients.retain(|client| client.id != own_id);
    cx.server.kill(&clients);
}

/// Whether a user may use all channels that a client subscribes to.
fn may_listen(cx: &Context<'_>, client: &ClientInfo, user: &User) -> bool {
    client.subscriptions(Kind::Channel)
        + client.subscriptions(Kind::Pattern)
        + client.subscriptions(Kind::Shard)
        == 0
        || [Kind::Channel, Kind::Pattern, Kind::Shard].into_iter().all(|kind| {
            let names = cx.server.pubsub().names_of(client, kind);
            names.iter().all(|name| user.may_use_channel(name, kind == Kind::Pattern))
        })
}

pub(super) static SETUSER: Command = Command {
    name: "SETUSER",
    syntax: "username [rule ...]",
    arity: -3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(N), N being the rules")
        .history(&[("6.2.0", "Channels"), ("7.0.0", "Selectors, and rules about keys")])
        .tips(TIPS)
        .secrets(users_and_rules),
    summary: "Creates a user, or changes its rules",
    subcommands: &[],
    run: setuser,
};

fn deluser<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.from(2).any(|name| name == DEFAULT_USER) {
        return Err(Error::fixed("ERR The 'default' user cannot be removed"));
    }
    let removed: UsersByName = cx.server.config().users().change(|users| {
        args.from(2).filter_map(|name| users.remove_entry(&Name::from(name))).collect()
    });
    take_effect(cx, &removed);
    cx.reply.integer(i64::try_from(removed.len()).unwrap_or(i64::MAX));
    Ok(())
}

pub(super) static DELUSER: Command = Command {
    name: "DELUSER",
    syntax: "username [username ...]",
    arity: -3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(1)").tips(TIPS).secrets(users_and_rules),
    summary: "Removes users, whose connections are closed, and returns how many there were",
    subcommands: &[],
    run: deluser,
};
