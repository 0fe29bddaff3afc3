//! The number of subscribers to a name on each worker, which is all that a publisher needs.

use nagi_store::accounting::Charge;

/// Subscribers of one channel or pattern, by worker; without workers that have none.
#[derive(Debug, Default)]
pub(super) struct Counts {
    of_workers: Vec<(usize, usize)>,
    /// Accounts for the memory of the name and its value.
    pub(super) charge: Charge,
}

impl Counts {
    pub(super) fn add(&mut self, worker: usize, count: usize) {
        match self.of_workers.iter_mut().find(|(of, _)| *of == worker) {
            Some((_, subscribers)) => *subscribers += count,
            None => self.of_workers.push((worker, count)),
        }
    }

    /// Removes one subscriber on a worker.
    pub(super) fn remove(&mut self, worker: usize) {
        if let Some((_, subscribers)) = self.of_workers.iter_mut().find(|(of, _)| *of == worker) {
            *subscribers -= 1;
        }
        self.of_workers.retain(|(_, subscribers)| *subscribers > 0);
    }

    /// Adds all counts of `other`.
    pub(super) fn merge(&mut self, other: &Counts) {
        other.iter().for_each(|(worker, count)| self.add(worker, count));
    }

    /// The workers, each with its number of subscribers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, usize)> {
        self.of_workers.iter().copied()
    }

    /// The number of subscribers on all workers.
    pub(super) fn total(&self) -> usize {
        self.iter().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_listed_while_it_has_subscribers() {
        let mut counts = Counts::default();
        for worker in [3, 0, 3] {
            counts.add(worker, 1);
        }
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(3, 2), (0, 1)]);
        let mut all = Counts::default();
        all.add(1, 4);
        all.merge(&counts);
        assert_eq!((all.total(), counts.total()), (7, 3));
        counts.remove(0);
        counts.remove(3);
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(3, 1)]);
        counts.remove(3);
        assert_eq!(counts.total(), 0);
    }
}
