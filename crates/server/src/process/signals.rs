//! SIGTERM, SIGINT, and memcached's SIGUSR1: the first one asks the server to save, if the settings
//! ask for it, and to stop. It cancels no save that a client waits for. A second one during such a
//! save, or its own, ends the process immediately. After a failed save, another signal retries: the
//! cause of the failure may have been removed. They are caught before the server listens: the
//! kernel closes the sockets of a process that a signal has ended, and with io_uring it accepts
//! clients for a while longer. SIGHUP, which a terminal sends when it closes, does not stop the
//! server, as with Redis and memcached; as with the latter, it reloads the file of users of
//! memcached's protocols, if there is one. SIGXFSZ is handled so that a file beyond the file size
//! limit is only an error for the thread that writes it.
//! (SIGPIPE is ignored in every Rust program.)

use crate::process::server::Stopper;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

/// Makes a write beyond RLIMIT_FSIZE return an error instead of ending the process by a signal.
///
/// # Errors
/// The handler cannot be installed.
pub fn make_file_size_limit_an_error() -> io::Result<()> {
    // Only the handler is needed; the flag is never read.
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// The signals that ask the process to stop, and SIGHUP, which does not. They are caught as soon as
/// this value exists.
#[derive(Debug)]
pub struct StopSignals(Signals);

impl StopSignals {
    /// Starts to catch the signals, which are kept until there is a server to stop.
    ///
    /// # Errors
    /// The handlers cannot be installed.
    pub fn catch() -> io::Result<Self> {
        Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGHUP]).map(StopSignals)
    }

    /// Makes the signals stop a server, including signals already caught.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn stop(mut self, stopper: Stopper) -> io::Result<()> {
        let watch = move || {
            let asked = Arc::new(AtomicBool::new(false));
            for signal in self.0.forever() {
                if signal == SIGHUP {
                    stopper.hang_up();
                    continue;
                }
                if asked.swap(true, Ordering::Relaxed) {
                    end_at_once(&stopper, signal);
                }
                tracing::info!("stopping; a second signal ends the process at once");
                let (stop, asked) = (stopper.clone(), Arc::clone(&asked));
                // This thread keeps waiting for signals.
                let stop = move || asked.store(stop.save_and_stop(), Ordering::Relaxed);
                if thread::Builder::new().name("stop".to_owned()).spawn(stop).is_err() {
                    end_at_once(&stopper, signal);
                }
            }
        };
        thread::Builder::new().name("signals".to_owned()).spawn(watch)?;
        Ok(())
    }
}

/// Exits with the status that a shell reports after a signal.
fn end_at_once(stopper: &Stopper, signal: i32) -> ! {
    stopper.close_at_once();
    std::process::exit(128 + signal)
}
