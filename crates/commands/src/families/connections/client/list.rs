//! CLIENT LIST and CLIENT INFO: a line with the state of each connection.

use super::common::{ADMIN, PLAIN};
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::client_line;
use crate::runtime::suspension::Slice;
use crate::{
    Category, Class, ClientInfo, Command, Context, Error, Group, JobProgress, Keys, Notes,
};
use nagi_proto::Args;
use std::sync::Arc;

fn info<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let mut line = String::new();
    let (bytes, now_ms) = (args.bytes().len(), cx.db.now_ms());
    client_line::describe(cx.server.commands(), &cx.client.info, bytes, now_ms, &mut line);
    cx.reply.text(&line);
    Ok(())
}

pub(super) static INFO: Command = Command {
    name: "INFO",
    syntax: "",
    arity: 2,
    flags: PLAIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "6.2.0",
    notes: Notes::of("O(1)").tips(&["nondeterministic_output"]),
    summary: "Returns the connection's own line of CLIENT LIST",
    subcommands: &[],
    run: info,
};

fn list<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let mut clients = chosen(cx, args)?.into_iter();
    let mut text = String::new();
    let request_bytes = args.bytes().len();
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        for client in clients.by_ref() {
            let own = client.id == cx.client.info.id;
            let request_bytes = if own { request_bytes } else { 0 };
            let now_ms = cx.db.now_ms();
            client_line::describe(cx.server.commands(), &client, request_bytes, now_ms, &mut text);
            if slice.is_over() {
                return Ok(JobProgress::NEXT_TICK);
            }
        }
        cx.reply.text(&text);
        Ok(JobProgress::Done)
    }))
}

/// The clients that the arguments of CLIENT LIST select.
fn chosen(cx: &Context<'_>, args: Args<'_>) -> Result<Vec<Arc<ClientInfo>>, Error> {
    let all = || {
        let mut clients = cx.server.clients();
        clients.sort_by_key(|client| client.id);
        clients
    };
    let Some(option) = args.get(2) else { return Ok(all()) };
    if is(option, "TYPE") && args.len() == 4 {
        let class = class(args.at(3))?;
        return Ok(all().into_iter().filter(|client| client.class() == class).collect());
    }
    if is(option, "ID") && args.len() > 3 {
        let clients = all();
        let mut chosen = Vec::new();
        for id in RemainingArguments::from(args, 3) {
            let id = integer(id).map_err(|_| Error::fixed("ERR Invalid client ID"))?;
            let place = clients.binary_search_by_key(&id, |client| client.id as i64).ok();
            chosen.extend(place.and_then(|place| clients.get(place)).cloned());
        }
        return Ok(chosen);
    }
    Err(Error::SYNTAX)
}

/// Parses a class of connections.
pub(super) fn class(word: &[u8]) -> Result<Class, Error> {
    Class::named(word).ok_or_else(|| Error::quoting("ERR Unknown client type '", word, "'"))
}

pub(super) static LIST: Command = Command {
    name: "LIST",
    syntax: "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]",
    arity: -2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::CONNECTION,
    group: Group::Connection,
    since: "2.4.0",
    notes: Notes::of("O(N), N being the clients")
        .history(&[
            ("2.8.12", "The field id"),
            ("5.0.0", "TYPE"),
            ("6.0.0", "The field user"),
            ("6.2.0", "ID, and the fields argv-mem, tot-mem, laddr and redir"),
            ("7.0.0", "The fields resp, multi-mem, rbs and rbp"),
            ("7.0.3", "The field ssub"),
            ("7.2.0", "The fields lib-name and lib-ver"),
            ("7.4.0", "The field watch"),
            ("8.2.0", "The fields tot-net-in, tot-net-out and tot-cmds"),
        ])
        .tips(&["nondeterministic_output"]),
    summary: "Returns one line per connection, including memcached's",
    subcommands: &[],
    run: list,
};
