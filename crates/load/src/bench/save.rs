//! A save during a run, to measure latencies before, during and after it.
//!
//! A separate thread with its own connection requests the save and polls for its end. The load
//! threads only read two timestamps.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::CreationError;
use serde::Serialize;

use super::servers::Server;
use crate::clock::{SECOND, now_ns};
use crate::interrupt::Interrupt;
use crate::tally::{LONGEST_NS, Latencies};
use crate::wire::Wire;

/// How often the server is polled for the end of the save.
const POLL: Duration = Duration::from_millis(10);

/// The names of the windows, in their order.
pub(crate) const WINDOWS: [&str; 3] = ["before", "saving", "after"];

/// When the save was requested and when it ended, in nanoseconds; `u64::MAX` until then. Shared by
/// all threads.
#[derive(Debug)]
pub(crate) struct Marks {
    asked_ns: AtomicU64,
    ended_ns: AtomicU64,
    /// When the run ends, if the end of the save determines it, in nanoseconds.
    stop_ns: AtomicU64,
}

impl Default for Marks {
    fn default() -> Self {
        let never = || AtomicU64::new(u64::MAX);
        Marks { asked_ns: never(), ended_ns: never(), stop_ns: never() }
    }
}

impl Marks {
    pub(crate) fn asked_ns(&self) -> u64 {
        self.asked_ns.load(Ordering::Acquire)
    }

    pub(crate) fn ended_ns(&self) -> u64 {
        self.ended_ns.load(Ordering::Acquire)
    }

    pub(crate) fn stop_ns(&self) -> u64 {
        self.stop_ns.load(Ordering::Acquire)
    }

    /// Returns the index of a request's window. A request that overlaps the save belongs to the
    /// save, because the save may have delayed it from the moment the save was requested.
    pub(crate) fn window(&self, begun_ns: u64, answered_ns: u64) -> usize {
        if answered_ns < self.asked_ns() {
            0
        } else if begun_ns <= self.ended_ns() {
            1
        } else {
            2
        }
    }
}

/// The latencies of each window, in the order of `WINDOWS`.
#[derive(Clone, Debug)]
pub(crate) struct Windows(pub(crate) [Latencies; 3]);

impl Windows {
    pub(crate) fn new() -> Result<Self, CreationError> {
        let window = || Latencies::new_with_bounds(1, LONGEST_NS, 3);
        Ok(Windows([window()?, window()?, window()?]))
    }

    /// Records `times` requests with the same start and end.
    pub(crate) fn record(&mut self, marks: &Marks, begun_ns: u64, answered_ns: u64, times: u64) {
        if let Some(latencies) = self.0.get_mut(marks.window(begun_ns, answered_ns)) {
            latencies.saturating_record_n(answered_ns.saturating_sub(begun_ns), times);
        }
    }

    pub(crate) fn add(&mut self, other: &Windows) {
        for (sum, part) in self.0.iter_mut().zip(&other.0) {
            // `add` fails only if the bounds of the histograms differ.
            let _ = sum.add(part);
        }
    }
}

/// The outcome of the save.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Save {
    /// When the save was requested, in seconds from the start of measuring.
    pub asked_at_second: f64,
    /// The latency of the BGSAVE command, in microseconds.
    pub answered_after_us: f64,
    /// The time from the request to the end of the save in seconds, polled every 10 ms.
    pub seconds: f64,
    /// `latest_fork_usec` of the server, in microseconds: how long its fork took, or the cut with
    /// which nagi begins a save.
    pub fork_us: Option<f64>,
    /// `rdb_last_bgsave_status` of the server.
    pub status: String,
}

/// Requests a save at its time, and polls for the save's end.
pub(crate) struct Watch<'a> {
    pub(crate) server: &'a Server,
    pub(crate) marks: &'a Marks,
    /// When measuring begins, in nanoseconds.
    pub(crate) measure_ns: u64,
    /// The time from `measure_ns` to the save, and from the end of the save to the end of the run.
    pub(crate) margin_ns: u64,
    /// Whether the end of the save determines the end of the run.
    pub(crate) is_last: bool,
    /// When the run ends if the save does not determine its end.
    pub(crate) end_ns: u64,
    /// Whether progress is printed.
    pub(crate) shown: bool,
    pub(crate) interrupt: &'a Interrupt,
    /// Set when the load has ended, since a save after it would disturb nothing.
    pub(crate) load_ended: Interrupt,
}

