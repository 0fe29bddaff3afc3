//! The HTML page that compares servers: one file that includes its plots, without scripts or
//! references to other files.

use std::fmt::Write as _;

use super::report::{Outcome, Report, Results, multiple, time};
use crate::text::escaped;

/// Colours that colour-blind readers can tell apart, one for each server.
const COLOURS: [&str; 6] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];

/// Maximum width of a bar, and the height of a row, in pixels.
const BAR: f64 = 420.0;
const ROW: usize = 18;

/// The decimal logarithms of the shortest and the longest time that bars show, in microseconds:
/// from 10 µs to 10 s.
const DECADES: (f64, f64) = (1.0, 7.0);

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:72em;\
padding:0 1em;color:#222}table{border-collapse:collapse;width:100%}th,td{padding:.25em .6em;\
text-align:right;border-bottom:1px solid #ddd}th:first-child,td:first-child{text-align:left}\
td.why{text-align:left;color:#777}.key{display:inline-block;width:.9em;height:.9em;\
margin:0 .4em 0 1.2em}svg text{font:12px system-ui,sans-serif;fill:#444}h2{margin-top:2em}";

/// Renders the whole page as HTML.
pub(crate) fn render(report: &Report) -> String {
    let mut out = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    out += "<title>nagi calm</title><style>";
    out += STYLE;
    out += "</style></head><body>\n<h1>Latency under disturbances</h1>\n";
    out += &format!(
        "<p>{} requests a second over {} connections, timed from when they were due, while the \
         server was disturbed. nagi calm {}{}.</p>\n<p>",
        report.rate,
        report.connections,
        escaped(report.version),
        if report.quick {
            ", a quick run with smaller sizes: too short for conclusions"
        } else {
            ""
        }
    );
    for (index, results) in report.servers.iter().enumerate() {
        let name = escaped(&format!("{} ({})", results.name, results.url));
        out += &format!("<span class=\"key\" style=\"background:{}\"></span>{name}", colour(index));
    }
    out += "</p>\n";
    if let Some(reason) = &report.incomplete {
        out += &format!("<p><b>Incomplete: the run ended early: {}.</b></p>\n", escaped(reason));
    }
    plots(report, &mut out);
    for results in &report.servers {
        table(results, &mut out);
    }
    out += "<p>Ratios are to the quiet phase. Idle: the slowest answer of an idle server at the \
            same time. Lost: no answer within 10 s. Void: the machine or the tool stalled for more \
            than 1 % of the time.</p>\n</body></html>\n";
    out
}

fn colour(server: usize) -> &'static str {
    COLOURS.get(server % COLOURS.len()).copied().unwrap_or("#000")
}

/// Appends a bar chart for each figure, with one group for each disturbance and one bar for each
/// server.
fn plots(report: &Report, out: &mut String) {
    let Some(first) = report.servers.first() else { return };
    for (title, of) in PLOTTED {
        *out += &format!("<h2>{title}</h2>\n");
        let rows = first.rows.len() + 1;
        let height = rows * (report.servers.len() * ROW + 10) + 30;
        *out += &format!("<svg viewBox=\"0 0 760 {height}\" width=\"760\" role=\"img\">");
        scale(height, out);
        let mut y = 8;
        for row in 0..rows {
            let name = match row.checked_sub(1) {
                None => "quiet",
                Some(index) => first.rows.get(index).map_or("", |row| row.name),
            };
            *out += &format!("<text x=\"0\" y=\"{}\">{}</text>", y + 13, escaped(name));
            for (server, results) in report.servers.iter().enumerate() {
                bar(results, row, server, y, of, out);
                y += ROW;
            }
            y += 10;
        }
        *out += "</svg>\n";
    }
}

/// The figures that are plotted, with the titles of their charts.
const PLOTTED: [(&str, Plotted); 2] = [
    ("99.9th percentile", |figures| figures.p99_9_us),
    ("Slowest request", |figures| figures.max_us),
];

type Plotted = fn(&super::report::Figures) -> f64;

/// Formats a time in a suitable unit.
fn with_unit(us: f64) -> String {
    match us {
        ..1e3 => format!("{us:.0} µs"),
        ..1e4 => format!("{:.1} ms", us / 1e3),
        ..1e6 => format!("{:.0} ms", us / 1e3),
        ..1e7 => format!("{:.1} s", us / 1e6),
        _ => "> 10 s".to_owned(),
    }
}

/// Returns the horizontal position of a time, in pixels.
fn place(us: f64) -> f64 {
    let (from, to) = DECADES;
    ((us.max(1e-3).log10() - from) / (to - from)).clamp(0.0, 1.0) * BAR
}

fn scale(height: usize, out: &mut String) {
    for (label, us) in [
        ("10 µs", 1e1),
        ("100 µs", 1e2),
        ("1 ms", 1e3),
        ("10 ms", 1e4),
        ("100 ms", 1e5),
        ("1 s", 1e6),
        ("10 s", 1e7),
    ] {
        let x = 150.0 + place(us);
        let foot = height - 18;
        let _ = write!(
            out,
            "<line x1=\"{x:.0}\" x2=\"{x:.0}\" y1=\"0\" y2=\"{foot}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{x:.0}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            height - 4
        );
    }
}

