//! `nagi bench compare`: what changed between saved results, and whether it is more than noise.
//!
//! With five runs or more on each side a sample is a run, and what differs from run to run is part
//! of the noise: the runs of both sides should take turns. With fewer a sample is a second, and the
//! noise is that within the runs only; the output says so. A figure is the median of its samples.
//! The interval of a ratio is that of a bootstrap (Efron, 1979): both sides are drawn anew from
//! their own samples 2,000 times, and 95 % of the ratios lie within it. Seconds are drawn in
//! blocks, as neighbours resemble each other (Künsch, 1989).

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fastrand::Rng;
use serde::Deserialize;

use super::error::Error;
use crate::text::plain;

/// Runs on each side from which on a run is a sample, and seconds at least otherwise.
const SAMPLES: usize = 5;

/// How often samples are drawn anew.
const DRAWS: usize = 2000;

/// BenchOptions that say nothing of what was measured.
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

/// Says what changed between saved results beyond noise.
///
/// Each side is what --json has written, or several such files separated by commas. Five runs or
/// more on each side, which took turns, tell changes from noise; with fewer the noise is that
/// from second to second within the runs.
#[derive(Clone, Debug, clap::Args)]
pub struct Comparison {
    /// Results of the one, separated by commas.
    #[arg(value_name = "BEFORE.json,...")]
    pub before: Files,
    /// Results of the other, separated by commas.
    #[arg(value_name = "AFTER.json,...")]
    pub after: Files,
    /// Exit with status 3 if anything is worse by more than this beyond noise.
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

/// What is read of a saved result.
#[derive(Clone, Debug, Deserialize)]
struct Saved {
    address: String,
    servers: Vec<Named>,
    #[serde(rename = "loop")]
    loop_kind: String,
    requests_per_second: f64,
    latency_us: Percentiles,
    client_cpu_us_per_request: f64,
    timeline: Vec<SavedSecond>,
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

#[derive(Clone, Debug, Deserialize)]
struct SavedSecond {
    second: f64,
    requests: u64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
}

/// A figure: its name, whether more is worse, and how to take it.
type Figure<T> = (&'static str, bool, fn(&T) -> f64);

const OF_RUNS: [Figure<Saved>; 7] = [
    ("requests/s", false, |run| run.requests_per_second),
    ("p50 us", true, |run| run.latency_us.p50),
    ("p90 us", true, |run| run.latency_us.p90),
    ("p99 us", true, |run| run.latency_us.p99),
    ("p99.9 us", true, |run| run.latency_us.p99_9),
    ("max us", true, |run| run.latency_us.max),
    ("client us", true, |run| run.client_cpu_us_per_request),
];

const OF_SECONDS: [Figure<SavedSecond>; 4] = [
    ("requests/s", false, |second| second.requests as f64),
    ("p50 us", true, |second| second.p50_us),
    ("p99 us", true, |second| second.p99_us),
    ("max us", true, |second| second.max_us),
];

/// What became of a figure.
#[derive(Clone, Debug, PartialEq)]
struct Change {
    name: &'static str,
    /// Whether more is worse.
    more_is_worse: bool,
    before: f64,
    after: f64,
    ratio: f64,
    /// Within which the ratio lies with 95 %.
    interval: (f64, f64),
}

impl Change {
    /// How much worse it is, in percent; 0 if noise may be all, or if it is better.
    fn worse_percent(&self) -> f64 {
        let (low, high) = self.interval;
        let percent = (self.ratio - 1.0) * 100.0;
        match self.more_is_worse {
            true if low > 1.0 => percent,
            false if high < 1.0 => -percent,
            _ => 0.0,
        }
    }

    fn verdict(&self) -> &'static str {
        let (low, high) = self.interval;
        match (low > 1.0, high < 1.0, self.more_is_worse) {
            (true, _, true) | (_, true, false) => "worse",
            (true, _, false) | (_, true, true) => "better",
            _ => "no change beyond noise",
        }
    }
}

/// What changed between two sides.
#[derive(Clone, Debug)]
struct Changes {
    sides: [String; 2],
    /// BenchOptions that differ, each with its two values.
    differing: Vec<String>,
    /// Whether a sample is a run.
    by_runs: bool,
    samples: [usize; 2],
    changes: Vec<Change>,
}

/// Compares, and prints what was found.
///
/// # Errors
/// A file cannot be read or is no result, the two cannot be compared, or something is worse than
/// `fail_above` allows.
pub(crate) fn run(comparison: &Comparison) -> Result<(), Error> {
    let read = |files: &Files| -> Result<Vec<Saved>, Error> {
        files.0.iter().map(|path| read(path).map_err(Error::Options)).collect()
    };
    let (before, after) = (read(&comparison.before)?, read(&comparison.after)?);
    let changes = compare(&before, &after).map_err(Error::Options)?;
    std::io::Write::write_all(&mut std::io::stdout().lock(), changes.to_string().as_bytes())?;
    let Some(limit) = comparison.fail_above else { return Ok(()) };
    let worse = changes.changes.iter().filter(|change| change.worse_percent() > limit);
    let worse: Vec<String> =
        worse.map(|it| format!("{} by {:.1} %", it.name, it.worse_percent())).collect();
    if worse.is_empty() {
        Ok(())
    } else {
        Err(Error::Verdict(format!("worse: {}", worse.join(", "))))
    }
}

fn read(path: &Path) -> Result<Saved, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text)
        .map_err(|error| format!("{}: no result of nagi bench --json: {error}", path.display()))
}

