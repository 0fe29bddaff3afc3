//! What is measured of one server with so much data, as it stands in the results.

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

/// A window with a save and one without, of the same open-loop load.
#[derive(Serialize, Deserialize)]
pub(super) struct Pair {
    pub(super) fork_us: f64,
    pub(super) seconds: f64,
    pub(super) saving: Latency,
    pub(super) quiet: Latency,
    /// The slowest that an idle server of the kind answered beside the save.
    pub(super) idle_max_us: Option<f64>,
    /// The most memory beyond that at the beginning, in bytes.
    pub(super) extra_bytes: f64,
    /// Requests of the save's window that failed.
    pub(super) errors: f64,
}

/// A save while requests come as fast as they are answered.
#[derive(Serialize, Deserialize)]
pub(super) struct Busy {
    pub(super) seconds: f64,
    pub(super) requests_per_second: f64,
    /// The same load before and after the save.
    pub(super) quiet_requests_per_second: f64,
    pub(super) is_saved: bool,
}

/// A save while keys are written over, one after the other.
#[derive(Serialize, Deserialize)]
pub(super) struct Overwriting {
    /// Half the bytes per second of the save without load.
    pub(super) asked_bytes_per_second: f64,
    pub(super) bytes_per_second: f64,
    pub(super) seconds: f64,
    pub(super) extra_bytes: f64,
    pub(super) max_us: f64,
    pub(super) is_saved: bool,
}

/// What nagi counts itself, over all saves of a row.
#[derive(Serialize, Deserialize)]
pub(super) struct Counters {
    pub(super) longest_slice_us: f64,
    pub(super) longest_latch_hold_us: f64,
    pub(super) pre_image_peak_bytes: f64,
    /// The longest that a writer was made to wait, and all of it; none before there are delays.
    pub(super) longest_delay_us: Option<f64>,
    pub(super) delayed_writes: Option<f64>,
}

/// Latencies and time at one setting of `save-cpu-limit`.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Limited {
    pub(super) setting: String,
    pub(super) seconds: f64,
    pub(super) saving: Latency,
}

impl Limited {
    /// The medians of the figures of all saves at this setting.
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

/// One server with so much data.
#[derive(Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) server: String,
    pub(super) gigabytes: f64,
    pub(super) keys: u64,
    pub(super) rate: f64,
    pub(super) resident_bytes: f64,
    pub(super) pairs: Vec<Pair>,
    /// How long a save takes while nobody asks for anything, if that was measured.
    pub(super) idle_seconds: Option<f64>,
    pub(super) file_bytes: f64,
    pub(super) busy: Busy,
    pub(super) overwriting: Option<Overwriting>,
    /// From starting the process to all keys being there.
    pub(super) load_seconds: f64,
    pub(super) counters: Option<Counters>,
    pub(super) limited: Vec<Limited>,
    /// Of the last pair: seconds since the save was asked for, and bytes beyond those before.
    pub(super) memory: Vec<(f64, f64)>,
}

impl Row {
    /// The median over the pairs of what `figure` picks.
    pub(super) fn median(&self, figure: impl Fn(&Pair) -> f64) -> f64 {
        median(self.pairs.iter().map(figure).collect())
    }

    /// The most over the pairs of what `figure` picks.
    pub(super) fn most(&self, figure: impl Fn(&Pair) -> f64) -> f64 {
        self.pairs.iter().map(figure).fold(f64::NAN, f64::max)
    }

    pub(super) fn as_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}
