//! Samples the memory of a server and its forked child together during a save.
//!
//! The samples are the memory in use on the whole machine: pages of processes, and page tables.
//! There, pages shared by parent and child count once, and reading is cheap. The proportional set
//! sizes in /proc/PID/smaps_rollup would need a walk over every page, which delays the server.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(50);
/// Number of points in the plot of a save.
const OUTLINE_POINTS: usize = 40;

/// Samples memory until it is stopped.
pub(super) struct Sampler {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(f64, f64)>>,
}

impl Sampler {
    pub(super) fn start() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (stop, started) = (Arc::clone(&is_over), Instant::now());
        let thread = thread::spawn(move || {
            let mut samples = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                samples.push((started.elapsed().as_secs_f64(), used_bytes()));
                thread::sleep(INTERVAL);
            }
            samples
        });
        Self { is_over, thread }
    }

    /// Stops sampling. Returns the samples from `from_s` after the start on: the seconds since
    /// then, and the bytes in use beyond those before the start.
    pub(super) fn finish(self, from_s: f64) -> Vec<(f64, f64)> {
        self.is_over.store(true, Ordering::Relaxed);
        let samples = self.thread.join().unwrap_or_default();
        let before = samples.iter().take_while(|(at_s, _)| *at_s < from_s).last();
        let base = before.or(samples.first()).map_or(0.0, |(_, bytes)| *bytes);
        samples.iter().map(|(at_s, bytes)| (at_s - from_s, bytes - base)).collect()
    }
}

/// Returns the maximum of the samples, in bytes.
pub(super) fn peak(samples: &[(f64, f64)]) -> f64 {
    samples.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max)
}

/// Reduces the samples to the maximum of each of several parts, which suffices for a plot.
pub(super) fn outline(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let parts = samples.chunks(samples.len().div_ceil(OUTLINE_POINTS).max(1));
    let highest = |part: &[(f64, f64)]| part.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    parts.filter_map(highest).collect()
}

/// Returns the anonymous and shared memory of processes, and their page tables, in bytes.
fn used_bytes() -> f64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    ["AnonPages:", "PageTables:", "Shmem:"].iter().map(|name| field(&text, name)).sum()
}

/// Returns a field of /proc/meminfo in bytes; 0 if it is missing.
pub(super) fn field(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}

#[cfg(test)]
mod tests {
    use super::{OUTLINE_POINTS, Sampler, field, outline, peak, used_bytes};

    #[test]
    fn fields_of_the_kernel_are_in_kilobytes() {
        let text = "MemTotal:       100 kB\nAnonPages:        7 kB\nPageTables:  2 kB\n";
        assert_eq!((field(text, "AnonPages:"), field(text, "Shmem:")), (7168.0, 0.0));
        assert!(used_bytes() > 1e6);
    }

    #[test]
    fn earlier_memory_is_not_counted() {
        let sampler = Sampler::start();
        let samples = sampler.finish(0.0);
        assert!(peak(&samples) >= 0.0);
        assert_eq!(peak(&[(0.0, -5.0), (1.0, 7.0), (2.0, 3.0)]), 7.0);
    }

    #[test]
    fn an_outline_is_short_and_keeps_the_peak() {
        let samples: Vec<(f64, f64)> =
            (0..1000).map(|at| (f64::from(at), f64::from((at * 7919) % 1000))).collect();
        let outlined = outline(&samples);
        assert!(outlined.len() <= OUTLINE_POINTS && outlined.is_sorted());
        assert_eq!(peak(&outlined), peak(&samples));
        assert_eq!(outline(&samples[..3]), samples[..3]);
        assert_eq!(outline(&[]), []);
    }
}
