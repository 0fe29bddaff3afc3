//! The seconds of a run, merged from the reports of its threads and printed as they complete.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::Receiver;

use hdrhistogram::CreationError;
use serde::Serialize;

use super::hdr::Log;
use super::run::Interval;
use super::save::Windows;
use super::slo::Slo;
use super::verified::Verified;
use crate::clock::SECOND;
use crate::interrupt::Interrupt;
use crate::tally::{Errors, Tally};
use crate::text::{grouped, microseconds};

/// Replies that arrive later than this after the end of a run, in nanoseconds, are reported on a
/// separate line.
const NOTEWORTHY_NS: u64 = 50_000_000;

/// What the threads are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Writing each of `keys` keys.
    Fill { keys: u64 },
    /// Warming up, then measuring.
    Measure,
}

/// One second of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Second {
    /// The end of the second, counted from the start of measuring.
    pub second: f64,
    /// Requests answered.
    pub requests: u64,
    /// Median latency in microseconds.
    pub p50_us: f64,
    /// 99th percentile of the latency in microseconds.
    pub p99_us: f64,
    /// The longest latency in microseconds.
    pub max_us: f64,
    /// Number of failures.
    pub errors: u64,
}

/// The merged results of all threads.
#[derive(Debug)]
pub(crate) struct Timeline {
    shown: bool,
    phase: Phase,
    start_ns: u64,
    end_ns: u64,
    /// When the last thread ended, in nanoseconds.
    reached_ns: u64,
    /// The sums of the measured phase.
    total: Tally,
    /// The errors of all phases.
    errors: Errors,
    seconds: Vec<Second>,
    /// Latencies before, during and after a save.
    windows: Option<Windows>,
    /// The results of --verify, of all phases.
    verified: Verified,
    /// Seconds that not every thread has reported yet.
    pending: BTreeMap<u64, Pending>,
    filled: u64,
    /// The condition to end the run early.
    give_up: Option<GiveUp>,
    /// Histograms of each second, if requested.
    log: Option<Log>,
}

/// The condition under which a run ends early: it has certainly missed its objective.
#[derive(Clone, Debug)]
pub(crate) struct GiveUp {
    pub(crate) slo: Slo,
    /// The maximum number of requests that will be due in the run.
    pub(crate) requests: f64,
    pub(crate) stop: Interrupt,
}

#[derive(Debug)]
struct Pending {
    reports: usize,
    tally: Tally,
}

