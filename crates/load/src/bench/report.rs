//! The results of a run, as text for users and as JSON for programs.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::options::{BenchOptions, Rate};
use super::protocol::Protocol;
use super::run::Plan;
use super::save::{Save, WINDOWS};
use super::servers::Identity;
use super::slo::Objective;
use super::timeline::{Second, Timeline};
use super::verified::Verified;
use crate::clock::{SECOND, unix_seconds};
use crate::machine::Machine;
use crate::pace::Arrivals;
use crate::tally::{Errors, Latencies};
use crate::text::{bytes_per_second, grouped, microseconds, plain};

/// Width of the longest bar in columns.
const BAR_COLUMNS: f64 = 40.0;

/// The results of a run. Times are in microseconds with a resolution of a nanosecond; histograms
/// keep three significant digits.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The protocol.
    pub protocol: Protocol,
    /// The address of the server. Several addresses, separated by commas, are the servers of a
    /// ring.
    pub address: String,
    /// The name, version and settings of each server.
    pub servers: Vec<Identity>,
    /// The machine that ran the measurement.
    pub machine: Machine,
    /// The version of this tool.
    pub version: &'static str,
    /// Number of connections, over all threads.
    pub connections: u32,
    /// Number of threads.
    pub threads: u32,
    /// Requests in flight on each connection.
    pub pipeline: u32,
    /// `closed`: a connection sends its next requests after the replies to the previous ones, so a
    /// stall shows in few requests. `open`: requests are due independently of the server.
    #[serde(rename = "loop")]
    pub loop_kind: &'static str,
    /// When measuring began, in seconds since 1970.
    pub started_unix_seconds: f64,
    /// Whether the user has interrupted the run.
    pub interrupted: bool,
    /// The requested rate per second; `None` in a closed loop.
    pub rate: Option<Rate>,
    /// The seed of all random numbers.
    pub seed: u64,
    /// Number of requests answered while measuring.
    pub requests: u64,
    /// The time from the start of measuring to the last reply.
    pub seconds: f64,
    /// `requests` divided by `seconds`.
    pub requests_per_second: f64,
    /// Bytes of requests per second.
    pub sent_bytes_per_second: f64,
    /// Bytes of replies per second.
    pub received_bytes_per_second: f64,
    /// Number of reads that found a value.
    pub hits: u64,
    /// Number of reads that found no value.
    pub misses: u64,
    /// The number of reconnections.
    pub reconnects: u64,
    /// Number of failed requests and connections, including those of filling and warming up.
    pub errors: u64,
    /// The numbers in `errors` by error text.
    pub errors_by_text: BTreeMap<String, u64>,
    /// The time from the sending of a request, or the due time of a paced request, to its reply.
    pub latency_us: Latency,
    /// The time from the due time of a paced request to its sending; `None` without pacing.
    pub send_delay_us: Option<Latency>,
    /// Processor time of the client, user and system, per request.
    pub client_cpu_us_per_request: f64,
    /// Processor time of the client as a share of what its threads could have used; near 1, the
    /// client is the bottleneck.
    pub client_busy: f64,
    /// The save of --bgsave-after-seconds, unless it failed.
    pub save: Option<Save>,
    /// The parts of the run before, during and after the save; empty without a save.
    pub windows: Vec<Window>,
    /// The results of --verify.
    pub verified: Option<Verified>,
    /// The result of --slo. The other fields are those of the last trial.
    pub objective: Option<Objective>,
    /// The results of each second.
    pub timeline: Vec<Second>,
    /// The options of the run, with defaults filled in.
    pub options: BenchOptions,
}

/// A part of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Window {
    /// `before`, `saving` or `after`. A request in flight at a boundary counts for the save.
    pub name: &'static str,
    /// The length of the window in seconds.
    pub seconds: f64,
    /// Number of requests that ended in the window.
    pub requests: u64,
    /// `requests` divided by `seconds`.
    pub requests_per_second: f64,
    /// The latencies of these requests.
    pub latency_us: Latency,
}

/// A distribution of times, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// The shortest time.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p99_9: f64,
    /// The 99.99th percentile.
    pub p99_99: f64,
    /// The longest time.
    pub max: f64,
}

impl Latency {
    fn new(latencies: &Latencies) -> Self {
        let us = |quantile| latencies.value_at_quantile(quantile) as f64 / 1e3;
        Latency {
            min: latencies.min() as f64 / 1e3,
            mean: latencies.mean().round() / 1e3,
            p50: us(0.5),
            p90: us(0.9),
            p99: us(0.99),
            p99_9: us(0.999),
            p99_99: us(0.9999),
            max: latencies.max() as f64 / 1e3,
        }
    }
}

