//! The doctor's own requests, and samples of the host, which run concurrently during the whole run.
//!
//! ```text
//! pings      100 a second on one connection, timed from when each was due
//! connects   5 a second, each answered once and closed
//! clock      100 short sleeps a second, to measure how late this host wakes the doctor
//! sampler    20 samples a second of the server's process, at most 5 of the socket table
//! transfers  values of growing size to the server and back, once
//! ```

mod clock;
mod connects;
mod failure;
mod pings;
mod sampler;
mod transfers;

use nagi_findings::observation::{Probes, Times};
use nagi_load::interrupt::Interrupt;
use nagi_load::target::Target;
use std::thread::JoinHandle;

pub(crate) use failure::{failure_of, is_turned_away, refusal_of};
pub(crate) use sampler::{Sampler, start as start_sampler};
pub(crate) use transfers::{Sent, transfers};

/// The threads of the probes, which run until they are stopped.
#[derive(Debug)]
pub(crate) struct Running {
    end: Interrupt,
    pings: JoinHandle<pings::Pings>,
    connects: JoinHandle<connects::Connects>,
    clock: JoinHandle<Times>,
}

/// Starts all probes.
pub(crate) fn start(target: &Target) -> Running {
    let end = Interrupt::default();
    Running {
        pings: pings::start(target.clone(), end.clone()),
        connects: connects::start(target.clone(), end.clone()),
        clock: clock::start(end.clone()),
        end,
    }
}

impl Running {
    /// Stops all threads and returns their results.
    ///
    /// # Errors
    /// One of the threads panicked.
    pub(crate) fn stop(self) -> Result<Probes, String> {
        self.end.set();
        let broken = |_| "a probe of nagi doctor failed".to_owned();
        let pings = self.pings.join().map_err(broken)?;
        let connects = self.connects.join().map_err(broken)?;
        let own_delays = self.clock.join().map_err(broken)?;
        let mut failures = connects.failures;
        for (failure, count) in pings.failures {
            *failures.entry(failure).or_insert(0) += count;
        }
        Ok(Probes {
            pings: pings.times,
            connects: connects.times,
            failures,
            transfers: Vec::new(),
            sent_bytes: 0,
            sent_requests: 0,
            own_delays,
        })
    }
}
