//! `nagi bench compare`: the changes between saved results, and whether they exceed noise.
//!
//! A sample is a whole run, so that differences between runs count as noise. With fewer than five
//! runs on a side, no change is reported. The runs of both sides should alternate, since drift
//! would otherwise look like a change; the output says if they did not. A figure is the median of
//! its samples, and the share of errors their mean. The interval of a ratio comes from a bootstrap
//! (Efron, 1979): both sides are resampled 2,000 times, and 95 % of the ratios lie within the
//! interval.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fastrand::Rng;
use serde::Deserialize;

use super::error::Error;
use crate::output::print;
use crate::text::plain;

/// Minimum number of runs on each side to distinguish a change from noise.
const RUNS: usize = 5;

/// Maximum number of consecutive runs of one side in an alternating order, as in ABBA.
const IN_A_ROW: usize = 2;

/// The number of resamples of the bootstrap.
const DRAWS: usize = 2000;

/// Options that do not affect the measurement.
const UNIMPORTANT: [&str; 9] = [
    "seed",
    "json",
    "html",
    "hdr_log",
    "percentiles",
    "timeline",
    "quiet",
    "fill",
    "ignore_errors",
];

/// Reports the changes between saved results that exceed noise.
///
/// Each side is a file that --json has written, or several such files separated by commas. Only
/// five or more runs on each side, which took turns, can tell a change from noise; with fewer, the
/// figures are shown without a verdict.
#[derive(Clone, Debug, clap::Args)]
pub struct Comparison {
    /// Results before the change, separated by commas.
    #[arg(value_name = "BEFORE.json,...")]
    pub before: Files,
    /// Results after the change, separated by commas.
    #[arg(value_name = "AFTER.json,...")]
    pub after: Files,
    /// Exit with status 3 if anything is worse by more than this beyond noise, and with 1 if there
    /// are too few runs to say so.
    #[arg(long, value_name = "PERCENT")]
    pub fail_above: Option<f64>,
}

/// Files of one side.
#[derive(Clone, Debug)]
pub struct Files(Vec<PathBuf>);

impl FromStr for Files {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<PathBuf> = text.split(',').map(PathBuf::from).collect();
        match names.iter().any(|name| name.as_os_str().is_empty()) {
            true => Err("expected files, separated by commas".to_owned()),
            false => Ok(Files(names)),
        }
    }
}

/// The compared parts of a saved result.
#[derive(Clone, Debug, Deserialize)]
struct Saved {
    address: String,
    servers: Vec<Named>,
    #[serde(rename = "loop")]
    loop_kind: String,
    requests: u64,
    requests_per_second: f64,
    errors: u64,
    latency_us: Percentiles,
    client_cpu_us_per_request: f64,
    started_unix_seconds: Option<f64>,
    seed: u64,
    #[serde(default)]
    interrupted: bool,
    options: BTreeMap<String, serde_json::Value>,
}