impl Report {
    pub(crate) fn new(
        options: &BenchOptions,
        servers: Vec<Identity>,
        plan: &Plan,
        timeline: &Timeline,
        errors: &Errors,
        save: Option<Save>,
    ) -> Self {
        let total = timeline.total();
        let seconds = timeline.measured_ns() as f64 / SECOND as f64;
        let addresses: Vec<&str> = servers.iter().map(|it| it.address.as_str()).collect();
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        Report {
            protocol: options.protocol,
            address: addresses.join(", "),
            servers,
            machine: Machine::this(),
            version: env!("CARGO_PKG_VERSION"),
            connections: options.connections,
            threads: options.threads,
            pipeline: options.pipeline,
            loop_kind: if options.rate.is_some() { "open" } else { "closed" },
            started_unix_seconds: unix_seconds(plan.measure_ns),
            interrupted: plan.interrupt.is_set(),
            rate: options.rate,
            seed: options.seed.unwrap_or_default(),
            requests: total.requests,
            seconds,
            requests_per_second: per_second(total.requests),
            sent_bytes_per_second: per_second(total.sent_bytes),
            received_bytes_per_second: per_second(total.received_bytes),
            hits: total.hits,
            misses: total.misses,
            reconnects: total.reconnects,
            errors: errors.total(),
            errors_by_text: errors.by_text().clone(),
            latency_us: Latency::new(&total.latencies),
            send_delay_us: plan.timetable.map(|_| Latency::new(&total.delays)),
            client_cpu_us_per_request: total.cpu_ns as f64 / 1e3 / total.requests.max(1) as f64,
            client_busy: per_second(total.cpu_ns) / 1e9 / f64::from(options.threads),
            save,
            windows: windows(plan, timeline),
            verified: options.verify.then(|| timeline.verified().clone()),
            objective: None,
            timeline: timeline.seconds().to_vec(),
            options: options.clone(),
        }
    }

