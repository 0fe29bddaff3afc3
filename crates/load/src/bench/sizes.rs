//! The lengths of values.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

/// The longest value in bytes: the limit of Redis.
pub(crate) const LONGEST_BYTES: usize = 512 << 20;

/// A log-normal size is drawn again if it lies beyond this number of standard deviations.
const DEVIATIONS: f64 = 5.0;

/// The distribution of sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Always this size, in bytes.
    Fixed(usize),
    /// A uniform distribution between two sizes in bytes, both included.
    Range(usize, usize),
    /// Sizes in bytes, each with its weight.
    Weighted(Vec<(usize, u32)>),
    /// A log-normal distribution. Half of the values are shorter than `median`; `sigma` is the
    /// standard deviation of the natural logarithm.
    LogNormal {
        /// Half of the values are shorter, in bytes.
        median: usize,
        /// Standard deviation of the natural logarithm; dimensionless.
        sigma: f64,
    },
}

impl Sizes {
    /// Returns the largest size that can be drawn, in bytes.
    pub(crate) fn largest(&self) -> usize {
        match self {
            Sizes::Fixed(bytes) | Sizes::Range(_, bytes) => *bytes,
            Sizes::Weighted(sizes) => sizes.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
            Sizes::LogNormal { median, sigma } => {
                let most = *median as f64 * (DEVIATIONS * sigma).exp();
                (most as usize).min(LONGEST_BYTES)
            }
        }
    }

    /// Returns the size if it is always the same.
    pub(crate) fn fixed(&self) -> Option<usize> {
        match self {
            Sizes::Fixed(bytes) => Some(*bytes),
            _ => None,
        }
    }

    pub(crate) fn draw(&self, random: &mut Rng) -> usize {
        match self {
            Sizes::Fixed(bytes) => *bytes,
            Sizes::Range(from, to) => random.usize(from..=to),
            Sizes::Weighted(sizes) => {
                let total: u64 = sizes.iter().map(|(_, weight)| u64::from(*weight)).sum();
                let mut at = random.u64(..total.max(1));
                for (bytes, weight) in sizes {
                    match at.checked_sub(u64::from(*weight)) {
                        None => return *bytes,
                        Some(rest) => at = rest,
                    }
                }
                0
            }
            Sizes::LogNormal { median, sigma } => {
                let bytes = *median as f64 * (sigma * normal(random)).exp();
                (bytes.round() as usize).clamp(1, self.largest())
            }
        }
    }
}

/// Draws a standard normal number within [`DEVIATIONS`], by the polar form of Box and Muller's
/// method ("A note on the generation of random normal deviates", 1958).
fn normal(random: &mut Rng) -> f64 {
    loop {
        let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
        let number = radius * (std::f64::consts::TAU * random.f64()).cos();
        if number.abs() <= DEVIATIONS {
            return number;
        }
    }
}

/// Parses a number of bytes with an optional unit: `100`, `4k`, `1m`, `512m`.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (text.get(..text.len() - 1).unwrap_or_default(), 10),
        Some(b'm' | b'M') => (text.get(..text.len() - 1).unwrap_or_default(), 20),
        _ => (text, 0),
    };
    let number: Option<usize> = digits.parse().ok();
    let number = number.and_then(|number| number.checked_mul(1 << shift));
    let number = number.ok_or_else(|| format!("{text} is not a size such as 100, 4k or 1m"))?;
    if number > LONGEST_BYTES {
        return Err(format!("{text}: a value may have at most 512m"));
    }
    Ok(number)
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(rest) = text.strip_prefix("lognormal:") {
            let (median, sigma) = rest.split_once(':').unwrap_or((rest, "1"));
            let sigma = sigma.parse().ok().filter(|sigma| (0.0..=5.0).contains(sigma));
            let sigma = sigma.ok_or("the deviation of lognormal:MEDIAN:SIGMA is 0 to 5")?;
            let median = Some(bytes(median)?).filter(|median| *median > 0);
            let median = median.ok_or("the median of lognormal:MEDIAN:SIGMA is above 0")?;
            return Ok(Sizes::LogNormal { median, sigma });
        }
        if text.contains([':', ',']) {
            let sizes = text.split(',').map(weighted).collect::<Result<Vec<_>, _>>()?;
            if sizes.iter().all(|(_, weight)| *weight == 0) {
                return Err("all weights are 0".to_owned());
            }
            return Ok(Sizes::Weighted(sizes));
        }
        match text.split_once('-') {
            None => bytes(text).map(Sizes::Fixed),
            Some((from, to)) => {
                let (from, to) = (bytes(from)?, bytes(to)?);
                if from > to {
                    return Err(format!("{text}: the range ends before it begins"));
                }
                Ok(Sizes::Range(from, to))
            }
        }
    }
}

fn weighted(part: &str) -> Result<(usize, u32), String> {
    let (size, weight) = part.split_once(':').unwrap_or((part, "1"));
    let weight = weight.parse().map_err(|_| format!("{part}: {weight} is not a weight"))?;
    Ok((bytes(size)?, weight))
}

impl fmt::Display for Sizes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sizes::Fixed(bytes) => write!(out, "{bytes}"),
            Sizes::Range(from, to) => write!(out, "{from}-{to}"),
            Sizes::Weighted(sizes) => {
                for (index, (bytes, weight)) in sizes.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(out, "{comma}{bytes}:{weight}")?;
                }
                Ok(())
            }
            Sizes::LogNormal { median, sigma } => write!(out, "lognormal:{median}:{sigma}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(text: &str) -> Vec<usize> {
        let sizes: Sizes = text.parse().unwrap();
        let mut random = Rng::with_seed(5);
        let mut drawn: Vec<usize> = (0..10_000).map(|_| sizes.draw(&mut random)).collect();
        drawn.sort_unstable();
        assert!(drawn[9_999] <= sizes.largest(), "{text}");
        drawn
    }

    #[test]
    fn sizes_follow_the_requested_distribution() {
        assert_eq!((draws("7")[0], draws("7")[9_999]), (7, 7));
        let range = draws("10-19");
        assert_eq!((range[0], range[9_999]), (10, 19));
        assert!((1300..1700).contains(&range[1500..].partition_point(|size| *size <= 12)));
        let weighted = draws("1:9,4k");
        let short = weighted.iter().filter(|size| **size == 1).count();
        assert!((8800..9200).contains(&short), "{short}");
        assert_eq!(weighted[9_999], 4096);
        let log_normal = draws("lognormal:1k:0.5");
        assert!((980..1070).contains(&log_normal[5000]), "{}", log_normal[5000]);
        // 84 % of a normal distribution lie below one standard deviation above the mean.
        assert!((1600..1780).contains(&log_normal[8413]), "{}", log_normal[8413]);
    }

    #[test]
    fn sizes_read_back_as_written() {
        for text in ["0", "32", "10-20", "1:9,4096:1", "lognormal:1024:0.5"] {
            assert_eq!(text.parse::<Sizes>().unwrap().to_string(), text);
        }
        for text in
            ["", "x", "5-1", "1:0", "513m", "99999999999999999999k", "lognormal:1:x", "lognormal:0"]
        {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }
}