#[derive(Clone, Debug, Deserialize)]
struct Named {
    name: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Percentiles {
    p50: f64,
    p90: f64,
    p99: f64,
    p99_9: f64,
    max: f64,
}

/// The name of the figure that fails a comparison by any rise beyond noise, since even one error in
/// a million requests matters.
const ERRORS: &str = "errors %";

/// A figure: its name, whether a higher value is worse, and the function that reads it.
type Figure = (&'static str, bool, fn(&Saved) -> f64);

const FIGURES: [Figure; 8] = [
    (ERRORS, true, Saved::error_percent),
    ("requests/s", false, |run| run.requests_per_second),
    ("p50 us", true, |run| run.latency_us.p50),
    ("p90 us", true, |run| run.latency_us.p90),
    ("p99 us", true, |run| run.latency_us.p99),
    ("p99.9 us", true, |run| run.latency_us.p99_9),
    ("max us", true, |run| run.latency_us.max),
    ("client us", true, |run| run.client_cpu_us_per_request),
];

/// The change of a figure.
#[derive(Clone, Debug, PartialEq)]
struct Change {
    name: &'static str,
    /// Whether a higher value is worse.
    more_is_worse: bool,
    before: f64,
    after: f64,
    /// The 95 % interval of the ratio; `None` with too few runs.
    interval: Option<(f64, f64)>,
}

impl Change {
    /// Returns the ratio of both sides, if both were measured.
    fn ratio(&self) -> Option<f64> {
        (self.before > 0.0 && self.after > 0.0).then(|| self.after / self.before)
    }

    /// Whether nothing was measured after the change, such as the latency of replies that never
    /// came.
    fn is_lost(&self) -> bool {
        self.name != ERRORS && self.before > 0.0 && self.after == 0.0
    }

    /// Returns by how many percent the figure is worse; 0 if it is better or the change may be
    /// noise.
    fn worse_percent(&self) -> f64 {
        let Some(((low, high), ratio)) = self.interval.zip(self.ratio()) else { return 0.0 };
        let percent = (ratio - 1.0) * 100.0;
        match self.more_is_worse {
            true if low > 1.0 => percent,
            false if high < 1.0 => -percent,
            _ => 0.0,
        }
    }

    fn verdict(&self) -> &'static str {
        let Some((low, high)) = self.interval else { return "too few runs" };
        if self.ratio().is_none() {
            return match (self.before > 0.0, self.after > 0.0) {
                (false, false) => "not measured",
                (true, false) if self.is_lost() => "not measured after",
                (false, true) if self.name != ERRORS => "not measured before",
                (true, _) => "better",
                (false, _) => "worse",
            };
        }
        match (low > 1.0, high < 1.0, self.more_is_worse) {
            (true, _, true) | (_, true, false) => "worse",
            (true, _, false) | (_, true, true) => "better",
            _ => "no change beyond noise",
        }
    }

    /// Describes the change if it is worse than `limit` percent allow.
    fn complaint(&self, limit: f64) -> Option<String> {
        let Change { name, before, after, .. } = self;
        let percent = self.worse_percent();
        match self.verdict() {
            "too few runs" => None,
            _ if self.is_lost() => Some(format!("{name} not measured after")),
            "worse" if *name == ERRORS => Some(format!("{name} from {before:.4} to {after:.4}")),
            _ => (percent > limit).then(|| format!("{name} by {percent:.1} %")),
        }
    }
}

/// The changes between the two sides.
#[derive(Clone, Debug)]
struct Changes {
    sides: [String; 2],
    /// The options that differ, with the value of each side.
    differing: Vec<String>,
    /// `closed` or `open`.
    loop_kind: String,
    /// The number of runs of each side.
    runs: [usize; 2],
    /// A description of the fault in the order of the runs, if there is one.
    order: Option<String>,
    changes: Vec<Change>,
}

/// Compares saved results, and prints the changes.
///
/// # Errors
/// A file cannot be read or is not a result, the two sides cannot be compared, or a figure is worse
/// than `fail_above` allows.
pub(crate) fn run(comparison: &Comparison) -> Result<(), Error> {
    let read = |files: &Files| -> Result<Vec<Saved>, Error> {
        files.0.iter().map(|path| read(path).map_err(Error::Options)).collect()
    };
    let (before, after) = (read(&comparison.before)?, read(&comparison.after)?);
    let changes = compare(&before, &after).map_err(Error::Options)?;
    print(changes.to_string().as_bytes())?;
    let Some(limit) = comparison.fail_above else { return Ok(()) };
    if !changes.has_verdicts() {
        let [before, after] = changes.runs;
        return Err(Error::Unjudged(format!(
            "too few runs to say what is worse: {before} and {after}, and {RUNS} of each are needed"
        )));
    }
    let worse = changes.changes.iter().filter_map(|change| change.complaint(limit));
    let worse: Vec<String> = worse.collect();
    if worse.is_empty() {
        Ok(())
    } else {
        Err(Error::Verdict(format!("worse: {}", worse.join(", "))))
    }
}

fn read(path: &Path) -> Result<Saved, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| {
        let is_sweep = serde_json::from_str::<serde_json::Value>(&text)
            .is_ok_and(|value| value.get("sweep").is_some_and(serde_json::Value::is_string));
        let found = match is_sweep {
            true => "holds the results of a --sweep; only single runs can be compared".to_owned(),
            false => format!("not a result of nagi bench --json: {error}"),
        };
        format!("{}: {found}", path.display())
    })
}

