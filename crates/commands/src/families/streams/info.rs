//! The state of streams, their groups and consumers.

use super::reply::{Stride, write_some};
use super::{no_group_of_key, write_entry, write_id};
use crate::families::elements::in_strides;
use crate::runtime::arguments::{integer, is};
use crate::runtime::help;
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::types::stream::{ConsumerView, GroupView, NoGroup, PendingView};
use nagi_store::{Selection, Stream, StreamId};
use std::ops::ControlFlow;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&XINFO];

const SUBCOMMANDS: &[&Command] = &[&CONSUMERS, &GROUPS, &HELP, &STREAM];

const NO_KEY: Error = Error::fixed("ERR no such key");
/// Default number of entries that are returned per list.
const DEFAULT_COUNT: u64 = 10;

fn xinfo<'a>(_: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    Err(Error::wrong_arity("xinfo"))
}

pub(crate) static XINFO: Command = Command {
    name: "XINFO",
    syntax: "subcommand",
    arity: -2,
    flags: Flags::empty(),
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("Depends on the subcommand"),
    summary: "Commands about the state of streams",
    subcommands: SUBCOMMANDS,
    run: xinfo,
};

fn name(reply: &mut Writer<'_>, name: &str) {
    reply.bulk(name.as_bytes());
}

fn number(reply: &mut Writer<'_>, field: &str, number: u64) {
    name(reply, field);
    reply.integer(number.cast_signed());
}

fn id(reply: &mut Writer<'_>, field: &str, id: StreamId) {
    name(reply, field);
    write_id(reply, id);
}

/// Writes a number, or null if it is unknown.
fn number_or_null(reply: &mut Writer<'_>, field: &str, number: Option<i64>) {
    name(reply, field);
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

/// Writes the fields that both forms of the reply begin with.
fn write_head(reply: &mut Writer<'_>, stream: &Stream) {
    number(reply, "length", stream.len());
    number(reply, "radix-tree-keys", stream.nodes());
    // All inner nodes of the tree count as one.
    number(reply, "radix-tree-nodes", stream.nodes() + 1);
    id(reply, "last-generated-id", stream.last_id());
    id(reply, "max-deleted-entry-id", stream.max_deleted_id());
    number(reply, "entries-added", stream.entries_added());
    id(reply, "recorded-first-entry-id", stream.first_id());
}

fn stream<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let stream = cx.db.stream(cx.key(args.at(2)))?.ok_or(NO_KEY)?;
    let wrong = || Error::unknown_form("XINFO", args.at(1));
    let count = match args.len() {
        3 => None,
        4 | 6 if !is(args.at(3), "FULL") => return Err(wrong()),
        4 => Some(DEFAULT_COUNT),
        6 if is(args.at(4), "COUNT") => {
            Some(u64::try_from(integer(args.at(5))?).unwrap_or(DEFAULT_COUNT))
        }
        _ => return Err(wrong()),
    };
    let reply = &mut cx.reply;
    if let Some(count) = count {
        reply.map(9);
        write_head(reply, &stream);
        let most = if count == 0 { u64::MAX } else { count };
        let all = (StreamId::MIN, StreamId::MAX);
        let entries = Selection::interval(stream.clone(), all, Some(most), false);
        name(reply, "entries");
        reply.array(entries.left() as usize);
        let mut full = Full { stream, most, at: At::Entries(entries) };
        return in_strides(cx, move |reply| full.write_some(reply));
    }
    reply.map(10);
    write_head(reply, &stream);
    number(reply, "groups", stream.group_count());
    for (field, id) in [("first-entry", stream.first_id()), ("last-entry", stream.last_entry_id())]
    {
        name(reply, field);
        match stream.get(id) {
            Some(entry) => write_entry(reply, &entry),
            None => reply.null(),
        }
    }
    Ok(())
}

/// The reply to XINFO STREAM FULL, which is written in parts.
struct Full {
    stream: Stream,
    /// Maximum entries per list.
    most: u64,
    at: At,
}

