//! The history of the last ten minutes: a point for each sample.

use crate::state::histogram::Distribution;
use crate::state::phases::{PhaseTotals, Phases};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Samples that are kept: those of ten minutes.
const MAX_POINTS: usize = 600;
/// Points of a chart, each of which represents several samples.
const CHART_POINTS: usize = 120;

/// The points, the oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(VecDeque<Arc<Point>>);

/// The activity between two samples. The times of a point are the 99th percentiles over its
/// requests, in nanoseconds.
#[derive(Debug, Default)]
struct Point {
    requests_per_second: u64,
    /// Times by phase, over all families.
    phases_ns: [u64; 4],
    /// Execution times by family, for families with requests.
    families_ns: BTreeMap<&'static str, u64>,
}

/// A time series.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// The values, the oldest first; each is the maximum of the samples that it represents.
    pub(crate) values: Vec<u64>,
}

impl Series {
    pub(crate) fn largest(&self) -> u64 {
        self.values.iter().copied().max().unwrap_or(0)
    }

    pub(crate) fn latest(&self) -> u64 {
        self.values.last().copied().unwrap_or(0)
    }
}

impl History {
    /// A copy of the history with a further point, which has the counts between two samples.
    pub(super) fn with(
        &self,
        requests_per_second: u64,
        before: &PhaseTotals,
        now: &PhaseTotals,
    ) -> Self {
        let mut all: [Distribution; 4] = Default::default();
        let mut point = Point { requests_per_second, ..Point::default() };
        for (family, phases) in now {
            let grown = grown(phases, before.get(family));
            if let Some(execute) = grown.get(Phases::EXECUTE).filter(|it| it.count() > 0) {
                point.families_ns.insert(family, execute.percentile(99.0));
            }
            all.iter_mut().zip(&grown).for_each(|(sum, phase)| sum.merge(phase));
        }
        point.phases_ns = all.map(|phase| phase.percentile(99.0));
        let mut history = self.clone();
        history.0.push_back(Arc::new(point));
        if history.0.len() > MAX_POINTS {
            history.0.pop_front();
        }
        history
    }

    /// The number of points, one per second.
    pub(crate) fn seconds(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn requests_per_second(&self) -> Series {
        self.series("requests/s".to_owned(), |point| point.requests_per_second)
    }

    /// A series for each phase.
    pub(crate) fn phases(&self) -> Vec<Series> {
        let names = Phases::NAMES.iter().enumerate();
        let series = names.map(|(index, name)| {
            let value = |point: &Point| point.phases_ns.get(index).copied().unwrap_or(0);
            self.series((*name).to_owned(), value)
        });
        series.collect()
    }

    /// A series for each family of commands that was used.
    pub(crate) fn families(&self) -> Vec<Series> {
        let mut names: Vec<&str> =
            self.0.iter().flat_map(|point| point.families_ns.keys().copied()).collect();
        names.sort_unstable();
        names.dedup();
        let series = names.into_iter().map(|name| {
            let value = |point: &Point| point.families_ns.get(name).copied().unwrap_or(0);
            self.series(name.to_owned(), value)
        });
        series.collect()
    }

    fn series(&self, name: String, value: impl Fn(&Point) -> u64) -> Series {
        let values: Vec<u64> = self.0.iter().map(|point| value(point)).collect();
        let each = values.len().div_ceil(CHART_POINTS).max(1);
        // Groups are aligned to the latest sample.
        let mut groups: Vec<u64> =
            values.rchunks(each).map(|group| group.iter().copied().max().unwrap_or(0)).collect();
        groups.reverse();
        Series { name, values: groups }
    }
}

/// The counts since an earlier sample; all of them if the counters were reset meanwhile.
fn grown(now: &[Distribution; 4], before: Option<&[Distribution; 4]>) -> [Distribution; 4] {
    let mut grown = now.clone();
    let Some(before) = before else { return grown };
    for (phase, before) in grown.iter_mut().zip(before) {
        if phase.contains(before) {
            phase.subtract(before);
        }
    }
    grown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::histogram::Histogram;

    fn totals(family: &'static str, times_ns: &[u64]) -> PhaseTotals {
        let histogram = Histogram::default();
        times_ns.iter().for_each(|ns| histogram.add(*ns, 1));
        let mut phases: [Distribution; 4] = Default::default();
        phases[Phases::EXECUTE].add(&histogram);
        [(family, phases)].into()
    }

    #[test]
    fn a_point_counts_what_happened_since_the_sample_before() {
        let (empty, slow) = (PhaseTotals::new(), totals("list", &[1_000_000]));
        let both = totals("list", &[1_000_000, 20, 20]);
        let history = History::default().with(1, &empty, &slow).with(2, &slow, &both);
        let [list] = &history.families()[..] else { panic!("one family") };
        assert_eq!(list.name, "list");
        assert!((1_000_000..1_040_000).contains(&list.values[0]), "{list:?}");
        assert_eq!(list.values[1], 20);
        assert_eq!(history.phases()[Phases::EXECUTE].values, list.values);
        assert_eq!(history.requests_per_second().values, [1, 2]);
        // The counters were reset.
        let again = history.with(3, &both, &totals("list", &[30]));
        assert_eq!(again.families()[0].latest(), 30);
        // They were reset, and now have higher counts than before, of different times.
        let again = history.with(3, &both, &totals("list", &[30; 9]));
        assert_eq!(again.families()[0].latest(), 30);
    }

    #[test]
    fn ten_minutes_are_kept_and_drawn_by_their_maxima() {
        let (mut history, empty) = (History::default(), PhaseTotals::new());
        for number in 0..700 {
            history = history.with(number, &empty, &empty);
        }
        let series = history.requests_per_second();
        assert_eq!((history.seconds(), series.values.len()), (600, 120));
        assert_eq!((series.values[0], series.latest(), series.largest()), (104, 699, 699));
    }
}
