//! The due times of paced requests.
//!
//! Uniform: the due time of request n of the whole run depends only on n, and the request belongs
//! to connection n modulo the number of connections. Poisson: each thread draws its own arrivals,
//! because the sum of independent Poisson processes is a Poisson process. In both cases due times
//! are independent of the server: a stall delays requests, but never reduces their number. This
//! module reads no clock.

use fastrand::Rng;

/// How requests arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// At even intervals.
    #[default]
    Uniform,
    /// As a Poisson process: independent of each other, as from many users.
    Poisson,
}

/// The number of requests due by a time: a constant rate, optionally after a linear ramp.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Curve {
    /// Requests per nanosecond at the start.
    from: f64,
    /// Requests per nanosecond at the end of the ramp.
    to: f64,
    /// The length of the ramp; 0 for a constant rate.
    ramp_ns: f64,
}

impl Curve {
    /// A constant rate of `rate` requests per second.
    pub(crate) fn even(rate: f64) -> Self {
        Curve { from: rate / 1e9, to: rate / 1e9, ramp_ns: 0.0 }
    }

    /// A linear ramp between two rates, in requests per second, that takes `ramp_ns`; the rate is
    /// constant afterwards.
    pub(crate) fn ramp(from: f64, to: f64, ramp_ns: u64) -> Self {
        Curve { from: from / 1e9, to: to / 1e9, ramp_ns: ramp_ns as f64 }
    }

    /// Returns the time after the start, in nanoseconds, at which `requests` are due. It solves
    /// `from * t + (to - from) / (2 * ramp) * t * t = requests` without cancellation of digits.
    fn ns_of(&self, requests: f64) -> f64 {
        if self.ramp_ns == 0.0 {
            return requests / self.to;
        }
        let ramped = (self.from + self.to) / 2.0 * self.ramp_ns;
        if requests >= ramped {
            return self.ramp_ns + (requests - ramped) / self.to;
        }
        let slope = (self.to - self.from) / (2.0 * self.ramp_ns);
        let root = (self.from * self.from + 4.0 * slope * requests).max(0.0).sqrt();
        2.0 * requests / (self.from + root)
    }

    /// Returns the number of requests due within `ns` nanoseconds after the start.
    pub(crate) fn requests_by(&self, ns: f64) -> f64 {
        let ramp = ns.min(self.ramp_ns);
        let slope = if ramp > 0.0 { (self.to - self.from) / (2.0 * self.ramp_ns) } else { 0.0 };
        self.from * ramp + slope * ramp * ramp + (ns - ramp) * self.to
    }
}

/// The timetable of a run, the same for all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timetable {
    pub(crate) start_ns: u64,
    pub(crate) curve: Curve,
    pub(crate) arrivals: Arrivals,
    /// Connections of all threads.
    pub(crate) connections: u64,
    /// Requests of the whole run, if they are limited.
    pub(crate) requests: u64,
    /// The time from which no request is due.
    pub(crate) end_ns: u64,
    /// The seed of Poisson arrivals.
    pub(crate) seed: u64,
}

impl Timetable {
    /// Returns the time at which the run's request number `requests` is due.
    fn due_ns(&self, requests: f64) -> u64 {
        self.start_ns.saturating_add(self.curve.ns_of(requests) as u64)
    }
}

/// A thread's share of the run's connections: `first`, and every `stride`-th connection after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) first: u64,
    pub(crate) stride: u64,
    /// The number of connections in the share.
    pub(crate) len: u64,
}

impl Share {
    /// Converts the thread's index of a connection to the run's number of the connection.
    pub(crate) fn number(&self, index: u64) -> u64 {
        self.first + index * self.stride
    }

    /// The number of the run's requests that belong to this share.
    fn requests(&self, timetable: &Timetable) -> u64 {
        let (rounds, rest) = (
            timetable.requests / timetable.connections,
            timetable.requests % timetable.connections,
        );
        let begun = rest.saturating_sub(self.first).div_ceil(self.stride).min(self.len);
        rounds.saturating_mul(self.len).saturating_add(begun)
    }
}

/// Iterates over the due times of one thread's connections.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    timetable: Timetable,
    share: Share,
    /// Remaining requests of the thread.
    left: u64,
    /// Completed rounds over all connections.
    round: u64,
    /// The index of the thread's next connection.
    next: u64,
    /// With Poisson arrivals, the position of the thread's next request among all requests of the
    /// run.
    position: f64,
    random: Rng,
}

impl Pacer {
    /// `share` must have at least one connection.
    pub(crate) fn new(timetable: Timetable, share: Share) -> Self {
        let random = Rng::with_seed(timetable.seed ^ (share.first << 40) ^ 0x6172_7269_7665);
        let left = share.requests(&timetable);
        let mut pacer = Pacer { timetable, share, left, round: 0, next: 0, position: 0.0, random };
        pacer.draw();
        pacer
    }

    /// Advances the position by an exponential gap whose mean matches the thread's share of the
    /// rate. Does nothing with uniform arrivals.
    fn draw(&mut self) {
        if self.timetable.arrivals == Arrivals::Poisson {
            let mean = self.timetable.connections as f64 / self.share.len as f64;
            self.position += -(1.0 - self.random.f64()).ln() * mean;
        }
    }

