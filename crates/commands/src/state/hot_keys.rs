//! The most frequent keys in a sample of requests. Only the guaranteed part of each counter is
//! used, so that no cold key appears hot.

use crate::state::generator::Generator;
use crate::state::top_keys::TopKeys;
use nagi_store::accounting::MeasuredOverhead;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of counters of one worker.
const MAX_KEYS: usize = 128;
/// About how many keys of one request are counted at most.
const MAX_REQUEST_KEYS: usize = 16;
/// Maximum bytes of a key that are kept.
const MAX_BYTES: usize = 64;
/// The wanted number of counted requests between two readings. Counting a request costs a hundred
/// times as much as skipping it. After too many, a smaller share is counted, so that the sample is
/// not limited to the first requests.
const WANTED: RangeInclusive<u64> = 100..=500;
/// The number of requests that are skipped at once when enough have been counted.
const LEFT_OUT: u32 = 1000;
/// At least one in this many requests is counted.
const LARGEST_INTERVAL: u32 = 1 << 14;

/// A worker's counts since the last reading.
#[derive(Debug, Default)]
pub struct HotKeys {
    /// The number of requests until the next counted one; changed by one thread.
    left: AtomicU32,
    /// One in this many requests is counted on average; 0 means 1.
    interval: AtomicU32,
    counters: Mutex<Counters>,
}

#[derive(Debug)]
struct Counters {
    keys: TopKeys,
    /// Whether `keys` has been read. The worker then drops `keys` with the next counted key, since
    /// memory must be freed by the thread that has allocated it.
    is_read: bool,
    overhead: MeasuredOverhead,
    /// Requests that were counted, including those without a key.
    seen: u64,
    /// Numbers of requests to skip.
    steps: Generator,
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            keys: TopKeys::new(MAX_KEYS, MAX_BYTES),
            is_read: false,
            overhead: MeasuredOverhead::default(),
            seen: 0,
            steps: Generator::default(),
        }
    }
}

/// A sample of requests: their number, and a lower bound for each key.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KeySample {
    pub(crate) seen: f64,
    pub(crate) keys: HashMap<Box<[u8]>, f64>,
}

impl HotKeys {
    /// Whether any of the next `requests` may be in the sample, so that [`Self::begin_request`]
    /// must be called for each; if not, all of them are skipped.
    #[inline]
    #[must_use]
    pub fn begin_batch(&self, requests: usize) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        match u32::try_from(requests).ok().and_then(|requests| left.checked_sub(requests)) {
            Some(rest) => {
                self.left.store(rest, Ordering::Relaxed);
                false
            }
            None => true,
        }
    }

    /// Whether the next request is in the sample, so that it must be passed to [`Self::note`] or
    /// [`Self::note_several`].
    #[inline]
    #[must_use]
    pub fn begin_request(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }

    /// Counts a request of the sample with one key; an empty one means none.
    #[cold]
    pub fn note(&self, key: &[u8]) {
        self.count(|counters| counters.add(&[key]));
    }

    /// Counts a request of the sample. `keys` receives a random number and about how many of the
    /// request's keys it returns at most. Each counts once, so that a key of a request with more is
    /// underestimated, but never counted for requests that do not name it.
    #[cold]
    pub fn note_several<'k>(&self, keys: impl FnOnce(u64, usize) -> Vec<&'k [u8]>) {
        self.count(|counters| {
            let mut named = keys(counters.steps.next().into(), MAX_REQUEST_KEYS);
            // A request that names a key twice is still one request.
            named.sort_unstable();
            named.dedup();
            counters.add(&named);
        });
    }

    /// Counts a request by `add`, unless there are enough. Determines the next one of the sample.
    fn count(&self, add: impl FnOnce(&mut Counters)) {
        let interval = self.interval.load(Ordering::Relaxed).max(1);
        let mut counters = self.counters.lock();
        let left = if counters.seen >= *WANTED.end() {
            LEFT_OUT
        } else {
            counters.seen += 1;
            add(&mut counters);
            // Constant steps could miss alternating requests.
            counters.steps.next() % (2 * interval - 1)
        };
        self.left.store(left, Ordering::Relaxed);
    }

    /// Adds the counts to a sample, weighted by the number of requests that each counted request
    /// represents, and resets them. Adjusts the interval towards the wanted number.
    pub(crate) fn take_into(&self, sample: &mut KeySample) {
        let mut counters = self.counters.lock();
        let seen = std::mem::take(&mut counters.seen);
        let interval = self.interval.load(Ordering::Relaxed).max(1);
        let next = match seen {
            seen if seen >= *WANTED.end() => interval.saturating_mul(4).min(LARGEST_INTERVAL),
            seen if seen < *WANTED.start() => (interval / 2).max(1),
            _ => interval,
        };
        self.interval.store(next, Ordering::Relaxed);
        sample.seen += seen as f64 * f64::from(interval);
        if std::mem::replace(&mut counters.is_read, true) {
            return;
        }
        for (key, certain) in counters.keys.certain() {
            *sample.keys.entry(Box::from(&**key)).or_default() +=
                certain as f64 * f64::from(interval);
        }
    }
}

impl Counters {
    /// Counts each of a request's keys.
    fn add(&mut self, named: &[&[u8]]) {
        let mut named = named.iter().filter(|key| !key.is_empty()).peekable();
        if named.peek().is_none() {
            return;
        }
        let (keys, is_read) = (&mut self.keys, std::mem::take(&mut self.is_read));
        self.overhead.measure(|| {
            if is_read {
                *keys = TopKeys::new(MAX_KEYS, MAX_BYTES);
            }
            named.for_each(|key| keys.add(key, 1));
        });
    }
}