/// The options that name a server.
const PLACES: [&str; 4] = ["urls", "host", "port", "unix"];

fn compare(before: &[Saved], after: &[Saved]) -> Result<Changes, String> {
    let (Some(first), Some(other)) = (before.first(), after.first()) else {
        return Err("nothing to compare".to_owned());
    };
    if before.iter().chain(after).any(|run| run.loop_kind != first.loop_kind) {
        return Err("latencies of a closed loop and of an open loop cannot be compared".to_owned());
    }
    let all: Vec<&Saved> = before.iter().chain(after).collect();
    for (place, run) in all.iter().enumerate() {
        if all.iter().skip(place + 1).any(|other| run.is_same_as(other)) {
            return Err(format!(
                "the same run is given twice: the one of {} with the seed {}",
                plain(&run.address),
                run.seed
            ));
        }
    }
    if let Some(run) = all.iter().find(|run| run.interrupted) {
        return Err(format!(
            "a run was interrupted: the one of {} with the seed {}",
            plain(&run.address),
            run.seed
        ));
    }
    for (runs, first) in [(before, first), (after, other)] {
        // A server that was started anew may have another address.
        let of = |run: &Saved| differing(&first.options, &run.options, &PLACES);
        if let Some(option) = runs.iter().flat_map(of).next() {
            return Err(format!("the runs of one side differ in {option}"));
        }
    }
    let side = |runs: &[Saved], first: &Saved| {
        let names: Vec<&str> = first.servers.iter().map(|server| server.name.as_str()).collect();
        let plural = if runs.len() == 1 { "" } else { "s" };
        let (names, address) = (plain(&names.join(", ")), plain(&first.address));
        format!("{names} at {address}, {} run{plural}", runs.len())
    };
    Ok(Changes {
        sides: [side(before, first), side(after, other)],
        differing: differing(&first.options, &other.options, &[]),
        loop_kind: first.loop_kind.clone(),
        runs: [before.len(), after.len()],
        order: wrong_order(before, after),
        changes: all_changes(before, after),
    })
}

impl Saved {
    /// Returns the share of requests that failed, in percent. Some errors are replies and others
    /// are not, so the share is at most all.
    fn error_percent(&self) -> f64 {
        self.errors as f64 * 100.0 / self.requests.max(self.errors).max(1) as f64
    }

    /// Whether two files contain the result of the same run.
    fn is_same_as(&self, other: &Saved) -> bool {
        self.seed == other.seed
            && self.started_unix_seconds == other.started_unix_seconds
            && self.requests_per_second == other.requests_per_second
    }
}

/// Describes the fault in the order in which the runs began, if there is one.
fn wrong_order(before: &[Saved], after: &[Saved]) -> Option<String> {
    let of = |side: &'static str, runs: &[Saved]| -> Option<Vec<(f64, &'static str)>> {
        runs.iter().map(|run| Some((run.started_unix_seconds?, side))).collect()
    };
    let Some((mut all, others)) = of("before", before).zip(of("after", after)) else {
        return Some(
            "The files do not say when the runs began, so it is unknown whether the two sides took \
             turns."
                .to_owned(),
        );
    };
    all.extend(others);
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    let rows: Vec<(&str, usize)> = all
        .chunk_by(|one, other| one.1 == other.1)
        .filter_map(|row| Some((row.first()?.1, row.len())))
        .collect();
    if rows.iter().all(|(_, length)| *length <= IN_A_ROW) {
        return None;
    }
    let rows: Vec<String> = rows.iter().map(|(side, length)| format!("{length} {side}")).collect();
    Some(format!(
        "The runs did not take turns: {}. A drift in between counts as a change.",
        rows.join(", ")
    ))
}

