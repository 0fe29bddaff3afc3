//! Measures the latency of servers during disturbances with `nagi calm`, which alternates between
//! the servers at each step.
//!
//! Each disturbance is measured several times; the result is the median of the valid repetitions.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use harness::Server;
use serde_json::{Value, json};

use super::super::Arguments;
use super::super::chart::{Axis, Figure, Line, Panel};
use super::super::contestants::{Contestant, Folder, Placement, Protocol};
use super::super::figures::median;
use super::super::report::{Report, Table};
use super::DOCUMENT;
use super::saved::Saved;
use crate::process;

/// A figure of a row, the title of its table, and whether the table includes lost requests.
const TABLES: [(&str, &str, bool); 2] =
    [("p99_9_us", "99.9th percentile", false), ("max_us", "Slowest request", true)];

/// A running server with its files.
struct Running {
    server: Server,
    contestant: &'static str,
    /// The server's folder. The field order drops it after the server.
    _folder: Option<Folder>,
    protocol: Protocol,
}

impl Running {
    fn start(contestant: &Contestant) -> Result<Self> {
        let speaks_resp = contestant.speaks(Protocol::Resp);
        let protocol = if speaks_resp { Protocol::Resp } else { Protocol::Memcached };
        let (server, folder) = if speaks_resp {
            let folder = contestant.new_folder()?;
            (contestant.start_in(&folder)?, Some(folder))
        } else {
            (contestant.start(Placement::Free)?, None)
        };
        Ok(Running { server, contestant: contestant.name, _folder: folder, protocol })
    }

    fn url(&self) -> String {
        let url = |scheme: &str, address: SocketAddr| format!("{scheme}://{address}");
        match self.protocol {
            Protocol::Resp => url("redis", self.server.resp()),
            Protocol::Memcached => url("memcached", self.server.memcached_address()),
        }
    }
}

/// Measures every server with all disturbances, or with those named in `--only`, separated by
/// commas.
pub(in super::super) fn measure(
    contestants: &[Contestant],
    arguments: &Arguments,
    some: &str,
) -> Result<Report> {
    let takes_part = |it: &&Contestant| it.is_nagi() || it.is_peer();
    let contestants: Vec<&Contestant> = contestants.iter().filter(takes_part).collect();
    let servers = contestants.iter().map(|it| Running::start(it));
    let servers: Vec<Running> = servers.collect::<Result<_>>()?;
    let nagi = contestants.iter().find(|it| it.is_nagi()).context("nagi takes part")?;
    let page = std::env::temp_dir().join("nagi-bench-calm.html");
    let is_whole = some.is_empty() && !arguments.quick;
    let saved = is_whole.then(|| Saved::begin(&contestants, arguments.resume)).transpose()?;
    let mut runs = Vec::new();
    for repetition in 1..=arguments.repetitions {
        println!("bench: calm, {repetition} of {}", arguments.repetitions);
        if let Some(run) = saved.as_ref().map(|it| it.load(repetition)).transpose()?.flatten() {
            runs.push(run);
            continue;
        }
        let mut command = Command::new(nagi.program());
        command.args(["calm", "--i-may-destroy-data", "--json", "-", "--html"]).arg(&page);
        command.args(servers.iter().map(Running::url));
        if arguments.quick {
            command.arg("--quick");
        }
        if !some.is_empty() {
            command.args(["--only", some]);
        }
        let output = command.stderr(Stdio::inherit()).output()?;
        ensure!(output.status.success(), "{}: {}", output.status, process::line(&command));
        let run = serde_json::from_slice(&output.stdout).context("nagi calm prints JSON")?;
        saved.as_ref().map(|it| it.keep(repetition, &run)).transpose()?;
        runs.push(run);
        println!("bench: a page of this repetition is {}", page.display());
    }
    let names: Vec<&str> = servers.iter().map(|it| it.contestant).collect();
    let report = report(&names, &runs)?;
    saved.map(Saved::finish).transpose()?;
    Ok(report)
}

