//! Connections that are closed as soon as their last replies have been sent. Their sessions have
//! ended, so the limits on clients no longer apply: they count as connections until they are gone,
//! and are reset if their clients read nothing for a while.

use super::Sessions;
use super::slots::ClosingConnection;
use crate::net::driver::{Driver, Token};
use nagi_commands::memcached::CloseReason;
use std::time::{Duration, Instant};

/// How long a client may read nothing of its last replies.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Sessions {
    /// Ends a session, and closes its connection once its replies have been sent.
    pub(super) fn close(&mut self, driver: &mut impl Driver, token: Token, why: CloseReason) {
        self.remove(token, why);
        driver.close(token);
        if driver.unsent_bytes(token) > 0 {
            self.closing.push(ClosingConnection {
                token,
                // Most of these connections are gone before the first check, which measures it.
                unacknowledged: usize::MAX,
                read_at: Instant::now(),
                is_counted: false,
            });
        }
    }

    /// Checks all of these connections.
    pub(super) fn check_closing(&mut self, driver: &mut impl Driver) {
        let (shared, worker) = (&self.shared, self.worker);
        self.closing.retain_mut(|connection| {
            let unacknowledged = driver.unacknowledged_bytes(connection.token);
            if unacknowledged < connection.unacknowledged {
                connection.unacknowledged = unacknowledged;
                connection.read_at = Instant::now();
            }
            let is_stuck = connection.read_at.elapsed() > LONGEST_PAUSE;
            if is_stuck {
                driver.abort(connection.token);
            }
            let stays = driver.unsent_bytes(connection.token) > 0 && !is_stuck;
            match (stays, connection.is_counted) {
                (true, false) => shared.registry.add_connection(worker),
                (false, true) => shared.registry.release(worker),
                _ => {}
            }
            connection.is_counted = stays;
            stays
        });
    }
}
