//! The report as an HTML page: plots and tables in one file, without scripts or references to other
//! files.

use std::error::Error;

use super::chart::{Axis, COLOURS, Chart};
use super::phases::Measured;
use super::report::Report;
use super::sweeps::SweptRun;
use super::timeline::Second;
use crate::tally::Latencies;
use crate::text::{escaped, grouped, microseconds};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Number of points of the distribution per halving of the distance to 100 %.
const ROWS_A_HALF: u32 = 10;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;\
padding:0 1em;color:#222}table{border-collapse:collapse}th,td{padding:.2em .8em;text-align:right;\
border-bottom:1px solid #ddd}th:first-child,td:first-child{text-align:left}td.text{text-align:left}\
.key{display:inline-block;width:.9em;height:.9em;margin:0 .4em 0 1.2em}h2{margin-top:2em}\
.note{background:#fff3cd;padding:.5em 1em}";

/// Renders the page of a run.
pub(crate) fn render(measured: &Measured) -> Result<String> {
    let Measured { report, total, .. } = measured;
    let mut out = head(&report.title());
    notes(report, &mut out);
    counts(report, &mut out);
    out += "<h2>Percentiles</h2>\n";
    show(&distribution(&total.latencies), &mut out)?;
    latencies(report, &mut out);
    out += "<h2>Latency over time</h2>\n";
    show(&over_time(report), &mut out)?;
    if report.save.is_some() {
        out += "<p>Shaded: the server saved.</p>\n";
    }
    out += "<h2>Requests and errors over time</h2>\n";
    show(&throughput(report), &mut out)?;
    objective(report, &mut out);
    settings(report, &mut out);
    Ok(out + "</body></html>\n")
}

/// Renders the page of a sweep. `what` is the varied option, and `runs` are its values with their
/// reports.
pub(crate) fn render_sweep(what: &'static str, runs: &[SweptRun]) -> Result<String> {
    let title = runs.first().map_or(String::new(), |run| run.report.address.clone());
    let mut out = head(&format!("{title}: a sweep of {what}"));
    let us = |of: fn(&Report) -> f64| -> Vec<(f64, f64)> {
        let values = runs.iter().enumerate();
        values.map(|(index, run)| (index as f64, of(&run.report).log10())).collect()
    };
    let lines = vec![
        ("p50", us(|report| report.latency_us.p50)),
        ("p99", us(|report| report.latency_us.p99)),
        ("p99.9", us(|report| report.latency_us.p99_9)),
    ];
    let names = runs.iter().map(|run| run.value.clone()).collect();
    let chart = Chart {
        x: Axis::names(what, names),
        y: Axis::log("latency", logarithms(&lines), decade),
        lines,
        band: None,
    };
    show(&chart, &mut out)?;
    out += &format!("<table><tr><th>{what}</th><th>requests/s</th>");
    out += "<th>p50 µs</th><th>p99 µs</th><th>p99.9 µs</th><th>max µs</th><th>errors</th></tr>\n";
    for SweptRun { value, report } in runs {
        let latency = &report.latency_us;
        let mut cells = vec![escaped(value), grouped(report.requests_per_second.round() as u64)];
        cells.extend([latency.p50, latency.p99, latency.p99_9, latency.max].map(time));
        cells.push(grouped(report.errors));
        row(&cells, &mut out);
    }
    out += "</table>\n";
    if let Some(SweptRun { report, .. }) = runs.first() {
        settings(report, &mut out);
    }
    Ok(out + "</body></html>\n")
}

fn head(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>nagi bench</title><style>{STYLE}</style></head><body>\n<h1>nagi bench</h1>\n\
         <p>{}</p>\n",
        escaped(title)
    )
}

/// Appends the notes that qualify the figures.
fn notes(report: &Report, out: &mut String) {
    for note in report.notes() {
        *out += &format!("<p class=\"note\">{}</p>\n", escaped(&note));
    }
}

fn row(cells: &[String], out: &mut String) {
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    *out += &format!("<tr>{cells}</tr>\n");
}

