//! Queueing of requests between MULTI and EXEC; a refused request makes EXEC refuse the whole
//! transaction.

use crate::Error;
use crate::registry::command::Flags;
use crate::runtime::command_flags;
use crate::runtime::context::{Context, Entry};
use crate::runtime::{gate, key_costs};
use nagi_proto::Args;
use std::sync::atomic::Ordering;

/// Queues a request of a client in a transaction, unless the command runs at once (such as EXEC).
/// Returns whether it was queued.
///
/// # Errors
/// The command is not allowed within a transaction.
#[cold]
pub(crate) fn queue(
    entry: &'static Entry,
    cx: &mut Context<'_>,
    args: Args<'_>,
) -> Result<bool, Error> {
    if entry.command.flags.contains(Flags::NOT_QUEUED) {
        return Ok(false);
    }
    let flags = command_flags::of(entry, cx, args);
    if flags.contains(Flags::NO_MULTI) {
        return Err(Error::fixed("ERR Command not allowed inside a transaction"));
    }
    if flags.contains(Flags::DENYOOM) && !has_room(cx, args) {
        return Err(Error::OUT_OF_MEMORY);
    }
    if let Some(queued) = &mut cx.client.transaction {
        queued.queue(entry.index, flags, args);
    }
    cx.client.note_transaction();
    cx.reply.simple("QUEUED");
    Ok(true)
}

/// Whether a request and those queued before it fit below `maxmemory`; evicts keys for them. EXEC
/// evicts nothing, so it would otherwise exceed the limit by everything that it stores.
fn has_room(cx: &Context<'_>, args: Args<'_>) -> bool {
    let store = cx.db.store();
    // As in Redis, nothing is evicted, and no request is refused for it, while clients are paused.
    if !store.is_limited() || cx.hooks.is_paused(cx.db.now_ms()) {
        return true;
    }
    if store.is_over_limit() && !gate::make_room(cx) {
        return false;
    }
    let queued = cx.client.info.queued_bytes.load(Ordering::Relaxed);
    let bytes = queued + key_costs::request_bytes(args);
    store.has_room_for(bytes) && {
        // If the time for this eviction is used up, the next request evicts the rest.
        let _is_missing = gate::make_room_for(cx, bytes);
        true
    }
}

/// Marks a client's transaction as failed after a refused request, so that EXEC refuses it. Returns
/// a reply that replaces `error`: for EXEC itself, that nothing was executed.
#[cold]
pub(crate) fn abort(entry: Option<&Entry>, cx: &mut Context<'_>, error: &Error) -> Option<Error> {
    if entry.is_some_and(|entry| entry.command.flags.contains(Flags::RUNS_QUEUED)) {
        drop(cx.client.end_transaction());
        cx.hooks.watched_keys.settle(cx.db.store());
        let text = String::from_utf8_lossy(&error.0);
        let why = text.strip_prefix("ERR ").unwrap_or(&text);
        return Some(Error::new(format!("EXECABORT Transaction discarded because of: {why}")));
    }
    cx.client.transaction.iter_mut().for_each(|queued| queued.abort());
    None
}
