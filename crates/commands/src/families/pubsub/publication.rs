//! Publishing messages.

use crate::registry::notes::Channels;
use crate::runtime::arguments::value;
use crate::runtime::notification;
use crate::state::held_publications::{self, HeldPublication};
use crate::state::pubsub::{Kind, Message};
use crate::{Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&PUBLISH, &SPUBLISH];

const FLAGS: Flags = Flags::PUBSUB
    .union(Flags::LOADING)
    .union(Flags::STALE)
    .union(Flags::FAST)
    .union(Flags::PAUSED_AS_WRITE);

/// Whether a message has to wait, for earlier events or for workers that have not sent earlier
/// messages; if so, its client's waker will be called.
fn is_held_up(cx: &Context<'_>) -> bool {
    notification::leaves_events(cx) || cx.server.pubsub().holds_up(&cx.client.waker)
}

/// Publishes a message. If workers have too many unsent messages, waits first.
fn publish_to(cx: &mut Context<'_>, kind: Kind) -> Result<(), Error> {
    // A held message is not passed to workers yet.
    if held_publications::is_holding() {
        hold(cx, kind);
        return Ok(());
    }
    if !is_held_up(cx) {
        publish_now(cx, kind);
        return Ok(());
    }
    cx.start(Box::new(move |cx| {
        if is_held_up(cx) {
            return Ok(JobProgress::WOKEN);
        }
        publish_now(cx, kind);
        Ok(JobProgress::Done)
    }))
}

fn publish_now(cx: &mut Context<'_>, kind: Kind) {
    let args = cx.args;
    let published = cx.server.pubsub().publish(kind, args.at(1), || value(args, 2));
    cx.reply.integer(i64::try_from(published.receivers).unwrap_or(i64::MAX));
    notification::wake(cx.server, published);
}

/// Holds a script's message until the script ends, and replies with the number of receivers.
fn hold(cx: &mut Context<'_>, kind: Kind) {
    let channel = cx.args.at(1);
    let receivers = cx.server.pubsub().receivers(kind, channel);
    cx.reply.integer(i64::try_from(receivers).unwrap_or(i64::MAX));
    if receivers > 0 {
        let message = Message::from(value(cx.args, 2));
        let bytes = channel.len() + message.len();
        let message = HeldPublication::Message(kind, channel.into(), message);
        if let Some(message) = held_publications::hold(message, bytes) {
            notification::publish_held(cx.server, message);
        }
    }
}

fn publish<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    publish_to(cx, Kind::Channel)
}

static PUBLISH: Command = Command {
    name: "PUBLISH",
    syntax: "channel message",
    arity: 3,
    flags: FLAGS,
    keys: Keys::NONE,
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "2.0.0",
    notes: Notes::of("O(N+M), N being the workers with subscribers of the channel, M all patterns")
        .channels(Channels::First),
    summary: "Publishes a message, and returns how many clients receive it",
    subcommands: &[],
    run: publish,
};

fn spublish<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    publish_to(cx, Kind::Shard)
}

static SPUBLISH: Command = Command {
    name: "SPUBLISH",
    syntax: "shardchannel message",
    arity: 3,
    flags: FLAGS,
    keys: Keys::channels(1),
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the workers with subscribers of the channel")
        .channels(Channels::First),
    summary: "Publishes a message to a sharded channel, and returns how many clients receive it",
    subcommands: &[],
    run: spublish,
};