impl KeySample {
    /// Multiplies all counts by `rest`, and removes negligible ones.
    pub(crate) fn decay(&mut self, rest: f64) {
        const FORGOTTEN: f64 = 0.5;
        self.seen *= rest;
        self.keys.values_mut().for_each(|count| *count *= rest);
        self.keys.retain(|_, count| *count >= FORGOTTEN);
    }

    /// Keys with at least this share of all requests, and their shares, the largest first.
    pub(crate) fn hottest(&self, least_share: f64) -> Vec<(String, f64)> {
        let shares = self.keys.iter().map(|(key, count)| (key, count / self.seen.max(1.0)));
        let mut hottest: Vec<_> = shares.filter(|(_, share)| *share >= least_share).collect();
        hottest.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        hottest.into_iter().map(|(key, share)| (text(key), share)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes a request with these keys, separated by spaces.
    fn note(hot_keys: &HotKeys, keys: &str) {
        if hot_keys.begin_request() {
            match keys.contains(' ') {
                true => hot_keys.note_several(|_, _| keys.split(' ').map(str::as_bytes).collect()),
                false => hot_keys.note(keys.as_bytes()),
            }
        }
    }

    /// The sample of requests, which is read after `BETWEEN` requests.
    fn counted(requests: impl Iterator<Item = String>) -> KeySample {
        const BETWEEN: usize = 20_000;
        let (hot_keys, mut sample) = (HotKeys::default(), KeySample::default());
        for (number, key) in requests.enumerate() {
            note(&hot_keys, &key);
            if number % BETWEEN == BETWEEN - 1 {
                hot_keys.take_into(&mut sample);
            }
        }
        hot_keys.take_into(&mut sample);
        sample
    }

    #[test]
    fn few_of_many_requests_are_counted_and_all_of_few() {
        let hot_keys = HotKeys::default();
        let seen = |requests: u64| {
            (0..requests).for_each(|_| note(&hot_keys, "key"));
            let counted = hot_keys.counters.lock().seen;
            let mut sample = KeySample::default();
            hot_keys.take_into(&mut sample);
            (counted, sample.seen)
        };
        for _ in 0..20 {
            seen(100_000);
        }
        let (counted, stands_for) = seen(100_000);
        assert!((50..800).contains(&counted), "{counted}");
        assert!((60_000.0..140_000.0).contains(&stands_for), "{stands_for}");
        // As many as may be left out after the last counted one.
        for _ in 0..200 {
            seen(10);
        }
        assert_eq!(seen(10).0, 10);
    }

    #[test]
    fn batches_are_left_out_request_by_request() {
        let [whole, single] = [HotKeys::default(), HotKeys::default()];
        for number in 0..100_000_u32 {
            let batch = number as usize % 33;
            if whole.begin_batch(batch) {
                (0..batch).for_each(|_| note(&whole, "key"));
            }
            (0..batch).for_each(|_| note(&single, "key"));
            if number % 1000 == 999 {
                let mut samples = [KeySample::default(), KeySample::default()];
                whole.take_into(&mut samples[0]);
                single.take_into(&mut samples[1]);
                assert_eq!(samples[0], samples[1], "{number}");
            }
        }
    }

    #[test]
    fn a_hot_key_among_many_is_found_with_its_share() {
        let requests = (0..1_600_000).map(|number| match number % 10 {
            0..3 => "hot".to_owned(),
            3 => "warm".to_owned(),
            _ => format!("key:{number}"),
        });
        let hottest = counted(requests).hottest(0.02);
        let names: Vec<&str> = hottest.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(names, ["hot", "warm"], "{hottest:?}");
        assert!((0.28..0.32).contains(&hottest[0].1), "{hottest:?}");
    }

    #[test]
    fn no_key_is_hot_among_equally_frequent_ones() {
        let hottest = counted((0..1_600_000).map(|number| format!("key:{number}"))).hottest(0.01);
        assert_eq!(hottest, []);
    }

    #[test]
    fn a_key_is_counted_once_per_request_wherever_it_is() {
        let requests = (0..100_000).map(|number| format!("key:{number} hot other:{number} hot"));
        let hottest = counted(requests).hottest(0.02);
        assert_eq!(hottest.len(), 1, "{hottest:?}");
        assert!(hottest[0].0 == "hot" && (0.9..=1.0).contains(&hottest[0].1), "{hottest:?}");
    }

    #[test]
    fn keys_of_large_requests_are_not_hot_for_that() {
        let many =
            |number: usize| (0..16).map(|key| format!("{number}:{key} ")).collect::<String>();
        let requests = (0..200_000).map(|number| match number % 100 {
            0 => many(number).trim_end().to_owned(),
            _ => format!("key:{number}"),
        });
        assert_eq!(counted(requests).hottest(0.01), []);
    }

    #[test]
    fn old_counts_decay() {
        let mut sample = counted((0..16_000).map(|_| "k".repeat(100)));
        assert_eq!(sample.hottest(0.9).len(), 1);
        assert_eq!(sample.hottest(0.9)[0].0.len(), MAX_BYTES);
        (0..100).for_each(|_| sample.decay(0.8));
        assert_eq!(sample.keys.len(), 0);
    }
}
