//! Subscribing to channels and patterns, and unsubscribing from them.
//!
//! The reply is a message for each name. It is in order with published messages: those published
//! after a subscription arrive after its confirmation.

use crate::registry::notes::Channels;
use crate::runtime::suspension::Slice;
use crate::runtime::{notification, rights};
use crate::state::pubsub::Kind;
use crate::{Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::{Args, Output};

/// The family's rows.
pub(crate) static ALL: &[&Command] =
    &[&SUBSCRIBE, &UNSUBSCRIBE, &PSUBSCRIBE, &PUNSUBSCRIBE, &SSUBSCRIBE, &SUNSUBSCRIBE];

const FLAGS: Flags = Flags::PUBSUB
    .union(Flags::NOSCRIPT)
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::MESSAGES);

/// Subscribes to all names of the request, in slices. The permission is checked again after that: a
/// change of the user either sees the subscriptions, or is seen here.
fn add(cx: &mut Context<'_>, kind: Kind, word: &'static str) -> Result<(), Error> {
    let (mut next, mut checked) = (1, cx.client.known_generation());
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        if notification::leaves_events(cx) {
            return Ok(JobProgress::WOKEN);
        }
        while let Some(name) = cx.args.get(next) {
            let before = cx.server.pubsub().subscribe(&cx.client.info, kind, name);
            confirm(cx, kind, word, Some(name), &before);
            next += 1;
            if slice.is_over() {
                break;
            }
        }
        close_unless_permitted(cx, &mut checked);
        // Before the first confirmation is sent: events that follow it are expected.
        notification::settle(cx.server, cx.db.store());
        Ok(match next < cx.args.len() {
            true => JobProgress::ROOM_FOR_REPLIES,
            false => JobProgress::Done,
        })
    }))
}

/// Closes the connection if its user may no longer run the request; `checked` is the generation of
/// users for which that was checked last.
fn close_unless_permitted(cx: &mut Context<'_>, checked: &mut Option<u64>) {
    let (args, generation) = (cx.args, cx.server.config().users().generation());
    if checked.replace(generation) == Some(generation) {
        return;
    }
    let entry = cx.server.commands().find(args.at(0));
    cx.client.closing |= entry.is_some_and(|entry| rights::check(cx, entry, args).is_err());
}

/// Unsubscribes from the names in the request; without names, from all names of this kind.
fn remove(cx: &mut Context<'_>, kind: Kind, word: &'static str) -> Result<(), Error> {
    let all = match cx.args.len() {
        1 => Some(cx.server.pubsub().names_of(&cx.client.info, kind)),
        _ => None,
    };
    if all.as_ref().is_some_and(Vec::is_empty) {
        confirm(cx, kind, word, None, &Output::default());
        return Ok(());
    }
    let mut next = 0;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        if notification::leaves_events(cx) {
            return Ok(JobProgress::WOKEN);
        }
        loop {
            let name = match &all {
                Some(all) => all.get(next).map(|name| &name[..]),
                None => cx.args.get(next + 1),
            };
            let Some(name) = name else { return Ok(JobProgress::Done) };
            let before = cx.server.pubsub().unsubscribe(&cx.client.info, kind, name);
            confirm(cx, kind, word, Some(name), &before);
            next += 1;
            if slice.is_over() {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
    }))
}

/// Confirms a change with the number of names to which the client now subscribes, after its earlier
/// messages.
fn confirm(cx: &mut Context<'_>, kind: Kind, word: &str, name: Option<&[u8]>, before: &Output) {
    if cx.client.is_executing {
        cx.client.hold_messages(before);
    } else {
        // Those that came between the slices of this request are older.
        cx.reply.append(&cx.client.take_messages());
        cx.reply.append(before);
    }
    cx.client.note_subscriptions();
    let count = |kind| cx.client.info.subscriptions(kind);
    let count = match kind {
        Kind::Shard => count(Kind::Shard),
        Kind::Channel | Kind::Pattern => count(Kind::Channel) + count(Kind::Pattern),
    };
    cx.reply.message(3);
    cx.reply.bulk(word.as_bytes());
    match name {
        Some(name) => cx.reply.bulk(name),
        None => cx.reply.null(),
    }
    cx.reply.integer(i64::try_from(count).unwrap_or(i64::MAX));
}

/// Unsubscribes the client from all names, without a confirmation.
pub(crate) fn leave(cx: &mut Context<'_>) {
    if !cx.client.info.is_subscriber() {
        return;
    }
    let before = cx.server.pubsub().leave(&cx.client.info);
    cx.client.note_subscriptions();
    // The worker removes the rest if there were very many.
    cx.server.show_messages(cx.client.info.worker());
    cx.reply.append(&before);
}

fn subscribe<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    add(cx, Kind::Channel, "subscribe")
}

static SUBSCRIBE: Command = Command {
    name: "SUBSCRIBE",
    syntax: "channel [channel ...]",
    arity: -2,
    flags: FLAGS,
    keys: Keys::NONE,
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the channels").channels(Channels::All),
    summary: "Subscribes to channels",
    subcommands: &[],
    run: subscribe,
};

fn unsubscribe<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    remove(cx, Kind::Channel, "unsubscribe")
}

static UNSUBSCRIBE: Command = Command {
    name: "UNSUBSCRIBE",
    syntax: "[channel [channel ...]]",
    arity: -1,
    flags: FLAGS,
    keys: Keys::NONE,
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the channels"),
    summary: "Unsubscribes from channels, by default from all",
    subcommands: &[],
    run: unsubscribe,
};

fn psubscribe<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    add(cx, Kind::Pattern, "psubscribe")
}

static PSUBSCRIBE: Command = Command {
    name: "PSUBSCRIBE",
    syntax: "pattern [pattern ...]",
    arity: -2,
    flags: FLAGS,
    keys: Keys::NONE,
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the patterns").channels(Channels::Patterns),
    summary: "Subscribes to the channels whose names match patterns",
    subcommands: &[],
    run: psubscribe,
};

fn punsubscribe<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    remove(cx, Kind::Pattern, "punsubscribe")
}

static PUNSUBSCRIBE: Command = Command {
    name: "PUNSUBSCRIBE",
    syntax: "[pattern [pattern ...]]",
    arity: -1,
    flags: FLAGS,
    keys: Keys::NONE,
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the patterns"),
    summary: "Unsubscribes from patterns, by default from all",
    subcommands: &[],
    run: punsubscribe,
};

fn ssubscribe<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    if cx.client.is_executing {
        return Err(Error::fixed("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    add(cx, Kind::Shard, "ssubscribe")
}

static SSUBSCRIBE: Command = Command {
    name: "SSUBSCRIBE",
    syntax: "shardchannel [shardchannel ...]",
    arity: -2,
    flags: FLAGS,
    keys: Keys::channels(-1),
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the channels").channels(Channels::All),
    summary: "Subscribes to sharded channels",
    subcommands: &[],
    run: ssubscribe,
};

fn sunsubscribe<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    remove(cx, Kind::Shard, "sunsubscribe")
}

static SUNSUBSCRIBE: Command = Command {
    name: "SUNSUBSCRIBE",
    syntax: "[shardchannel [shardchannel ...]]",
    arity: -1,
    flags: FLAGS,
    keys: Keys::channels(-1),
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the channels"),
    summary: "Unsubscribes from sharded channels, by default from all",
    subcommands: &[],
    run: sunsubscribe,
};
