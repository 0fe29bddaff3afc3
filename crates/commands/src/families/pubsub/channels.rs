//! PUBSUB: the channels with subscribers, and the numbers of subscribers.

use crate::glob::Pattern;
use crate::runtime::help;
use crate::runtime::suspension::Slice;
use crate::state::pubsub::Kind;
use crate::{Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::Args;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&PUBSUB];

const FLAGS: Flags = Flags::PUBSUB.union(Flags::LOADING).union(Flags::STALE);

fn pubsub<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::wrong_arity("pubsub"))
}

pub(crate) static PUBSUB: Command = Command {
    name: "PUBSUB",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::PubSub,
    since: "2.8.0",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about channels and their subscribers",
    subcommands: &[&CHANNELS, &NUMPAT, &NUMSUB, &SHARDCHANNELS, &SHARDNUMSUB, &HELP],
    run: pubsub,
};

/// Lists the channels that match a pattern, one part of the map at a time.
fn list(cx: &mut Context<'_>, kind: Kind, subcommand: &str) -> Result<(), Error> {
    if cx.args.len() > 3 {
        return Err(Error::unknown_form("PUBSUB", subcommand.as_bytes()));
    }
    let (mut part, mut found) = (0, Vec::new());
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        let pattern = Pattern::new(cx.args.get(2).unwrap_or(b"*"));
        while let Some(channels) = cx.server.pubsub().channels(kind, part, &pattern) {
            found.extend(channels);
            part += 1;
            if slice.is_over() {
                return Ok(JobProgress::NEXT_TICK);
            }
        }
        cx.reply.array(found.len());
        found.iter().for_each(|name| cx.reply.bulk(name));
        Ok(JobProgress::Done)
    }))
}

/// Replies with the number of subscribers of each channel in the request.
fn number(cx: &mut Context<'_>, kind: Kind) -> Result<(), Error> {
    cx.reply.array(2 * (cx.args.len() - 2));
    let mut next = 2;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        for name in cx.args.from(next) {
            cx.reply.bulk(name);
            let subscribers = cx.server.pubsub().subscribers(kind, name);
            cx.reply.integer(i64::try_from(subscribers).unwrap_or(i64::MAX));
            next += 1;
            if slice.is_over() {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
        Ok(JobProgress::Done)
    }))
}

fn channels<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    list(cx, Kind::Channel, "CHANNELS")
}

static CHANNELS: Command = Command {
    name: "CHANNELS",
    syntax: "[pattern]",
    arity: -2,
    flags: FLAGS,
    keys: Keys::NONE,
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "2.8.0",
    notes: Notes::of("O(N), N being the channels"),
    summary: "Returns the channels that have subscribers and match the pattern",
    subcommands: &[],
    run: channels,
};

fn numpat<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let patterns = cx.server.pubsub().count(Kind::Pattern);
    cx.reply.integer(i64::try_from(patterns).unwrap_or(i64::MAX));
    Ok(())
}

static NUMPAT: Command = Command {
    name: "NUMPAT",
    syntax: "",
    arity: 2,
    flags: FLAGS,
    keys: Keys::NONE,
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "2.8.0",
    notes: Notes::of("O(1)"),
    summary: "Returns how many patterns have subscribers",
    subcommands: &[],
    run: numpat,
};

fn numsub<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    number(cx, Kind::Channel)
}

static NUMSUB: Command = Command {
    name: "NUMSUB",
    syntax: "[channel [channel ...]]",
    arity: -2,
    flags: FLAGS,
    keys: Keys::NONE,
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "2.8.0",
    notes: Notes::of("O(N), N being the channels of the request"),
    summary: "Returns channels with the number of their subscribers, without those of patterns",
    subcommands: &[],
    run: numsub,
};

fn shardchannels<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    list(cx, Kind::Shard, "SHARDCHANNELS")
}

static SHARDCHANNELS: Command = Command {
    name: "SHARDCHANNELS",
    syntax: "[pattern]",
    arity: -2,
    flags: FLAGS,
    keys: Keys::NONE,
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the channels"),
    summary: "Returns the sharded channels that have subscribers and match the pattern",
    subcommands: &[],
    run: shardchannels,
};

fn shardnumsub<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    number(cx, Kind::Shard)
}

static SHARDNUMSUB: Command = Command {
    name: "SHARDNUMSUB",
    syntax: "[shardchannel [shardchannel ...]]",
    arity: -2,
    flags: FLAGS,
    keys: Keys::NONE,
    categories: Category::PUBSUB,
    group: Group::PubSub,
    since: "7.0.0",
    notes: Notes::of("O(N), N being the channels of the request"),
    summary: "Returns sharded channels with the number of their subscribers",
    subcommands: &[],
    run: shardnumsub,
};

fn help_text<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &PUBSUB);
    Ok(())
}

static HELP: Command = Command {
    name: "HELP",
    syntax: "",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::PubSub,
    since: "6.2.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help_text,
};
