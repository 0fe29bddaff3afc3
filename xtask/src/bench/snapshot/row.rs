//! The measurements of one server with one size of data, in the format of the results.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::figures::median;

/// Latencies in microseconds.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Latency {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p99_9: f64,
    pub(super) max: f64,
}

/// A window with a save and one without, under the same open-loop load. Several pairs are combined
/// to the medians, and to the maximum for memory and failures.
#[derive(Serialize, Deserialize)]
pub(super) struct Pair {
    pub(super) fork_us: f64,
    pub(super) seconds: f64,
    pub(super) saving: Latency,
    pub(super) quiet: Latency,
    /// The slowest answer of an idle server of the same kind during the save, in microseconds.
    pub(super) idle_max_us: Option<f64>,
    /// The peak of the memory in use beyond that at the beginning, in bytes.
    pub(super) extra_bytes: f64,
    /// Number of failed requests in the window with the save.
    pub(super) errors: f64,
}

/// The results of a save under a closed-loop load.
#[derive(Serialize, Deserialize)]
pub(super) struct Busy {
    pub(super) seconds: f64,
    pub(super) requests_per_second: f64,
    /// The rate of the same load before and after the save.
    pub(super) quiet_requests_per_second: f64,
    pub(super) is_saved: bool,
}

/// The results of a save while keys are overwritten, one after another.
#[derive(Serialize, Deserialize)]
pub(super) struct Overwriting {
    /// The rate of overwriting: half the bytes per second of the save without load.
    pub(super) asked_bytes_per_second: f64,
    pub(super) bytes_per_second: f64,
    pub(super) seconds: f64,
    pub(super) extra_bytes: f64,
    pub(super) max_us: f64,
    pub(super) is_saved: bool,
}

/// nagi's own counters over all saves of a row.
#[derive(Serialize, Deserialize)]
pub(super) struct Counters {
    pub(super) longest_slice_us: f64,
    pub(super) longest_latch_hold_us: f64,
    pub(super) pre_image_peak_bytes: f64,
    /// The longest delay of a writer, and the sum of all delays, in microseconds; `None` if the
    /// build does not delay writers.
    pub(super) longest_delay_us: Option<f64>,
    pub(super) delayed_writes: Option<f64>,
}

/// Latencies and the time of a save at one setting of `save-cpu-limit`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Limited {
    pub(super) setting: String,
    pub(super) seconds: f64,
    pub(super) saving: Latency,
}

impl Limited {
    /// Returns the medians of the figures of all saves at this setting.
    pub(super) fn median(setting: &str, saves: &[Limited]) -> Self {
        let of = |figure: fn(&Limited) -> f64| {
            median(saves.iter().filter(|it| it.setting == setting).map(figure).collect())
        };
        let saving = Latency {
            p50: of(|it| it.saving.p50),
            p99: of(|it| it.saving.p99),
            p99_9: of(|it| it.saving.p99_9),
            max: of(|it| it.saving.max),
        };
        Limited { setting: setting.to_owned(), seconds: of(|it| it.seconds), saving }
    }
}

/// The results of one server with one size of data.
#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) server: String,
    pub(super) gigabytes: f64,
    pub(super) keys: u64,
    pub(super) rate: f64,
    pub(super) resident_bytes: f64,
    /// The number of pairs of windows, and their combined result.
    pub(super) pairs: usize,
    pub(super) windows: Pair,
    /// The duration of a save without requests, in seconds, if measured.
    pub(super) idle_seconds: Option<f64>,
    pub(super) file_bytes: f64,
    pub(super) busy: Busy,
    pub(super) overwriting: Option<Overwriting>,
    /// Time from the start of the process until all keys are loaded, in seconds.
    pub(super) load_seconds: f64,
    pub(super) counters: Option<Counters>,
    pub(super) limited: Vec<Limited>,
    /// The memory during the last pair: the seconds since the request to save, and the bytes in use
    /// beyond those before. Each point is the maximum over a part of the time.
    pub(super) memory: Vec<(f64, f64)>,
}

impl Pair {
    /// Combines the results of several pairs.
    pub(super) fn together(pairs: &[Pair]) -> Self {
        let median_of = |figure: &dyn Fn(&Pair) -> f64| median(pairs.iter().map(figure).collect());
        let most = |figure: fn(&Pair) -> f64| pairs.iter().map(figure).fold(f64::NAN, f64::max);
        let latency = |window: fn(&Pair) -> &Latency| Latency {
            p50: median_of(&|it| window(it).p50),
            p99: median_of(&|it| window(it).p99),
            p99_9: median_of(&|it| window(it).p99_9),
            max: median_of(&|it| window(it).max),
        };
        let idle_max_us = median_of(&|it| it.idle_max_us.unwrap_or(f64::NAN));
        Pair {
            fork_us: median_of(&|it| it.fork_us),
            seconds: median_of(&|it| it.seconds),
            saving: latency(|it| &it.saving),
            quiet: latency(|it| &it.quiet),
            idle_max_us: Some(idle_max_us).filter(|us| !us.is_nan()),
            extra_bytes: most(|it| it.extra_bytes),
            errors: most(|it| it.errors),
        }
    }
}

impl Row {
    pub(super) fn as_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Latency, Pair};

    #[test]
    fn pairs_together_have_medians_and_the_most_memory() {
        let pair = |us: f64, bytes: f64| Pair {
            fork_us: us,
            seconds: us,
            saving: Latency { max: 2.0 * us, ..Latency::default() },
            quiet: Latency::default(),
            idle_max_us: None,
            extra_bytes: bytes,
            errors: 0.0,
        };
        let together = Pair::together(&[pair(3.0, 5.0), pair(900.0, 9.0), pair(1.0, 7.0)]);
        let figures = (together.seconds, together.saving.max, together.extra_bytes);
        assert_eq!(figures, (3.0, 6.0, 9.0));
        assert_eq!(together.idle_max_us, None);
    }
}