fn counts(report: &Report, out: &mut String) {
    *out += "<table>\n";
    let mut rows = vec![
        ("requests", grouped(report.requests)),
        ("seconds", format!("{:.3}", report.seconds)),
        ("requests/s", grouped(report.requests_per_second.round() as u64)),
        ("hits", grouped(report.hits)),
        ("misses", grouped(report.misses)),
        ("errors", grouped(report.errors)),
        ("processor time of the client, µs per request", time(report.client_cpu_us_per_request)),
    ];
    if let Some(verified) = &report.verified {
        rows.push(("replies verified", grouped(verified.replies)));
        rows.push(("wrong replies", grouped(verified.wrong())));
    }
    for (name, value) in rows {
        row(&[name.to_owned(), value], out);
    }
    *out += "</table>\n";
    let examples = report.verified.iter().flat_map(|verified| &verified.examples);
    let errors = report.errors_by_text.iter().map(|(text, times)| format!("{times} × {text}"));
    for text in errors.chain(examples.cloned()) {
        *out += &format!("<p>{}</p>\n", escaped(&text));
    }
}

fn latencies(report: &Report, out: &mut String) {
    *out += "<table><tr><th>µs</th>";
    for head in ["min", "p50", "p90", "p99", "p99.9", "p99.99", "max"] {
        *out += &format!("<th>{head}</th>");
    }
    *out += "</tr>\n";
    let whole = [("whole run", &report.latency_us)];
    let delay = report.send_delay_us.iter().map(|delay| ("late by the client's own fault", delay));
    let windows = report.windows.iter().map(|window| (window.name, &window.latency_us));
    for (name, it) in whole.into_iter().chain(windows).chain(delay) {
        let mut cells = vec![escaped(name)];
        cells.extend([it.min, it.p50, it.p90, it.p99, it.p99_9, it.p99_99, it.max].map(time));
        row(&cells, out);
    }
    *out += "</table>\n";
}

fn objective(report: &Report, out: &mut String) {
    let Some(objective) = &report.objective else { return };
    *out += &format!("<h2>Objective</h2>\n<p>{}</p>\n<table>", escaped(&objective.to_string()));
    *out += "<tr><th>trial</th><th>rate/s</th><th>seconds</th><th>percentile µs</th>\
             <th>verdict</th></tr>\n";
    for trial in &objective.trials {
        let cells = [
            trial.step.to_owned(),
            grouped(trial.rate as u64),
            format!("{:.1}", trial.seconds),
            time(trial.percentile_us),
            trial.verdict.text().to_owned(),
        ];
        row(&cells, out);
    }
    *out += "</table>\n";
}

/// Appends all options, the machine and the servers.
fn settings(report: &Report, out: &mut String) {
    *out += "<h2>Settings</h2>\n<table>\n";
    let mut pair = |name: &str, value: &str| {
        *out += &format!(
            "<tr><td>{}</td><td class=\"text\">{}</td></tr>\n",
            escaped(name),
            escaped(value)
        );
    };
    let machine = &report.machine;
    pair("nagi bench", report.version);
    pair("machine", &format!("{}, {} × {}", machine.system, machine.processors, machine.processor));
    for server in &report.servers {
        pair(&server.address, &server.name);
        for (name, value) in &server.settings {
            pair(&format!("{}: {name}", server.address), value);
        }
    }
    let options = serde_json::to_value(&report.options).unwrap_or_default();
    for (name, value) in options.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        pair(name, &text);
    }
    *out += "</table>\n";
}

fn show(chart: &Chart, out: &mut String) -> Result<()> {
    *out += "<p>";
    for ((name, _), (red, green, blue)) in chart.lines.iter().zip(COLOURS) {
        let name = escaped(name);
        *out += &format!(
            "<span class=\"key\" style=\"background:rgb({red},{green},{blue})\"></span>{name}"
        );
    }
    *out += "</p>\n";
    *out += &chart.render()?;
    Ok(())
}

/// Draws the latency of each percentile. The axis gives equal widths to 90 to 99 %, 99 to 99.9 %
/// and so on.
fn distribution(latencies: &Latencies) -> Chart {
    let points: Vec<(f64, f64)> = latencies
        .iter_quantiles(ROWS_A_HALF)
        .filter(|row| row.quantile_iterated_to() < 1.0)
        .map(|row| {
            let nines = -(1.0 - row.quantile_iterated_to()).log10();
            (nines, (row.value_iterated_to() as f64 / 1e3).log10())
        })
        .collect();
    let lines = vec![("all requests", points)];
    let nines = lines.iter().flat_map(|(_, points)| points.iter().map(|(nines, _)| *nines));
    let percent = |nines: f64| match nines as usize {
        0 => "0 %".to_owned(),
        1 => "90 %".to_owned(),
        2 => "99 %".to_owned(),
        more => format!("99.{} %", "9".repeat(more - 2)),
    };
    Chart {
        x: Axis::log("share of the requests", nines, percent),
        y: Axis::log("latency", logarithms(&lines), decade),
        lines,
        band: None,
    }
}

