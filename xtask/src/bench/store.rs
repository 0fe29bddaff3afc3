//! What the store costs while it grows: its own bench, without a server around it, as a table.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Arguments;
use super::report::{DOCUMENT, Report, Table};
use crate::process;
use crate::workspace::cargo;

/// Keys that the bench stops at, to see that it works.
const QUICK_KEYS: &str = "100000";

const HEADER: [&str; 8] = [
    "keys",
    "SET ns",
    "GET ns",
    "over key and value, bytes",
    "two threads to one",
    "reading memory",
    "computing",
    "holds timed, ms",
];

const HOLDS_HEADER: [&str; 10] = [
    "keys",
    "a thread that",
    "> 10 µs",
    "> 50 µs",
    "> 100 µs",
    "> 1 ms",
    "longest, µs",
    "kernel and others at rest, µs",
    "entries",
    "page faults",
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
        table: format!("{}\n{}\n{bars}", table(&rows), holds_table(&rows)),
        summary: bars,
        results: rows,
        document: DOCUMENT,
        pictures: Vec::new(),
    })
}

fn table(rows: &[Value]) -> Table {
    const FIGURES: [&str; 8] = [
        "/keys",
        "/set_ns",
        "/get_ns",
        "/overhead_bytes",
        "/two_threads",
        "/two_threads_reading",
        "/two_threads_computing",
        "/holds/total_ms",
    ];
    let mut table = Table::new(&HEADER);
    for row in rows {
        table.row(FIGURES.map(|figure| cell(row, figure)).to_vec());
    }
    table
}

/// Holds of latches, beside as many holds of nothing.
fn holds_table(rows: &[Value]) -> Table {
    const FIGURES: [&str; 8] = [
        "/longer/0",
        "/longer/1",
        "/longer/2",
        "/longer/3",
        "/longest/us",
        "/longest_alone/us",
        "/most/entries",
        "/most/faults",
    ];
    let mut table = Table::new(&HOLDS_HEADER);
    for row in rows {
        for (name, who) in [("holds", "holds a latch"), ("control", "holds nothing")] {
            let holds = row.get(name).unwrap_or(&Value::Null);
            let mut cells = vec![cell(row, "/keys"), who.to_owned()];
            cells.extend(FIGURES.map(|figure| cell(holds, figure)));
            table.row(cells);
        }
    }
    table
}

fn cell(row: &Value, figure: &str) -> String {
    row.pointer(figure).map_or_else(String::new, Value::to_string)
}

/// The figures that are asked of the store, in one paragraph.
fn bars(rows: &[Value]) -> Option<String> {
    let figure = |row: &Value, name: &str| row.pointer(name).and_then(Value::as_f64);
    let worst = |name: &str| rows.iter().filter_map(|row| figure(row, name)).reduce(f64::max);
    let least = |name: &str| rows.iter().filter_map(|row| figure(row, name)).reduce(f64::min);
    let sum = |name: &str| rows.iter().filter_map(|row| figure(row, name)).sum::<f64>();
    let growth = figure(rows.last()?, "/get_ns")? / figure(rows.first()?, "/get_ns")?;
    Some(format!(
        "While the store grew, {:.0} holds of a latch were longer than 100 µs (asked: none), the \
         longest {:.0} µs; of as many holds of nothing {:.0} were, the longest {:.0} µs. No hold \
         moved more than {:.0} entries (asked: 512), met more than {:.0} page faults or asked the \
         kernel for memory more than {:.0} times. A GET of the largest took {growth:.2} times the \
         CPU time of one of the smallest (asked: 1.3). Two threads looked up at least {:.2} times \
         as much as one (asked: 1.8), where two that share nothing read {:.2} and compute {:.2} \
         times as much.",
        sum("/holds/longer/2"),
        worst("/holds/longest/us")?,
        sum("/control/longer/2"),
        worst("/control/longest/us")?,
        worst("/holds/most/entries")?,
        worst("/holds/most/faults")?,
        worst("/holds/most/requests")?,
        least("/two_threads")?,
        least("/two_threads_reading")?,
        least("/two_threads_computing")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_worst_row_counts() {
        let holds = |longer: u32, us: u32| {
            json!({
                "longer": [9, 8, longer, 0],
                "longest": {"us": us},
                "most": {"entries": us, "faults": 1, "requests": 0},
            })
        };
        let rows: Vec<Value> = [(50, 80, 1.9), (60, 70, 1.7)]
            .map(|(get_ns, hold_us, speedup)| {
                json!({
                    "get_ns": get_ns,
                    "holds": holds(1, hold_us),
                    "control": holds(2, 3 * hold_us),
                    "two_threads": speedup,
                    "two_threads_reading": speedup + 0.1,
                    "two_threads_computing": 2.0,
                })
            })
            .to_vec();
        let said = bars(&rows).unwrap();
        let parts = [
            "2 holds of a latch were longer",
            "longest 80 µs; of as many holds of nothing 4 were, the longest 240 µs",
            "more than 80 entries",
            "took 1.20 times",
            "least 1.70 times",
            "read 1.80 and compute 2.00",
        ];
        for part in parts {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(bars(&[]).is_none());
        assert!(holds_table(&rows).to_string().lines().count() >= 2 * rows.len());
    }
}
