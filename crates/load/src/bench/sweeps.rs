//! `--sweep`: repeats the same load with different values of one option.

use std::fmt;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use super::error::Error;
use super::options::{BenchOptions, Rate};
use super::report::Report;
use super::sizes::Sizes;
use super::sweep::{Sweep, What};
use super::trials;
use crate::interrupt::Interrupt;
use crate::text::{grouped, microseconds};

/// The results of a sweep.
#[derive(Clone, Debug, Serialize)]
pub struct Swept {
    /// The varied option and its values, such as `pipeline=1,4,16`.
    pub sweep: Sweep,
    /// The values in the order given, with the results of their runs.
    pub runs: Vec<SweptRun>,
}

/// The run of one value.
#[derive(Clone, Debug, Serialize)]
pub struct SweptRun {
    /// The value of the varied option.
    pub value: String,
    /// The report of the run.
    pub report: Report,
}

/// Returns each value with the options of its run.
fn runs_of(sweep: &Sweep, options: &BenchOptions) -> Result<Vec<(String, BenchOptions)>, String> {
    let runs = sweep.values.iter().map(|value| {
        let mut options = BenchOptions { sweep: None, ..options.clone() };
        put(sweep, value, &mut options)?;
        Ok((value.clone(), options))
    });
    runs.collect()
}

/// Sets a value in the options.
fn put(sweep: &Sweep, value: &str, options: &mut BenchOptions) -> Result<(), String> {
    let wrong = || format!("{}={value}: expected a number above 0", sweep.name());
    let number = || value.parse().ok().filter(|number| *number > 0).ok_or_else(wrong);
    match sweep.what {
        What::Rate => options.rate = Some(value.parse::<Rate>()?),
        What::Connections => options.connections = number()?,
        What::Pipeline => options.pipeline = number()?,
        What::Threads => options.threads = number()?,
        What::ValueBytes => options.value_bytes = value.parse::<Sizes>()?,
    }
    Ok(())
}

/// Measures each value in turn, until the last value or Ctrl-C.
///
/// # Errors
/// A value is malformed, or a run cannot be made.
pub(crate) fn measure(
    sweep: &Sweep,
    options: &BenchOptions,
    interrupt: &Interrupt,
) -> Result<Swept, Error> {
    let shown = !options.quiet && (options.timeline || io::stderr().is_terminal());
    let mut runs = Vec::new();
    for (value, mut options) in runs_of(sweep, options).map_err(Error::Options)? {
        // Keys are filled again only if the length of values changes; otherwise they already exist.
        options.fill &= runs.is_empty() || sweep.what == What::ValueBytes;
        if shown {
            // A failure to write the line does not end the sweep.
            let _ = writeln!(io::stderr(), "  {} {value}", sweep.name());
        }
        match trials::measured(&options, interrupt) {
            Ok(measured) => runs.push(SweptRun { value, report: measured.report }),
            // The completed runs are reported.
            Err(_) if interrupt.is_set() && !runs.is_empty() => break,
            Err(error) => return Err(error),
        }
        if interrupt.is_set() {
            break;
        }
    }
    Ok(Swept { sweep: sweep.clone(), runs })
}

impl fmt::Display for Swept {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.sweep.name();
        if let Some(SweptRun { report, .. }) = self.runs.first() {
            writeln!(out, "\n{}, a sweep of {name}\n", report.title())?;
        }
        let head = "  requests/s       p50 us       p99 us     p99.9 us       max us     errors";
        let objective = if self.runs.iter().any(|it| it.report.objective.is_some()) {
            "   objective"
        } else {
            ""
        };
        writeln!(out, "  {name:<12}{head}{objective}")?;
        for SweptRun { value, report } in &self.runs {
            let latency = &report.latency_us;
            let rate = grouped(report.requests_per_second.round() as u64);
            write!(out, "  {value:<12} {rate:>11}")?;
            for us in [latency.p50, latency.p99, latency.p99_9, latency.max] {
                write!(out, " {:>12}", microseconds((us * 1e3) as u64))?;
            }
            write!(out, " {:>10}", grouped(report.errors))?;
            if let Some(objective) = &report.objective {
                write!(out, "   {objective}")?;
            }
            writeln!(out)?;
        }
        let mut notes: Vec<String> = Vec::new();
        for SweptRun { value, report } in &self.runs {
            let named = report.notes().into_iter().map(|note| format!("{name} {value}: {note}"));
            notes.extend(named);
        }
        notes.iter().try_for_each(|note| writeln!(out, "\n  {note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sample_run;

    fn runs(sweep: &str) -> Result<Vec<(String, BenchOptions)>, String> {
        runs_of(&sweep.parse()?, &sample_run::options(&["--seconds=1"]))
    }

    #[test]
    fn each_value_has_its_own_run() {
        let all = runs("pipeline=1,4,16").unwrap();
        let depths: Vec<(&str, u32)> =
            all.iter().map(|(value, options)| (value.as_str(), options.pipeline)).collect();
        assert_eq!(depths, [("1", 1), ("4", 4), ("16", 16)]);
        assert_eq!(runs("rate=500").unwrap()[0].1.rate, Some(Rate::even(500.0)));
        assert_eq!(runs("value-bytes=4k").unwrap()[0].1.value_bytes, Sizes::Fixed(4096));
        assert_eq!(runs("threads=2").unwrap()[0].1.threads, 2);
        assert_eq!(runs("connections=7").unwrap()[0].1.connections, 7);
    }

    #[test]
    fn options_that_cannot_be_varied_are_refused() {
        for text in ["pipeline=0", "pipeline=", "rate=x", "rate=1,", "value-bytes=x"] {
            assert!(runs(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_table_has_a_line_for_each_value() {
        let run = |value: &str| SweptRun {
            value: value.to_owned(),
            report: sample_run::measured(&["--seconds=1.5", "--rate=2000"]).report,
        };
        let swept = Swept {
            sweep: "rate=2000,3000".parse().unwrap(),
            runs: ["2000", "3000"].map(run).into(),
        };
        let text = swept.to_string();
        assert!(text.contains("  2000               1,467        1,100"), "{text}");
        assert_eq!(text.lines().filter(|line| line.contains(" 2,198 ")).count(), 2, "{text}");
    }
}