fn over_time(report: &Report) -> Chart {
    let line = |of: fn(&Second) -> f64| -> Vec<(f64, f64)> {
        let seconds = report.timeline.iter().filter(|second| second.requests > 0);
        seconds.map(|second| (second.second, of(second).log10())).collect()
    };
    let lines = vec![
        ("p50", line(|second| second.p50_us)),
        ("p99", line(|second| second.p99_us)),
        ("max", line(|second| second.max_us)),
    ];
    Chart {
        x: Axis::linear("seconds", report.seconds),
        y: Axis::log("latency", logarithms(&lines), decade),
        lines,
        band: band(report),
    }
}

fn throughput(report: &Report) -> Chart {
    let (mut requests, mut errors, mut before) = (Vec::new(), Vec::new(), 0.0);
    for second in &report.timeline {
        let length = (second.second - before).max(1e-9);
        before = second.second;
        requests.push((second.second, second.requests as f64 / length));
        errors.push((second.second, second.errors as f64 / length));
    }
    let most = requests.iter().chain(&errors).map(|(_, count)| *count).fold(1.0, f64::max);
    Chart {
        x: Axis::linear("seconds", report.seconds),
        y: Axis::linear("per second", most),
        lines: vec![("requests/s", requests), ("errors/s", errors)],
        band: band(report),
    }
}

/// Returns the start and end of the server's save, in seconds from the start of measuring.
fn band(report: &Report) -> Option<(f64, f64)> {
    let save = report.save.as_ref()?;
    Some((save.asked_at_second, save.asked_at_second + save.seconds))
}

fn logarithms<'a>(lines: &'a [(&'static str, Vec<(f64, f64)>)]) -> impl Iterator<Item = f64> + 'a {
    lines.iter().flat_map(|(_, points)| points.iter().map(|(_, value)| *value))
}

/// Formats a power of ten of microseconds.
fn decade(power: f64) -> String {
    let us = 10_f64.powf(power);
    match us {
        ..0.9 => format!("{:.0} ns", us * 1e3),
        ..0.9e3 => format!("{us:.0} µs"),
        ..0.9e6 => format!("{:.0} ms", us / 1e3),
        _ => format!("{:.0} s", us / 1e6),
    }
}

fn time(us: f64) -> String {
    microseconds((us * 1e3) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sample_run;

    #[test]
    fn a_page_needs_no_network_and_everything_in_it_is_escaped() {
        let hostile = "<script>alert('x')</script> & \"co\"";
        let mut measured = sample_run::measured(&["--unix=/run/x", "--seconds=1.5", "--rate=2000"]);
        measured.report.address = hostile.to_owned();
        measured.report.errors_by_text = [(hostile.to_owned(), 3)].into();
        for server in &mut measured.report.servers {
            server.name = hostile.to_owned();
            server.settings = [(hostile.to_owned(), hostile.to_owned())].into();
        }
        let page = render(&measured).unwrap();
        let runs = [hostile, "2"]
            .map(|value| SweptRun { value: value.to_owned(), report: measured.report.clone() });
        let sweep = render_sweep("pipeline", &runs).unwrap();
        for (page, plots) in [(page, 3), (sweep, 1)] {
            assert!(!page.contains("<script") && !page.contains("\"co"), "{page}");
            for outside in ["http:", "https:", "src=", "@import", "url("] {
                assert!(!page.contains(outside), "{outside}: {page}");
            }
            assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)"), "{page}");
            let count = |text: &str| page.matches(text).count();
            assert_eq!((count("<svg"), count("</svg>")), (plots, plots));
            assert!(count("<polyline") >= plots, "{page}");
        }
    }

    #[test]
    fn figures_of_the_report_are_on_the_page() {
        let measured = sample_run::measured(&["--unix=/run/x", "--seconds=1.5", "--rate=2000"]);
        let page = render(&measured).unwrap();
        for text in [
            "open loop, uniform arrivals at 2,000/s",
            "<td>2,200</td>",
            "nagi 1.2.3",
            "6 × ERR unknown command",
            "late by the client&#39;s own fault",
            "99.9 %",
            "10 ms",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
