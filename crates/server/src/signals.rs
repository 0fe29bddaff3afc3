//! SIGTERM and SIGINT: the first asks the server to stop, the second ends the process at once.

use crate::server::Stopper;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::{io, thread};

/// Lets signals stop a server from now on.
///
/// # Errors
/// The kernel refuses a handler or a thread.
pub fn stop_on_signals(stopper: Stopper) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let watch = move || {
        let mut asked = false;
        for signal in signals.forever() {
            if asked {
                // What a shell reports for a process that a signal has ended.
                std::process::exit(128 + signal);
            }
            asked = true;
            tracing::info!("stopping: a second signal ends the process at once");
            stopper.stop();
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watch)?;
    Ok(())
}
