//! Opens new connections to measure how long they take and why they fail.

use super::failure::{failure_of, refusal_of};
use super::pings::ping;
use nagi_findings::observation::{Failure, Times};
use nagi_load::clock::{SECOND, now_ns};
use nagi_load::interrupt::Interrupt;
use nagi_load::target::Target;
use nagi_load::wire::Wire;
use std::collections::BTreeMap;
use std::thread::JoinHandle;
use std::time::Duration;

const INTERVAL_NS: u64 = SECOND / 5;
/// How long to wait for a connection: long enough for the kernel's second and third attempts.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(4);
/// How long to wait for the first answer, in nanoseconds.
const ANSWER_TIMEOUT_NS: u64 = SECOND / 2;

/// The results of the probe.
#[derive(Debug, Default)]
pub(super) struct Connects {
    pub(super) times: Times,
    pub(super) failures: BTreeMap<Failure, u64>,
}

pub(super) fn start(target: Target, end: Interrupt) -> JoinHandle<Connects> {
    std::thread::spawn(move || {
        let (mut times_us, mut failures) = (Vec::new(), BTreeMap::new());
        let mut due_ns = now_ns();
        while end.sleep_until(due_ns).is_ok() {
            match connect(&target, &end) {
                Ok(time_us) => times_us.push(time_us),
                Err(failure) => *failures.entry(failure).or_insert(0) += 1,
            }
            due_ns = (due_ns + INTERVAL_NS).max(now_ns());
        }
        Connects { times: Times::new(times_us), failures }
    })
}

/// Connects and sends a request. Returns the time to connect, if the server keeps the connection
/// open.
fn connect(target: &Target, end: &Interrupt) -> Result<u64, Failure> {
    let start_ns = now_ns();
    let socket =
        target.address.connect_within(CONNECT_TIMEOUT).map_err(|error| failure_of(&error))?;
    let time_us = (now_ns() - start_ns) / 1000;
    // The other probes report a missing answer or a lack of permission.
    let answer = match Wire::over(socket, target, end, ANSWER_TIMEOUT_NS) {
        Ok(mut wire) => ping(&mut wire).unwrap_or_else(|why| why),
        Err(why) => why,
    };
    refusal_of(&answer).map_or(Ok(time_us), Err)
}
