//! Clients that have disconnected: what they leave behind is removed, and requests that must be
//! completed run to their end.

use super::Sessions;
use crate::net::token::Token;
use crate::protocols::environment::RequestEnvironment;
use crate::session::conversation::Session;
use crate::state::shared::Shared;
use nagi_commands::memcached::{CloseReason, report_disconnection};
use nagi_commands::{ClientInfo, Marks, Server as _, notification, stop_monitoring};
use nagi_proto::Output;
use std::time::Duration;

/// The pause between two slices of requests that outlive the server's connections.
const ORPHAN_PAUSE: Duration = Duration::from_millis(1);

impl Sessions {
    /// Removes a session.
    pub(super) fn remove(&mut self, token: Token, why: CloseReason) {
        if let Some(slot) = self.slots.remove(token) {
            self.forget(slot.session, why);
        }
    }

    pub(super) fn forget(&mut self, session: Session, why: CloseReason) {
        let info = session.info();
        let id = info.id;
        self.has_messages |= end_subscriptions(&self.shared, info);
        report_disconnection(&*self.shared, &self.shared.store, info, why);
        if session.is_committed() {
            self.orphans.push(session);
        } else {
            // Ends its wait for elements.
            drop(session);
        }
        // When other clients no longer see it, no element and no message can reach it.
        self.shared.registry.remove(id);
        self.shared.registry.release(self.worker);
    }

    /// Runs a slice of each request whose client has disconnected.
    pub(super) fn run_orphans(&mut self) {
        let mut orphans = std::mem::take(&mut self.orphans);
        let mut has_messages = false;
        orphans.retain_mut(|session| {
            let environment = RequestEnvironment {
                shared: &self.shared,
                counters: &self.counters,
                tally: &self.tally,
                now_ms: self.shared.store.now_ms(),
            };
            session.resume(&environment, &self.timing, &mut Output::default());
            let is_committed = session.is_committed();
            if !is_committed {
                // Commands of EXEC may have subscribed meanwhile.
                has_messages |= end_subscriptions(&self.shared, session.info());
            }
            is_committed
        });
        self.orphans = orphans;
        self.has_messages |= has_messages;
        // Their replies are not sent.
        self.timing.take_unsent();
    }

    /// Runs the requests of disconnected clients to their end, when no client is left.
    pub(super) fn complete_orphans(&mut self) {
        self.discard_messages();
        while !self.orphans.is_empty() {
            // They may wait for events to be published, or to be woken.
            notification::publish(&*self.shared);
            self.run_orphans();
            self.discard_messages();
            std::thread::sleep(ORPHAN_PAUSE);
        }
    }

    /// Drops all subscriptions and messages of this worker's clients, of which none are left.
    /// Publishers would wait for ever until a worker that has ended takes its messages.
    fn discard_messages(&self) {
        let pubsub = self.shared.pubsub();
        while pubsub.forget_departed(self.worker) {}
        while pubsub.next_messages(self.worker).is_some() {}
    }
}

/// Ends what a client receives unasked, and drops the messages that have not been sent to it.
/// Returns whether subscriptions may be left, which [`Sessions::send_messages`] removes.
fn end_subscriptions(shared: &Shared, info: &ClientInfo) -> bool {
    stop_monitoring(shared, info);
    notification::stop_tracking(shared, &shared.store, info);
    drop(shared.pubsub().leave(info));
    info.marks().contains(Marks::PUBSUB)
}
