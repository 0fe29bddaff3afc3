//! Distributes the store's reports of changes to watched keys, blocked clients, tracked keys and
//! notifications: the store supports only one listener.

use crate::state::blocked::BlockedClients;
use crate::state::hooks::RequestHooks;
use crate::state::notifications::Notifications;
use crate::state::tracking::Tracking;
use crate::state::watched_keys::WatchedKeys;
use nagi_store::{ChangeListener, StoreChange};
use std::sync::Arc;

/// Passes each change to all of its receivers.
#[derive(Debug)]
pub struct EventsListener {
    watched_keys: Arc<WatchedKeys>,
    blocked: Arc<BlockedClients>,
    notifications: Arc<Notifications>,
    tracking: Arc<Tracking>,
}

impl EventsListener {
    /// A listener for the watched keys, the blocked clients, the tracked keys and the notifications
    /// of `hooks`.
    #[must_use]
    pub fn new(hooks: &RequestHooks) -> Self {
        let (watched_keys, notifications) = (&hooks.watched_keys, &hooks.notifications);
        EventsListener {
            watched_keys: Arc::clone(watched_keys),
            blocked: Arc::clone(&hooks.blocked),
            notifications: Arc::clone(notifications),
            tracking: Arc::clone(&hooks.tracking),
        }
    }
}

impl ChangeListener for EventsListener {
    fn changed(&self, change: &StoreChange) {
        self.watched_keys.note(change);
        self.blocked.note_removals(change);
        self.tracking.note(change);
        self.notifications.note(change);
    }
}
