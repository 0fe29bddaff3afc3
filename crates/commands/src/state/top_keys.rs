//! The most expensive of many keys in bounded memory: the counters of Space-Saving
//! (Metwally, Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data
//! Streams", 2005), with weights.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The memory of a counter besides the bytes of its key: two entries in trees and tables.
const COUNTER_BYTES: usize = 160;

/// A bounded number of counters, each for one key. Let `k` be their number and `n` the sum of all
/// weights: every key with a weight above `n / k` has a counter, whose guaranteed part is at most
/// the key's weight, and at least the weight minus `n / k`.
#[derive(Debug)]
pub(crate) struct TopKeys {
    most_keys: usize,
    most_bytes: usize,
    counters: HashMap<Arc<[u8]>, Counter>,
    /// The same keys, ordered by their counts.
    order: BTreeSet<(u64, Arc<[u8]>)>,
    /// The length of all keys together.
    key_bytes: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    count: u64,
    /// The maximum overestimate of the count.
    error: u64,
}

impl TopKeys {
    /// Counters for at most `most_keys` keys, each truncated to `most_bytes` bytes.
    pub(crate) fn new(most_keys: usize, most_bytes: usize) -> Self {
        TopKeys {
            most_keys,
            most_bytes,
            counters: HashMap::new(),
            order: BTreeSet::new(),
            key_bytes: 0,
        }
    }

    /// Adds a weight to a key. A new key replaces the key with the lowest count, which is an upper
    /// bound for the new key's earlier weights.
    pub(crate) fn add(&mut self, key: &[u8], weight: u64) {
        if weight == 0 {
            return;
        }
        let key = key.get(..self.most_bytes).unwrap_or(key);
        let known = self.counters.get_key_value(key);
        let (place, error) = match known.map(|(name, counter)| (Arc::clone(name), *counter)) {
            Some((name, Counter { count, error })) => {
                let place = (count, name);
                self.order.remove(&place);
                (place, error)
            }
            None => {
                let least = if self.counters.len() < self.most_keys { 0 } else { self.make_room() };
                self.key_bytes += key.len();
                ((least, Arc::from(key)), least)
            }
        };
        let (before, name) = place;
        let count = before.saturating_add(weight);
        self.order.insert((count, Arc::clone(&name)));
        self.counters.insert(name, Counter { count, error });
    }

    /// Removes the key with the lowest count, and returns the count.
    fn make_room(&mut self) -> u64 {
        let Some((count, name)) = self.order.pop_first() else { return 0 };
        self.counters.remove(&name);
        self.key_bytes -= name.len();
        count
    }

    /// Keys with their guaranteed counts, if these are above 0.
    pub(crate) fn certain(&self) -> impl Iterator<Item = (&Arc<[u8]>, u64)> {
        self.counters.iter().map(|(name, counter)| (name, counter.count - counter.error))
    }

    /// Its memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.key_bytes + self.counters.len() * COUNTER_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn certain(top: &TopKeys) -> HashMap<Vec<u8>, u64> {
        top.certain().map(|(name, weight)| (name.to_vec(), weight)).collect()
    }

    proptest! {
        #[test]
        fn no_key_has_more_than_it_had_nor_much_less(
            most_keys in 1_usize..20,
            weights in proptest::collection::vec((0_u32..40, 0_u64..1000), 0..400),
        ) {
            let mut top = TopKeys::new(most_keys, 64);
            let (mut exact, mut sum) = (HashMap::<Vec<u8>, u64>::new(), 0);
            for (key, weight) in weights {
                // Low numbers are more frequent.
                let key = format!("key:{}", key * key / 40).into_bytes();
                top.add(&key, weight);
                *exact.entry(key).or_default() += weight;
                sum += weight;
            }
            let counted = certain(&top);
            let bound = sum / most_keys as u64;
            prop_assert!(counted.len() <= most_keys);
            prop_assert_eq!(top.order.len(), counted.len());
            prop_assert_eq!(top.counters.values().map(|it| it.count).sum::<u64>(), sum);
            for (key, weight) in &counted {
                prop_assert!((1..=exact[key]).contains(weight));
            }
            for (key, weight) in exact {
                let least = counted.get(&key).copied().unwrap_or(0);
                prop_assert!(weight - least <= bound, "{weight} - {least} > {bound}");
            }
            let bytes: usize = counted.keys().map(Vec::len).sum();
            prop_assert_eq!(top.key_bytes, bytes);
        }
    }

    #[test]
    fn memory_is_bounded_however_many_and_long_the_keys_are() {
        let mut top = TopKeys::new(10, 100);
        for number in 0..10_000 {
            top.add(format!("{number:0>1000}").as_bytes(), 1);
            top.add(format!("{number:0<1000}").as_bytes(), 1);
        }
        assert!(top.bytes() <= 10 * (100 + COUNTER_BYTES), "{}", top.bytes());
        assert_eq!(top.counters.len(), 10);
    }

    #[test]
    fn counts_do_not_overflow() {
        let mut top = TopKeys::new(1, 64);
        top.add(b"key", u64::MAX - 1);
        top.add(b"key", 5);
        assert_eq!(certain(&top), HashMap::from([(b"key".to_vec(), u64::MAX)]));
        top.add(b"other", 5);
        assert_eq!(top.counters[&b"other"[..]].error, u64::MAX);
    }
}