fn bar(results: &Results, row: usize, server: usize, y: usize, of: Plotted, out: &mut String) {
    let (figures, why) = match row.checked_sub(1).map(|index| results.rows.get(index)) {
        None => (Some(&results.quiet), ""),
        Some(None) => (None, "not measured"),
        Some(Some(row)) => (row.outcome.figures(), status(&row.outcome)),
    };
    let Some(figures) = figures else {
        *out += &format!("<text x=\"152\" y=\"{}\" fill-opacity=\".5\">{why}</text>", y + 13);
        return;
    };
    let us = of(figures);
    let width = place(us).max(1.0);
    let lost = if figures.lost > 0 { format!(", {} lost", figures.lost) } else { String::new() };
    let _ = write!(
        out,
        "<rect x=\"150\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" fill=\"{}\"/>\
         <text x=\"{:.0}\" y=\"{}\">{}{lost}</text>",
        ROW - 4,
        colour(server),
        154.0 + width,
        y + 12,
        escaped(&with_unit(us)),
    );
}

fn status(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Measured { .. } => "",
        Outcome::Void { .. } => "void",
        Outcome::NotApplicable { .. } => "n/a",
        Outcome::Failed { .. } => "failed",
    }
}

fn table(results: &Results, out: &mut String) {
    *out += &format!("<h2>{}</h2>\n<table><tr><th>µs</th>", escaped(&results.name));
    for head in ["p50", "p99", "", "p99.9", "", "slowest", "", "idle", "lost", "errors"] {
        *out += &format!("<th>{head}</th>");
    }
    *out += "</tr>\n";
    let cells = |figures: &super::report::Figures, [p99, p99_9, max]: [String; 3]| {
        [
            time(figures.p50_us),
            time(figures.p99_us),
            p99,
            time(figures.p99_9_us),
            p99_9,
            time(figures.max_us),
            max,
            time(figures.idle_max_us),
            figures.lost.to_string(),
            figures.errors.to_string(),
        ]
        .iter()
        .map(|cell| format!("<td>{}</td>", escaped(cell)))
        .collect::<String>()
    };
    let quiet = cells(&results.quiet, <_>::default());
    let void = if results.quiet.is_void() { " (void)" } else { "" };
    *out += &format!("<tr><td>quiet{void}</td>{quiet}</tr>\n");
    for row in &results.rows {
        *out += &format!("<tr><td title=\"{}\">{}</td>", escaped(row.what), escaped(row.name));
        *out += &match &row.outcome {
            Outcome::Measured { figures, ratios } => {
                cells(figures, [ratios.p99, ratios.p99_9, ratios.max].map(multiple))
            }
            Outcome::Void { reason, .. }
            | Outcome::NotApplicable { reason }
            | Outcome::Failed { reason } => {
                let why = format!("{}: {reason}", status(&row.outcome));
                format!("<td class=\"why\" colspan=\"10\">{}</td>", escaped(&why))
            }
        };
        *out += "</tr>\n";
    }
    *out += "</table>\n";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calm::report::{Figures, Row};
    use crate::calm::scale::Scale;

    #[test]
    fn a_page_needs_no_network_and_everything_in_it_is_escaped() {
        let hostile = "<script>alert('x')</script> & \"co\"";
        let figures =
            Figures { p99_us: 40.0, p99_9_us: 1500.0, max_us: 1e7, lost: 3, ..Figures::default() };
        let quiet = Figures { p99_us: 10.0, ..figures.clone() };
        let row = |outcome| Row { name: "keys", what: "KEYS *", outcome };
        let report = Report {
            version: "1",
            rate: 5000.0,
            connections: 8,
            quick: true,
            incomplete: Some(hostile.to_owned()),
            scale: Scale::QUICK,
            servers: vec![
                Results {
                    name: hostile.to_owned(),
                    url: hostile.to_owned(),
                    quiet: quiet.clone(),
                    rows: vec![
                        row(Outcome::of(figures, &quiet)),
                        row(Outcome::Failed { reason: hostile.to_owned() }),
                    ],
                },
                Results { name: String::new(), url: String::new(), quiet, rows: Vec::new() },
            ],
        };
        let page = render(&report);
        assert!(!page.contains("<script") && !page.contains("\"co"), "{page}");
        assert!(!page.contains("http") && !page.contains("src="), "{page}");
        assert!(page.contains("failed: &lt;script&gt;alert(&#39;x&#39;)"), "{page}");
        assert!(page.contains("1.5 ms") && page.contains("&gt; 10 s, 3 lost"), "{page}");
        assert!(page.contains("<td>40.00</td><td>4.0 x</td>"), "{page}");
        assert!(page.contains("Incomplete: the run ended early: &lt;script&gt;"), "{page}");
        let count = |text: &str| page.matches(text).count();
        assert_eq!((count("<svg"), count("</svg>"), count("<rect")), (2, 2, 6));
        assert_eq!(count(">not measured<"), 4, "two rows in each of two plots");
    }
}
