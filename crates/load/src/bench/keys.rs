//! The distribution of requests over keys.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

/// How requests are distributed over the keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// All keys are requested equally often.
    Uniform,
    /// The k-th key is requested in proportion to k to the power of minus the exponent.
    Zipf(f64),
    /// A share of the keys, the first ones, receives a share of the requests.
    Hot {
        /// Share of the keys, from 0 to 1.
        share: f64,
        /// Share of the requests, from 0 to 1.
        requests: f64,
    },
    /// One key after another. Each thread passes through the whole range from its own start.
    Sequential,
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "uniform" => Ok(Distribution::Uniform),
            None if text == "sequential" => Ok(Distribution::Sequential),
            None if text == "zipf" => Ok(Distribution::Zipf(0.99)),
            Some(("zipf", exponent)) => exponent
                .parse()
                .ok()
                .filter(|exponent: &f64| *exponent > 0.0 && *exponent <= 10.0)
                .map(Distribution::Zipf)
                .ok_or_else(|| format!("the exponent {exponent} is not in (0, 10]")),
            Some(("hot", shares)) => {
                let shares = shares.split_once(':').and_then(|(share, requests)| {
                    Some((share.parse().ok()?, requests.parse().ok()?))
                });
                shares
                    .filter(|(share, requests): &(f64, f64)| {
                        *share > 0.0 && *share < 1.0 && (0.0..=1.0).contains(requests)
                    })
                    .map(|(share, requests)| Distribution::Hot { share, requests })
                    .ok_or_else(|| "expected two shares, such as hot:0.1:0.9".to_owned())
            }
            _ => {
                Err("expected uniform, zipf:EXPONENT, hot:SHARE:REQUESTS or sequential".to_owned())
            }
        }
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Uniform => out.write_str("uniform"),
            Distribution::Zipf(exponent) => write!(out, "zipf:{exponent}"),
            Distribution::Hot { share, requests } => write!(out, "hot:{share}:{requests}"),
            Distribution::Sequential => out.write_str("sequential"),
        }
    }
}

/// Draws key numbers, which begin at 0.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    count: u64,
    draw: Draw,
}

#[derive(Clone, Debug)]
enum Draw {
    Uniform,
    Zipf(Zipf),
    Hot { hot: u64, requests: f64 },
    Sequential { next: u64, stride: u64 },
}

impl Keys {
    /// Draws numbers below `count`, which must not be 0. A sequential distribution begins at
    /// `first`.
    pub(crate) fn new(distribution: Distribution, count: u64, first: u64) -> Self {
        let draw = match distribution {
            Distribution::Uniform => Draw::Uniform,
            Distribution::Zipf(exponent) => Draw::Zipf(Zipf::new(count, exponent)),
            Distribution::Hot { share, requests } => {
                let hot = ((count as f64 * share).round() as u64).clamp(1, count);
                Draw::Hot { hot, requests }
            }
            Distribution::Sequential => Draw::Sequential { next: first % count, stride: 1 },
        };
        Keys { count, draw }
    }

    /// Returns every `stride`-th number below `count` from `first` on, then begins again.
    pub(crate) fn strided(count: u64, first: u64, stride: u64) -> Self {
        Keys { count, draw: Draw::Sequential { next: first % count, stride } }
    }

    pub(crate) fn next(&mut self, random: &mut Rng) -> u64 {
        match &mut self.draw {
            Draw::Uniform => random.u64(..self.count),
            Draw::Zipf(zipf) => zipf.rank(random) - 1,
            Draw::Hot { hot, requests } => {
                let is_hot = *hot == self.count || random.f64() < *requests;
                if is_hot { random.u64(..*hot) } else { random.u64(*hot..self.count) }
            }
            Draw::Sequential { next, stride } => {
                let key = *next;
                *next = (key + *stride) % self.count;
                key
            }
        }
    }
}