    /// Returns notes that qualify the figures, of one or two sentences each.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.interrupted {
            notes.push("Interrupted: these are the figures so far.".to_owned());
        }
        if self.client_busy > 0.95 && self.rate.is_none() {
            notes.push(
                "The client's threads were busy all the time: the latencies include time spent in \
                 the client. Use more --threads."
                    .to_owned(),
            );
        }
        if let Some(late) = self.late_percentiles() {
            notes.push(format!(
                "The load generator was late: half or more of {late} is its own delay, not the \
                 server's. Use a lower --rate, more --threads or a less busy machine."
            ));
        }
        if self.misses > 0 && !self.options.fill && self.options.trace.is_none() {
            notes.push(
                "Misses may be keys that were never written: --fill writes every key first."
                    .to_owned(),
            );
        }
        notes
    }

    /// Returns the percentiles of which half or more is the client's own delay.
    fn late_percentiles(&self) -> Option<String> {
        let (delay, latency) = (self.send_delay_us?, self.latency_us);
        let names = [
            ("p99", delay.p99, latency.p99),
            ("p99.9", delay.p99_9, latency.p99_9),
            ("max", delay.max, latency.max),
        ];
        let late = names.iter().filter(|(_, own, all)| *own > 0.0 && *own >= all / 2.0);
        let late: Vec<&str> = late.map(|(name, ..)| *name).collect();
        (!late.is_empty()).then(|| late.join(", "))
    }

    fn hit_percent(&self) -> f64 {
        self.hits as f64 * 100.0 / (self.hits + self.misses).max(1) as f64
    }

    /// Describes in one line which server was measured and how.
    pub(crate) fn title(&self) -> String {
        let pace = match self.rate {
            Some(rate) if rate.is_even() => {
                format!("open loop, {} arrivals at {}/s", self.arrivals(), grouped(rate.to as u64))
            }
            Some(Rate { from, to }) => format!(
                "open loop, {} arrivals from {}/s to {}/s",
                self.arrivals(),
                grouped(from as u64),
                grouped(to as u64)
            ),
            None => "closed loop".to_owned(),
        };
        let names: Vec<&str> = self.servers.iter().map(|server| server.name.as_str()).collect();
        let (protocol, names) = (self.protocol.name(), plain(&names.join(", ")));
        format!("{} ({names}) over {protocol}, {pace}", plain(&self.address))
    }

    fn write_head(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        writeln!(out, "\n{}", self.title())?;
        writeln!(
            out,
            "{} connections x {} in flight, {} thread{}; {}; seed {}\n",
            grouped(self.connections.into()),
            self.pipeline,
            self.threads,
            if self.threads == 1 { "" } else { "s" },
            requests_asked_for(options),
            self.seed,
        )
    }

    fn arrivals(&self) -> &'static str {
        match self.options.arrivals {
            Arrivals::Uniform => "uniform",
            Arrivals::Poisson => "Poisson",
        }
    }

    fn write_counts(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "  requests    {:>12}/s   {} in {:.3} s",
            grouped(self.requests_per_second.round() as u64),
            grouped(self.requests),
            self.seconds
        )?;
        writeln!(
            out,
            "  bytes       {:>14} sent   {} received",
            bytes_per_second(self.sent_bytes_per_second),
            bytes_per_second(self.received_bytes_per_second)
        )?;
        if self.hits + self.misses > 0 {
            let (hits, misses) = (grouped(self.hits), grouped(self.misses));
            let percent = self.hit_percent();
            writeln!(out, "  hits        {percent:>12.1} %   {hits} hits, {misses} misses")?;
        }
        writeln!(
            out,
            "  client      {:>11.2} us   of processor time per request, busy {:.0} %",
            self.client_cpu_us_per_request,
            self.client_busy * 100.0
        )?;
        writeln!(out, "  errors      {:>14}", grouped(self.errors))?;
        for (text, times) in &self.errors_by_text {
            writeln!(out, "              {:>14}   {}", grouped(*times), plain(text))?;
        }
        self.write_verified(out)
    }

    fn write_verified(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(verified) = &self.verified else { return Ok(()) };
        let (replies, wrong) = (grouped(verified.replies), grouped(verified.wrong()));
        writeln!(out, "  verified    {replies:>14}   replies, {wrong} wrong")?;
        for example in &verified.examples {
            writeln!(out, "              {:>14}   {example}", "")?;
        }
        Ok(())
    }

    fn write_windows(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.windows.is_empty() {
            return Ok(());
        }
        if let Some(save) = &self.save {
            let Save { seconds, status, answered_after_us, .. } = save;
            let answered = microseconds((answered_after_us * 1e3) as u64);
            write!(
                out,
                "\n  save: {status} after {seconds:.2} s, BGSAVE answered in {answered} us"
            )?;
            match save.fork_us {
                Some(fork_us) => writeln!(out, ", fork or cut {} us", grouped(fork_us as u64))?,
                None => writeln!(out)?,
            }
        }
        let head = "\n  window      seconds  requests/s       p50 us       p99 us     p99.9 us";
        writeln!(out, "{head}       max us")?;
        for window in &self.windows {
            let Latency { p50, p99, p99_9, max, .. } = window.latency_us;
            let rate = grouped(window.requests_per_second.round() as u64);
            write!(out, "  {:<8} {:>10.2} {rate:>11}", window.name, window.seconds)?;
            for us in [p50, p99, p99_9, max] {
                write!(out, " {:>12}", microseconds((us * 1e3) as u64))?;
            }
            writeln!(out)?;
        }
        Ok(())
    }

    fn write_latencies(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latency = &self.latency_us;
        let scale = Scale::new(latency.min, latency.max);
        writeln!(out, "\n  latency in us {:>12}  {scale}", "")?;
        for (name, us) in [
            ("min", latency.min),
            ("p50", latency.p50),
            ("p90", latency.p90),
            ("p99", latency.p99),
            ("p99.9", latency.p99_9),
            ("p99.99", latency.p99_99),
            ("max", latency.max),
        ] {
            let time = microseconds((us * 1e3) as u64);
            writeln!(out, "  {name:<12} {time:>13}  {}", scale.bar(us))?;
        }
        if let Some(delay) = &self.send_delay_us {
            let [p99, max] = [delay.p99, delay.max].map(|us| microseconds((us * 1e3) as u64));
            writeln!(out, "\n  late by the client's own fault: p99 {p99}, max {max}")?;
        }
        Ok(())
    }
}

/// Describes the requests in a few words.
fn requests_asked_for(options: &BenchOptions) -> String {
    if let Some(path) = &options.trace {
        return format!("the trace {}", path.display());
    }
    let keys = match &options.key_file {
        Some(path) => format!("keys of {}", path.display()),
        None => format!("keys of {} B", options.key_bytes),
    };
    let keys = format!("{} {} {keys}", grouped(options.keys), options.key_distribution);
    let what = match options.command.as_slice() {
        [] => format!("GET:SET {}", options.ratio),
        commands => {
            let texts: Vec<String> = commands.iter().map(ToString::to_string).collect();
            texts.join(", ")
        }
    };
    format!("{what} over {keys}, values of {} B", options.value_bytes)
}

