//! Entries of streams by their ids.

use super::reply::write_some;
use super::{end_of_interval, start_of_interval};
use crate::families::elements::in_strides;
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::{Access, Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_store::Selection;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&XLEN, &XRANGE, &XREVRANGE];

fn xlen<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let len = cx.db.read_stream(cx.key(args.at(1)), |stream| stream.map_or(0, |it| it.len()))?;
    cx.reply.integer(len as i64);
    Ok(())
}

pub(crate) static XLEN: Command = Command {
    name: "XLEN",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns how many entries a stream has",
    subcommands: &[],
    run: xlen,
};

/// Replies with the entries of an interval, in either order.
fn show<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    (start, end): (usize, usize),
    backwards: bool,
) -> Result<(), Error> {
    let ids = (start_of_interval(args.at(start))?, end_of_interval(args.at(end))?);
    let (mut rest, mut count) = (RemainingArguments::from(args, 4), None);
    while let Some(option) = rest.next() {
        if !is(option, "COUNT") {
            return Err(Error::SYNTAX);
        }
        count = match integer(rest.value()?)? {
            // Redis treats a count of less than -1, its mark for no count, as 0.
            ..0 => Some(0),
            count => Some(count.cast_unsigned()),
        };
    }
    let Some(stream) = cx.db.stream(cx.key(args.at(1)))? else {
        cx.reply.array(0);
        return Ok(());
    };
    if count == Some(0) {
        cx.reply.null_array();
        return Ok(());
    }
    let mut entries = Selection::interval(stream, ids, count, backwards);
    cx.reply.array(entries.left() as usize);
    in_strides(cx, move |reply| write_some(reply, &mut entries))
}

fn xrange<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    show(cx, args, (2, 3), false)
}

pub(crate) static XRANGE: Command = Command {
    name: "XRANGE",
    syntax: "key start end [COUNT count]",
    arity: -4,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of(
        "O(log N + M), N being the entries of the stream and M those that are returned",
    )
    .history(&[("6.2.0", "Intervals without their ends")]),
    summary: "Returns the entries of a stream from one id to another",
    subcommands: &[],
    run: xrange,
};

fn xrevrange<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    show(cx, args, (3, 2), true)
}

pub(crate) static XREVRANGE: Command = Command {
    name: "XREVRANGE",
    syntax: "key end start [COUNT count]",
    arity: -4,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of(
        "O(log N + M), N being the entries of the stream and M those that are returned",
    )
    .history(&[("6.2.0", "Intervals without their ends")]),
    summary: "Returns the entries of a stream from one id back to another",
    subcommands: &[],
    run: xrevrange,
};
