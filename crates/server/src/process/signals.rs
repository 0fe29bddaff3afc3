//! SIGTERM, SIGINT, and memcached's SIGUSR1: the first asks the server to save, if it is to, and to
//! stop; a second one while it saves ends the process at once. After a save that failed another one
//! tries again: the cause of the failure may be gone by then. They are caught before the server
//! listens: a process that is ended by a signal leaves its sockets to the kernel, which with
//! io_uring accepts clients for a while longer. SIGHUP, which a terminal sends when it closes, is
//! noted in the log and ends nothing, as with Redis and memcached. SIGXFSZ: a file that is too
//! large for a limit of the process is an error for the thread that writes it, and nothing more.
//! (SIGPIPE is ignored in every Rust program.)

use crate::process::server::Stopper;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

/// Makes a write beyond RLIMIT_FSIZE return an error, where otherwise a signal would end the
/// process.
///
/// # Errors
/// The kernel refuses a handler.
pub fn make_file_size_limit_an_error() -> io::Result<()> {
    // A handler is all that is needed: the flag is never read.
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// The signals that ask a process to stop, and SIGHUP, which does not, caught from the time that
/// this is made.
#[derive(Debug)]
pub struct StopSignals(Signals);

impl StopSignals {
    /// Catches them. They are kept until there is a server to stop.
    ///
    /// # Errors
    /// The kernel refuses a handler.
    pub fn catch() -> io::Result<Self> {
        Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGHUP]).map(StopSignals)
    }

    /// Lets them stop a server, those included that have been caught already.
    ///
    /// # Errors
    /// The kernel refuses a thread.
    pub fn stop(mut self, stopper: Stopper) -> io::Result<()> {
        let watch = move || {
            let asked = Arc::new(AtomicBool::new(false));
            for signal in self.0.forever() {
                if signal == SIGHUP {
                    tracing::info!("SIGHUP is ignored; SIGTERM stops the server");
                    continue;
                }
                if asked.swap(true, Ordering::Relaxed) {
                    end_at_once(&stopper, signal);
                }
                tracing::info!("stopping; a second signal ends the process at once");
                let (stop, asked) = (stopper.clone(), Arc::clone(&asked));
                // This thread goes on waiting for signals.
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

/// Ends the process with the status that a shell reports after a signal.
fn end_at_once(stopper: &Stopper, signal: i32) -> ! {
    stopper.close_at_once();
    std::process::exit(128 + signal)
}
