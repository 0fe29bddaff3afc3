//! Adapts the number of active workers. On processors shared with clients, more workers than the
//! load needs alternate with the clients, and requests wait for each scheduler slice. A worker
//! therefore retires while workers compete for processors and fewer would be enough. All return
//! within a second when they are needed and processors are idle.
//!
//! Whether fewer workers are enough is tested: a retirement is undone if much less data arrives
//! after it or requests queue up, and is not tried again for a while.

mod policy;

use crate::state::mailbox::{ConnectionTask, Reminders};
use crate::state::shared::Shared;
use crate::state::thread_times::ThreadTimes;
use nagi_commands::Server as _;
use policy::{Decision, Policy, Round};
use rustix::thread::CpuSet;
use std::fs;
use std::time::{Duration, Instant};

/// The sources of measurements, with the last values.
pub(crate) struct Governor {
    policy: Policy,
    began: Instant,
    workers: Vec<ThreadTimes>,
    arrived: Arrived,
    idle: Duration,
    /// The processors that the process may run on; `None` if the kernel does not report them.
    processors: Option<CpuSet>,
}

impl Governor {
    /// Starts the measurements.
    pub(crate) fn new(shared: &Shared) -> Self {
        let workers = shared.process().workers;
        Governor {
            policy: Policy::new(workers),
            began: Instant::now(),
            workers: times(shared, workers).unwrap_or_default(),
            arrived: Arrived::at(shared, workers),
            idle: Duration::ZERO,
            processors: rustix::thread::sched_getaffinity(None).ok(),
        }
    }

    /// Evaluates the time since the last round, and applies the decision. If the kernel does not
    /// measure thread times, all workers stay active.
    pub(crate) fn round(&mut self, shared: &Shared) {
        if self.workers.len() < 2 {
            return;
        }
        let Some(round) = self.look(shared) else { return };
        let decision = if shared.config().adaptive_workers.is_on() {
            self.policy.decide(&round)
        } else {
            self.policy.activate_all()
        };
        match decision {
            Some(Decision::Activate(active)) => {
                tracing::debug!(active, "the set of active workers has changed");
                shared.registry.activate(active);
                shared.remind_all(Reminders::ACTIVE);
            }
            Some(Decision::Relieve { busiest, idlest, share }) => {
                shared.post(busiest, ConnectionTask::Relieve(idlest, share));
            }
            None => {}
        }
    }

    fn look(&mut self, shared: &Shared) -> Option<Round> {
        let now = Instant::now();
        let passed_s = now.duration_since(std::mem::replace(&mut self.began, now)).as_secs_f64();
        let workers = times(shared, self.workers.len())?;
        let before = std::mem::replace(&mut self.workers, workers);
        let since = self.workers.iter().zip(before).map(|(now, before)| now.since(before));
        let since: Vec<ThreadTimes> = since.collect();
        let arrived = Arrived::at(shared, self.workers.len());
        let arrived_before = std::mem::replace(&mut self.arrived, arrived);
        let idle = self.processors.as_ref().and_then(idle_time).unwrap_or_default();
        let idle_before = std::mem::replace(&mut self.idle, idle);
        let share = |time: Duration| time.as_secs_f64() / passed_s.max(f64::MIN_POSITIVE);
        let active = since.iter().take(self.policy.active());
        Some(Round {
            ran: active.clone().map(|times| share(times.ran)).collect(),
            waited: active.map(|times| share(times.waited)).sum(),
            arrived: arrived.bytes.saturating_sub(arrived_before.bytes),
            reads: arrived.reads.saturating_sub(arrived_before.reads),
            idle: share(idle.saturating_sub(idle_before)),
        })
    }
}

/// The times of the first `workers` threads; `None` if one is missing.
fn times(shared: &Shared, workers: usize) -> Option<Vec<ThreadTimes>> {
    let threads = shared.process().worker_threads.iter().take(workers);
    threads.map(|thread| ThreadTimes::of(*thread.get()?)).collect()
}

/// The bytes that workers have received, and the number of reads.
#[derive(Clone, Copy)]
struct Arrived {
    bytes: u64,
    reads: u64,
}

impl Arrived {
    fn at(shared: &Shared, workers: usize) -> Self {
        let statistics = shared.statistics();
        let tallies = (0..workers).map(|worker| statistics.worker(worker));
        tallies.fold(Arrived { bytes: 0, reads: 0 }, |sum, tally| Arrived {
            bytes: sum.bytes + tally.input_bytes.get(),
            reads: sum.reads + tally.reads.get(),
        })
    }
}

/// The total idle time of the processors: proc(5), `/proc/stat`.
fn idle_time(processors: &CpuSet) -> Option<Duration> {
    parse_idle(&fs::read_to_string("/proc/stat").ok()?, |number| processors.is_set(number))
}

/// The fourth and fifth field of each processor's line, idle and waiting for disks, in clock ticks.
fn parse_idle(text: &str, is_ours: impl Fn(usize) -> bool) -> Option<Duration> {
    let mut ticks = 0;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("cpu") else { break };
        let mut fields = rest.split(' ');
        let Some(Ok(number)) = fields.next().map(str::parse) else { continue };
        if is_ours(number) {
            let idle = fields.skip(3).take(2).map_while(|field| field.parse::<u64>().ok());
            ticks += idle.sum::<u64>();
        }
    }
    Some(nagi_commands::duration_of_ticks(ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_that_of_the_processors_that_are_ours() {
        let text = "cpu  9 9 9 900 90 0 0\ncpu0 1 1 1 100 10 0 0\ncpu1 1 1 1 200 20 0\ncpu10 1 1 1 \
                    400 40\nintr 5\ncpu2 0 0 0 1 1\n";
        let idle = nagi_commands::duration_of_ticks;
        assert_eq!(parse_idle(text, |number| number < 2), Some(idle(330)));
        assert_eq!(parse_idle(text, |number| number == 10), Some(idle(440)));
        assert_eq!(parse_idle("", |_| true), Some(Duration::ZERO));
    }
}
