//! Operations that verbs of all protocols share once their arguments are read: a single call of the
//! store, and statistics.

use super::watch::{self, Offer};
use super::{Context, Error, statistics};
use crate::Suspension;
use crate::runtime::dispatch;
use crate::state::latency_monitor::EVICTION;
use nagi_store::Key;
use nagi_store::types::counter::Arithmetic;
use nagi_store::types::versioned::{Count, Counted, Removal, Write, Written};

/// From this length on, room is made for a value before it is stored.
const LARGE_BYTES: usize = 32 << 10;

/// Makes room for a value of this length that is about to be stored under `key`.
pub(super) fn make_room(cx: &Context<'_>, key: Key<'_>, len: usize) -> Result<(), Error> {
    let latency = &cx.server.hooks().latency;
    let store = cx.db.store();
    let lacks_room = cx.args.has_large() && !store.has_room_for(cx.args.large_bytes());
    if !lacks_room && len >= LARGE_BYTES {
        // The value is stored even if there is no room yet.
        let _ = latency.time(EVICTION, || cx.db.make_room_for(len, &[key.hash()]));
    }
    if lacks_room || !has_room(cx) {
        cx.tally.verbs.no_memory.add(1);
        return Err(Error::OUT_OF_MEMORY);
    }
    Ok(())
}

/// Whether there is room for a small entry, after evicting others if necessary.
pub(super) fn has_room(cx: &Context<'_>) -> bool {
    let latency = &cx.server.hooks().latency;
    !cx.db.store().is_over_limit() || latency.time(EVICTION, || cx.db.make_room())
}

/// Stores a value, or appends or prepends to one.
pub(super) fn store(
    cx: &mut Context<'_>,
    key: Key<'_>,
    write: Write<'_>,
) -> Result<Written, Error> {
    let shown = watch::offered(cx, || Offer::of(&write));
    if let Err(error) = make_room(cx, key, write.value.len()) {
        watch::refused(cx, key, "no_memory", shown);
        return Err(error);
    }
    cx.tally.verbs.sets.add(1);
    let expects = write.expected.is_some();
    watch::looks_up(cx, key);
    let written = cx.db.store_versioned(key, write);
    watch::written(cx, key, written, shown);
    if cx.db.store().is_far_over_limit() {
        cx.suspension = Some(Suspension::job(dispatch::evicting(vec![key.hash()])));
    }
    let verbs = &cx.tally.verbs;
    verbs.stored.add(matches!(written, Written::Done { .. }).into());
    if expects {
        match written {
            Written::Done { .. } => verbs.cas_hits.add(1),
            Written::Changed => verbs.cas_changed.add(1),
            Written::Missing => verbs.cas_misses.add(1),
            Written::Refused | Written::TooLong => {}
        }
    }
    Ok(written)
}

/// Increments or decrements a counter.
pub(super) fn count(cx: &mut Context<'_>, key: Key<'_>, count: &Count) -> Result<Counted, Error> {
    if count.initial.is_some() {
        make_room(cx, key, 0)?;
    }
    watch::looks_up(cx, key);
    let counted = cx
        .db
        .count(key, count)
        .map_err(|_| Error("CLIENT_ERROR cannot increment or decrement non-numeric value"))?;
    let verbs = &cx.tally.verbs;
    let (hits, misses) = match count.step {
        Arithmetic::Up(_) => (&verbs.incr_hits, &verbs.incr_misses),
        Arithmetic::Down(_) => (&verbs.decr_hits, &verbs.decr_misses),
    };
    match counted {
        Counted::At { created: false, .. } => hits.add(1),
        // As in memcached, storing the initial value is neither a hit nor a miss.
        Counted::At { created: true, .. } => verbs.stored.add(1),
        Counted::Missing => misses.add(1),
        Counted::Changed => {}
    }
    if let Counted::At { created: true, .. } = counted
        && let Some((number, expiry)) = count.initial
    {
        let offer = watch::offered(cx, || Offer::initial(number, expiry));
        watch::stored(cx, key, "stored", offer);
    }
    Ok(counted)
}

/// Deletes a key, or marks its value as stale.
pub(super) fn remove(cx: &mut Context<'_>, key: Key<'_>, removal: &Removal) -> Written {
    watch::looks_up(cx, key);
    let written = cx.db.remove_versioned(key, removal);
    match written {
        // As in memcached, marking a value as stale does not count as deletion.
        Written::Done { .. } if !removal.invalidate => statistics::count_removal(cx.tally, true),
        Written::Missing => statistics::count_removal(cx.tally, false),
        _ => {}
    }
    written
}
