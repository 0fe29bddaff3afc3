//! Strings.

use crate::{Category, Command, Context, Error, Flags, Group, Keys};
use nagi_proto::Args;
use nagi_store::{EntryView, Value};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&GET];

fn get<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let key = cx.key(args.at(1));
    let Context { db, reply, .. } = cx;
    db.get(key, |entry| match entry.map(|entry: EntryView<'_>| entry.value()) {
        None => reply.null(),
        Some(Value::Bytes(bytes)) => reply.bulk(bytes),
        Some(Value::Int(value)) => reply.bulk_integer(value),
        Some(Value::Rope(rope)) => reply.bulk_chunks(rope.len(), rope.chunks().cloned()),
    });
    Ok(())
}

/// The row of GET.
pub(crate) static GET: Command = Command {
    name: "GET",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::ONE,
    categories: Category::STRING,
    group: Group::String,
    since: "1.0.0",
    summary: "Returns the string stored under a key",
    subcommands: &[],
    run: get,
};