/// Returns the options that differ between two results, except those that do not affect the
/// measurement and those in `ignored`.
fn differing(
    before: &BTreeMap<String, serde_json::Value>,
    after: &BTreeMap<String, serde_json::Value>,
    ignored: &[&str],
) -> Vec<String> {
    let missing = serde_json::Value::Null;
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    names
        .filter(|name| !UNIMPORTANT.iter().chain(ignored).any(|it| it == name))
        .filter_map(|name| {
            let (one, other) =
                (before.get(name).unwrap_or(&missing), after.get(name).unwrap_or(&missing));
            (one != other).then(|| plain(&format!("{name}: {one} and {other}")))
        })
        .collect()
}

fn all_changes(before: &[Saved], after: &[Saved]) -> Vec<Change> {
    let has_enough = before.len() >= RUNS && after.len() >= RUNS;
    let has_errors = before.iter().chain(after).any(|run| run.errors > 0);
    let figures = FIGURES.iter().filter(|(name, ..)| has_errors || *name != ERRORS);
    let change = |&(name, more_is_worse, of): &Figure| {
        let [before, after] = [before, after].map(|side| side.iter().map(of).collect::<Vec<_>>());
        // A median would hide that a minority of the runs failed.
        let center = if name == ERRORS { mean } else { median };
        Change {
            name,
            more_is_worse,
            before: center(&mut before.clone()),
            after: center(&mut after.clone()),
            interval: has_enough.then(|| interval(&before, &after, center)),
        }
    };
    figures.map(change).collect()
}

/// Returns the 95 % interval of the ratio of the centers, after by before.
fn interval(before: &[f64], after: &[f64], center: fn(&mut [f64]) -> f64) -> (f64, f64) {
    let mut random = Rng::with_seed(1);
    let mut ratios: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let mut one = drawn(before, &mut random);
            let mut other = drawn(after, &mut random);
            center(&mut other) / center(&mut one).max(f64::MIN_POSITIVE)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = (share * (DRAWS - 1) as f64).round() as usize;
        ratios.get(index).copied().unwrap_or(1.0)
    };
    (at(0.025), at(0.975))
}

/// Draws a resample of the same size, with replacement.
fn drawn(samples: &[f64], random: &mut Rng) -> Vec<f64> {
    samples.iter().filter_map(|_| samples.get(random.usize(..samples.len())).copied()).collect()
}

