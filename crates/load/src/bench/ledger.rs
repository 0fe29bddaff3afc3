//! The versions of a key that a read may still return, for --verify.
//!
//! A value carries the sequence number of its write. Numbers rise in the order in which writes
//! begin. When a write is confirmed, it has overwritten all writes that had ended before it began,
//! so a read that begins after the confirmation must not return their values. Overlapping writes
//! may take effect in either order, so the value of each is allowed. A write whose answer is lost
//! or an error may take effect at any later time; its value, and those of all later writes, stay
//! allowed from then on.

use crate::clock::since_1970;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// Number of shards, each with its own lock.
const SHARDS: usize = 64;

/// Maximum number of keys that are tracked: the first ones written. Each takes about 100 bytes.
const FOLLOWED: usize = 1 << 22;

/// The state of a request in flight. `floor` is 0 if the key is not tracked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticket {
    /// The sequence number of a write; 0 for a read.
    pub(crate) sequence: u64,
    /// For a write, the lowest sequence number that is not overwritten when the write is confirmed.
    /// For a read, the lowest sequence number that is not stale.
    pub(crate) floor: u64,
}

/// The writes of a run, shared by all threads.
#[derive(Debug)]
pub(crate) struct Ledger {
    next: AtomicU64,
    shards: Vec<Mutex<HashMap<u64, Entry>>>,
    /// How long an overwritten value may still be returned, in nanoseconds.
    grace_ns: u64,
    /// Maximum number of keys in each shard.
    most: usize,
}

/// The state of a tracked key.
#[derive(Debug)]
struct Entry {
    /// The lowest sequence number that is not stale for reads that begin now.
    floor: u64,
    /// The next value of `floor`, and the time from which it applies, in nanoseconds.
    next_floor: Option<(u64, u64)>,
    /// The lowest sequence number of a write whose outcome is unknown; `u64::MAX` if there is none.
    unknown: u64,
    /// The sequence numbers of the writes in flight.
    open: Vec<u64>,
}

impl Default for Entry {
    fn default() -> Self {
        Entry { floor: 0, next_floor: None, unknown: u64::MAX, open: Vec::new() }
    }
}

impl Entry {
    /// Applies `next_floor` if it is due, and returns the floor at `now_ns`.
    fn settle(&mut self, now_ns: u64) -> u64 {
        if let Some((floor, from_ns)) = self.next_floor
            && now_ns >= from_ns
        {
            self.floor = self.floor.max(floor);
            self.next_floor = None;
        }
        self.floor
    }
}

impl Ledger {
    /// Creates a ledger whose reads may return a value for `grace_ns` after it was overwritten.
    pub(crate) fn new(grace_ns: u64) -> Self {
        // Starts above the numbers of earlier runs: the clock allows one number per 4 ns, more than
        // any load uses.
        Ledger::with_limit(since_1970().as_nanos() as u64 / 4, grace_ns, FOLLOWED / SHARDS)
    }

    fn with_limit(first: u64, grace_ns: u64, most: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Ledger { next: AtomicU64::new(first), shards, grace_ns, most }
    }

    fn shard(&self, key: u64) -> Option<&Mutex<HashMap<u64, Entry>>> {
        self.shards.get(key as usize % SHARDS)
    }

    /// Begins a write or a deletion.
    pub(crate) fn write(&self, key: u64) -> Ticket {
        let Some(shard) = self.shard(key) else { return Ticket::default() };
        let mut shard = shard.lock();
        // The number is drawn under the lock, so that the numbers of a key rise in the order of its
        // writes.
        let sequence = self.next.fetch_add(1, Ordering::Relaxed);
        if shard.len() >= self.most && !shard.contains_key(&key) {
            return Ticket { sequence, floor: 0 };
        }
        let entry = shard.entry(key).or_default();
        let oldest = entry.open.iter().copied().fold(entry.unknown, u64::min);
        entry.open.push(sequence);
        Ticket { sequence, floor: oldest.min(sequence) }
    }

    /// Records that a write was confirmed and has taken effect.
    pub(crate) fn confirm(&self, key: u64, ticket: Ticket, now_ns: u64) {
        self.end(key, ticket, |entry, grace_ns| {
            entry.settle(now_ns);
            if grace_ns == 0 {
                entry.floor = entry.floor.max(ticket.floor);
            } else if entry.next_floor.is_none() {
                entry.next_floor = Some((ticket.floor, now_ns + grace_ns));
            }
        });
    }

    /// Records that a write was refused and has not taken effect.
    pub(crate) fn refuse(&self, key: u64, ticket: Ticket) {
        self.end(key, ticket, |_, _| {});
    }

