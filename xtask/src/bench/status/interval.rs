//! The confidence interval of a ratio that was measured in pairs.

/// The number of resamples.
const RESAMPLES: usize = 10_000;
/// The quantiles of the resamples' means that bound the interval, which contains 95 % of them.
const BOUNDS: [f64; 2] = [0.025, 0.975];

/// The geometric mean of ratios, and its 95 % confidence interval. The arithmetic mean of ratios of
/// two equal but varying figures is greater than 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub(super) mean: f64,
    pub(super) bounds: [f64; 2],
}

impl Interval {
    /// Computes the interval by the percentile bootstrap (Efron, "Bootstrap Methods: Another Look
    /// at the Jackknife", 1979), with the same random numbers at each call.
    pub(super) fn of(ratios: &[f64]) -> Self {
        let mut random = fastrand::Rng::with_seed(1);
        let mut means: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let drawn =
                    (0..ratios.len()).filter_map(|_| ratios.get(random.usize(..ratios.len())));
                geometric_mean(drawn.copied())
            })
            .collect();
        means.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (means.len() as f64 * share) as usize;
            means.get(place).copied().unwrap_or(f64::NAN)
        };
        Interval { mean: geometric_mean(ratios.iter().copied()), bounds: BOUNDS.map(at) }
    }

    /// Formats the mean and the interval as percentages of change.
    pub(super) fn as_change(&self) -> String {
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let [from, to] = self.bounds.map(percent);
        format!("{:+.1} % ({from:+.1} to {to:+.1})", percent(self.mean))
    }
}

pub(super) fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.fold((0.0, 0_u32), |(sum, count), value| (sum + value.ln(), count + 1));
    (sum / f64::from(count)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_as_wide_as_the_ratios_differ() {
        let even = Interval::of(&[0.98; 10]);
        assert_eq!(even.as_change(), "-2.0 % (-2.0 to -2.0)");
        let ratios: Vec<f64> = (0..20).map(|number| 0.9 + 0.01 * f64::from(number)).collect();
        let Interval { mean, bounds: [from, to] } = Interval::of(&ratios);
        // The standard error of the mean is 0.0129.
        assert!((mean - 0.9933).abs() < 1e-4, "{mean}");
        assert!((0.966..0.974).contains(&from) && (1.016..1.024).contains(&to), "{from} {to}");
        assert!(Interval::of(&[]).mean.is_nan());
        let equal_but_varying = Interval::of(&[0.5, 2.0]);
        assert!((equal_but_varying.mean - 1.0).abs() < 1e-9);
    }
}