    /// Returns the time at which the next request is due; `None` after the last request.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        let requests = match self.timetable.arrivals {
            Arrivals::Poisson => self.position,
            Arrivals::Uniform => {
                (self.round * self.timetable.connections + self.share.number(self.next)) as f64
            }
        };
        Some(self.timetable.due_ns(requests)).filter(|&due_ns| due_ns < self.timetable.end_ns)
    }

    /// Takes the next request if it is due. Returns the thread's connection that sends it, and its
    /// due time.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<(usize, u64)> {
        let due_ns = self.next_due_ns().filter(|&due_ns| due_ns <= now_ns)?;
        let connection = self.next as usize;
        self.left -= 1;
        self.next += 1;
        if self.next == self.share.len {
            self.next = 0;
            self.round += 1;
        }
        self.draw();
        Some((connection, due_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timetable() -> Timetable {
        Timetable {
            start_ns: 1_000_000,
            curve: Curve::even(4e6),
            arrivals: Arrivals::Uniform,
            connections: 5,
            requests: 12,
            end_ns: u64::MAX,
            seed: 1,
        }
    }

    /// The requests that a thread takes at `times`. The thread has `len` connections: `first`, and
    /// every second one after it.
    fn walk(first: u64, len: u64, times: &[u64]) -> Vec<Vec<(usize, u64)>> {
        let start_ns = timetable().start_ns;
        let mut pacer = Pacer::new(timetable(), Share { first, stride: 2, len });
        times
            .iter()
            .map(|after_ns| {
                std::iter::from_fn(|| pacer.take_due(start_ns + after_ns))
                    .map(|(connection, due_ns)| (connection, due_ns - start_ns))
                    .collect()
            })
            .collect()
    }

    /// The due times after the start of all requests of two threads.
    fn all_due(timetable: Timetable) -> Vec<u64> {
        let mut all = Vec::new();
        for (first, len) in [(0, 3), (1, 2)] {
            let mut pacer = Pacer::new(timetable, Share { first, stride: 2, len });
            let dues = std::iter::from_fn(|| pacer.take_due(u64::MAX));
            all.extend(dues.map(|(_, due_ns)| due_ns - timetable.start_ns));
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn each_request_is_handed_out_when_it_is_due() {
        assert_eq!(
            walk(0, 3, &[0, 249, 250, 1249, 1250]),
            [vec![(0, 0)], vec![], vec![], vec![(1, 500), (2, 1000)], vec![(0, 1250)]]
        );
    }

    #[test]
    fn a_late_clock_finds_every_request_that_came_due() {
        assert_eq!(walk(1, 2, &[10_000]), [[(0, 250), (1, 750), (0, 1500), (1, 2000), (0, 2750)]]);
    }

    #[test]
    fn the_run_ends_after_its_last_request_or_at_its_end() {
        assert_eq!(all_due(timetable()).len(), 12);
        for requests in 0..30 {
            assert_eq!(all_due(Timetable { requests, ..timetable() }).len(), requests as usize);
            let poisson = Timetable { requests, arrivals: Arrivals::Poisson, ..timetable() };
            assert_eq!(all_due(poisson).len(), requests as usize);
        }
        let end_ns = timetable().start_ns + 1000;
        assert_eq!(all_due(Timetable { end_ns, ..timetable() }), [0, 250, 500, 750]);
    }

    #[test]
    fn poisson_arrivals_have_exponential_gaps_at_the_rate_asked_for() {
        let requests = 100_000;
        let poisson = Timetable { requests, arrivals: Arrivals::Poisson, ..timetable() };
        let dues = all_due(poisson);
        // The mean of this many gaps of 250 ns lies within 2 % of 250 ns. Near both ends only one
        // of the threads may have arrivals, so only the middle is checked.
        let middle = &dues[1000..90_000];
        let gaps: Vec<f64> = middle.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        assert!((245.0..255.0).contains(&mean), "{mean}");
        // Of exponential gaps, a share of 1/e is longer than the mean; of even gaps, none is.
        let long = gaps.iter().filter(|gap| **gap > 250.0).count() as f64 / gaps.len() as f64;
        assert!((0.35..0.39).contains(&long), "{long}");
        assert_ne!(dues, all_due(Timetable { seed: 2, ..poisson }), "another seed");
        assert_eq!(dues, all_due(poisson), "the same seed");
    }

    #[test]
    fn a_ramp_rises_evenly_and_stays() {
        let second = 1_000_000_000.0;
        for (from, to) in [(100.0, 300.0), (300.0, 100.0), (200.0, 200.0)] {
            let curve = Curve::ramp(from, to, 1_000_000_000);
            assert!((curve.requests_by(second) - 200.0).abs() < 1e-6, "{from} to {to}");
            assert!((curve.requests_by(2.0 * second) - 200.0 - to).abs() < 1e-6);
            for requests in [0.0, 1.0, 50.0, 199.0, 200.0, 250.0] {
                let back = curve.requests_by(curve.ns_of(requests));
                assert!((back - requests).abs() < 1e-6, "{from} to {to}: {requests} is {back}");
            }
        }
    }
}
