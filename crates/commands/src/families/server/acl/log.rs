//! ACL LOG: failed logins and refused requests.

use super::common::{ADMIN, wrong_use};
use crate::runtime::arguments::{integer, is};
use crate::state::access_log::Refusal;
use crate::{Category, Command, Context, Error, Group, Keys, Notes};
use nagi_proto::Args;

fn log<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let count = match args.get(2) {
        _ if args.len() > 3 => return Err(wrong_use(args)),
        None => 10,
        Some(word) if is(word, "RESET") => {
            cx.hooks.access_log.clear();
            cx.reply.ok();
            return Ok(());
        }
        Some(count) => usize::try_from(integer(count)?).unwrap_or(0),
    };
    let refusals = cx.hooks.access_log.latest(count);
    cx.reply.array(refusals.len());
    for refusal in refusals {
        log_entry(cx, &refusal);
    }
    Ok(())
}

fn log_entry(cx: &mut Context<'_>, refusal: &Refusal) {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let age_ms = cx.db.now_ms().saturating_sub(refusal.first_ms);
    let reply = &mut cx.reply;
    reply.map(10);
    reply.bulk(b"count");
    reply.integer(number(refusal.count));
    for (name, text) in [
        ("reason", refusal.reason.name().as_bytes()),
        ("context", refusal.context.as_bytes()),
        ("object", &refusal.object),
        ("username", &refusal.user),
    ] {
        reply.bulk(name.as_bytes());
        reply.bulk(text);
    }
    reply.bulk(b"age-seconds");
    reply.decimal(&format!("{}.{:03}", age_ms / 1000, age_ms % 1000));
    reply.bulk(b"client-info");
    reply.bulk(refusal.client.as_bytes());
    for (name, value) in [
        ("entry-id", refusal.id),
        ("timestamp-created", refusal.first_ms),
        ("timestamp-last-updated", refusal.last_ms),
    ] {
        reply.bulk(name.as_bytes());
        reply.integer(number(value));
    }
}

pub(super) static LOG: Command = Command {
    name: "LOG",
    syntax: "[count | RESET]",
    arity: -2,
    flags: ADMIN,
    keys: Keys::NONE,
    categories: Category::empty(),
    group: Group::Server,
    since: "6.0.0",
    notes: Notes::of("O(N), N being the failures returned")
        .history(&[("7.2.0", "The fields entry-id and timestamp-created and -last-updated")]),
    summary: "Returns or removes the latest failed logins and refused requests",
    subcommands: &[],
    run: log,
};
