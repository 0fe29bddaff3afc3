//! The seconds of a run, put together from what its threads report, and shown as they pass.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::Receiver;

use hdrhistogram::CreationError;
use serde::Serialize;

use crate::clock::SECOND;
use crate::run::Interval;
use crate::tally::{Errors, Tally};
use crate::text::{grouped, microseconds};

/// A stretch after the end of a run that deserves a line of its own: replies were still owed.
const NOTEWORTHY_NS: u64 = 50_000_000;

/// What the threads are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Writing each of so many keys.
    Fill { keys: u64 },
    /// Warming up, then measuring.
    Measure,
}

/// One second of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Second {
    /// When it ended, in seconds from the start of measuring.
    pub second: f64,
    /// Requests answered.
    pub requests: u64,
    /// Median latency.
    pub p50_us: f64,
    /// The latency that one request in a hundred exceeded.
    pub p99_us: f64,
    /// The longest latency.
    pub max_us: f64,
    /// Failures.
    pub errors: u64,
}

/// Sums of a run.
#[derive(Debug)]
pub(crate) struct Timeline {
    shown: bool,
    phase: Phase,
    start_ns: u64,
    end_ns: u64,
    /// When the last thread was done.
    reached_ns: u64,
    /// Of the measured phase.
    total: Tally,
    /// Of every phase.
    errors: Errors,
    seconds: Vec<Second>,
    /// Seconds that not every thread has reported yet.
    pending: BTreeMap<u64, Pending>,
    filled: u64,
}

#[derive(Debug)]
struct Pending {
    reports: usize,
    tally: Tally,
}

impl Timeline {
    /// A timeline that is printed to standard error if `shown`.
    pub(crate) fn new(shown: bool) -> Result<Self, CreationError> {
        Ok(Timeline {
            shown,
            phase: Phase::Measure,
            start_ns: 0,
            end_ns: u64::MAX,
            reached_ns: 0,
            total: Tally::new()?,
            errors: Errors::default(),
            seconds: Vec::new(),
            pending: BTreeMap::new(),
            filled: 0,
        })
    }

    /// What follows is `phase`, which measures from `start_ns` to `end_ns`.
    pub(crate) fn begin(&mut self, phase: Phase, start_ns: u64, end_ns: u64) {
        self.phase = phase;
        self.start_ns = start_ns;
        self.end_ns = end_ns;
        self.reached_ns = start_ns;
        if self.shown && phase == Phase::Measure {
            say("  second   requests/s      p50 us      p99 us      max us   errors");
        }
    }

    pub(crate) fn total(&self) -> &Tally {
        &self.total
    }

    pub(crate) fn errors(&self) -> &Errors {
        &self.errors
    }

    pub(crate) fn seconds(&self) -> &[Second] {
        &self.seconds
    }

    /// How long was measured, in nanoseconds.
    pub(crate) fn measured_ns(&self) -> u64 {
        self.reached_ns.saturating_sub(self.start_ns)
    }

    /// Takes the reports of `threads` threads until all have ended.
    pub(crate) fn follow(&mut self, reports: &Receiver<Interval>, threads: usize) {
        let mut ended_ns = Vec::new();
        for interval in reports {
            if interval.last {
                ended_ns.push(interval.end_ns);
            }
            self.reached_ns = self.reached_ns.max(interval.reached_ns);
            self.errors.add(&interval.tally.errors);
            match self.pending.get_mut(&interval.end_ns) {
                Some(pending) => {
                    pending.reports += 1;
                    pending.tally.add(&interval.tally);
                }
                None => {
                    let pending = Pending { reports: 1, tally: interval.tally };
                    self.pending.insert(interval.end_ns, pending);
                }
            }
            while let Some(first) = self.pending.first_entry() {
                let ended = ended_ns.iter().filter(|&end_ns| end_ns < first.key()).count();
                if first.get().reports + ended < threads {
                    break;
                }
                let (end_ns, pending) = first.remove_entry();
                self.close(end_ns, &pending.tally);
            }
        }
        while let Some((end_ns, pending)) = self.pending.pop_first() {
            self.close(end_ns, &pending.tally);
        }
    }

    /// Every thread has reported the second that ends at `end_ns`.
    fn close(&mut self, end_ns: u64, tally: &Tally) {
        match self.phase {
            Phase::Fill { keys } => {
                self.filled += tally.requests;
                if self.shown {
                    let percent = self.filled * 100 / keys.max(1);
                    say(&format!("  filling  {:>10} keys  {percent:>3} %", grouped(self.filled)));
                }
            }
            Phase::Measure if end_ns <= self.start_ns => {
                let left = (self.start_ns - end_ns) / SECOND;
                if self.shown && left > 0 {
                    say(&format!("  warming up, {left} s to go"));
                }
            }
            Phase::Measure => self.measured(end_ns, tally),
        }
    }

    fn measured(&mut self, end_ns: u64, tally: &Tally) {
        self.total.add(tally);
        let begin_ns = end_ns - SECOND;
        let reached_ns = end_ns.min(self.reached_ns.max(begin_ns + 1));
        if begin_ns >= self.end_ns && reached_ns - begin_ns < NOTEWORTHY_NS {
            return;
        }
        let second = Second {
            second: (reached_ns - self.start_ns) as f64 / SECOND as f64,
            requests: tally.requests,
            p50_us: tally.latencies.value_at_quantile(0.5) as f64 / 1e3,
            p99_us: tally.latencies.value_at_quantile(0.99) as f64 / 1e3,
            max_us: tally.latencies.max() as f64 / 1e3,
            errors: tally.errors.total(),
        };
        if self.shown {
            let rate = tally.requests as f64 / ((reached_ns - begin_ns) as f64 / SECOND as f64);
            say(&format!(
                "  {:>6.1} {:>12} {:>11} {:>11} {:>11} {:>8}",
                second.second,
                grouped(rate as u64),
                microseconds(tally.latencies.value_at_quantile(0.5)),
                microseconds(tally.latencies.value_at_quantile(0.99)),
                microseconds(tally.latencies.max()),
                grouped(second.errors),
            ));
        }
        self.seconds.push(second);
    }
}

/// A line on standard error; that it cannot be written is no reason to stop.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
