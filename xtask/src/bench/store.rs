//! Runs the store's own benchmark, without a server, to show the cost while the store grows.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Arguments;
use super::report::{DOCUMENT, Report, Table};
use crate::process;
use crate::workspace::cargo;

/// The number of keys in a quick run, which only tests the benchmark.
const QUICK_KEYS: &str = "100000";

const HEADER: [&str; 10] = [
    "keys",
    "SET ns",
    "GET ns",
    "as many bare reads ns",
    "over key and value, bytes",
    "two threads to one",
    "by CPU time",
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
    "longest without interruption, µs",
    "entries",
    "page faults",
];

const LONG_HEADER: [&str; 6] = [
    "keys",
    "what holds of more than 100 µs did",
    "holds",
    "of them less than half on a processor",
    "otherwise met a page fault",
    "neither",
];

/// The kinds of work that may occur while a latch is held, the rarest first.
const KINDS: [(&str, &str); 4] = [
    ("/work/directory", "doubled a directory"),
    ("/work/entries", "split a segment"),
    ("/work/pages", "took a page"),
    ("/work/hashed", "learnt where entries belong"),
];

const BARS_HEADER: [&str; 4] =
    ["while the store grows", "nagi", "an empty hold or a bare read", "target"];

/// Runs the benchmark, and compares its results with the targets.
pub(super) fn measure(arguments: &Arguments, profile: &str) -> Result<Report> {
    let mut command = cargo(&["bench", "--package", "nagi-store", "--bench", "growth"]);
    command.args(["--profile", profile]);
    if arguments.quick {
        command.args(["--", QUICK_KEYS]);
    }
    let printed = process::output(&mut command)?;
    let rows: Vec<Value> =
        printed.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let bars = bars(&rows).context("the bench printed no figures")?.to_string();
    Ok(Report {
        name: "store",
        table: format!("{}\n{bars}", table(&rows)),
        details: format!("{}\n{}", holds_table(&rows), long_table(&rows)),
        summary: String::new(),
        results: rows.iter().map(without_samples).collect(),
        document: DOCUMENT,
        pictures: Vec::new(),
    })
}

fn table(rows: &[Value]) -> Table {
    const FIGURES: [&str; 10] = [
        "/keys",
        "/set_ns",
        "/get_ns",
        "/reading_ns",
        "/overhead_bytes",
        "/two_threads",
        "/two_threads_cpu",
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

/// Formats the times for which latches are held, compared with the same number of empty holds.
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
        for (name, label) in [("holds", "holds a latch"), ("control", "holds nothing")] {
            let holds = row.get(name).unwrap_or(&Value::Null);
            let mut cells = vec![cell(row, "/keys"), label.to_owned()];
            cells.extend(FIGURES.map(|figure| cell(holds, figure)));
            table.row(cells);
        }
    }
    table
}

/// Returns a row without its samples of long holds, because the table contains their numbers by
/// kind.
fn without_samples(row: &Value) -> Value {
    let mut row = row.clone();
    for name in ["holds", "control"] {
        if let Some(holds) = row.get_mut(name).and_then(Value::as_object_mut) {
            holds.remove("long");
        }
    }
    row
}

/// Formats the work during long holds, and whether their threads were delayed meanwhile.
fn long_table(rows: &[Value]) -> Table {
    let mut table = Table::new(&LONG_HEADER);
    for row in rows {
        let holds = |name: &str| row.pointer(name).and_then(Value::as_array).into_iter().flatten();
        let kinds = KINDS.map(|(_, kind)| kind).into_iter().chain(["something else"]);
        for kind in kinds {
            let ours = holds("/holds/long").filter(|hold| kind_of(hold) == kind);
            let counts = fates(ours);
            if counts != [0; 4] {
                table.row(long_row(row, kind, counts));
            }
        }
        table.row(long_row(row, "nothing: no latch was held", fates(holds("/control/long"))));
    }
    table
}

fn long_row(row: &Value, kind: &str, counts: [u64; 4]) -> Vec<String> {
    let mut cells = vec![cell(row, "/keys"), kind.to_owned()];
    cells.extend(counts.map(|count| count.to_string()));
    cells
}

fn kind_of(hold: &Value) -> &'static str {
    let kind = KINDS.into_iter().find(|(figure, _)| number(hold, figure) > 0.0);
    kind.map_or("something else", |(_, kind)| kind)
}

/// Returns the total number of holds, and the numbers of those whose thread had no processor for
/// most of the time, of others with a page fault, and of those with neither.
fn fates<'a>(holds: impl Iterator<Item = &'a Value>) -> [u64; 4] {
    let (mut all, mut stopped, mut faulted) = (0, 0, 0);
    for hold in holds {
        all += 1;
        if 2.0 * number(hold, "/work/cpu_us") < number(hold, "/us") {
            stopped += 1;
        } else if number(hold, "/work/faults") > 0.0 {
            faulted += 1;
        }
    }
    [all, stopped, faulted, all - stopped - faulted]
}