fn compare(before: &[Saved], after: &[Saved]) -> Result<Changes, String> {
    let (Some(first), Some(other)) = (before.first(), after.first()) else {
        return Err("nothing to compare".to_owned());
    };
    if before.iter().chain(after).any(|run| run.loop_kind != first.loop_kind) {
        return Err("latencies of a closed loop and of an open loop cannot be compared".to_owned());
    }
    let by_runs = before.len() >= SAMPLES && after.len() >= SAMPLES;
    let (changes, samples) = if by_runs {
        (all_changes(&OF_RUNS, before, after, 1), [before.len(), after.len()])
    } else {
        let sides = [seconds_of(before), seconds_of(after)];
        let samples = sides.each_ref().map(Vec::len);
        if samples.iter().any(|samples| *samples < SAMPLES) {
            return Err(format!(
                "{} and {} whole seconds: {SAMPLES} are needed to tell a change from noise",
                samples[0], samples[1]
            ));
        }
        // The cube root is the usual length of blocks.
        let block = (samples[0].min(samples[1]) as f64).cbrt().ceil() as usize;
        (all_changes(&OF_SECONDS, &sides[0], &sides[1], block), samples)
    };
    let side = |runs: &[Saved], first: &Saved| {
        let names: Vec<&str> = first.servers.iter().map(|server| server.name.as_str()).collect();
        let plural = if runs.len() == 1 { "" } else { "s" };
        let (names, address) = (plain(&names.join(", ")), plain(&first.address));
        format!("{names} at {address}, {} run{plural}", runs.len())
    };
    Ok(Changes {
        sides: [side(before, first), side(after, other)],
        differing: differing(&first.options, &other.options),
        by_runs,
        samples,
        changes,
    })
}

/// The whole seconds of runs.
fn seconds_of(runs: &[Saved]) -> Vec<SavedSecond> {
    let seconds = runs.iter().flat_map(|run| &run.timeline);
    seconds.filter(|second| second.second.fract().abs() < 1e-6).cloned().collect()
}

/// BenchOptions that differ between two results, other than those that do not matter.
fn differing(
    before: &BTreeMap<String, serde_json::Value>,
    after: &BTreeMap<String, serde_json::Value>,
) -> Vec<String> {
    let missing = serde_json::Value::Null;
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    names
        .filter(|name| !UNIMPORTANT.contains(&name.as_str()))
        .filter_map(|name| {
            let (one, other) =
                (before.get(name).unwrap_or(&missing), after.get(name).unwrap_or(&missing));
            (one != other).then(|| plain(&format!("{name}: {one} and {other}")))
        })
        .collect()
}

fn all_changes<T>(figures: &[Figure<T>], before: &[T], after: &[T], block: usize) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, more_is_worse, of) in figures {
        let [before, after] = [before, after].map(|side| side.iter().map(of).collect::<Vec<_>>());
        let (one, other) = (median(&mut before.clone()), median(&mut after.clone()));
        if one > 0.0 && other > 0.0 {
            changes.push(Change {
                name,
                more_is_worse: *more_is_worse,
                before: one,
                after: other,
                ratio: other / one,
                interval: interval(&before, &after, block),
            });
        }
    }
    changes
}

/// Within which the ratio of the medians lies with 95 %.
fn interval(before: &[f64], after: &[f64], block: usize) -> (f64, f64) {
    let mut random = Rng::with_seed(1);
    let mut ratios: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let mut one = drawn(before, block, &mut random);
            let mut other = drawn(after, block, &mut random);
            median(&mut other) / median(&mut one).max(f64::MIN_POSITIVE)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let index = (share * (DRAWS - 1) as f64).round() as usize;
        ratios.get(index).copied().unwrap_or(1.0)
    };
    (at(0.025), at(0.975))
}