impl Timeline {
    /// Creates a timeline that prints to standard error if `shown`.
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
            windows: None,
            verified: Verified::default(),
            pending: BTreeMap::new(),
            filled: 0,
            give_up: None,
            log: None,
        })
    }

    /// Starts to keep a histogram of each second.
    pub(crate) fn keep_log(&mut self) {
        self.log = Some(Log::default());
    }

    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Makes the run end early when it has certainly missed its objective.
    pub(crate) fn give_up(&mut self, give_up: GiveUp) {
        self.give_up = Some(give_up);
    }

    /// Begins `phase`, in which measuring lasts from `start_ns` to `end_ns`.
    pub(crate) fn begin(&mut self, phase: Phase, start_ns: u64, end_ns: u64) {
        self.phase = phase;
        self.start_ns = start_ns;
        self.end_ns = end_ns;
        self.reached_ns = start_ns;
        if let Some(log) = &mut self.log {
            *log = Log::from(start_ns);
        }
        if self.shown && phase == Phase::Measure {
            print_line("  second   requests/s      p50 us      p99 us      max us   errors");
        }
    }

    /// Prints a line, if output is enabled.
    pub(crate) fn print_line(&self, line: &str) {
        if self.shown {
            print_line(line);
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

    pub(crate) fn windows(&self) -> Option<&Windows> {
        self.windows.as_ref()
    }

    pub(crate) fn verified(&self) -> &Verified {
        &self.verified
    }

    pub(crate) fn shown(&self) -> bool {
        self.shown
    }

    /// Returns the time at which the last thread ended, in nanoseconds.
    pub(crate) fn reached_ns(&self) -> u64 {
        self.reached_ns
    }

    /// Returns the length of the measured time, in nanoseconds.
    pub(crate) fn measured_ns(&self) -> u64 {
        self.reached_ns.saturating_sub(self.start_ns)
    }

    /// Receives the reports of `threads` threads until all of them have ended.
    pub(crate) fn follow(&mut self, reports: &Receiver<Interval>, threads: usize) {
        let mut ended_ns = Vec::new();
        for interval in reports {
            if interval.last {
                ended_ns.push(interval.end_ns);
            }
            self.reached_ns = self.reached_ns.max(interval.reached_ns);
            self.errors.add(&interval.tally.errors);
            self.verified.add(&interval.verified);
            if let Some(windows) = interval.windows {
                match &mut self.windows {
                    Some(sum) => sum.add(&windows),
                    none => *none = Some(windows),
                }
            }
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
                let last = ended_ns.len() == threads && ended_ns.iter().max() == Some(&end_ns);
                self.close(end_ns, &pending.tally, last);
            }
        }
        while let Some((end_ns, pending)) = self.pending.pop_first() {
            self.close(end_ns, &pending.tally, true);
        }
    }

    /// Completes a second that all threads have reported. It ends at `end_ns`; the last one may
    /// have ended earlier.
    fn close(&mut self, end_ns: u64, tally: &Tally, last: bool) {
        match self.phase {
            Phase::Fill { keys } => {
                self.filled += tally.requests;
                if self.shown {
                    let percent = self.filled * 100 / keys.max(1);
                    print_line(&format!(
                        "  filling  {:>10} keys  {percent:>3} %",
                        grouped(self.filled)
                    ));
                }
            }
            Phase::Measure if end_ns <= self.start_ns => {
                let left = (self.start_ns - end_ns) / SECOND;
                if self.shown && left > 0 {
                    print_line(&format!("  warming up, {left} s to go"));
                }
            }
            Phase::Measure => self.measured(end_ns, tally, last),
        }
    }

    fn measured(&mut self, end_ns: u64, tally: &Tally, last: bool) {
        self.total.add(tally);
        if let Some(GiveUp { slo, requests, stop }) = &self.give_up
            && slo.is_lost(&self.total.latencies, *requests)
        {
            stop.set();
        }
        let begin_ns = end_ns - SECOND;
        let reached_ns = if last { self.reached_ns.clamp(begin_ns + 1, end_ns) } else { end_ns };
        if let Some(log) = &mut self.log {
            let seconds = |ns: u64| ns as f64 / SECOND as f64;
            let from_s = seconds(begin_ns.saturating_sub(self.start_ns));
            log.add(from_s, seconds(reached_ns - begin_ns), &tally.latencies);
        }
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
            print_line(&format!(
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

/// Prints a line on standard error. A failure to write does not end the run.
fn print_line(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A timeline whose phase measures for `seconds`, from 10 s on.
    fn timeline(seconds: u64) -> Timeline {
        let mut timeline = Timeline::new(false).unwrap();
        timeline.begin(Phase::Measure, 10 * SECOND, (10 + seconds) * SECOND);
        timeline
    }

    /// A thread's report about the second before `end_s`, whose requests had these latencies.
    fn interval(end_s: u64, latencies_us: &[u64], last: bool) -> Interval {
        let mut tally = Tally::new().unwrap();
        for latency_us in latencies_us {
            tally.requests += 1;
            tally.latencies.record(latency_us * 1000).unwrap();
        }
        let reached_ns = end_s * SECOND - if last { SECOND / 2 } else { 1 };
        Interval {
            end_ns: end_s * SECOND,
            reached_ns,
            tally,
            last,
            windows: None,
            verified: Verified::default(),
        }
    }

    fn follow(timeline: &mut Timeline, threads: usize, intervals: Vec<Interval>) {
        let (sender, receiver) = mpsc::channel();
        intervals.into_iter().for_each(|interval| sender.send(interval).unwrap());
        drop(sender);
        timeline.follow(&receiver, threads);
    }

    #[test]
    fn threads_add_up_second_by_second() {
        let mut timeline = timeline(2);
        let intervals = vec![
            interval(11, &[100, 200], false),
            interval(12, &[300], false),
            interval(11, &[400], false),
            interval(13, &[700], true),
            interval(12, &[], true),
        ];
        follow(&mut timeline, 2, intervals);
        let seconds: Vec<_> = timeline.seconds().iter().map(|s| (s.second, s.requests)).collect();
        assert_eq!(seconds, [(1.0, 3), (2.0, 1), (2.5, 1)]);
        assert_eq!((timeline.total().requests, timeline.total().latencies.len()), (5, 5));
        assert_eq!(timeline.measured_ns(), 5 * SECOND / 2);
        assert_eq!(timeline.seconds()[0].max_us, 400.127, "three digits");
    }

    #[test]
    fn only_the_errors_of_warming_up_count() {
        let mut timeline = timeline(1);
        let mut warm = interval(10, &[900], false);
        warm.tally.errors.count("ERR cold", 2);
        follow(&mut timeline, 1, vec![warm, interval(11, &[100], true)]);
        assert_eq!((timeline.total().requests, timeline.seconds().len()), (1, 1));
        assert_eq!(timeline.errors().total(), 2);
    }

    #[test]
    fn replies_just_after_the_end_have_no_separate_line() {
        let mut timeline = timeline(1);
        let mut tail = interval(12, &[100], true);
        tail.reached_ns = 11 * SECOND + NOTEWORTHY_NS - 1;
        follow(&mut timeline, 1, vec![interval(11, &[100], false), tail]);
        assert_eq!((timeline.total().requests, timeline.seconds().len()), (2, 1));
    }
}