fn mean(samples: &mut [f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    let at = |index: usize| samples.get(index).copied().unwrap_or_default();
    if samples.len() % 2 == 1 {
        at(middle)
    } else {
        (at(middle.saturating_sub(1)) + at(middle)) / 2.0
    }
}

impl Changes {
    /// Whether there are enough runs to distinguish a change from noise.
    fn has_verdicts(&self) -> bool {
        self.runs.iter().all(|runs| *runs >= RUNS)
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = &self.sides;
        writeln!(out, "before  {before}\nafter   {after}\nboth    {} loop", self.loop_kind)?;
        for option in &self.differing {
            writeln!(out, "differs {option}")?;
        }
        writeln!(
            out,
            "\n{:<12} {:>12} {:>12} {:>8}   95 % within",
            "", "before", "after", "ratio"
        )?;
        for change in &self.changes {
            let Change { name, before, after, .. } = change;
            let ratio = change.ratio().map_or("?".to_owned(), |ratio| format!("{ratio:.3}"));
            let within = match change.interval {
                // Runs without errors on one side leave the ratio without a bound.
                Some((low, high)) if change.ratio().is_some() && high < 1e6 => {
                    format!("{low:.3} to {high:.3}")
                }
                _ => "?".to_owned(),
            };
            let verdict = change.verdict();
            writeln!(
                out,
                "{name:<12} {before:>12.2} {after:>12.2} {ratio:>8}   {within:<16} {verdict}"
            )?;
        }
        let [one, other] = self.runs;
        writeln!(out, "\nMedians of {one} and {other} runs.")?;
        if self.changes.iter().any(|change| change.name == ERRORS) {
            writeln!(out, "Errors are percent of requests, and the mean of all runs.")?;
        }
        if !self.has_verdicts() {
            writeln!(
                out,
                "Too few runs: {RUNS} of each that took turns are needed to tell a change from \
                 noise."
            )?;
        }
        self.order.iter().try_for_each(|order| writeln!(out, "{order}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose latencies are about 100 µs times `factor`.
    fn run_of(factor: f64, seed: u64) -> Saved {
        let mut random = Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut us = |about: f64| about * factor * (0.9 + 0.2 * random.f64());
        Saved {
            address: "127.0.0.1:6379".to_owned(),
            servers: vec![Named { name: "nagi 1".to_owned() }],
            loop_kind: "open".to_owned(),
            requests: 1000,
            requests_per_second: 1000.0,
            errors: 0,
            latency_us: Percentiles {
                p50: us(100.0),
                p90: us(300.0),
                p99: us(500.0),
                p99_9: us(700.0),
                max: us(900.0),
            },
            client_cpu_us_per_request: 2.0,
            started_unix_seconds: Some(seed as f64),
            seed,
            interrupted: false,
            options: [("rate".to_owned(), 1000.into())].into(),
        }
    }

    /// Runs that begin at every other time from `first` on.
    fn runs(count: u64, factor: f64, first: u64) -> Vec<Saved> {
        (0..count).map(|run| run_of(factor, first + 2 * run)).collect()
    }

    fn of<'a>(changes: &'a Changes, name: &str) -> &'a Change {
        changes.changes.iter().find(|change| change.name == name).unwrap()
    }

    #[test]
    fn runs_that_are_not_alike_are_refused() {
        let refused = |change: fn(&mut Saved)| {
            let (before, mut after) = (runs(5, 1.0, 1), runs(5, 1.0, 2));
            change(&mut after[3]);
            compare(&before, &after).err().unwrap_or_default()
        };
        assert_eq!(refused(|_| ()), "");
        let interrupted = refused(|run| run.interrupted = true);
        assert_eq!(interrupted, "a run was interrupted: the one of 127.0.0.1:6379 with the seed 8");
        let elsewhere = refused(|run| {
            run.options.insert("port".to_owned(), 7000.into());
        });
        assert_eq!(elsewhere, "");
        let differing = refused(|run| run.options = [("rate".to_owned(), 2000.into())].into());
        assert_eq!(differing, "the runs of one side differ in rate: 1000 and 2000");
    }

    #[test]
    fn too_few_runs_have_no_verdict() {
        for (before, after) in [(1, 1), (5, 4), (4, 9)] {
            let changes = compare(&runs(before, 1.0, 1), &runs(after, 2.0, 2)).unwrap();
            for change in &changes.changes {
                assert_eq!((change.verdict(), change.worse_percent()), ("too few runs", 0.0));
            }
            assert!(changes.to_string().contains("Too few runs: 5 of each"), "{changes}");
        }
    }

    #[test]
    fn one_and_a_half_times_the_latency_is_worse() {
        let (before, after) = (runs(6, 1.0, 1), runs(5, 1.5, 2));
        let changes = compare(&before, &after).unwrap();
        let p99 = of(&changes, "p99 us");
        assert_eq!(p99.verdict(), "worse", "{changes}");
        assert!(
            (1.3..1.7).contains(&p99.ratio().unwrap()) && p99.worse_percent() > 30.0,
            "{changes}"
        );
        assert_eq!(of(&changes, "requests/s").verdict(), "no change beyond noise");
        assert!(changes.to_string().contains("both    open loop"), "{changes}");
        let back = compare(&after, &before).unwrap();
        assert_eq!(of(&back, "p99 us").verdict(), "better", "{back}");
        assert_eq!(of(&back, "p99 us").worse_percent(), 0.0);
    }

    #[test]
    fn runs_in_which_requests_failed_are_worse() {
        let before = runs(5, 1.0, 1);
        let failed = |run: &Saved| {
            let latency_us = Percentiles { p50: 0.0, p90: 0.0, p99: 0.0, p99_9: 0.0, max: 0.0 };
            let run = run.clone();
            Saved { requests: 0, requests_per_second: 0.0, errors: 30, latency_us, ..run }
        };
        let after: Vec<Saved> = runs(5, 1.0, 2).iter().map(failed).collect();
        let changes = compare(&before, &after).unwrap();
        assert_eq!(changes.changes.len(), FIGURES.len(), "{changes}");
        let errors = of(&changes, ERRORS);
        assert_eq!((errors.before, errors.after, errors.verdict()), (0.0, 100.0, "worse"));
        assert_eq!(of(&changes, "p50 us").verdict(), "not measured after", "{changes}");
        let complaints: Vec<String> =
            changes.changes.iter().filter_map(|change| change.complaint(50.0)).collect();
        assert!(complaints.contains(&"requests/s not measured after".to_owned()));
        assert!(complaints.contains(&"errors % from 0.0000 to 100.0000".to_owned()));

        let back = compare(&after, &before).unwrap();
        assert_eq!(of(&back, "p50 us").verdict(), "not measured before", "{back}");
        assert!(back.changes.iter().all(|change| change.complaint(1.0).is_none()), "{back}");
    }

    #[test]
    fn a_minority_of_runs_with_errors_is_worse_too() {
        let (before, mut after) = (runs(5, 1.0, 1), runs(5, 1.0, 2));
        after[3].errors = 10;
        let changes = compare(&before, &after).unwrap();
        let errors = of(&changes, ERRORS);
        assert!((errors.after - 0.2).abs() < 1e-9, "{changes}");
        assert!(errors.complaint(50.0).is_some(), "{changes}");
        let same = compare(&before, &runs(5, 1.0, 2)).unwrap();
        assert!(same.changes.iter().all(|change| change.name != ERRORS), "{same}");
    }

    /// About one in twenty comparisons of equal runs reports a change.
    #[test]
    fn noise_is_seldom_called_a_change() {
        let called = (0..100).filter(|&seed| {
            let first = 1000 * seed;
            let changes = compare(&runs(8, 1.0, first), &runs(8, 1.0, first + 1)).unwrap();
            of(&changes, "p99 us").verdict() != "no change beyond noise"
        });
        let called = called.count();
        assert!(called <= 15, "{called} of 100");
    }

    #[test]
    fn incomparable_reports_are_refused() {
        let mut closed = run_of(1.0, 1);
        closed.loop_kind = "closed".to_owned();
        let open = run_of(1.0, 1);
        let refusal = compare(std::slice::from_ref(&open), &[closed]).unwrap_err();
        assert!(refusal.contains("closed loop"), "{refusal}");
        let refusal = compare(&[open.clone(), run_of(1.0, 2)], &[run_of(1.0, 3), open]);
        assert!(refusal.unwrap_err().contains("twice"));
    }

    #[test]
    fn runs_that_did_not_take_turns_are_named() {
        let order = |before: &[f64], after: &[f64]| {
            let of = |times: &[f64]| -> Vec<Saved> {
                let run =
                    |time: &f64| Saved { started_unix_seconds: Some(*time), ..run_of(1.0, 1) };
                times.iter().map(run).collect()
            };
            wrong_order(&of(before), &of(after))
        };
        assert_eq!(order(&[1.0, 3.0, 5.0], &[2.0, 4.0, 6.0]), None);
        assert_eq!(order(&[1.0, 4.0, 5.0], &[2.0, 3.0, 6.0]), None, "ABBAAB");
        let told = order(&[1.0, 2.0, 3.0, 7.0], &[4.0, 5.0, 6.0]).unwrap();
        assert!(told.contains("take turns: 3 before, 3 after, 1 before."), "{told}");
        let untold = Saved { started_unix_seconds: None, ..run_of(1.0, 1) };
        assert!(wrong_order(&[untold], &[run_of(1.0, 2)]).unwrap().contains("do not say when"));
    }

    #[test]
    fn options_that_differ_are_named() {
        let (before, mut after) = (run_of(1.0, 1), run_of(1.0, 2));
        after.options.insert("rate".to_owned(), 2000.into());
        after.options.insert("seed".to_owned(), 7.into());
        let changes = compare(&[before], &[after]).unwrap();
        assert_eq!(changes.differing, ["rate: 1000 and 2000"]);
    }

    #[test]
    fn a_saved_result_is_read() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/report.json");
        let saved = read(Path::new(golden)).unwrap();
        assert_eq!(saved.loop_kind, "open");
        assert_eq!(saved.started_unix_seconds, Some(1_000_000_000.5));
        let error = read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")));
        assert!(error.unwrap_err().contains("not a result of nagi bench"));
    }
}
