//! Detects periods in which this process or the whole machine stalled, so that they do not count as
//! latency of a server.
//!
//! The tool's threads detect a stop when they wake long after the requested time. The probe of the
//! idle server detects one when an answer arrives long after its request, as that server only
//! echoes.

/// Minimum length of a stop, in nanoseconds. Threads that share a processor wait some milliseconds
/// for each other, which is not a stop.
pub(crate) const STOP_NS: u64 = 10_000_000;

/// Periods as pairs of start and end, in nanoseconds of the monotonic clock; sorted and disjoint
/// after `Stops::joined`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Stops(Vec<(u64, u64)>);

impl Stops {
    /// Adds the period from `from_ns` to `to_ns` if it is at least `STOP_NS` long.
    pub(crate) fn add(&mut self, from_ns: u64, to_ns: u64) {
        if to_ns.saturating_sub(from_ns) >= STOP_NS {
            self.0.push((from_ns, to_ns));
        }
    }

    /// Returns the union of both sets of periods, sorted and disjoint.
    pub(crate) fn joined(mut self, other: &Stops) -> Stops {
        self.0.extend_from_slice(&other.0);
        self.0.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::with_capacity(self.0.len());
        for (from_ns, to_ns) in self.0 {
            match joined.last_mut() {
                Some((_, end_ns)) if *end_ns >= from_ns => *end_ns = to_ns.max(*end_ns),
                _ => joined.push((from_ns, to_ns)),
            }
        }
        Stops(joined)
    }

    /// Returns how much of the time from `from_ns` to `to_ns` lies within stops. `self` must be the
    /// result of `Stops::joined`.
    pub(crate) fn within_ns(&self, from_ns: u64, to_ns: u64) -> u64 {
        let first = self.0.partition_point(|(_, end_ns)| *end_ns <= from_ns);
        let later = self.0.iter().skip(first).take_while(|(start_ns, _)| *start_ns < to_ns);
        later.map(|(start_ns, end_ns)| to_ns.min(*end_ns) - from_ns.max(*start_ns)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn overlapping_periods_count_once() {
        let mut own = Stops::default();
        own.add(100 * MS, 150 * MS);
        own.add(300 * MS, 300 * MS + STOP_NS - 1);
        let mut idle = Stops::default();
        idle.add(140 * MS, 200 * MS);
        idle.add(400 * MS, 500 * MS);
        let all = own.joined(&idle);
        assert_eq!(all, Stops(vec![(100 * MS, 200 * MS), (400 * MS, 500 * MS)]));
        let within = |from, to| all.within_ns(from * MS, to * MS) / MS;
        assert_eq!(within(0, 1000), 200);
        assert_eq!([within(120, 130), within(0, 100), within(200, 400)], [10, 0, 0]);
        assert_eq!([within(150, 450), within(499, 600)], [100, 1]);
    }
}