fn number(hold: &Value, figure: &str) -> f64 {
    hold.pointer(figure).and_then(Value::as_f64).unwrap_or_default()
}

fn cell(row: &Value, figure: &str) -> String {
    row.pointer(figure).map_or_else(String::new, Value::to_string)
}

/// Formats the figures that have targets, each beside that of an empty hold or of bare reads.
fn bars(rows: &[Value]) -> Option<Table> {
    let figure = |row: &Value, name: &str| row.pointer(name).and_then(Value::as_f64);
    let worst = |name: &str| rows.iter().filter_map(|row| figure(row, name)).reduce(f64::max);
    let least = |name: &str| rows.iter().filter_map(|row| figure(row, name)).reduce(f64::min);
    let sum = |name: &str| rows.iter().filter_map(|row| figure(row, name)).sum::<f64>();
    let growth = |name: &str| {
        let grown = figure(rows.last()?, name)? / figure(rows.first()?, name)?;
        Some(format!("{grown:.2}"))
    };
    let mut table = Table::new(&BARS_HEADER);
    let mut row = |what: &str, store: String, machine: String, asked: &str| {
        table.row(vec![what.to_owned(), store, machine, asked.to_owned()]);
    };
    row(
        "holds of a latch longer than 100 µs",
        format!("{:.0}", sum("/holds/longer/2")),
        format!("{:.0}", sum("/control/longer/2")),
        "0",
    );
    row(
        "longest hold",
        format!("{:.0} µs", worst("/holds/longest/us")?),
        format!("{:.0} µs", worst("/control/longest/us")?),
        "100 µs",
    );
    row(
        "most entries moved in one hold",
        format!("{:.0}", worst("/holds/most/entries")?),
        String::new(),
        "512",
    );
    row(
        "GET at the most keys, as a multiple of the fewest",
        growth("/get_ns")?,
        growth("/reading_ns")?,
        "1.3",
    );
    row(
        "lookups of two threads by those of one, at worst",
        format!("{:.2}", least("/two_threads")?),
        format!("{:.2}", least("/two_threads_reading")?),
        "1.8",
    );
    row(
        "the same by the CPU time that they took",
        format!("{:.2}", least("/two_threads_cpu")?),
        String::new(),
        "1.8",
    );
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn long_holds_are_distinguished_by_their_work_and_their_causes() {
        let hold = |us: u32, cpu_us: u32, faults: u32, entries: u32| {
            let work = json!({"cpu_us": cpu_us, "faults": faults, "entries": entries});
            json!({"us": us, "work": work})
        };
        let long = [hold(300, 20, 1, 504), hold(120, 119, 2, 504), hold(150, 140, 0, 0)];
        let row = json!({
            "keys": 7,
            "holds": {"long": long},
            "control": {"long": [hold(200, 1, 0, 0)]},
        });
        let said = long_table(&[row]).to_string();
        let cells: Vec<Vec<&str>> =
            said.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
        for part in [
            ["7", "split a segment", "2", "1", "1", "0"],
            ["7", "something else", "1", "0", "0", "1"],
            ["7", "nothing: no latch was held", "1", "1", "0", "0"],
        ] {
            let found = cells.iter().any(|row| row.get(1..7) == Some(part.as_slice()));
            assert!(found, "{part:?}: {said}");
        }
    }

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
                    "reading_ns": get_ns - 40,
                    "holds": holds(1, hold_us),
                    "control": holds(2, 3 * hold_us),
                    "two_threads": speedup,
                    "two_threads_cpu": speedup + 0.05,
                    "two_threads_reading": speedup + 0.1,
                    "two_threads_computing": 2.0,
                })
            })
            .to_vec();
        let said = bars(&rows).unwrap().to_string();
        let cells: Vec<Vec<&str>> =
            said.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
        let parts = [
            ["holds of a latch longer than 100 µs", "2", "4"],
            ["longest hold", "80 µs", "240 µs"],
            ["most entries moved in one hold", "80", ""],
            ["GET at the most keys, as a multiple of the fewest", "1.20", "2.00"],
            ["lookups of two threads by those of one, at worst", "1.70", "1.80"],
            ["the same by the CPU time that they took", "1.75", ""],
        ];
        for part in parts {
            let found = cells.iter().any(|row| row.get(1..4) == Some(part.as_slice()));
            assert!(found, "{part:?}: {said}");
        }
        assert!(bars(&[]).is_none());
        assert!(holds_table(&rows).to_string().lines().count() >= 2 * rows.len());
    }
}
