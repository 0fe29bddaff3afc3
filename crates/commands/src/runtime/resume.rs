//! Resuming suspended requests.

use crate::runtime::context::{CommandSet, Context, Suspension};
use crate::runtime::gate;
use crate::runtime::notification;
use crate::runtime::suspension::{Remainder, When};
use crate::state::hooks::HookFlags;
use nagi_store::{Interning, Rope};

/// Continues a request for one slice. If `cx.suspension` is set afterwards, there is more to do.
pub fn go_on<C: CommandSet>(cx: &mut Context<'_, C>, suspension: Suspension<C>) {
    match suspension.what {
        // The job waits, since it would cause events faster than they are sent.
        Remainder::Job(job)
            if cx.hooks.reasons().contains(HookFlags::NOTIFIED) && notification::holds_up(cx) =>
        {
            let what = Remainder::Job(job);
            cx.suspension = Some(Suspension::<C> { what, when: When::Woken, ..suspension });
        }
        Remainder::Job(job) => {
            if let Err(error) = cx.start(job) {
                C::refuse(cx, &error);
            }
        }
        // `_place` keeps the place in the queue until the request has run.
        Remainder::Restart(_place) => {
            gate::end_hold(cx);
            C::execute(cx);
        }
        Remainder::LongKeys(keys) => restart_with(cx, keys),
    }
}

/// Runs a request from the start if its long keys have been found.
#[cold]
fn restart_with<C: CommandSet>(cx: &mut Context<'_, C>, keys: Vec<(usize, Interning)>) {
    if keys.iter().any(|(_, key)| key.found().is_none()) {
        cx.suspension = Some(Suspension::<C>::long_keys(keys));
        return;
    }
    for (place, key) in keys {
        if let Some((argument, found)) = cx.args.large(place).zip(key.found()) {
            // Dropping a rope passes the memory of large arguments to the reclaimer.
            drop(Rope::from_chunks(argument.join_as(found)));
        }
    }
    C::execute(cx);
}