/// The part to write next: entries, a group, the group's pending entries, a consumer of the group,
/// or the consumer's pending entries. Groups and consumers are given by their numbers.
enum At {
    Entries(Selection),
    Group(u64),
    Pending { group: u64, from: StreamId, left: u64 },
    Consumer { group: u64, number: u64 },
    Owned { group: u64, number: u64, from: StreamId, left: u64 },
}

impl Full {
    fn group(&self, number: u64) -> Option<GroupView<'_>> {
        self.stream.walk_groups(number, ControlFlow::Break)
    }

    fn consumer(&self, group: u64, number: u64) -> Option<ConsumerView<'_>> {
        self.group(group)?.walk_consumers(number, ControlFlow::Break)
    }

    /// Writes the next part. Returns `true` if there was none, since the reply is complete.
    fn write_some(&mut self, reply: &mut Writer<'_>) -> bool {
        let next = match &mut self.at {
            At::Entries(entries) => {
                if write_some(reply, entries) {
                    name(reply, "groups");
                    reply.array(self.stream.group_count() as usize);
                    self.at = At::Group(0);
                }
                return false;
            }
            At::Group(group) => {
                let group = *group;
                let Some(view) = self.group(group) else { return true };
                let left = view.pending_count().min(self.most);
                write_group(reply, view, left);
                At::Pending { group, from: StreamId::MIN, left }
            }
            At::Pending { group, from, left } => {
                let (group, from, left) = (*group, *from, *left);
                let Some(view) = self.group(group) else { return true };
                match write_pending(reply, left, true, |visit| view.walk_pending(from, visit)) {
                    Some((from, left)) => At::Pending { group, from, left },
                    None => {
                        name(reply, "consumers");
                        reply.array(view.consumer_count() as usize);
                        At::Consumer { group, number: 0 }
                    }
                }
            }
            At::Consumer { group, number } => {
                let (group, number) = (*group, *number);
                match self.consumer(group, number) {
                    Some(consumer) => {
                        let left = consumer.pending_count().min(self.most);
                        write_consumer(reply, consumer, left);
                        At::Owned { group, number, from: StreamId::MIN, left }
                    }
                    None => At::Group(group + 1),
                }
            }
            At::Owned { group, number, from, left } => {
                let (group, number, from, left) = (*group, *number, *from, *left);
                let Some(view) = self.consumer(group, number) else { return true };
                match write_pending(reply, left, false, |visit| view.walk_pending(from, visit)) {
                    Some((from, left)) => At::Owned { group, number, from, left },
                    None => At::Consumer { group, number: number + 1 },
                }
            }
        };
        self.at = next;
        false
    }
}

fn write_group(reply: &mut Writer<'_>, group: GroupView<'_>, pending: u64) {
    reply.map(7);
    name(reply, "name");
    reply.bulk(group.name());
    id(reply, "last-delivered-id", group.last_id());
    number_or_null(reply, "entries-read", group.entries_read().map(u64::cast_signed));
    number_or_null(reply, "lag", group.lag());
    number(reply, "pel-count", group.pending_count());
    name(reply, "pending");
    reply.array(pending as usize);
}

fn write_consumer(reply: &mut Writer<'_>, consumer: ConsumerView<'_>, pending: u64) {
    reply.map(5);
    name(reply, "name");
    reply.bulk(consumer.name());
    number(reply, "seen-time", consumer.seen_ms());
    number_or_null(reply, "active-time", Some(consumer.active_ms().map_or(-1, u64::cast_signed)));
    number(reply, "pel-count", consumer.pending_count());
    name(reply, "pending");
    reply.array(pending as usize);
}

/// Writes some of `left` pending entries. Returns where to continue and the remaining number, or
/// `None` if there are no more.
fn write_pending<'a>(
    reply: &mut Writer<'_>,
    left: u64,
    with_consumer: bool,
    walk: impl FnOnce(&mut dyn FnMut(PendingView<'a>) -> ControlFlow<()>) -> Option<()>,
) -> Option<(StreamId, u64)> {
    let (mut stride, mut shown, mut last) = (Stride::begin(reply), 0, StreamId::MIN);
    walk(&mut |it: PendingView<'a>| {
        if shown == left {
            return ControlFlow::Break(());
        }
        (shown, last) = (shown + 1, it.id);
        reply.array(if with_consumer { 4 } else { 3 });
        write_id(reply, it.id);
        if with_consumer {
            reply.bulk(it.consumer);
        }
        reply.integer(it.delivered_ms.cast_signed());
        reply.integer(it.deliveries.cast_signed());
        stride.count(reply)
    });
    let left = left - shown;
    last.next().filter(|_| left > 0 && shown > 0).map(|next| (next, left))
}

