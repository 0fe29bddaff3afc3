//! Distributions of times with logarithmic buckets: each doubling of the time is divided into 32
//! buckets, so that every time is accurate to 3 % (as in Tene's HdrHistogram, with fewer digits).

use nagi_store::Counter;
use nagi_store::accounting::Overhead;
use std::sync::OnceLock;

/// The number of buckets of a doubling, as a power of two.
const STEPS: u32 = 5;
/// The longest time that is distinguished: 18 minutes.
const LONGEST_NS: u64 = (1 << 40) - 1;
const BUCKETS: usize = place_of(LONGEST_NS) + 1;

/// The bucket of a time. The first 32 are a nanosecond wide each, as are those of the doubling
/// after them.
#[inline]
const fn place_of(ns: u64) -> usize {
    let shift = 63 - STEPS - (ns | 1 << STEPS).leading_zeros();
    (shift as usize) * (1 << STEPS) + (ns >> shift) as usize
}

/// The longest time in a bucket.
fn longest_of(place: usize) -> u64 {
    let shift = (place >> STEPS).saturating_sub(1);
    let step = place - (shift << STEPS);
    ((step as u64 + 1) << shift) - 1
}

/// Counts of times. One thread adds, any thread may read.
///
/// Memory is only allocated for doublings with counts: there is a histogram for each kind of
/// command on each worker, and most have few different times.
#[derive(Debug)]
pub struct Histogram {
    doublings: Box<[OnceLock<Doubling>]>,
    _overhead: Overhead,
}

/// The buckets of a doubling, or the first 32 buckets.
#[derive(Debug)]
struct Doubling {
    buckets: Box<[Counter; 1 << STEPS]>,
    _overhead: Overhead,
}

impl Default for Doubling {
    fn default() -> Self {
        let buckets = Box::<[Counter; 1 << STEPS]>::default();
        let overhead = Overhead::new(size_of_val(&*buckets));
        Doubling { buckets, _overhead: overhead }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        let doublings: Box<_> = (0..BUCKETS >> STEPS).map(|_| OnceLock::new()).collect();
        let overhead = Overhead::new(size_of_val(&*doublings));
        Histogram { doublings, _overhead: overhead }
    }
}

impl Histogram {
    /// Counts a time, in nanoseconds, as seen `count` times.
    #[inline]
    pub fn add(&self, ns: u64, count: u64) {
        let place = place_of(ns.min(LONGEST_NS));
        let Some(doubling) = self.doublings.get(place >> STEPS) else { return };
        let buckets = &doubling.get_or_init(Doubling::default).buckets;
        if let Some(bucket) = buckets.get(place % (1 << STEPS)) {
            bucket.add(count);
        }
    }

    /// The allocated buckets, with their indices.
    fn buckets(&self) -> impl Iterator<Item = (usize, &Counter)> {
        let known = self.doublings.iter().enumerate();
        known.filter_map(|(row, doubling)| Some((row << STEPS, doubling.get()?))).flat_map(
            |(first, doubling)| {
                let buckets = doubling.buckets.iter().enumerate();
                buckets.map(move |(index, bucket)| (first + index, bucket))
            },
        )
    }
}

/// The sum of histograms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// The buckets, up to the last non-empty one.
    buckets: Vec<u64>,
}

impl Distribution {
    /// Adds the counts of a histogram.
    pub fn add(&mut self, histogram: &Histogram) {
        self.buckets.resize(BUCKETS, 0);
        for (place, bucket) in histogram.buckets() {
            if let Some(sum) = self.buckets.get_mut(place) {
                *sum = sum.wrapping_add(bucket.get());
            }
        }
    }

    /// Adds the counts of another distribution.
    pub(crate) fn merge(&mut self, other: &Distribution) {
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        for (sum, bucket) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum = sum.wrapping_add(*bucket);
        }
    }

    /// Whether it includes all counts of an earlier state.
    pub(crate) fn contains(&self, before: &Distribution) -> bool {
        let buckets = self.buckets.iter().chain(std::iter::repeat(&0));
        before.buckets.iter().zip(buckets).all(|(before, now)| before <= now)
    }

    /// Subtracts the counts of an earlier state.
    pub fn subtract(&mut self, before: &Distribution) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&before.buckets) {
            *sum = sum.wrapping_sub(*bucket);
        }
    }

    /// The number of counted times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of all times, in nanoseconds, with the accuracy of buckets.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        let buckets = self.buckets.iter().enumerate();
        buckets.fold(0, |sum, (place, count)| {
            // Many buckets are empty, and the times after the last one are unbounded.
            if *count == 0 {
                sum
            } else {
                sum.saturating_add(count.saturating_mul(longest_of(place)))
            }
        })
    }

    /// The number of times up to `ns` nanoseconds, with the accuracy of buckets.
    #[must_use]
    pub fn count_up_to(&self, ns: u64) -> u64 {
        self.buckets.iter().take(place_of(ns.min(LONGEST_NS)) + 1).sum()
    }

    /// The time, in nanoseconds, that `percent` of all times do not exceed; 0 if there are none.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> u64 {
        let least = (self.count() as f64 * percent / 100.0).ceil().max(1.0);
        let mut seen = 0;
        let place = self.buckets.iter().position(|count| {
            seen += count;
            seen as f64 >= least
        });
        place.map_or(0, longest_of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_is_accurate_to_within_three_percent(ns in 0..=LONGEST_NS) {
            let longest = longest_of(place_of(ns));
            prop_assert!(longest >= ns && longest - ns <= ns / 32, "{ns} {longest}");
            prop_assert!(place_of(longest) == place_of(ns));
            prop_assert!(longest == LONGEST_NS || place_of(longest + 1) == place_of(ns) + 1);
        }
    }

    #[test]
    fn percentiles_are_those_of_what_was_added() {
        let histogram = Histogram::default();
        for us in 1..=1000 {
            histogram.add(us * 1000, 1);
        }
        let mut all = Distribution::default();
        all.add(&histogram);
        assert_eq!(all.count(), 1000);
        assert!((500_500_000..=516_000_000).contains(&all.sum_ns()), "{}", all.sum_ns());
        for (percent, us) in [(0.0, 1), (50.0, 500), (99.0, 990), (99.9, 999), (100.0, 1000)] {
            let ns = all.percentile(percent);
            assert!((us * 1000..=us * 1035).contains(&ns), "{percent}: {ns}");
        }
        let before = all.clone();
        histogram.add(u64::MAX, 7);
        let mut later = Distribution::default();
        later.add(&histogram);
        later.subtract(&before);
        assert_eq!((later.count(), later.percentile(50.0)), (7, LONGEST_NS));
        assert_eq!(Distribution::default().percentile(50.0), 0);
        assert_eq!(all.count_up_to(u64::MAX), 1000);
        assert!((95..=105).contains(&all.count_up_to(100_000)));
    }
}
