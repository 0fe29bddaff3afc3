//! A worker's handling of its pipes to the HTTP thread.

use super::Sessions;
use crate::net::driver::{Driver, Sink, Token};
use crate::net::pipes::PipeEvent;

/// Maximum number of events of a pipe that are handled in one turn.
const MAX_EVENTS_PER_TURN: usize = 2;

impl Sessions {
    /// Handles the pipes that the worker was notified of.
    pub(super) fn run_notified_pipes<D: Driver>(&mut self, driver: &mut D) {
        let mut notified = std::mem::take(&mut self.notified);
        self.shared.collect_notified(self.worker, &mut notified);
        for token in notified.drain(..) {
            self.run_pipe(driver, token);
        }
        self.notified = notified;
        driver.pipes_mut().measure();
    }

    /// Handles pipes that need another turn without a notification.
    pub(super) fn run_pipe_turns<D: Driver>(&mut self, driver: &mut D) {
        if driver.pipes().has_turns() {
            for token in driver.pipes_mut().take_turns() {
                self.run_pipe(driver, token);
            }
        }
    }

    fn run_pipe<D: Driver>(&mut self, driver: &mut D, token: Token) {
        for _ in 0..MAX_EVENTS_PER_TURN {
            match driver.pipes_mut().next(token) {
                None => return,
                Some(PipeEvent::Drained) => self.drained(driver, token),
                Some(PipeEvent::Bytes(mut bytes)) => {
                    self.received(driver, token, &mut bytes);
                    return driver.pipes().give_back(token, bytes);
                }
                Some(PipeEvent::End) => return self.ended(driver, token),
                Some(PipeEvent::Lost(error)) => return self.lost(driver, token, error),
            }
        }
        // More may have arrived meanwhile.
        driver.pipes_mut().queue_turn(token);
    }
}
