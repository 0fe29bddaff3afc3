//! Enables the store's reports of changed keys, and publishes events.

use crate::runtime::context::{CommandSet, Context, Server};
use crate::state::client::ClientInfo;
use crate::state::held_publications::{self, HeldPublication};
use crate::state::hooks::HookFlags;
use crate::state::notifications::EventClasses;
use crate::state::pubsub::Published;
use nagi_store::{Counters, Store};

/// Makes the store report changes from now on if clients watch keys, track them, or subscribe to
/// events that `notify-keyspace-events` names.
pub fn settle(server: &dyn Server, store: &Store) {
    let hooks = server.hooks();
    hooks.watched_keys.settle_with(store, || {
        let bits = u32::try_from(server.config().notify_keyspace_events.get()).unwrap_or(0);
        let classes = EventClasses::from_bits_truncate(bits);
        let (is_wanted, misses) = hooks.notifications.listen(classes, server.pubsub());
        store.listen_for_misses(misses);
        hooks.set(HookFlags::NOTIFIED, is_wanted);
        is_wanted || hooks.tracking.is_used()
    });
}

/// Ends a client's tracking. Also ends the store's reports of changes, if no other client needs
/// them.
pub fn stop_tracking(server: &dyn Server, store: &Store, info: &ClientInfo) {
    if server.hooks().tracking.stop(info) {
        settle(server, store);
    }
}

/// Publishes pending events of keys, so that later subscriptions and messages come after them. No
/// latch may be held.
#[inline]
pub fn publish(server: &dyn Server) {
    let hooks = server.hooks();
    if hooks.notifications.is_pending() {
        publish_pending(server);
    }
    if hooks.tracking.is_pending() {
        push_invalidations(server);
    }
}

/// Ends the wait of clients whose stream has expired or was evicted. No latch may be held.
#[inline]
pub fn end_lost_waits(server: &dyn Server, store: &Store, counters: &Counters) {
    let blocked = &server.hooks().blocked;
    if blocked.has_lost_keys() {
        let _batch = store.batch(counters);
        let now_ms = store.now_ms();
        blocked.end_for_lost_keys(|index, name| {
            let db = store.database(index, counters, now_ms);
            db.untouched().inspect(db.key(name), |entry| entry.is_some())
        });
    }
}

/// Passes to workers the pushes for clients that track keys.
#[cold]
fn push_invalidations(server: &dyn Server) {
    let find = |id: u64| server.client(id);
    server.hooks().tracking.publish(find, |worker| server.show_messages(worker));
}

#[cold]
fn publish_pending(server: &dyn Server) {
    let notifications = &server.hooks().notifications;
    notifications.publish(server.pubsub(), |worker| server.show_messages(worker));
}

/// Whether a request that causes events has to wait, because workers have not sent earlier events;
/// if so, its client's waker will be called.
#[cold]
pub(crate) fn holds_up<C: CommandSet>(cx: &Context<'_, C>) -> bool {
    if cx.hooks.notifications.is_behind() {
        // The remaining events are published in the next tick.
        cx.client.waker.wake_by_ref();
        return true;
    }
    cx.server.pubsub().holds_up(&cx.client.waker)
}

/// Publishes pending events for a slice of time. Returns whether some are left, for which a message
/// or a subscription has to wait; if so, its client's waker has been called.
pub(crate) fn leaves_events(cx: &Context<'_>) -> bool {
    publish(cx.server);
    let leaves = cx.hooks.notifications.is_behind();
    if leaves {
        cx.client.waker.wake_by_ref();
    }
    leaves
}

/// Whether workers are behind with events, so that deferrable work must not cause more.
#[must_use]
pub fn is_behind(server: &dyn Server) -> bool {
    server.hooks().reasons().contains(HookFlags::NOTIFIED)
        && (server.hooks().notifications.is_behind() || server.pubsub().is_full())
}

/// Publishes all messages and events that this thread has held back, and stops holding.
pub(crate) fn end_holding(server: &dyn Server) {
    let held = held_publications::end();
    held.into_iter().for_each(|publication| publish_held(server, publication));
    publish(server);
}

/// Publishes a held message or event.
pub(crate) fn publish_held(server: &dyn Server, publication: HeldPublication) {
    match publication {
        HeldPublication::Event(event) => server.hooks().notifications.queue(event),
        HeldPublication::Message(kind, channel, message) => {
            // All earlier events are published before the message, whatever their number.
            publish(server);
            while server.hooks().notifications.is_behind() {
                publish(server);
            }
            wake(server, server.pubsub().publish(kind, &channel, || message));
        }
    }
}

/// Wakes the workers that have messages to send.
pub(crate) fn wake(server: &dyn Server, published: Published) {
    published.workers.into_iter().for_each(|worker| server.show_messages(worker));
}
