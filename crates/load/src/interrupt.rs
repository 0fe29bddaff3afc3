//! Ctrl-C: operations in progress end soon, settings are restored, and then the process exits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;

use crate::clock::now_ns;

/// How often a waiting thread checks for an interrupt.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The error of an operation that ended early.
pub const INTERRUPTED: &str = "interrupted";

/// A flag, shared by its clones, that is set when the user interrupts the program.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Returns an interrupt that is set by the first SIGINT, SIGTERM or SIGHUP. The second signal
    /// ends the process at once.
    ///
    /// # Errors
    /// A signal handler cannot be installed.
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

    /// Whether the interrupt has been set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// # Errors
    /// The interrupt is set.
    pub fn check(&self) -> Result<(), String> {
        if self.is_set() { Err(INTERRUPTED.to_owned()) } else { Ok(()) }
    }

    /// Waits until the monotonic clock reaches `until_ns`.
    ///
    /// # Errors
    /// The interrupt is set earlier.
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