/// As many samples as there are, drawn in blocks of neighbours; the last is followed by the first.
fn drawn(samples: &[f64], block: usize, random: &mut Rng) -> Vec<f64> {
    let mut all = Vec::with_capacity(samples.len() + block);
    while all.len() < samples.len() {
        let from = random.usize(..samples.len());
        all.extend(samples.iter().cycle().skip(from).take(block));
    }
    all.truncate(samples.len());
    all
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

impl fmt::Display for Changes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [before, after] = &self.sides;
        writeln!(out, "before  {before}\nafter   {after}")?;
        for option in &self.differing {
            writeln!(out, "differs {option}")?;
        }
        writeln!(
            out,
            "\n{:<12} {:>12} {:>12} {:>8}   95 % within",
            "", "before", "after", "ratio"
        )?;
        for change in &self.changes {
            let (low, high) = change.interval;
            writeln!(
                out,
                "{:<12} {:>12.2} {:>12.2} {:>8.3}   {low:.3} to {high:.3}   {}",
                change.name,
                change.before,
                change.after,
                change.ratio,
                change.verdict()
            )?;
        }
        let [one, other] = self.samples;
        match self.by_runs {
            true => writeln!(out, "\nMedians of {one} and {other} runs."),
            false => writeln!(
                out,
                "\nMedian seconds of {one} and {other}: the noise is that within the runs. What \
                 differs from run to run\nis not part of it; five runs on each side that took \
                 turns would show it."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of so many seconds whose latencies are about 100 us times `factor`.
    fn run_of(seconds: usize, factor: f64, seed: u64) -> Saved {
        let mut random = Rng::with_seed(seed);
        let mut us = |about: f64| about * factor * (0.9 + 0.2 * random.f64());
        let timeline = (1..=seconds)
            .map(|second| SavedSecond {
                second: second as f64,
                requests: 1000,
                p50_us: us(100.0),
                p99_us: us(500.0),
                max_us: us(900.0),
            })
            .collect();
        Saved {
            address: "127.0.0.1:6379".to_owned(),
            servers: vec![Named { name: "nagi 1".to_owned() }],
            loop_kind: "open".to_owned(),
            requests_per_second: 1000.0,
            latency_us: Percentiles {
                p50: us(100.0),
                p90: us(300.0),
                p99: us(500.0),
                p99_9: us(700.0),
                max: us(900.0),
            },
            client_cpu_us_per_request: 2.0,
            timeline,
            options: [("rate".to_owned(), 1000.into())].into(),
        }
    }

    fn runs(count: u64, factor: f64, seed: u64) -> Vec<Saved> {
        (0..count).map(|run| run_of(10, factor, seed * 1000 + run)).collect()
    }

    fn of<'a>(changes: &'a Changes, name: &str) -> &'a Change {
        changes.changes.iter().find(|change| change.name == name).unwrap()
    }

    #[test]
    fn the_same_is_no_change() {
        let run = run_of(30, 1.0, 1);
        let changes = compare(std::slice::from_ref(&run), std::slice::from_ref(&run)).unwrap();
        for change in &changes.changes {
            assert_eq!((change.ratio, change.verdict()), (1.0, "no change beyond noise"));
        }
        assert!(!changes.by_runs && changes.to_string().contains("within the runs"));
    }

    #[test]
    fn what_is_half_as_slow_again_is_worse() {
        for (before, after) in
            [(runs(1, 1.0, 1), runs(1, 1.5, 2)), (runs(6, 1.0, 1), runs(5, 1.5, 2))]
        {
            let changes = compare(&before, &after).unwrap();
            let p99 = of(&changes, "p99 us");
            assert_eq!(p99.verdict(), "worse", "{changes}");
            assert!((1.3..1.7).contains(&p99.ratio) && p99.worse_percent() > 30.0, "{changes}");
            assert_eq!(of(&changes, "requests/s").verdict(), "no change beyond noise");
            let back = compare(&after, &before).unwrap();
            assert_eq!(of(&back, "p99 us").verdict(), "better", "{back}");
            assert_eq!(of(&back, "p99 us").worse_percent(), 0.0);
        }
    }

    /// Of comparisons of like with like about one in twenty is called a change.
    #[test]
    fn noise_is_seldom_called_a_change() {
        let called = (0..100).filter(|&seed| {
            let changes = compare(&runs(8, 1.0, 2 * seed), &runs(8, 1.0, 2 * seed + 1)).unwrap();
            of(&changes, "p99 us").verdict() != "no change beyond noise"
        });
        let called = called.count();
        assert!(called <= 15, "{called} of 100");
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let mut closed = run_of(10, 1.0, 1);
        closed.loop_kind = "closed".to_owned();
        let open = run_of(10, 1.0, 1);
        let refusal = compare(std::slice::from_ref(&open), &[closed]).unwrap_err();
        assert!(refusal.contains("closed loop"), "{refusal}");
        let refusal = compare(&[open], &[run_of(4, 1.0, 1)]).unwrap_err();
        assert!(refusal.contains("10 and 4 whole seconds"), "{refusal}");
    }

    #[test]
    fn options_that_differ_are_named() {
        let (before, mut after) = (run_of(10, 1.0, 1), run_of(10, 1.0, 2));
        after.options.insert("rate".to_owned(), 2000.into());
        after.options.insert("seed".to_owned(), 7.into());
        let changes = compare(&[before], &[after]).unwrap();
        assert_eq!(changes.differing, ["rate: 1000 and 2000"]);
    }

    #[test]
    fn a_saved_result_is_read() {
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/report.json");
        let saved = read(Path::new(golden)).unwrap();
        assert_eq!((saved.loop_kind.as_str(), saved.timeline.len()), ("open", 2));
        assert_eq!(seconds_of(&[saved]).len(), 1, "half a second is none");
        let error = read(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")));
        assert!(error.unwrap_err().contains("no result of nagi bench"));
    }
}
