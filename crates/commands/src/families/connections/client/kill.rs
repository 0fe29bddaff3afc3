//! CLIENT KILL and CLIENT UNBLOCK: closing connections of other clients, and ending their waits.

use super::common::{ADMIN, unknown_use};
use super::list;
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::state::users::Users;
use crate::{Category, Class, ClientInfo, Command, Context, Error, Group, Keys, Notes};
use nagi_proto::Args;

/// The filters of CLIENT KILL; a missing filter accepts all connections.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    class: Option<Class>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    user: Option<&'a [u8]>,
    /// The latest time of connecting, in milliseconds since 1970.
    connected_by_ms: Option<u64>,
}

impl<'a> Filter<'a> {
    fn accepts(&self, client: &ClientInfo) -> bool {
        let is_at = |address: &str, wanted: Option<&[u8]>| {
            wanted.is_none_or(|wanted| wanted == address.as_bytes())
        };
        self.id.is_none_or(|id| id == client.id)
            && self.class.is_none_or(|class| class == client.class())
            && is_at(&client.shown_address(), self.address)
            && is_at(&client.local_address, self.local_address)
            && self.user.is_none_or(|user| *client.user() == *user)
            && self.connected_by_ms.is_none_or(|by_ms| client.connected_at_ms <= by_ms)
    }

    /// Reads the options. If an option is repeated, the last one takes precedence. Also returns
    /// whether to skip the requesting client.
    fn parse(
        users: &Users,
        now_ms: u64,
        options: &mut RemainingArguments<'a>,
    ) -> Result<(Self, bool), Error> {
        let (mut filter, mut skip_me) = (Filter::default(), true);
        while let Some(option) = options.next() {
            let value = options.value()?;
            if is(option, "ID") {
                let id = integer(value).ok().and_then(|id| u64::try_from(id).ok());
                let id = id.filter(|id| *id > 0);
                filter.id = Some(id.ok_or(Error::fixed("ERR client-id should be greater than 0"))?);
            } else if is(option, "TYPE") {
                filter.class = Some(list::class(value)?);
            } else if is(option, "ADDR") {
                filter.address = Some(value);
            } else if is(option, "LADDR") {
                filter.local_address = Some(value);
            } else if is(option, "USER") {
                if users.get(value).is_none() {
                    return Err(Error::quoting("ERR No such user '", value, "'"));
                }
                filter.user = Some(value);
            } else if is(option, "MAXAGE") {
                filter.connected_by_ms = Some(now_ms.saturating_sub(age_ms(value)?));
            } else if is(option, "SKIPME") && (is(value, "yes") || is(value, "no")) {
                skip_me = is(value, "yes");
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok((filter, skip_me))
    }
}

/// Reads the minimum age of a connection in seconds; returns it in milliseconds.
fn age_ms(value: &[u8]) -> Result<u64, Error> {
    const NO_AGE: Error = Error::fixed("ERR maxage should be greater than 0");
    let age_s =
        integer(value).map_err(|_| Error::fixed("ERR maxage is not an integer or out of range"))?;
    let age_s = u64::try_from(age_s).ok().filter(|age_s| *age_s > 0).ok_or(NO_AGE)?;
    Ok(age_s.saturating_mul(1000))
}

fn kill<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let by_address = args.len() == 3;
    let (filter, skip_me) = if by_address {
        (Filter { address: args.get(2), ..Filter::default() }, false)
    } else {
        let options = &mut RemainingArguments::from(args, 2);
        Filter::parse(cx.server.config().users(), cx.db.now_ms(), options)?
    };
    let own_id = cx.client.info.id;
    let mut clients = cx.server.clients();
    clients.retain(|client| filter.accepts(client) && !(skip_me && client.id == own_id));
    let count = clients.len();
    // If it closes itself, the requesting client first gets its reply.
    cx.client.closing |= clients.iter().any(|client| client.id == own_id);
    clients.retain(|client| client.id != own_id);
    cx.server.kill(&clients);
    match (by_address, count) {
        (true, 0) => return Err(Error::fixed("ERR No such client")),
        (true, _) => cx.reply.ok(),
        (false, _) => cx.reply.integer(count as i64),
    }
    Ok(())
}

pub(super) static KILL: Command = Command {
    name: "KILL",
    syntax: "<ip:port | <[ID client-id] | [TYPE <NORMAL | MASTER | SLAVE | REPLICA | PUBSUB>] | \
             [USER username] | [ADDR ip:port] | [LADDR ip:port] | [SKIPME <YES | NO>] | \
             [MAXAGE maxage] ...>>",
    arity: -3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "2.4.0",
    notes: Notes::of("O(N), N being the clients").history(&[
        ("2.8.12", "Filters, ID among them"),
        ("3.2.0", "TYPE master"),
        ("5.0.0", "TYPE replica, which was called slave"),
        ("6.2.0", "LADDR"),
        ("7.4.0", "MAXAGE"),
    ]),
    summary: "Closes the connections that match all filters, and returns their number",
    subcommands: &[],
    run: kill,
};

fn unblock<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let with_error = match args.get(3) {
        _ if args.len() > 4 => return Err(unknown_use("UNBLOCK")),
        Some(reason) if !is(reason, "TIMEOUT") && !is(reason, "ERROR") => {
            return Err(Error::fixed("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"));
        }
        reason => reason.is_some_and(|reason| is(reason, "ERROR")),
    };
    let client = u64::try_from(integer(args.at(2))?);
    let is_unblocked = client.is_ok_and(|id| cx.hooks.blocked.unblock(id, with_error));
    cx.reply.integer(is_unblocked.into());
    Ok(())
}

