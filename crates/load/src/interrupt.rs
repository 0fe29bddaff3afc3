//! Ctrl-C: operations in progress end soon, settings are restored, and then the process exits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::clock::now_ns;

/// How often a waiting thread polls for an interrupt.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The error of an operation that ended early.
pub const INTERRUPTED: &str = "interrupted";

/// Whether the user has interrupted the program.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// An interrupt that the first SIGINT, SIGTERM or SIGHUP sets; the second ends the process at
    /// once.
    ///
    /// # Errors
    /// The handler cannot be installed.
    pub fn on_signals() -> Result<Self, String> {
        let interrupt = Interrupt::default();
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let number = signal.as_raw();
            let flag = &interrupt.0;
            signal_hook::flag::register_conditional_shutdown(number, 130, Arc::clone(flag))
                .and_then(|_| signal_hook::flag::register(number, Arc::clone(flag)))
                .map_err(|error| format!("signal {number}: {error}"))?;
        }
        Ok(interrupt)
    }

    /// Interrupts the program, as a signal does.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether there was an interrupt.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// # Errors
    /// It is set.
    pub fn check(&self) -> Result<(), String> {
        if self.is_set() { Err(INTERRUPTED.to_owned()) } else { Ok(()) }
    }

    /// Waits until the clock shows `until_ns`.
    ///
    /// # Errors
    /// It is set before.
    pub fn sleep_until(&self, until_ns: u64) -> Result<(), String> {
        loop {
            self.check()?;
            let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(POLL_INTERVAL));
        }
    }
}
