//! Measures round trips of the smallest request, at even intervals.

use super::failure::refusal_of;
use nagi_client::Protocol;
use nagi_findings::observation::{Failure, Times};
use nagi_load::clock::{SECOND, now_ns};
use nagi_load::interrupt::{INTERRUPTED, Interrupt};
use nagi_load::target::Target;
use nagi_load::wire::Wire;
use std::collections::BTreeMap;
use std::thread::JoinHandle;

const INTERVAL_NS: u64 = SECOND / 100;
/// Minimum interval between pings, as a multiple of the shortest round trip. A long distance to the
/// server must not cause a queue of requests.
const ROUND_TRIPS: u64 = 2;
/// The pause before another attempt to connect, in nanoseconds.
const PAUSE_NS: u64 = SECOND / 5;

/// The results of the probe.
#[derive(Debug, Default)]
pub(super) struct Pings {
    pub(super) times: Times,
    pub(super) failures: BTreeMap<Failure, u64>,
}

pub(super) fn start(target: Target, end: Interrupt) -> JoinHandle<Pings> {
    std::thread::spawn(move || {
        let (mut times_us, mut failures) = (Vec::new(), BTreeMap::new());
        while !end.is_set() {
            let start_ns = now_ns();
            let answer = match Wire::open(&target, &end) {
                Ok(mut wire) => send_pings(&mut wire, &end, &mut times_us).err(),
                // The login had no answer until the end of the run.
                Err(why) if why == INTERRUPTED => {
                    times_us.push((now_ns() - start_ns) / 1000);
                    None
                }
                // The probe of new connections determines the reason.
                Err(_) => None,
            };
            if let Some(refusal) = answer.and_then(|answer| refusal_of(&answer)) {
                *failures.entry(refusal).or_insert(0) += 1;
            }
            let _ = end.sleep_until(now_ns() + PAUSE_NS);
        }
        Pings { times: Times::new(times_us), failures }
    })
}

/// Sends requests one after another until the end of the run, a broken connection or a refusal.
/// Returns the refusal as an error.
fn send_pings(wire: &mut Wire, end: &Interrupt, times_us: &mut Vec<u64>) -> Result<(), String> {
    let mut due_ns = now_ns();
    let mut answered_ns = due_ns;
    let mut is_first = true;
    let mut shortest_ns = u64::MAX;
    while end.sleep_until(due_ns).is_ok() {
        // After a long wait for an answer, requests that came due meanwhile have waited too, so
        // their time counts from their due time. A late wake-up of this thread is not a delay of
        // the server.
        let start_ns = if answered_ns > due_ns { due_ns } else { now_ns() };
        let answer = ping(wire);
        answered_ns = now_ns();
        if let Ok(text) | Err(text) = &answer
            && refusal_of(text).is_some()
        {
            return Err(text.clone());
        }
        // The first request is not counted, because it includes the set-up of the connection at
        // both ends. A request without an answer at the end of the run is counted with the time so
        // far.
        if !is_first || answer.is_err() {
            times_us.push((answered_ns - start_ns) / 1000);
        }
        answer?;
        if !is_first {
            shortest_ns = shortest_ns.min(answered_ns - start_ns);
            due_ns += INTERVAL_NS.max(shortest_ns.saturating_mul(ROUND_TRIPS));
        }
        is_first = false;
    }
    Ok(())
}

/// Sends the smallest request. Returns the text of its answer, which may be an error.
pub(super) fn ping(wire: &mut Wire) -> Result<String, String> {
    match wire.protocol {
        Protocol::Resp => Ok(wire.command(&[b"PING"])?.text()),
        _ => Ok(wire.lines("version")?.concat()),
    }
}
