//! Measures the resident memory of a server at its limit while the sizes of values change. A
//! general allocator cannot return pages that still contain small allocations.

use anyhow::Result;
use serde_json::{Value, json};

use super::super::Arguments;
use super::super::contestants::{Contestant, Placement};
use super::super::fill::KEY_BYTES;
use super::super::report::Table;
use super::client::{BATCH, Client};

/// The name of this measurement for `--only`.
pub(super) const NAME: &str = "memory at the limit";

/// Sizes of values in bytes, one for each phase. The total size of the values is the same in each
/// phase.
const VALUES_BYTES: [usize; 3] = [64, 4096, 100];
/// Bytes written, as a multiple of the limit.
const TIMES: u64 = 20;
/// Number of readings of resident memory in a phase.
const LOOKS: u64 = 200;

/// Memory use in a phase.
pub(super) struct Usage {
    limit: u64,
    phases: Vec<Phase>,
}

struct Phase {
    value_bytes: usize,
    peak_bytes: f64,
    /// Memory use at the end of the phase.
    last_bytes: f64,
    keys: u64,
    longest_latch_hold_us: u64,
    longest_eviction_us: u64,
}

/// Writes twenty times the limit in each phase, and measures memory meanwhile.
pub(super) fn measure(nagi: &Contestant, arguments: &Arguments) -> Result<Usage> {
    let limit = if arguments.quick { 64 << 20 } else { 256 << 20 };
    let server = nagi.start(Placement::Free)?;
    let mut client = Client::connect(&server)?;
    client.limit(limit, "allkeys-lru")?;
    let mut key = 0;
    let mut phases = Vec::new();
    for value_bytes in VALUES_BYTES {
        let value = "v".repeat(value_bytes);
        let bytes = limit * TIMES / VALUES_BYTES.len() as u64;
        let end = key + bytes / (KEY_BYTES + value_bytes) as u64;
        let batches_a_look = ((end - key) / BATCH as u64 / LOOKS).max(1);
        client.ask("CONFIG RESETSTAT")?;
        let (mut peak_bytes, mut last_bytes) = (0.0_f64, 0.0);
        let mut batches = 0;
        while key < end {
            let batch = key..end.min(key + BATCH as u64);
            key = batch.end;
            client.store(batch, &value)?;
            batches += 1;
            if batches % batches_a_look == 0 || key == end {
                last_bytes = server.resident_bytes() as f64;
                peak_bytes = peak_bytes.max(last_bytes);
            }
        }
        phases.push(Phase {
            value_bytes,
            peak_bytes,
            last_bytes,
            keys: client.keys()?,
            longest_latch_hold_us: client.info("longest_latch_hold_usec")?,
            longest_eviction_us: client.info("longest_eviction_usec")?,
        });
        println!("bench: values of {value_bytes} B at the limit are done");
    }
    Ok(Usage { limit, phases })
}

impl Usage {
    pub(super) fn as_json(&self) -> Value {
        let phases = self.phases.iter().map(|phase| {
            json!({
                "value_bytes": phase.value_bytes,
                "resident_bytes_peak": phase.peak_bytes,
                "resident_bytes_last": phase.last_bytes,
                "keys": phase.keys,
                "longest_latch_hold_us": phase.longest_latch_hold_us,
                "longest_eviction_us": phase.longest_eviction_us,
            })
        });
        json!({
            "trace": NAME,
            "maxmemory": self.limit,
            "phases": phases.collect::<Vec<_>>(),
        })
    }

    pub(super) fn table(&self) -> String {
        let mut table = Table::new(&[
            "values, in order",
            "keys held",
            "resident MB, peak",
            "at the end",
            "longest evicting at a stretch, µs",
            "longest latch hold, µs",
        ]);
        for phase in &self.phases {
            table.row(vec![
                format!("{} B", phase.value_bytes),
                phase.keys.to_string(),
                format!("{:.1}", phase.peak_bytes / 1e6),
                format!("{:.1}", phase.last_bytes / 1e6),
                phase.longest_eviction_us.to_string(),
                phase.longest_latch_hold_us.to_string(),
            ]);
        }
        let limit = self.limit as f64 / 1e6;
        format!(
            "`maxmemory` {limit:.1} MB, allkeys-lru, {TIMES} times as much written; the target is \
             {:.1} MB resident.\n\n{table}",
            limit * 1.1 + 64.0
        )
    }
}
