//! A limit on a percentile, such as `p99.9<2ms`, and the result of a search for the highest rate
//! that keeps within it.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::tally::{LONGEST_NS, Latencies};
use crate::text::{grouped, microseconds};

/// Minimum number of requests beyond a percentile, so that the percentile does not depend on very
/// few requests.
const BEYOND: f64 = 10.0;

/// A limit on a percentile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slo {
    /// The percentile, in percent; 100 means the slowest request.
    percent: f64,
    /// The limit of the percentile, in nanoseconds.
    limit_ns: u64,
}

impl Slo {
    /// Returns the percentile of `latencies`, in nanoseconds.
    pub(crate) fn percentile(&self, latencies: &Latencies) -> u64 {
        latencies.value_at_quantile(self.percent / 100.0)
    }

    /// Whether the percentile is below the limit.
    pub(crate) fn holds(&self, latencies: &Latencies) -> bool {
        self.percentile(latencies) < self.limit_ns
    }

    /// Whether so many latencies already exceed the limit that the percentile of `requests`
    /// requests cannot be below it, whatever the other latencies are.
    pub(crate) fn is_lost(&self, latencies: &Latencies, requests: f64) -> bool {
        let beyond_ns = latencies.highest_equivalent(self.limit_ns).saturating_add(1);
        let slow = latencies.count_between(beyond_ns, LONGEST_NS);
        slow as f64 > requests * (1.0 - self.percent / 100.0) + 1.0
    }

    /// Returns the minimum number of requests that the percentile needs.
    pub(crate) fn least_requests(&self) -> f64 {
        if self.percent >= 100.0 { BEYOND } else { BEYOND / (1.0 - self.percent / 100.0) }
    }

    pub(crate) fn limit_ns(&self) -> u64 {
        self.limit_ns
    }

    /// The name of the percentile, such as `p99.9` or `max`.
    pub(crate) fn name(&self) -> String {
        if self.percent >= 100.0 { "max".to_owned() } else { format!("p{}", self.percent) }
    }
}

impl FromStr for Slo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected a percentile and a limit, such as p99.9<2ms or max<1s".to_owned();
        let (name, limit) = text.split_once('<').ok_or_else(wrong)?;
        let percent = match name.trim() {
            "max" => Some(100.0),
            name => name.strip_prefix('p').and_then(|digits| digits.parse().ok()),
        };
        let percent = percent.filter(|percent: &f64| *percent > 0.0 && *percent <= 100.0);
        let limit = limit.trim();
        let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
        let limit_ns = units.iter().find_map(|(unit, ns)| {
            let number: f64 = limit.strip_suffix(unit)?.trim().parse().ok()?;
            Some(number * ns).filter(|limit_ns| (1e3..=LONGEST_NS as f64).contains(limit_ns))
        });
        let (percent, limit_ns) = percent.zip(limit_ns).ok_or_else(wrong)?;
        Ok(Slo { percent, limit_ns: limit_ns.round() as u64 })
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.limit_ns as f64;
        let (number, unit) = match ns {
            ..1e6 => (ns / 1e3, "us"),
            ..1e9 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        write!(out, "{}<{number}{unit}", self.name())
    }
}

impl Serialize for Slo {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The verdict on one rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The percentile was below the limit, and nothing failed.
    Holds,
    /// The percentile was not below the limit.
    TooSlow,
    /// Requests failed.
    Errors,
    /// The percentile was not below the limit, but the load's own delay is at least half the limit:
    /// no verdict on the server.
    LoadWasLate,
    /// The run was interrupted: no verdict on the server.
    Interrupted,
}

impl Verdict {
    /// Describes the verdict in words.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::TooSlow => "too slow",
            Verdict::Errors => "errors",
            Verdict::LoadWasLate => "the load itself was late",
            Verdict::Interrupted => "interrupted",
        }
    }
}

/// The trial of one rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// `search`, `again` (a rate fails only if two trials fail) or `confirm`.
    pub step: &'static str,
    /// The rate in requests per second.
    pub rate: f64,
    /// The measured time in seconds. A trial that has certainly failed ends early.
    pub seconds: f64,
    /// Number of requests answered.
    pub requests: u64,
    /// The percentile, in microseconds.
    pub percentile_us: f64,
    /// The load's own delay at the same percentile, in microseconds.
    pub send_delay_us: f64,
    /// Number of failures.
    pub errors: u64,
    /// The verdict.
    pub verdict: Verdict,
}

/// The result of an objective.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Objective {
    /// The limit, such as `p99.9<2ms`.
    pub slo: Slo,
    /// The highest rate at which the limit holds, in requests per second. If the rate was given,
    /// that rate, provided the limit holds.
    pub rate: Option<f64>,
    /// The required minimum rate, in requests per second.
    pub at_least: Option<f64>,
    /// All trials, in the order in which they ran.
    pub trials: Vec<Trial>,
}

impl Objective {
    /// Whether the limit holds at a rate that is at least the required one.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.rate.is_some_and(|rate| self.at_least.is_none_or(|least| rate >= least))
    }

    /// Whether the trials allow a verdict on the server. There is none if the load itself was late
    /// in all failed trials, or if the run was interrupted.
    #[must_use]
    pub fn is_judged(&self) -> bool {
        let mut failed = self.trials.iter().filter(|trial| trial.verdict != Verdict::Holds);
        self.trials.is_empty() || self.is_met() || failed.any(|trial| !trial.says_nothing())
    }
}

impl Trial {
    /// Whether the trial allows no verdict on the server.
    fn says_nothing(&self) -> bool {
        matches!(self.verdict, Verdict::LoadWasLate | Verdict::Interrupted)
    }
}

