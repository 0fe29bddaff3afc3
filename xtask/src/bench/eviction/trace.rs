//! Traces: sequences of keys that are the same for every server and in every run.

use fastrand::Rng;

/// The shape of a sequence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Shape {
    /// Key k is requested in proportion to 1 / k^exponent.
    Zipf { exponent: f64 },
    /// The same keys are requested repeatedly in the same order; there are a tenth more of them
    /// than fit.
    Loop,
    /// Nine of ten requests go to a hot set half as large as the cache, which moves to other keys
    /// after 18 requests per key; the tenth request goes to any key.
    Shifting,
}

impl Shape {
    pub(super) const ALL: [Self; 4] =
        [Self::Zipf { exponent: 0.9 }, Self::Zipf { exponent: 0.99 }, Self::Loop, Self::Shifting];

    pub(super) fn name(self) -> String {
        match self {
            Self::Zipf { exponent } => format!("Zipf {exponent}"),
            Self::Loop => "looping scan".to_owned(),
            Self::Shifting => "shifting hot set".to_owned(),
        }
    }

    /// Returns the first `requests` keys of the sequence. Keys are below `keys`; the cache holds
    /// `capacity` of them.
    pub(super) fn trace(self, keys: u64, capacity: u64, requests: usize) -> Vec<u64> {
        let mut random = Rng::with_seed(0x6e61_6769);
        match self {
            Self::Zipf { exponent } => {
                let zipf = Zipf::new(keys, exponent);
                (0..requests).map(|_| zipf.draw(&mut random)).collect()
            }
            Self::Loop => {
                let length = (capacity + capacity / 10).max(1);
                (0..requests as u64).map(|request| request % length).collect()
            }
            Self::Shifting => {
                let hot = (capacity / 2).max(1);
                let shifting = |request: u64| {
                    let begin = request / (hot * 20) * hot;
                    let anywhere = random.u64(..10) == 0;
                    let key = if anywhere { random.u64(..keys) } else { begin + random.u64(..hot) };
                    key % keys
                };
                (0..requests as u64).map(shifting).collect()
            }
        }
    }
}

/// Draws by binary search in the cumulative weights.
struct Zipf {
    cumulated: Vec<f64>,
}

impl Zipf {
    fn new(keys: u64, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=keys).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Self { cumulated: weights.collect() }
    }

    fn draw(&self, random: &mut Rng) -> u64 {
        let sum = self.cumulated.last().copied().unwrap_or(0.0);
        let at = random.f64() * sum;
        self.cumulated.partition_point(|&weight| weight < at) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Shape;

    #[test]
    fn a_trace_is_the_same_every_time_and_stays_within_its_keys() {
        for shape in Shape::ALL {
            let trace = shape.trace(1000, 100, 50_000);
            assert_eq!(trace, shape.trace(1000, 100, 50_000));
            assert!(trace.iter().all(|key| *key < 1000), "{shape:?}");
        }
    }

    #[test]
    fn zipf_asks_for_each_key_as_often_as_its_rank_says() {
        let trace = Shape::Zipf { exponent: 1.0 }.trace(1000, 100, 1_000_000);
        let asked = |key| trace.iter().filter(|it| **it == key).count() as f64;
        for key in [1, 9] {
            let share = asked(0) / asked(key) / (key + 1) as f64;
            assert!((0.9..1.1).contains(&share), "{share}");
        }
    }

    #[test]
    fn the_hot_set_moves() {
        let trace = Shape::Shifting.trace(10_000, 100, 2000);
        let hot = |part: &[u64], first| {
            part.iter().filter(|key| (first..first + 50).contains(*key)).count()
        };
        assert!(hot(&trace[..1000], 0) > 850);
        assert!(hot(&trace[1000..], 50) > 850);
    }
}
