//! The tables of the document and of the README.

use super::super::report::{Table, ratio};
use super::row::{Latency, Row};

/// The server that nagi is compared with.
const BASE: &str = "Valkey";

/// Formats all tables, with their headings.
pub(super) fn all(rows: &[Row]) -> String {
    let mut text = format!(
        "### While saving\n\n{}\n### Time, file and loading\n\n{}\n### Keys written over meanwhile\
         \n\n{}",
        windows(rows),
        times(rows),
        overwriting(rows)
    );
    if rows.iter().any(|row| row.counters.is_some()) {
        text.push_str(&format!("\n### What nagi counts itself\n\n{}", counters(rows)));
    }
    if rows.iter().any(|row| !row.limited.is_empty()) {
        let picture = "![What save-cpu-limit trades](snapshot-cpu-limit.svg)";
        text.push_str(&format!("\n### save-cpu-limit\n\n{picture}\n\n{}", limits(rows)));
    }
    text
}

/// Formats the effect of a save on requests, with one row for each server and size.
fn windows(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        "data",
        "server",
        "cut or fork ms",
        "save s",
        "to Valkey",
        "p50 µs (without)",
        "p99 µs (without)",
        "p99.9 µs (without)",
        "slowest ms (without)",
        "idle server meanwhile",
        "closed loop, requests/s",
        "to that without",
        "longest delay of a writer ms",
        "additional memory MB",
    ]);
    for row in rows {
        let beside = |figure: fn(&Latency) -> f64, unit: f64, decimals: usize| {
            let saving = figure(&row.windows.saving) / unit;
            let quiet = figure(&row.windows.quiet) / unit;
            format!("{saving:.decimals$} ({quiet:.decimals$})")
        };
        let busy = &row.busy;
        let share = busy.requests_per_second / busy.quiet_requests_per_second;
        let delay_us = row.counters.as_ref().and_then(|it| it.longest_delay_us);
        table.row(vec![
            gigabytes(row),
            row.server.clone(),
            fork_ms(row),
            format!("{:.1}", row.windows.seconds),
            to_base(rows, row, |row| row.windows.seconds),
            beside(|it| it.p50, 1.0, 0),
            beside(|it| it.p99, 1.0, 0),
            beside(|it| it.p99_9, 1.0, 0),
            beside(|it| it.max, 1e3, 1),
            idle_ms(row),
            format!("{:.0}", busy.requests_per_second),
            format!("{share:.2}{}", failed(busy.is_saved)),
            delay_us.map_or(String::new(), |us| format!("{:.1}", us / 1e3)),
            format!("{:.0}", row.windows.extra_bytes / 1e6),
        ]);
    }
    table.to_string()
}

fn times(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        "data",
        "server",
        "in memory GB",
        "file GB",
        "save without load s",
        "to Valkey",
        "save in a closed loop s",
        "to Valkey",
        "load s",
        "to Valkey",
    ]);
    let idle = |row: &Row| row.idle_seconds.unwrap_or(f64::NAN);
    for row in rows {
        table.row(vec![
            gigabytes(row),
            row.server.clone(),
            format!("{:.2}", row.resident_bytes / 1e9),
            format!("{:.2}", row.file_bytes / 1e9),
            row.idle_seconds.map_or(String::new(), |seconds| format!("{seconds:.1}")),
            row.idle_seconds.map_or(String::new(), |_| to_base(rows, row, idle)),
            format!("{:.1}{}", row.busy.seconds, failed(row.busy.is_saved)),
            to_base(rows, row, |row| row.busy.seconds),
            format!("{:.1}", row.load_seconds),
            to_base(rows, row, |row| row.load_seconds),
        ]);
    }
    table.to_string()
}