    /// Records that a write failed and its outcome is unknown.
    pub(crate) fn fail(&self, key: u64, ticket: Ticket) {
        self.end(key, ticket, |entry, _| entry.unknown = entry.unknown.min(ticket.sequence));
    }

    fn end(&self, key: u64, ticket: Ticket, change: impl FnOnce(&mut Entry, u64)) {
        let Some(shard) = self.shard(key) else { return };
        if let Some(entry) = shard.lock().get_mut(&key) {
            entry.open.retain(|sequence| *sequence != ticket.sequence);
            change(entry, self.grace_ns);
        }
    }

    /// Begins a read.
    pub(crate) fn read(&self, key: u64, now_ns: u64) -> Ticket {
        let Some(shard) = self.shard(key) else { return Ticket::default() };
        let floor = shard.lock().get_mut(&key).map_or(0, |entry| entry.settle(now_ns));
        Ticket { sequence: 0, floor }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn ledger() -> Ledger {
        Ledger::with_limit(100, 0, 1000)
    }

    #[test]
    fn a_value_that_was_overwritten_before_a_read_began_is_stale() {
        let ledger = ledger();
        let first = ledger.write(7);
        assert_eq!((first.sequence, ledger.read(7, 0).floor), (100, 0));
        ledger.confirm(7, first, 0);
        let second = ledger.write(7);
        assert_eq!(ledger.read(7, 0).floor, 100, "either may be found: the second is under way");
        ledger.confirm(7, second, 0);
        assert_eq!(ledger.read(7, 0).floor, 101, "the first is gone");
        assert_eq!(ledger.read(8, 0).floor, 0, "another key");
    }

    #[test]
    fn overlapping_writes_are_both_allowed() {
        let ledger = ledger();
        let (one, two) = (ledger.write(7), ledger.write(7));
        ledger.confirm(7, two, 0);
        ledger.confirm(7, one, 0);
        assert_eq!(ledger.read(7, 0).floor, one.sequence, "either may have come last");
    }

    #[test]
    fn a_failed_write_may_still_take_effect() {
        let ledger = ledger();
        let lost = ledger.write(7);
        ledger.fail(7, lost);
        let refused = ledger.write(7);
        ledger.refuse(7, refused);
        let well = ledger.write(7);
        ledger.confirm(7, well, 0);
        assert_eq!(ledger.read(7, 0).floor, lost.sequence);
    }

    #[test]
    fn overwritten_values_are_allowed_for_a_grace_period() {
        let ledger = Ledger::with_limit(100, 50, 1000);
        let ticket = ledger.write(7);
        ledger.confirm(7, ticket, 10);
        assert_eq!([59, 60].map(|now_ns| ledger.read(7, now_ns).floor), [0, 100]);
    }

    #[test]
    fn keys_beyond_the_limit_are_not_followed() {
        let ledger = Ledger::with_limit(100, 0, 1);
        let [first, other] = [0, SHARDS as u64].map(|key| ledger.write(key));
        ledger.confirm(0, first, 0);
        ledger.confirm(SHARDS as u64, other, 0);
        assert_eq!(ledger.read(0, 0).floor, first.sequence);
        assert_eq!(ledger.read(SHARDS as u64, 0).floor, 0);
    }

    /// Events of a simulated register. As its client sees it, a write takes effect at one moment
    /// between its start and its answer.
    #[derive(Clone, Debug)]
    enum Event {
        Begin,
        /// A write in flight takes effect; the number selects the write, modulo their count.
        TakeEffect(usize),
        /// The write selected in the same way is answered, if it has taken effect.
        Answer(usize),
        Read,
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let event = prop_oneof![
            Just(Event::Begin),
            any::<usize>().prop_map(Event::TakeEffect),
            any::<usize>().prop_map(Event::Answer),
            Just(Event::Read),
        ];
        prop::collection::vec(event, 0..200)
    }

    proptest! {
        /// No read of a correct register is reported as stale.
        #[test]
        fn a_correct_register_has_no_violations(events in events()) {
            let ledger = ledger();
            let (mut open, mut done) = (Vec::new(), HashSet::new());
            let mut held = 0;
            for event in events {
                match event {
                    Event::Begin => open.push(ledger.write(7)),
                    Event::TakeEffect(at) if !open.is_empty() => {
                        let ticket: Ticket = open[at % open.len()];
                        if done.insert(ticket.sequence) {
                            held = ticket.sequence;
                        }
                    }
                    Event::Answer(at) if !open.is_empty() => {
                        let at = at % open.len();
                        if done.contains(&open[at].sequence) {
                            ledger.confirm(7, open.swap_remove(at), 0);
                        }
                    }
                    Event::Read => prop_assert!(held >= ledger.read(7, 0).floor),
                    Event::TakeEffect(_) | Event::Answer(_) => {}
                }
            }
        }
    }
}
