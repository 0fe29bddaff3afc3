//! Values out of the store.

use super::{Context, Error, Verb};
use crate::{Access, Keys};
use nagi_proto::Args;
use nagi_store::{EntryView, Value};

fn get<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    for bytes in args.from(1) {
        let key = cx.key(bytes);
        let Context { db, reply, tally, .. } = cx;
        db.get(key, |entry| match entry {
            None => tally.verbs.get_misses.add(1),
            Some(entry) => {
                tally.verbs.get_hits.add(1);
                value(reply, entry, None);
            }
        });
    }
    cx.reply.line("END");
    Ok(())
}

/// Writes `VALUE`, with the version where `cas` has one.
fn value(reply: &mut nagi_proto::memcached::Writer<'_>, entry: EntryView<'_>, cas: Option<u64>) {
    let value = entry.value();
    reply.value_header(entry.key(), entry.flags(), value.len(), cas);
    match value {
        Value::Rope(rope) => reply.data_chunks(rope.chunks().cloned()),
        value => value.with_bytes(|bytes| reply.data(bytes)),
    }
}

/// The row of `get`.
pub(crate) static GET: Verb = Verb {
    name: "get",
    words: 2,
    keys: Keys::all(Access::RO.union(Access::ACCESS)),
    summary: "Returns the values of keys",
    run: get,
};