fn report(names: &[&str], runs: &[Value]) -> Result<Report> {
    let mut text = String::new();
    let mut results = Vec::new();
    for (figure, title, says_lost) in TABLES {
        let header: Vec<&str> = ["ms"].into_iter().chain(names.iter().copied()).collect();
        let mut table = Table::new(&header);
        for row in 0..=rows(runs).len() {
            let cells = (0..names.len()).map(|server| {
                let cell = Cell::new(runs, server, row, figure);
                results.push(cell.to_json(names.get(server), row_name(runs, row), figure));
                cell.show(says_lost)
            });
            let cells: Vec<String> = cells.collect();
            table.row([row_name(runs, row).to_owned()].into_iter().chain(cells).collect());
        }
        text += &format!("### {title}\n\n{table}\n");
    }
    text += "![Slowest requests](calm.svg)\n\n";
    Ok(Report {
        name: "calm",
        document: DOCUMENT,
        table: text + &reasons(names, runs),
        details: String::new(),
        summary: summary(names, runs).to_string(),
        results,
        pictures: vec![("calm.svg", figure(names, runs).render()?)],
    })
}

/// Returns the table for the README: the slowest requests in milliseconds.
fn summary(names: &[&str], runs: &[Value]) -> Table {
    let header = ["slowest small request, ms"].into_iter().chain(names.iter().copied());
    let mut table = Table::new(&header.collect::<Vec<_>>());
    for row in 0..=rows(runs).len() {
        let cells = (0..names.len()).map(|server| {
            let cell = Cell::new(runs, server, row, "max_us");
            match cell.us {
                Some(_) if cell.lost > 0 => format!("{} lost", cell.lost),
                Some(us) => format!("{:.1}", us / 1e3),
                None => cell.show(false),
            }
        });
        let cells: Vec<String> = cells.collect();
        table.row([what(runs, row).to_owned()].into_iter().chain(cells).collect());
    }
    table
}

/// Draws the slowest requests as a plot.
fn figure(names: &[&str], runs: &[Value]) -> Figure {
    let rows = 0..=rows(runs).len();
    let line = |server: usize| {
        let points = rows.clone().filter_map(|row| {
            let us = Cell::new(runs, server, row, "max_us").us?;
            Some((us, -(row as f64)))
        });
        let points = points.collect();
        Line { style: server, is_joined: false, is_dashed: false, has_marks: true, points }
    };
    let lines: Vec<Line> = (0..names.len()).map(line).collect();
    let all = lines.iter().flat_map(|line| line.points.iter().map(|(us, _)| *us));
    Figure {
        title: "Slowest small request while something else happens".to_owned(),
        subtitle: "5,000 requests a second, timed from when each was due; medians".to_owned(),
        panels: vec![Panel {
            title: String::new(),
            x: Axis::log_time("", all),
            y: Axis::categories(&rows.map(|row| what(runs, row)).collect::<Vec<_>>()),
            lines,
        }],
        names: names.iter().map(|&name| name.to_owned()).collect(),
        dashes: None,
    }
}

