//! Measures how late the doctor's own threads wake up, because this host delays requests by as
//! much.

use nagi_findings::observation::Times;
use nagi_load::clock::now_ns;
use nagi_load::interrupt::Interrupt;
use std::thread::JoinHandle;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_millis(10);

/// Starts a thread that measures how late short sleeps end.
pub(super) fn start(end: Interrupt) -> JoinHandle<Times> {
    std::thread::spawn(move || {
        let mut delays_us = Vec::new();
        while !end.is_set() {
            let due_ns = now_ns() + INTERVAL.as_nanos() as u64;
            std::thread::sleep(INTERVAL);
            delays_us.push(now_ns().saturating_sub(due_ns) / 1000);
        }
        Times::new(delays_us)
    })
}
