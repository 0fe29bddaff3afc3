//! The plots: the time of the cut or fork against the size of the data, latencies and memory during
//! saves, and the effect of the limit on processor time.

use anyhow::Result;

use super::super::chart::{Axis, Figure, Line, Panel};
use super::row::{Latency, Pair, Row};

/// Selects a figure of a distribution.
type Pick = fn(&Latency) -> f64;

/// Draws all plots. Returns them with their file names.
pub(super) fn all(rows: &[Row]) -> Result<Vec<(&'static str, String)>> {
    let servers = servers(rows);
    let mut all = vec![
        ("snapshot-fork.svg", fork(rows, &servers).render()?),
        ("snapshot-latency.svg", latency(rows, &servers).render()?),
        ("snapshot-memory.svg", memory(rows, &servers).render()?),
    ];
    if let Some(limits) = limits(rows) {
        all.push(("snapshot-cpu-limit.svg", limits.render()?));
    }
    Ok(all)
}

/// Returns the names of the servers, in their order of appearance.
fn servers(rows: &[Row]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for row in rows {
        if !all.contains(&row.server) {
            all.push(row.server.clone());
        }
    }
    all
}

fn sizes(rows: &[Row]) -> Vec<f64> {
    let mut all: Vec<f64> = rows.iter().map(|row| row.gigabytes).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// Returns a line for each server: `figure` against the size of the data.
fn lines(
    rows: &[Row],
    servers: &[String],
    is_dashed: bool,
    figure: impl Fn(&Row) -> f64,
) -> Vec<Line> {
    let line = |(style, server): (usize, &String)| {
        let own = rows.iter().filter(|row| row.server == *server);
        let points = own.map(|row| (row.gigabytes, figure(row))).collect();
        Line { style, is_joined: true, is_dashed, has_marks: true, points }
    };
    servers.iter().enumerate().map(line).collect()
}

fn heights(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(|line| line.points.iter().map(|(_, y)| *y))
}

fn fork(rows: &[Row], servers: &[String]) -> Figure {
    let lines = lines(rows, servers, false, |row| row.windows.fork_us);
    Figure {
        title: "Time without any answer when a save begins".to_owned(),
        subtitle:
            "latest_fork_usec: the cut of nagi, the fork of the other servers; medians; 1 µs or \
             less is drawn as 1 µs"
                .to_owned(),
        panels: vec![Panel {
            title: String::new(),
            x: Axis::doubling("data in GB, values of 1000 bytes", &sizes(rows)),
            y: Axis::log_time("", heights(&lines)),
            lines,
        }],
        names: servers.to_vec(),
        dashes: None,
    }
}

fn latency(rows: &[Row], servers: &[String]) -> Figure {
    let rate = rows.first().map_or(0.0, |row| row.rate);
    let figures: [(&str, Pick); 3] =
        [("median", |it| it.p50), ("p99", |it| it.p99), ("slowest", |it| it.max)];
    let all: Vec<(&str, Vec<Line>)> = figures
        .into_iter()
        .map(|(name, figure)| {
            let saving = |pair: &Pair| figure(&pair.saving);
            let quiet = |pair: &Pair| figure(&pair.quiet);
            let mut both = lines(rows, servers, true, |row| quiet(&row.windows));
            both.extend(lines(rows, servers, false, |row| saving(&row.windows)));
            (name, both)
        })
        .collect();
    let everything: Vec<f64> = all.iter().flat_map(|(_, lines)| heights(lines)).collect();
    let panel = |(name, lines): (&str, Vec<Line>)| Panel {
        title: name.to_owned(),
        x: Axis::doubling("data in GB", &sizes(rows)),
        y: Axis::log_time("", everything.iter().copied()),
        lines,
    };
    Figure {
        title: "Latency while a save is under way".to_owned(),
        subtitle: format!(
            "50 connections, GET and SET 1:1, paced at {rate} requests/s, timed from when they \
             were due; medians of the pairs"
        ),
        panels: all.into_iter().map(panel).collect(),
        names: servers.to_vec(),
        dashes: Some(["while saving", "without a save"]),
    }
}

fn memory(rows: &[Row], servers: &[String]) -> Figure {
    let largest = sizes(rows).last().copied().unwrap_or(0.0);
    let rate = rows.first().map_or(0.0, |row| row.rate);
    let line = |(style, server): (usize, &String)| {
        let row = rows.iter().find(|row| row.server == *server && row.gigabytes == largest);
        let samples = row.map(|row| &row.memory).into_iter().flatten();
        let points = samples.map(|(at_s, bytes)| (*at_s, bytes.max(0.0) / 1e6)).collect();
        Line { style, is_joined: true, is_dashed: false, has_marks: false, points }
    };
    let lines: Vec<Line> = servers.iter().enumerate().map(line).collect();
    let longest = lines.iter().flat_map(|it| &it.points).map(|(x, _)| *x).fold(0.0, f64::max);
    let most = heights(&lines).fold(0.0, f64::max);
    let lines = lines
        .into_iter()
        .map(|line| {
            let points = line.points.into_iter().filter(|(at_s, _)| *at_s >= 0.0).collect();
            Line { points, ..line }
        })
        .collect();
    Figure {
        title: format!("Additional memory while {largest} GB are saved"),
        subtitle: format!(
            "all processes and their page tables; {} SETs/s of 1000 bytes",
            rate / 2.0
        ),
        panels: vec![Panel {
            title: "MB".to_owned(),
            x: Axis::linear("seconds since BGSAVE", longest),
            y: Axis::linear("", most),
            lines,
        }],
        names: servers.to_vec(),
        dashes: None,
    }
}

/// Draws two panels against the settings of the limit: the duration of a save, and the latency of
/// requests during the save.
fn limits(rows: &[Row]) -> Option<Figure> {
    let row = rows.iter().find(|row| !row.limited.is_empty())?;
    let points = |figure: &dyn Fn(&super::row::Limited) -> f64| -> Vec<(f64, f64)> {
        let all = row.limited.iter();
        all.map(|it| (it.setting.parse().unwrap_or(f64::NAN), figure(it))).collect()
    };
    let line = |style, is_dashed, points| Line {
        style,
        is_joined: true,
        is_dashed,
        has_marks: true,
        points,
    };
    let seconds = vec![line(0, false, points(&|it| it.seconds))];
    let latencies = vec![
        line(0, false, points(&|it| it.saving.p99)),
        line(0, true, points(&|it| it.saving.p50)),
    ];
    let axis = || Axis::linear("save-cpu-limit in percent", 100.0);
    Some(Figure {
        title: format!("What save-cpu-limit trades, with {} GB", row.gigabytes),
        subtitle: format!("medians of the saves at each setting, beside {} requests/s", row.rate),
        panels: vec![
            Panel {
                title: "seconds that the save takes".to_owned(),
                x: axis(),
                y: Axis::linear("", heights(&seconds).fold(0.0, f64::max)),
                lines: seconds,
            },
            Panel {
                title: "latency meanwhile".to_owned(),
                x: axis(),
                y: Axis::log_time("", heights(&latencies)),
                lines: latencies,
            },
        ],
        names: vec![row.server.clone()],
        dashes: Some(["p99", "median"]),
    })
}