fn rows(runs: &[Value]) -> &[Value] {
    let rows = runs.first().and_then(|run| run.pointer("/servers/0/rows"));
    rows.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the name of a row. Row 0 is the quiet phase.
fn row_name(runs: &[Value], row: usize) -> &str {
    let name = row.checked_sub(1).and_then(|index| rows(runs).get(index)?.get("name")?.as_str());
    name.unwrap_or("quiet")
}

/// Returns the description of a row.
fn what(runs: &[Value], row: usize) -> &str {
    let what = row.checked_sub(1).and_then(|index| rows(runs).get(index)?.get("what")?.as_str());
    what.unwrap_or("nothing")
}

/// The result of one server with one disturbance over all repetitions.
#[derive(Debug, Default, PartialEq)]
struct Cell {
    /// The median in microseconds; `None` without a valid repetition.
    us: Option<f64>,
    quiet_us: f64,
    /// The maximum number of lost requests in a repetition.
    lost: u64,
    /// The status of the last invalid repetition.
    status: String,
}

impl Cell {
    fn new(runs: &[Value], server: usize, row: usize, figure: &str) -> Self {
        let mut cell = Cell::default();
        let (mut values, mut quiet) = (Vec::new(), Vec::new());
        for run in runs {
            let at = |path: &str| run.pointer(&format!("/servers/{server}/{path}"));
            let number = |path: String| at(&path).and_then(Value::as_f64);
            quiet.extend(number(format!("quiet/{figure}")));
            let Some(index) = row.checked_sub(1) else { continue };
            match at(&format!("rows/{index}/status")).and_then(Value::as_str) {
                Some("measured") => {
                    values.extend(number(format!("rows/{index}/figures/{figure}")));
                    let lost = number(format!("rows/{index}/figures/lost")).unwrap_or(0.0);
                    cell.lost = cell.lost.max(lost as u64);
                }
                status => cell.status = status.unwrap_or("missing").to_owned(),
            }
        }
        cell.quiet_us = median(quiet);
        if row == 0 {
            cell.us = Some(cell.quiet_us);
        } else if !values.is_empty() {
            cell.us = Some(median(values));
        }
        cell
    }

    fn show(&self, says_lost: bool) -> String {
        let Some(us) = self.us else {
            return if self.status == "not-applicable" { "n/a" } else { &self.status }.to_owned();
        };
        let lost = match self.lost {
            lost if lost > 0 && says_lost => format!(", {lost} lost"),
            _ => String::new(),
        };
        format!("{:.2} ({:.1} x){lost}", us / 1e3, us / self.quiet_us)
    }

    fn to_json(&self, server: Option<&&str>, row: &str, figure: &str) -> Value {
        json!({
            "server": server.copied().unwrap_or_default(),
            "disturbance": row,
            "figure": figure,
            "us": self.us,
            "times_quiet": self.us.map(|us| us / self.quiet_us),
            "lost": self.lost,
            "status": if self.us.is_some() { "measured" } else { &self.status },
        })
    }
}

/// Lists the reasons for disturbances that were not applicable or failed.
fn reasons(names: &[&str], runs: &[Value]) -> String {
    let mut text = String::new();
    for (server, name) in names.iter().enumerate() {
        let rows = runs.last().and_then(|run| run.pointer(&format!("/servers/{server}/rows")));
        for row in rows.and_then(Value::as_array).into_iter().flatten() {
            let of = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
            if matches!(of("status"), "not-applicable" | "failed") {
                text += &format!("- {name}, {}: {}\n", of("name"), of("reason"));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Cell, report};
    use serde_json::{Value, json};

    fn run(status: &str, us: f64, lost: u64) -> Value {
        let figures = json!({ "max_us": us, "p99_9_us": us / 2.0, "lost": lost });
        let row = json!({ "name": "keys", "what": "KEYS *", "status": status, "figures": figures,
            "reason": "why" });
        let quiet = json!({ "max_us": 1000.0, "p99_9_us": 500.0 });
        json!({ "servers": [{ "quiet": quiet, "rows": [row] }] })
    }

    #[test]
    fn the_median_of_rows_that_are_not_void_counts() {
        let runs = [run("void", 9e6, 0), run("measured", 3000.0, 2), run("measured", 5000.0, 0)];
        let cell = Cell::new(&runs, 0, 1, "max_us");
        assert_eq!(cell.show(true), "4.00 (4.0 x), 2 lost");
        assert_eq!(Cell::new(&runs, 0, 0, "max_us").show(true), "1.00 (1.0 x)");
        assert_eq!(Cell::new(&runs[..1], 0, 1, "max_us").show(true), "void");
    }

    #[test]
    fn a_disturbance_that_a_server_does_not_support_is_no_pass() {
        let report = report(&["nagi"], &[run("not-applicable", 0.0, 0)]).unwrap();
        assert!(report.table.contains("| keys  | n/a"), "{}", report.table);
        assert!(report.table.ends_with("- nagi, keys: why\n"), "{}", report.table);
        assert!(report.summary.contains("| KEYS *                    | n/a"), "{}", report.summary);
    }

    #[test]
    fn the_summary_has_the_slowest_request_or_what_was_lost() {
        let report = report(&["nagi"], &[run("measured", 3000.0, 0)]).unwrap();
        assert!(report.summary.contains("| nothing                   | 1.0"), "{}", report.summary);
        assert!(report.summary.contains("| KEYS *                    | 3.0"), "{}", report.summary);
        let (name, picture) = &report.pictures[0];
        assert!(*name == "calm.svg" && picture.contains("KEYS *"), "{name}");
        let lost = super::report(&["nagi"], &[run("measured", 1e7, 7)]).unwrap();
        assert!(lost.summary.contains("7 lost"), "{}", lost.summary);
    }
}
