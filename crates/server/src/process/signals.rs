//! SIGTERM and SIGINT: the first asks the server to save, if it is to, and to stop; a second one
//! while it saves ends the process at once. After a save that failed another one tries again: what
//! was in the way may be gone by then. SIGXFSZ: a file that is too large for a limit of the process
//! is an error for whoever writes it, and nothing more.

use crate::process::server::Stopper;
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

/// Has a file that grows beyond RLIMIT_FSIZE be an error for whoever writes it, where otherwise it
/// would be the end of the process.
///
/// # Errors
/// The kernel refuses a handler.
pub fn outlive_file_size_limits() -> io::Result<()> {
    // Nobody asks whether it came: to have it handled is all that this is for.
    flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Lets signals stop a server from now on.
///
/// # Errors
/// The kernel refuses a handler or a thread.
pub fn stop_on_signals(stopper: Stopper) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let watch = move || {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in signals.forever() {
            if asked.swap(true, Ordering::Relaxed) {
                // What a shell reports for a process that a signal has ended.
                std::process::exit(128 + signal);
            }
            tracing::info!("stopping; until it has, a second signal ends the process at once");
            let (stopper, asked) = (stopper.clone(), Arc::clone(&asked));
            // This thread goes on to listen.
            let stop = move || asked.store(stopper.stop_saved(), Ordering::Relaxed);
            if thread::Builder::new().name("stop".to_owned()).spawn(stop).is_err() {
                std::process::exit(128 + signal);
            }
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watch)?;
    Ok(())
}