/// Draws from Zipf's law without a table, by rejection-inversion, which is exact: Hörmann and
/// Derflinger, "Rejection-inversion to generate variates from monotone discrete distributions"
/// (1996).
#[derive(Clone, Debug)]
struct Zipf {
    exponent: f64,
    count: u64,
    /// The integral of the density from 1 to 3/2, minus the weight of the first rank.
    low: f64,
    /// The integral of the density from 1 to half a rank beyond the last one.
    high: f64,
    /// A point up to this distance above a rank is accepted without a test.
    margin: f64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Self {
        let mut zipf = Zipf { exponent, count, low: 0.0, high: 0.0, margin: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(count as f64 + 0.5);
        zipf.margin = 2.0 - zipf.inverse_integral(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// Draws a rank from 1 to `count`.
    fn rank(&self, random: &mut Rng) -> u64 {
        loop {
            let area = self.high + random.f64() * (self.low - self.high);
            let point = self.inverse_integral(area);
            let rank = ((point + 0.5) as u64).clamp(1, self.count);
            let nearest = rank as f64;
            if nearest - point <= self.margin
                || area >= self.integral(nearest + 0.5) - self.weight(nearest)
            {
                return rank;
            }
        }
    }

    fn weight(&self, rank: f64) -> f64 {
        (-self.exponent * rank.ln()).exp()
    }

    /// Returns the integral of `weight` from 1 to `to`, in a form that is accurate for exponents
    /// near 1.
    fn integral(&self, to: f64) -> f64 {
        let log = to.ln();
        let scaled = (1.0 - self.exponent) * log;
        if scaled.abs() < 1e-8 {
            log * (1.0 + scaled / 2.0)
        } else {
            log * scaled.exp_m1() / scaled
        }
    }

    fn inverse_integral(&self, area: f64) -> f64 {
        let scaled = ((1.0 - self.exponent) * area).max(-1.0);
        let log =
            if scaled.abs() < 1e-8 { 1.0 - scaled / 2.0 } else { scaled.ln_1p() / scaled } * area;
        log.exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(distribution: Distribution, keys: u64, draws: u64) -> Vec<u64> {
        let mut random = Rng::with_seed(99);
        let mut source = Keys::new(distribution, keys, 0);
        let mut seen = vec![0; keys as usize];
        for _ in 0..draws {
            seen[source.next(&mut random) as usize] += 1;
        }
        seen
    }

    /// Returns Pearson's statistic, and the value that the statistic exceeds in about one of a
    /// million fair draws (Wilson and Hilferty's approximation).
    fn chi_squared(seen: &[u64], weights: &[f64]) -> (f64, f64) {
        let draws: u64 = seen.iter().sum();
        let total: f64 = weights.iter().sum();
        let statistic = seen
            .iter()
            .zip(weights)
            .map(|(&seen, weight)| {
                let expected = draws as f64 * weight / total;
                (seen as f64 - expected).powi(2) / expected
            })
            .sum();
        let freedom = seen.len() as f64 - 1.0;
        let spread = 2.0 / (9.0 * freedom);
        (statistic, freedom * (1.0 - spread + 4.75 * spread.sqrt()).powi(3))
    }

    #[test]
    fn zipf_keys_follow_the_closed_form() {
        for exponent in [0.5, 0.99, 1.0, 1.2, 3.0] {
            let keys = if exponent > 2.0 { 20 } else { 1000 };
            let seen = draw(Distribution::Zipf(exponent), keys, 1_000_000);
            let weights: Vec<f64> = (1..=keys).map(|rank| (rank as f64).powf(-exponent)).collect();
            let (statistic, bound) = chi_squared(&seen, &weights);
            assert!(statistic < bound, "exponent {exponent}: {statistic} >= {bound}");
        }
    }

    #[test]
    fn uniform_keys_are_drawn_equally_often() {
        let (statistic, bound) =
            chi_squared(&draw(Distribution::Uniform, 1000, 1_000_000), &[1.0; 1000]);
        assert!(statistic < bound, "{statistic} >= {bound}");
    }

    #[test]
    fn the_hot_set_gets_its_share_evenly() {
        let hot = Distribution::Hot { share: 0.1, requests: 0.8 };
        let weights: Vec<f64> =
            (0..100).map(|key| if key < 10 { 8.0 } else { 2.0 / 9.0 }).collect();
        let (statistic, bound) = chi_squared(&draw(hot, 100, 1_000_000), &weights);
        assert!(statistic < bound, "{statistic} >= {bound}");
        assert_eq!(draw(hot, 1, 10), [10], "a single key is the hot one");
    }

    #[test]
    fn sequential_visits_each_key_once_a_round() {
        assert_eq!(draw(Distribution::Sequential, 7, 21), [3; 7]);
    }

    #[test]
    fn distributions_read_back_as_written() {
        for text in ["uniform", "zipf:0.99", "hot:0.1:0.9", "sequential"] {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
        for text in ["", "zipf:", "zipf:0", "zipf:nan", "normal", "hot:1", "hot:0:1", "hot:0.5:2"] {
            assert!(text.parse::<Distribution>().is_err(), "{text}");
        }
    }
}