impl fmt::Display for Objective {
    /// Summarizes the result in one line.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slo = self.slo;
        match (self.rate, self.at_least, self.trials.as_slice()) {
            (Some(rate), Some(least), _) if rate < least => write!(
                out,
                "{slo} holds only up to {}/s, below the requested {}/s",
                grouped(rate as u64),
                grouped(least as u64)
            ),
            (Some(rate), _, trials) => {
                write!(out, "{slo} holds at {}/s", grouped(rate as u64))?;
                // A higher rate failed only because the load was late, which says nothing about the
                // server.
                let above = || trials.iter().filter(|trial| trial.rate > rate);
                match above().count() > 0 && above().all(Trial::says_nothing) {
                    true => out.write_str("; above, the load itself was late"),
                    false => Ok(()),
                }
            }
            (None, _, [trial]) if trial.says_nothing() => write!(
                out,
                "{slo} cannot be judged at {}/s: {}",
                grouped(trial.rate as u64),
                trial.verdict.text()
            ),
            (None, _, [trial]) => write!(
                out,
                "{slo} does not hold at {}/s: {}",
                grouped(trial.rate as u64),
                trial.verdict.text()
            ),
            (None, _, trials) => {
                let lowest = trials.iter().map(|trial| trial.rate).fold(f64::INFINITY, f64::min);
                match lowest.is_finite() {
                    true => write!(
                        out,
                        "{slo} was not confirmed at any rate; the lowest tried was {}/s{}",
                        grouped(lowest as u64),
                        if self.is_judged() { "" } else { ", and the load itself was late" }
                    ),
                    false => write!(out, "the search for {slo} was interrupted"),
                }
            }
        }
    }
}

impl Objective {
    /// Writes the trials as a table.
    pub(crate) fn write_table(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "\n  {self}")?;
        let name = format!("{} us", self.slo.name());
        writeln!(out, "\n  trial         rate/s    seconds {name:>12}   load late us   verdict")?;
        for trial in &self.trials {
            let [percentile, delay] = [trial.percentile_us, trial.send_delay_us]
                .map(|us| microseconds((us * 1e3) as u64));
            let (rate, verdict) = (grouped(trial.rate as u64), trial.verdict.text());
            writeln!(
                out,
                "  {:<8} {rate:>11} {:>10.1} {percentile:>12} {delay:>14}   {verdict}",
                trial.step, trial.seconds
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn latencies(all_ns: &[u64]) -> Latencies {
        let mut latencies = Latencies::new_with_bounds(1, LONGEST_NS, 3).unwrap();
        all_ns.iter().for_each(|ns| latencies.record(*ns).unwrap());
        latencies
    }

    #[test]
    fn objectives_read_back_as_written() {
        for text in ["p99.9<2ms", "p50<150us", "max<1s", "p99.99<1.5ms"] {
            assert_eq!(text.parse::<Slo>().unwrap().to_string(), text);
        }
        assert_eq!("p99 < 2000 us".parse::<Slo>().unwrap().to_string(), "p99<2ms");
        for text in ["", "p99", "99<1ms", "p0<1ms", "p101<1ms", "p99<1", "p99<0ms", "p99<1e9s"] {
            assert!(text.parse::<Slo>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_percentile_holds_below_its_limit_only() {
        let slo: Slo = "p90<1ms".parse().unwrap();
        let fast = [[500_000; 9].as_slice(), &[5_000_000]].concat();
        assert!(slo.holds(&latencies(&fast)));
        let slow = [[500_000; 8].as_slice(), &[5_000_000; 2]].concat();
        assert!(!slo.holds(&latencies(&slow)));
        assert!(!slo.holds(&latencies(&[1_000_000; 10])), "the limit itself is too slow");
        assert!(((slo.least_requests() - 100.0).abs()) < 1e-6);
    }

    #[test]
    fn a_late_load_is_not_attributed_to_the_server() {
        let trial = |rate, verdict| Trial {
            step: "search",
            rate,
            seconds: 1.0,
            requests: 1,
            percentile_us: 1.0,
            send_delay_us: 1.0,
            errors: 0,
            verdict,
        };
        let objective = |rate, trials: &[Trial]| Objective {
            slo: "p99<1ms".parse().unwrap(),
            rate,
            at_least: None,
            trials: trials.to_vec(),
        };
        let late = trial(2000.0, Verdict::LoadWasLate);
        let one = objective(None, std::slice::from_ref(&late));
        let text = "p99<1ms cannot be judged at 2,000/s: the load itself was late";
        assert_eq!((one.to_string().as_str(), one.is_judged()), (text, false));
        let holds = trial(1000.0, Verdict::Holds);
        let found = objective(Some(1000.0), &[holds.clone(), late.clone()]);
        assert!(found.to_string().ends_with("; above, the load itself was late"), "{found}");
        let slow = trial(2000.0, Verdict::TooSlow);
        let found = objective(Some(1000.0), &[holds, late.clone(), slow.clone()]);
        assert_eq!(found.to_string(), "p99<1ms holds at 1,000/s");
        assert!(objective(None, &[late, slow]).is_judged());
    }

    proptest! {
        /// A trial that ended early would have failed whatever the remaining latencies.
        #[test]
        fn an_early_violation_is_final(
            seen in prop::collection::vec(1_u64..4_000_000, 1..200),
            rest in 0_usize..2000,
        ) {
            let slo: Slo = "p99<1ms".parse().unwrap();
            let planned = (seen.len() + rest) as f64;
            if slo.is_lost(&latencies(&seen), planned) {
                let all = [seen.as_slice(), &vec![1; rest]].concat();
                prop_assert!(!slo.holds(&latencies(&all)));
            }
        }
    }
}