/// Returns the parts of a run before, during and after a save. A save that did not complete counts
/// until the end of the run.
fn windows(plan: &Plan, timeline: &Timeline) -> Vec<Window> {
    let Some((marks, windows)) = plan.marks.as_ref().zip(timeline.windows()) else {
        return Vec::new();
    };
    let end_ns = timeline.reached_ns();
    let (asked_ns, ended_ns) = (marks.asked_ns().min(end_ns), marks.ended_ns().min(end_ns));
    let ends = [(plan.measure_ns, asked_ns), (asked_ns, ended_ns), (ended_ns, end_ns)];
    WINDOWS
        .iter()
        .zip(ends)
        .zip(&windows.0)
        .map(|((name, (from_ns, to_ns)), latencies)| {
            let (requests, ns) = (latencies.len(), to_ns.saturating_sub(from_ns));
            let seconds = ns as f64 / SECOND as f64;
            let latency_us = Latency::new(latencies);
            let requests_per_second = requests as f64 / seconds.max(1e-9);
            Window { name, seconds, requests, requests_per_second, latency_us }
        })
        .collect()
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_head(out)?;
        self.write_counts(out)?;
        if self.latency_us.max > 0.0 {
            self.write_latencies(out)?;
        }
        self.write_windows(out)?;
        if let Some(objective) = &self.objective {
            objective.write_table(out)?;
        }
        for note in self.notes() {
            writeln!(out, "\n  {note}")?;
        }
        Ok(())
    }
}

/// A logarithmic scale from one power of ten to another.
struct Scale {
    from: f64,
    to: f64,
}

impl Scale {
    /// Returns the scale between the powers of ten that enclose `min` and `max`.
    fn new(min: f64, max: f64) -> Self {
        let from = min.max(0.01).log10().floor();
        Scale { from, to: max.max(0.01).log10().ceil().max(from + 1.0) }
    }

    fn bar(&self, value: f64) -> String {
        let share = (value.max(0.01).log10() - self.from) / (self.to - self.from);
        let eighths = (share.clamp(0.0, 1.0) * BAR_COLUMNS * 8.0).round().max(1.0) as usize;
        let mut bar = "█".repeat(eighths / 8);
        bar.extend(["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"].get(eighths % 8).copied());
        bar
    }
}

impl fmt::Display for Scale {
    /// Writes the powers of ten, each at the column where its bar would end.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = String::new();
        let mut power = self.from;
        while power <= self.to {
            let column = ((power - self.from) / (self.to - self.from) * BAR_COLUMNS) as usize;
            if column >= line.len() {
                line.push_str(&" ".repeat(column - line.len()));
                line.push_str(&format!("|{}", tick(power)));
            }
            power += 1.0;
        }
        out.write_str(&line)
    }
}

/// Formats a power of ten of microseconds in few characters.
fn tick(power: f64) -> String {
    let ns = 10_f64.powf(power + 3.0).round();
    match ns {
        ..1e3 => format!("{ns} ns"),
        ..1e6 => format!("{} us", ns / 1e3),
        ..1e9 => format!("{} ms", ns / 1e6),
        _ => format!("{} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::bench::sample_run;

    fn report(arguments: &[&str]) -> Report {
        sample_run::measured(arguments).report
    }

    /// Compares `found` with a file of the tests. UPDATE_GOLDEN=1 in the environment rewrites the
    /// file.
    fn check(name: &str, found: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, found).unwrap();
        }
        assert_eq!(found, std::fs::read_to_string(&path).unwrap(), "{}", path.display());
    }

    #[test]
    fn json_has_every_figure_and_option() {
        let report = report(&[
            "--unix=/run/nagi.sock",
            "--seconds=1.5",
            "--seed=42",
            "--ratio=9:1",
            "--key-distribution=zipf:0.99",
            "--rate=2000",
        ]);
        check("report.json", &(serde_json::to_string_pretty(&report).unwrap() + "\n"));
    }

    #[test]
    fn the_text_shows_the_main_figures() {
        let arguments =
            ["--unix=/run/nagi.sock", "--seconds=1.5", "--seed=42", "--protocol=memcached"];
        check("report.txt", &report(&arguments).to_string());
    }

    #[test]
    fn the_lateness_of_the_load_is_named_where_it_is_half_of_a_percentile() {
        let mut report = report(&["--seconds=1.5", "--rate=2000"]);
        let delay = report.send_delay_us.unwrap();
        assert_eq!(report.late_percentiles(), None, "{delay:?}");
        report.send_delay_us = Some(Latency { max: report.latency_us.max / 2.0, ..delay });
        assert_eq!(report.late_percentiles().as_deref(), Some("max"));
        report.send_delay_us = Some(report.latency_us);
        assert!(report.to_string().contains("half or more of p99, p99.9, max is its own"));
    }

    #[test]
    fn scales_start_and_end_at_powers_of_ten() {
        let scale = Scale::new(42.0, 4200.0);
        assert_eq!(scale.to_string(), "|10 us       |100 us      |1 ms         |10 ms");
        let columns = [10.0, 100.0, 10_000.0].map(|us| scale.bar(us).chars().count());
        assert_eq!(columns, [1, 14, 40]);
    }
}
