//! When paced requests are due.
//!
//! Request n of the whole run is due n gaps after the start, and belongs to connection n modulo
//! their number, whatever the server does: a stall makes requests late, never fewer. No clock is
//! read here.

/// The timetable of a run, the same for all threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timetable {
    pub(crate) start_ns: u64,
    pub(crate) gap_ns: f64,
    /// Connections of all threads.
    pub(crate) connections: u64,
    /// Requests of the whole run.
    pub(crate) requests: u64,
}

impl Timetable {
    /// When request `number` of the run is due.
    fn due_ns(&self, number: u64) -> u64 {
        self.start_ns + (number as f64 * self.gap_ns) as u64
    }

    /// When connection `connection` is to send its request `ordinal`.
    pub(crate) fn intended_ns(&self, connection: u64, ordinal: u64) -> u64 {
        self.due_ns(ordinal * self.connections + connection)
    }
}

/// Which of the run's connections a thread has: `first`, and every `stride`-th one after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) first: u64,
    pub(crate) stride: u64,
    /// How many they are.
    pub(crate) len: u64,
}

impl Share {
    /// The run's number of the thread's connection `index`.
    pub(crate) fn number(&self, index: u64) -> u64 {
        self.first + index * self.stride
    }
}

/// Walks the timetable for one thread's connections.
#[derive(Clone, Debug)]
pub(crate) struct Pacer {
    timetable: Timetable,
    share: Share,
    /// Rounds over all connections that are behind us.
    round: u64,
    /// Which of the thread's connections is next.
    next: u64,
}

impl Pacer {
    /// The share has at least one connection.
    pub(crate) fn new(timetable: Timetable, share: Share) -> Self {
        Pacer { timetable, share, round: 0, next: 0 }
    }

    /// When the next request is due; `None` after the last one.
    pub(crate) fn next_due_ns(&self) -> Option<u64> {
        let number = self.round * self.timetable.connections + self.share.number(self.next);
        (number < self.timetable.requests).then(|| self.timetable.due_ns(number))
    }

    /// Takes the next request if it is due: which of the thread's connections sends it, and when
    /// it was due.
    pub(crate) fn take_due(&mut self, now_ns: u64) -> Option<(usize, u64)> {
        let due_ns = self.next_due_ns().filter(|&due_ns| due_ns <= now_ns)?;
        let connection = self.next as usize;
        self.next += 1;
        if self.next == self.share.len {
            self.next = 0;
            self.round += 1;
        }
        Some((connection, due_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMETABLE: Timetable =
        Timetable { start_ns: 1_000_000, gap_ns: 250.0, connections: 5, requests: 12 };

    /// What a thread with `len` connections from `first` on, every other one, is handed when its
    /// clock shows `times`.
    fn walk(first: u64, len: u64, times: &[u64]) -> Vec<Vec<(usize, u64)>> {
        let mut pacer = Pacer::new(TIMETABLE, Share { first, stride: 2, len });
        times
            .iter()
            .map(|after_ns| {
                std::iter::from_fn(|| pacer.take_due(TIMETABLE.start_ns + after_ns))
                    .map(|(connection, due_ns)| (connection, due_ns - TIMETABLE.start_ns))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn each_request_is_handed_out_when_it_is_due() {
        assert_eq!(
            walk(0, 3, &[0, 249, 250, 1249, 1250]),
            [vec![(0, 0)], vec![], vec![], vec![(1, 500), (2, 1000)], vec![(0, 1250)]]
        );
    }

    #[test]
    fn a_late_clock_finds_every_request_that_came_due() {
        assert_eq!(walk(1, 2, &[10_000]), [[(0, 250), (1, 750), (0, 1500), (1, 2000), (0, 2750)]]);
    }

    #[test]
    fn the_run_ends_after_its_last_request() {
        assert_eq!(walk(0, 3, &[1_000_000])[0].len() + walk(1, 2, &[1_000_000])[0].len(), 12);
    }

    #[test]
    fn the_intended_time_is_the_due_time() {
        let share = Share { first: 1, stride: 2, len: 2 };
        let mut pacer = Pacer::new(TIMETABLE, share);
        let mut ordinals = [0; 2];
        while let Some((connection, due_ns)) = pacer.take_due(u64::MAX) {
            let ordinal = &mut ordinals[connection];
            assert_eq!(TIMETABLE.intended_ns(share.number(connection as u64), *ordinal), due_ns);
            *ordinal += 1;
        }
    }
}
