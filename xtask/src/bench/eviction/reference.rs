//! Simulated caches that hold an exact number of keys, with policies that do not sample.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// Returns the miss ratio of an exact LRU for the requests from number `warm_up` on.
pub(super) fn lru(trace: &[u64], warm_up: usize, capacity: usize) -> f64 {
    let mut last_used: HashMap<u64, usize> = HashMap::new();
    let mut by_use: BTreeMap<usize, u64> = BTreeMap::new();
    let miss_of = |(request, key): (usize, &u64)| {
        let hit = match last_used.insert(*key, request) {
            Some(before) => by_use.remove(&before).is_some(),
            None => false,
        };
        by_use.insert(request, *key);
        if by_use.len() > capacity
            && let Some((_, oldest)) = by_use.pop_first()
        {
            last_used.remove(&oldest);
        }
        !hit
    };
    miss_ratio(trace.iter().enumerate().map(miss_of), warm_up)
}

/// Returns the miss ratio of S3-FIFO (Yang et al., "FIFO queues are all you need for cache
/// eviction", SOSP 2023), whose small queue has a tenth of the capacity.
pub(super) fn s3_fifo(trace: &[u64], warm_up: usize, capacity: usize) -> f64 {
    let mut cache = S3Fifo { capacity, ..S3Fifo::default() };
    miss_ratio(trace.iter().map(|key| !cache.ask(*key)), warm_up)
}

fn miss_ratio(misses: impl Iterator<Item = bool>, warm_up: usize) -> f64 {
    let (mut asked, mut missed) = (0_u64, 0_u64);
    for miss in misses.skip(warm_up) {
        asked += 1;
        missed += u64::from(miss);
    }
    missed as f64 / asked.max(1) as f64
}

#[derive(Default)]
struct S3Fifo {
    capacity: usize,
    /// How often each key was used since it was added or since eviction last spared it, at most 3.
    uses: HashMap<u64, u8>,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    ghosts: VecDeque<u64>,
    is_ghost: HashSet<u64>,
}

impl S3Fifo {
    /// Returns whether the cache has the key. Adds the key if not.
    fn ask(&mut self, key: u64) -> bool {
        if let Some(uses) = self.uses.get_mut(&key) {
            *uses = (*uses + 1).min(3);
            return true;
        }
        while self.uses.len() >= self.capacity {
            let small_is_full = self.small.len() >= self.capacity / 10;
            if small_is_full || self.main.is_empty() {
                self.evict_small()
            } else {
                self.evict_main()
            }
        }
        let queue = if self.is_ghost.remove(&key) { &mut self.main } else { &mut self.small };
        queue.push_back(key);
        self.uses.insert(key, 0);
        false
    }

    fn evict_small(&mut self) {
        while let Some(key) = self.small.pop_front() {
            if self.uses.get(&key).is_some_and(|uses| *uses > 1) {
                self.uses.insert(key, 0);
                self.main.push_back(key);
                continue;
            }
            self.uses.remove(&key);
            self.ghosts.push_back(key);
            self.is_ghost.insert(key);
            if self.ghosts.len() > self.capacity * 9 / 10
                && let Some(oldest) = self.ghosts.pop_front()
            {
                self.is_ghost.remove(&oldest);
            }
            return;
        }
    }

    fn evict_main(&mut self) {
        while let Some(key) = self.main.pop_front() {
            match self.uses.get_mut(&key) {
                Some(uses) if *uses > 0 => {
                    *uses -= 1;
                    self.main.push_back(key);
                }
                _ => {
                    self.uses.remove(&key);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{lru, s3_fifo};

    #[test]
    fn lru_keeps_what_was_used_last() {
        assert_eq!(lru(&[1, 2, 1, 3, 1, 2], 0, 2), 4.0 / 6.0);
        assert_eq!(lru(&[1, 2, 1, 3, 1, 2], 4, 2), 0.5);
    }

    #[test]
    fn lru_misses_all_of_a_loop_that_does_not_fit_and_s3_fifo_does_not() {
        let trace: Vec<u64> = (0..100_000).map(|request| request % 110).collect();
        assert_eq!(lru(&trace, 1000, 100), 1.0);
        assert!(s3_fifo(&trace, 10_000, 100) < 1.0);
    }

    #[test]
    fn both_only_miss_once_what_fits() {
        let trace: Vec<u64> = (0..1000).map(|request| request % 50).collect();
        assert_eq!(lru(&trace, 0, 100), 0.05);
        assert_eq!(s3_fifo(&trace, 0, 100), 0.05);
    }
}
