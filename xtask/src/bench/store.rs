//! What the store costs while it grows: its own bench, without a server around it, as a table.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Arguments;
use super::report::{Report, Table};
use crate::process;
use crate::workspace::cargo;

/// Keys that the bench stops at, to see that it works.
const QUICK_KEYS: &str = "100000";

const HEADER: [&str; 7] = [
    "keys",
    "SET ns",
    "GET ns",
    "over key and value, bytes",
    "longest latch hold, µs",
    "undisturbed, µs",
    "two threads to one",
];

/// Runs the bench and compares what it says with what is asked of the store.
pub(super) fn measure(arguments: &Arguments, profile: &str) -> Result<Report> {
    let mut command = cargo(&["bench", "--package", "nagi-store", "--bench", "growth"]);
    command.args(["--profile", profile]);
    if arguments.quick {
        command.args(["--", QUICK_KEYS]);
    }
    let printed = process::output(&mut command)?;
    let rows: Vec<Value> =
        printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let bars = bars(&rows).context("the bench printed no figures")?;
    Ok(Report {
        name: "store",
        table: format!("{}\n{bars}", table(&rows)),
        summary: bars,
        results: rows,
    })
}

fn table(rows: &[Value]) -> Table {
    const FIGURES: [&str; 7] = [
        "keys",
        "set_ns",
        "get_ns",
        "overhead_bytes",
        "longest_hold_us",
        "longest_undisturbed_hold_us",
        "two_threads",
    ];
    let mut table = Table::new(&HEADER);
    for row in rows {
        let cell = |name| row.get(name).map_or_else(String::new, Value::to_string);
        table.row(FIGURES.map(cell).to_vec());
    }
    table
}

/// The figures that are asked of the store, in one paragraph.
fn bars(rows: &[Value]) -> Option<String> {
    let figure = |row: &Value, name: &str| row.get(name).and_then(Value::as_f64);
    let worst = |name: &str| rows.iter().filter_map(|row| figure(row, name)).reduce(f64::max);
    let least = |name: &str| rows.iter().filter_map(|row| figure(row, name)).reduce(f64::min);
    let growth = figure(rows.last()?, "get_ns")? / figure(rows.first()?, "get_ns")?;
    Some(format!(
        "While the store grew, the longest hold of a latch was {:.0} µs, or {:.0} µs without those \
         during which the kernel ran something else (asked: 100); a GET of the largest took \
         {growth:.2} times the CPU time of one of the smallest (asked: 1.3); two threads looked up \
         at least {:.2} times as much as one (asked: 1.8).",
        worst("longest_hold_us")?,
        worst("longest_undisturbed_hold_us")?,
        least("two_threads")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_worst_row_counts() {
        let rows: Vec<Value> = [(50, 80, 40, 1.9), (60, 70, 45, 1.7)]
            .map(|(get_ns, hold_us, undisturbed_us, speedup)| {
                json!({
                    "get_ns": get_ns,
                    "longest_hold_us": hold_us,
                    "longest_undisturbed_hold_us": undisturbed_us,
                    "two_threads": speedup,
                })
            })
            .to_vec();
        let said = bars(&rows).unwrap();
        for part in ["was 80 µs, or 45 µs", "took 1.20 times", "least 1.70 times"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(bars(&[]).is_none());
    }
}