fn overwriting(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        "data",
        "server",
        "asked MB/s",
        "written over MB/s",
        "share of the data",
        "save s",
        "additional memory MB",
        "of the data",
        "slowest ms",
    ]);
    for (row, of) in rows.iter().filter_map(|row| row.overwriting.as_ref().map(|it| (row, it))) {
        let data = row.gigabytes * 1e9;
        table.row(vec![
            gigabytes(row),
            row.server.clone(),
            format!("{:.0}", of.asked_bytes_per_second / 1e6),
            format!("{:.0}", of.bytes_per_second / 1e6),
            format!("{:.0} %", of.bytes_per_second * of.seconds / data * 100.0),
            format!("{:.1}{}", of.seconds, failed(of.is_saved)),
            format!("{:.0}", of.extra_bytes / 1e6),
            format!("{:.1} %", of.extra_bytes / data * 100.0),
            format!("{:.0}", of.max_us / 1e3),
        ]);
    }
    table.to_string()
}

fn counters(rows: &[Row]) -> String {
    let mut table = Table::new(&[
        "data",
        "longest slice µs",
        "longest latch hold µs",
        "writers delayed",
        "longest delay µs",
        "most kept for the snapshot MB",
    ]);
    for (row, of) in rows.iter().filter_map(|row| row.counters.as_ref().map(|it| (row, it))) {
        let count = |figure: Option<f64>| figure.map_or(String::new(), |it| format!("{it:.0}"));
        table.row(vec![
            gigabytes(row),
            format!("{:.0}", of.longest_slice_us),
            format!("{:.0}", of.longest_latch_hold_us),
            count(of.delayed_writes),
            count(of.longest_delay_us),
            format!("{:.1}", of.pre_image_peak_bytes / 1e6),
        ]);
    }
    table.to_string()
}

fn limits(rows: &[Row]) -> String {
    let mut table =
        Table::new(&["data", "save-cpu-limit", "save s", "p50 µs", "p99 µs", "slowest ms"]);
    for row in rows {
        for of in &row.limited {
            table.row(vec![
                gigabytes(row),
                of.setting.clone(),
                format!("{:.1}", of.seconds),
                format!("{:.0}", of.saving.p50),
                format!("{:.0}", of.saving.p99),
                format!("{:.1}", of.saving.max / 1e3),
            ]);
        }
    }
    table.to_string()
}

/// Formats the README's table: the results with the largest size of data.
pub(super) fn summary(rows: &[Row]) -> String {
    let largest = rows.iter().map(|row| row.gigabytes).fold(0.0, f64::max);
    let mut table = Table::new(&[
        "saving beside 20,000 requests/s",
        "cut or fork",
        "p99 (without)",
        "slowest (without)",
        "save",
        "additional memory",
        "load",
    ]);
    for row in rows.iter().filter(|row| row.gigabytes == largest) {
        let windows = &row.windows;
        let beside = |saving_us: f64, quiet_us: f64| {
            format!("{:.1} ms ({:.1})", saving_us / 1e3, quiet_us / 1e3)
        };
        table.row(vec![
            format!("{}, {} GB", row.server, row.gigabytes),
            format!("{} ms", fork_ms(row)),
            beside(windows.saving.p99, windows.quiet.p99),
            beside(windows.saving.max, windows.quiet.max),
            format!("{:.1} s", row.windows.seconds),
            format!("{:.0} MB", row.windows.extra_bytes / 1e6),
            format!("{:.1} s", row.load_seconds),
        ]);
    }
    table.to_string()
}

/// Formats the time for which no client gets an answer. Servers report it in microseconds.
fn fork_ms(row: &Row) -> String {
    let us = row.windows.fork_us;
    if us < 1.0 { "< 0.001".to_owned() } else { format!("{:.3}", us / 1e3) }
}

/// Formats the slowest answer of an idle server during the saves; empty if not measured.
fn idle_ms(row: &Row) -> String {
    row.windows.idle_max_us.map_or(String::new(), |us| format!("{:.1}", us / 1e3))
}

fn gigabytes(row: &Row) -> String {
    format!("{} GB", row.gigabytes)
}

fn failed(is_saved: bool) -> &'static str {
    if is_saved { "" } else { " (failed)" }
}

/// Formats a figure as a multiple of the figure of [`BASE`]; empty for [`BASE`] itself.
fn to_base(rows: &[Row], row: &Row, figure: impl Fn(&Row) -> f64) -> String {
    let base = rows.iter().find(|it| it.server == BASE && it.gigabytes == row.gigabytes);
    match base {
        Some(base) if row.server != BASE => ratio(figure(row), figure(base)),
        _ => String::new(),
    }
}
