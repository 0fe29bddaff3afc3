//! Measured numbers by name, and their medians over repetitions.

use std::collections::BTreeMap;

/// The figures of one measurement, by their names in the JSON.
pub(super) type Figures = BTreeMap<&'static str, f64>;

/// Returns the median of each figure over all repetitions.
pub(super) fn medians(repetitions: &[Figures]) -> Figures {
    let names = repetitions.first().into_iter().flat_map(BTreeMap::keys);
    names
        .map(|&name| {
            let values = repetitions.iter().filter_map(|figures| figures.get(name));
            (name, median(values.copied().collect()))
        })
        .collect()
}

/// Returns the middle value, or the mean of the two middle values; NaN if there are none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    if values.len().is_multiple_of(2) {
        f64::midpoint(at(middle.wrapping_sub(1)), at(middle))
    } else {
        at(middle)
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, medians};

    #[test]
    fn a_median_ignores_the_outlier() {
        let of = |values: &[f64]| {
            let repetitions: Vec<Figures> =
                values.iter().map(|&value| Figures::from([("p50_us", value)])).collect();
            medians(&repetitions)["p50_us"]
        };
        assert_eq!(of(&[3.0, 900.0, 1.0]), 3.0);
        assert_eq!(of(&[3.0, 900.0, 1.0, 5.0]), 4.0);
    }
}
