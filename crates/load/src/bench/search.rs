//! The search for the highest rate at which an objective holds. The search does not know about
//! servers, so that its rules can be tested with simulated ones.
//!
//! 1. From the first rate on, the rate is doubled until one fails, or halved until one holds.
//! 2. The geometric mean of the highest rate that held and the lowest that failed is tried, until
//!    the two are at most 5 % apart.
//! 3. The highest rate that held is confirmed by a longer trial. If that fails, the rate is lowered
//!    by 5 %, then by twice as many steps each time, until one is confirmed or the lowest has
//!    failed.
//!
//! In 1 and 2, a rate that fails is tried again, and fails only if both trials did, so that a
//! single disturbance of the machine does not end the search far too low.

/// The maximum relative distance between the two bounds at the end of the search.
const PRECISION: f64 = 0.05;

/// The purpose of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Search,
    /// A repetition after a failure.
    Again,
    Confirm,
}

/// The range of the search, in requests per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The first rate to try.
    pub(crate) first: f64,
    /// The lowest rate to try.
    pub(crate) least: f64,
    /// The highest rate to try.
    pub(crate) most: f64,
}

/// Returns the highest rate for which `holds` returns `true`, by the rules above; `None` if there
/// is none.
///
/// # Errors
/// The first error of `holds`.
pub(crate) fn highest<E>(
    bounds: Bounds,
    mut holds: impl FnMut(f64, Step) -> Result<bool, E>,
) -> Result<Option<f64>, E> {
    let Some(mut rate) = highest_that_held(bounds, |rate| {
        Ok(holds(rate, Step::Search)? || holds(rate, Step::Again)?)
    })?
    else {
        return Ok(None);
    };
    let mut steps = 1;
    while !holds(rate, Step::Confirm)? {
        if rate <= bounds.least {
            return Ok(None);
        }
        rate = rounded(rate / (1.0 + PRECISION).powi(steps)).max(bounds.least);
        steps *= 2;
    }
    Ok(Some(rate))
}

fn highest_that_held<E>(
    Bounds { first, least, most }: Bounds,
    mut holds: impl FnMut(f64) -> Result<bool, E>,
) -> Result<Option<f64>, E> {
    let mut low = first.clamp(least, most);
    let mut high = low;
    if holds(low)? {
        loop {
            if low >= most {
                return Ok(Some(low));
            }
            high = (low * 2.0).min(most);
            if !holds(high)? {
                break;
            }
            low = high;
        }
    } else {
        loop {
            if high <= least {
                return Ok(None);
            }
            low = (high / 2.0).max(least);
            if holds(low)? {
                break;
            }
            high = low;
        }
    }
    while high / low > 1.0 + PRECISION {
        let middle = rounded((low * high).sqrt());
        if middle <= low || middle >= high {
            break;
        }
        if holds(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Some(low))
}

/// Rounds to three significant digits: more would suggest a false precision.
fn rounded(rate: f64) -> f64 {
    let unit = 10_f64.powf(rate.max(1e-3).log10().floor() - 2.0);
    (rate / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: Bounds = Bounds { first: 1000.0, least: 10.0, most: 1e7 };

    /// Runs a search with `holds`. Returns its result and the number of trials.
    fn search(mut holds: impl FnMut(f64, Step) -> bool) -> (Option<f64>, usize) {
        let mut tried = 0;
        let found = highest(BOUNDS, |rate, step| {
            tried += 1;
            Ok::<_, ()>(holds(rate, step))
        });
        (found.unwrap(), tried)
    }

    proptest! {
        #[test]
        fn a_threshold_is_found_to_the_precision_promised(threshold in 11.0_f64..9e6) {
            let (found, tried) = search(|rate, _| rate <= threshold);
            let found = found.unwrap();
            let is_close = found <= threshold && found * 1.06 >= threshold;
            prop_assert!(is_close, "{} {}", found, threshold);
            prop_assert!(tried < 50, "{} trials", tried);
        }
    }

    #[test]
    fn there_may_be_no_end_or_no_rate() {
        assert_eq!(search(|_, _| true).0, Some(BOUNDS.most));
        assert_eq!(search(|_, _| false).0, None);
        assert_eq!(search(|_, step| step != Step::Confirm).0, None, "none was confirmed");
    }

    #[test]
    fn one_disturbance_does_not_end_the_search_too_low() {
        let mut disturbed = true;
        let (found, _) = search(|rate, _| {
            rate <= 50_000.0 && !(rate == 2000.0 && std::mem::take(&mut disturbed))
        });
        assert!(found.unwrap() > 47_000.0 && !disturbed, "{found:?}");
    }

    #[test]
    fn a_rate_that_is_not_confirmed_goes_down_step_by_step() {
        let (found, _) = search(|rate, step| match step {
            Step::Confirm => rate <= 40_000.0,
            _ => rate <= 46_000.0,
        });
        let found = found.unwrap();
        assert!((37_500.0..=40_000.0).contains(&found), "{found}");
    }

    #[test]
    fn a_rate_far_below_the_search_is_confirmed_too() {
        for threshold in [BOUNDS.least, 100.0, 20_000.0] {
            let (found, tried) = search(|rate, step| match step {
                Step::Confirm => rate <= threshold,
                _ => rate <= 5e6,
            });
            let found = found.unwrap();
            assert!(found <= threshold && tried < 60, "{found} of {threshold}, {tried} trials");
        }
    }

    #[test]
    fn an_error_ends_the_search() {
        let mut tried = 0;
        let found = highest(BOUNDS, |_, _| {
            tried += 1;
            if tried == 3 { Err("broken") } else { Ok(true) }
        });
        assert_eq!((found, tried), (Err("broken"), 3));
    }
}