static STREAM: Command = Command {
    name: "STREAM",
    syntax: "key [FULL [COUNT count]]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::at(2, Access::RO.union(Access::ACCESS))),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(log N), N being the entries of the stream, and those that are returned")
        .history(&[
            ("6.0.0", "FULL"),
            ("7.0.0", "What was deleted and added, the first id, what groups have read"),
            ("7.2.0", "active-time, and another meaning of seen-time"),
        ]),
    summary: "Returns the state of a stream, and with FULL its entries and groups",
    subcommands: &[],
    run: stream,
};

fn groups<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let stream = cx.db.stream(cx.key(args.at(2)))?.ok_or(NO_KEY)?;
    cx.reply.array(stream.group_count() as usize);
    let mut written = 0;
    in_strides(cx, move |reply| {
        let mut stride = Stride::begin(reply);
        let broken = stream.walk_groups(written, |group| {
            reply.map(6);
            name(reply, "name");
            reply.bulk(group.name());
            number(reply, "consumers", group.consumer_count());
            number(reply, "pending", group.pending_count());
            id(reply, "last-delivered-id", group.last_id());
            number_or_null(reply, "entries-read", group.entries_read().map(u64::cast_signed));
            number_or_null(reply, "lag", group.lag());
            written += 1;
            stride.count(reply)
        });
        broken.is_none()
    })
}

static GROUPS: Command = Command {
    name: "GROUPS",
    syntax: "key",
    arity: 3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::at(2, Access::RO.union(Access::ACCESS))),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(N), N being the groups").history(&[("7.0.0", "entries-read and lag")]),
    summary: "Returns the state of the groups of a stream",
    subcommands: &[],
    run: groups,
};

fn consumers<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let stream = cx.db.stream(cx.key(args.at(2)))?.ok_or(NO_KEY)?;
    let group = stream.view_group(args.at(3));
    let missing = || no_group_of_key(NoGroup::Group, args.at(2), args.at(3));
    cx.reply.array(group.ok_or_else(missing)?.consumer_count() as usize);
    let (group, now_ms, mut written) = (args.at(3).to_vec(), cx.db.now_ms(), 0);
    in_strides(cx, move |reply| {
        let mut stride = Stride::begin(reply);
        let Some(group) = stream.view_group(&group) else { return true };
        let broken = group.walk_consumers(written, |consumer| {
            reply.map(4);
            name(reply, "name");
            reply.bulk(consumer.name());
            number(reply, "pending", consumer.pending_count());
            number(reply, "idle", now_ms.saturating_sub(consumer.seen_ms()));
            let inactive_ms = |active_ms: u64| now_ms.saturating_sub(active_ms).cast_signed();
            let inactive_ms = consumer.active_ms().map_or(-1, inactive_ms);
            number_or_null(reply, "inactive", Some(inactive_ms));
            written += 1;
            stride.count(reply)
        });
        broken.is_none()
    })
}

static CONSUMERS: Command = Command {
    name: "CONSUMERS",
    syntax: "key group",
    arity: 4,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::at(2, Access::RO.union(Access::ACCESS))),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(N), N being the consumers")
        .history(&[("7.2.0", "inactive, and another meaning of idle")])
        .tips(&["nondeterministic_output"]),
    summary: "Returns the state of the consumers of a group",
    subcommands: &[],
    run: consumers,
};

fn help<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    help::reply(cx, &XINFO);
    Ok(())
}

static HELP: Command = Command {
    name: "HELP",
    syntax: "",
    arity: 2,
    flags: Flags::LOADING.union(Flags::STALE),
    keys: Keys::NONE,
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(1)"),
    summary: "Lists the subcommands",
    subcommands: &[],
    run: help,
};