impl Watch<'_> {
    /// # Errors
    /// The reason why there was no save. If the save should have determined the end of the run, the
    /// run ends at once.
    pub(crate) fn follow(&self) -> Result<Save, String> {
        let saved = self.save();
        if self.is_last {
            let margin_ns = if saved.is_ok() { self.margin_ns } else { 0 };
            self.marks.stop_ns.store(now_ns() + margin_ns, Ordering::Release);
        }
        saved
    }

    fn save(&self) -> Result<Save, String> {
        let broken = |error: String| match error.strip_prefix("BGSAVE: ") {
            Some(_) => error,
            None => format!("BGSAVE: {error}"),
        };
        let mut wire = self.server.wire(self.interrupt).map_err(broken)?;
        self.load_ended
            .sleep_until(self.measure_ns + self.margin_ns)
            .map_err(|_| "BGSAVE: the run ended before the save".to_owned())?;
        let asked_ns = now_ns();
        self.marks.asked_ns.store(asked_ns, Ordering::Release);
        wire.run("BGSAVE").map_err(broken)?;
        let answered_ns = now_ns();
        self.print_progress("  the save has begun");
        let info = loop {
            let info = persistence(&mut wire).map_err(broken)?;
            if field(&info, "rdb_bgsave_in_progress") == Some("0") {
                break info;
            }
            if now_ns() > self.end_ns {
                return Err("BGSAVE: the save took longer than the run".to_owned());
            }
            std::thread::sleep(POLL);
        };
        let ended_ns = now_ns();
        self.marks.ended_ns.store(ended_ns, Ordering::Release);
        let seconds = (ended_ns - asked_ns) as f64 / SECOND as f64;
        self.print_progress(&format!("  the save is over after {seconds:.1} s"));
        Ok(Save {
            asked_at_second: (asked_ns - self.measure_ns) as f64 / SECOND as f64,
            answered_after_us: (answered_ns - asked_ns) as f64 / 1e3,
            seconds,
            fork_us: field(&info, "latest_fork_usec").and_then(|us| us.parse().ok()),
            status: field(&info, "rdb_last_bgsave_status").unwrap_or("unknown").to_owned(),
        })
    }

    /// Prints a line on standard error. A failure to write does not end the run.
    fn print_progress(&self, line: &str) {
        if self.shown {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}

/// Returns the fields of INFO about saves and the last fork.
fn persistence(wire: &mut Wire) -> Result<String, String> {
    Ok(wire.run("INFO persistence")?.text() + &wire.run("INFO stats")?.text())
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(asked_ns: u64, ended_ns: u64) -> Marks {
        let marks = Marks::default();
        marks.asked_ns.store(asked_ns, Ordering::Release);
        marks.ended_ns.store(ended_ns, Ordering::Release);
        marks
    }

    #[test]
    fn a_request_is_of_the_save_if_any_part_of_it_is() {
        let saving = marks(100, u64::MAX);
        assert_eq!([(0, 99), (0, 100), (500, 900)].map(|(b, a)| saving.window(b, a)), [0, 1, 1]);
        let over = marks(100, 200);
        assert_eq!([(90, 99), (200, 300), (201, 300)].map(|(b, a)| over.window(b, a)), [0, 1, 2]);
        assert_eq!(Marks::default().window(5, 6), 0, "none was asked for yet");
    }

    #[test]
    fn latencies_of_threads_add_up_window_by_window() {
        let marks = marks(100, 200);
        let mut sum = Windows::new().unwrap();
        sum.record(&marks, 10, 20, 3);
        let mut other = Windows::new().unwrap();
        other.record(&marks, 150, 160, 2);
        other.record(&marks, 250, 950, 1);
        sum.add(&other);
        assert_eq!(sum.0.each_ref().map(Latencies::len), [3, 2, 1]);
        assert_eq!(sum.0[2].max(), 700);
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let info = "# Stats\r\nlatest_fork_usec_x:1\r\nlatest_fork_usec:17\r\n";
        assert_eq!(field(info, "latest_fork_usec"), Some("17"));
        assert_eq!(field(info, "latest_fork"), None);
    }
}