pub(super) static UNBLOCK: Command = Command {
    name: "UNBLOCK",
    syntax: "client-id [TIMEOUT | ERROR]",
    arity: -3,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "5.0.0",
    notes: Notes::of("O(1)"),
    summary: "Unblocks a client, as after its timeout or with an error",
    subcommands: &[],
    run: unblock,
};

#[cfg(test)]
mod tests {
    use super::Filter;
    use crate::Marks;
    use crate::testing::{Bench, START_MS, converse};

    #[test]
    fn invalid_arguments_are_refused() {
        converse(
            "CLIENT KILL => -ERR wrong number of arguments for 'client\u{7c}kill' command|
             CLIENT KILL 1.2.3.4:5 => -ERR No such client|
             CLIENT KILL ID 10 x => -ERR syntax error|
             CLIENT KILL ID x => -ERR client-id should be greater than 0|
             CLIENT KILL ID 0 => -ERR client-id should be greater than 0|
             CLIENT KILL TYPE x => -ERR Unknown client type 'x'|
             CLIENT KILL USER x => -ERR No such user 'x'|
             CLIENT KILL SKIPME x => -ERR syntax error|
             CLIENT KILL FOO x => -ERR syntax error|
             CLIENT KILL MAXAGE x => -ERR maxage is not an integer or out of range|
             CLIENT KILL MAXAGE 1.5 => -ERR maxage is not an integer or out of range|
             CLIENT KILL MAXAGE 0 => -ERR maxage should be greater than 0|
             CLIENT KILL MAXAGE -1 => -ERR maxage should be greater than 0|
             CLIENT KILL MAXAGE 9223372036854775807 => :0|
             CLIENT KILL ID 99 => :0|
             CLIENT KILL TYPE pubsub => :0|
             CLIENT KILL ID 2 ADDR x => :0|
             CLIENT UNBLOCK 1 => :0|
             CLIENT UNBLOCK 1 TIMEOUT => :0|
             CLIENT UNBLOCK 1 FOO => -ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR|
             CLIENT UNBLOCK x => -ERR value is not an integer or out of range|",
        );
    }

    #[test]
    fn only_matching_clients_are_killed() {
        for (request, reply, killed) in [
            ("CLIENT KILL ID 2", ":1|", true),
            ("CLIENT KILL ID 2 TYPE normal USER default", ":1|", true),
            ("CLIENT KILL 127.0.0.1:50002", "+OK|", true),
            ("CLIENT KILL ADDR 127.0.0.1:50002 LADDR 127.0.0.1:6379", ":1|", true),
            ("CLIENT KILL SKIPME yes", ":1|", true),
            ("CLIENT KILL ID 1", ":0|", false),
        ] {
            let mut bench = Bench::new();
            bench.expect(request, reply);
            assert_eq!(bench.memcached.info.marks().contains(Marks::KILLED), killed, "{request}");
            assert!(!bench.client.closing, "{request}");
        }
        let mut bench = Bench::new();
        bench.expect("CLIENT KILL MAXAGE 1", ":0|");
        let accepts = |connected_by_ms| {
            let filter = Filter { connected_by_ms, ..Filter::default() };
            filter.accepts(&bench.memcached.info)
        };
        assert!(accepts(Some(START_MS)) && !accepts(Some(START_MS - 1)));
        let mut bench = Bench::new();
        bench.expect("CLIENT KILL SKIPME no", ":2|");
        assert!(bench.client.closing);
    }
}
