//! Keyspace notifications: events of keys as messages to subscribers.
//!
//! The store reports events with latches held, in the order of the changes of a key. They are
//! queued here in that order, and published when no latch is held: by the worker that caused them,
//! before the reply is sent, or by another worker that publishes earlier. Each becomes one entry in
//! the inboxes of workers with subscribers ([`PubSub`]), so that the time for which a latch is held
//! does not depend on their number.

use crate::state::held_publications::{self, HeldPublication, QueuedEvent};
use crate::state::pubsub::{Kind, PubSub};
use nagi_store::{Event, MissInterest, StoreChange};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The duration of one call of `publish`; the rest is left to the next tick of the event loop.
const SLICE: Duration = Duration::from_micros(300);
/// The number of events published between two readings of the clock.
const STRIDE: usize = 16;

bitflags::bitflags! {
    /// Classes of events, and the channels that they are published on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct EventClasses: u32 {
        /// Commands for any type.
        const GENERIC = 1 << 0;
        /// Commands on strings.
        const STRING = 1 << 1;
        /// Commands on lists.
        const LIST = 1 << 2;
        /// Commands on sets.
        const SET = 1 << 3;
        /// Commands on hashes.
        const HASH = 1 << 4;
        /// Commands on sorted sets.
        const SORTED_SET = 1 << 5;
        /// Keys that have expired.
        const EXPIRED = 1 << 6;
        /// Keys that are evicted.
        const EVICTED = 1 << 7;
        /// Commands on streams.
        const STREAM = 1 << 8;
        /// Events of modules.
        const MODULE = 1 << 9;
        /// New keys.
        const NEW = 1 << 10;
        /// Channels by keys.
        const KEYSPACE = 1 << 11;
        /// Channels by events.
        const KEYEVENT = 1 << 12;
        /// Lookups of missing keys.
        const KEY_MISS = 1 << 13;
    }
}

/// The classes by their letters, in the order in which they are shown.
const LETTERS: [(char, EventClasses); 14] = [
    ('g', EventClasses::GENERIC),
    ('$', EventClasses::STRING),
    ('l', EventClasses::LIST),
    ('s', EventClasses::SET),
    ('h', EventClasses::HASH),
    ('z', EventClasses::SORTED_SET),
    ('x', EventClasses::EXPIRED),
    ('e', EventClasses::EVICTED),
    ('t', EventClasses::STREAM),
    ('d', EventClasses::MODULE),
    ('n', EventClasses::NEW),
    ('K', EventClasses::KEYSPACE),
    ('E', EventClasses::KEYEVENT),
    ('m', EventClasses::KEY_MISS),
];

impl EventClasses {
    const CHANNELS: Self = Self::KEYSPACE.union(Self::KEYEVENT);
    /// The classes of `A`.
    const ALL: Self =
        Self::all().difference(Self::CHANNELS).difference(Self::NEW).difference(Self::KEY_MISS);

    /// The classes for the letters of `notify-keyspace-events`; `None` if a letter is invalid.
    pub(crate) fn of_letters(letters: &str) -> Option<Self> {
        let of = |letter: char| {
            let of_row = LETTERS.iter().find(|row| row.0 == letter).map(|row| row.1);
            of_row.or((letter == 'A').then_some(Self::ALL))
        };
        letters.chars().map(of).try_fold(Self::empty(), |classes, one| Some(classes | one?))
    }

    /// Their letters, as CONFIG GET shows them.
    pub(crate) fn letters(self) -> String {
        // Redis omits the n after A.
        let (first, hidden) = match self.contains(Self::ALL) {
            true => (Some('A'), Self::ALL | Self::NEW),
            false => (None, Self::empty()),
        };
        let shown = LETTERS.iter().filter(|row| (self - hidden).contains(row.1));
        first.into_iter().chain(shown.map(|row| row.0)).collect()
    }

    fn of(event: Event) -> Self {
        use Event::*;
        match event {
            Append | IncrBy | IncrByFloat | PfAdd | Set | SetBit | SetRange => Self::STRING,
            CopyTo | Del | Expire | MoveFrom | MoveTo | Persist | RenameFrom | RenameTo
            | Restore => Self::GENERIC,
            LInsert | LPop | LPush | LRem | LSet | LTrim | RPop | RPush | SortStore => Self::LIST,
            SAdd | SDiffStore | SInterStore | SPop | SRem | SUnionStore => Self::SET,
            HDel | HExpire | HExpired | HIncrBy | HIncrByFloat | HPersist | HSet => Self::HASH,
            GeoRadiusStore | GeoSearchStore | ZAdd | ZDiffStore | ZIncr | ZInterStore | ZPopMax
            | ZPopMin | ZRangeStore | ZRem | ZRemRangeByLex | ZRemRangeByRank
            | ZRemRangeByScore | ZUnionStore => Self::SORTED_SET,
            XAdd | XDel | XGroupCreate | XGroupCreateConsumer | XGroupDelConsumer
            | XGroupDestroy | XGroupSetId | XSetId | XTrim => Self::STREAM,
            Expired => Self::EXPIRED,
            Evicted => Self::EVICTED,
            New => Self::NEW,
            KeyMiss => Self::KEY_MISS,
        }
    }
}

/// The queue of notifications.
#[derive(Debug, Default)]
pub struct Notifications {
    /// The classes in the setting; none while there are no subscribers.
    classes: AtomicU32,
    /// Events in their order. Locked with latches held, and then only to add to it.
    queued: Mutex<VecDeque<QueuedEvent>>,
    /// Events taken from `queued`. Held while events are published, so that they stay in order.
    taken: Mutex<VecDeque<QueuedEvent>>,
    /// Whether there is an event in `queued` or `taken`; written with `queued` locked.
    is_pending: AtomicBool,
    /// Whether the last call of `publish` left events, so that requests that cause more must wait.
    is_behind: AtomicBool,
}

impl Notifications {
    /// Enables events of these classes if there are subscribers. Returns whether there are, and
    /// which lookups of missing keys are events.
    pub(crate) fn listen(&self, classes: EventClasses, pubsub: &PubSub) -> (bool, MissInterest) {
        let is_wanted = classes.intersects(EventClasses::CHANNELS)
            && !(classes - EventClasses::CHANNELS).is_empty()
            && pubsub.count(Kind::Channel) + pubsub.count(Kind::Pattern) > 0;
        let classes = if is_wanted { classes } else { EventClasses::empty() };
        self.classes.store(classes.bits(), Ordering::Relaxed);
        let interest = if classes.contains(EventClasses::KEY_MISS) {
            MissInterest::Miss
        } else if classes.contains(EventClasses::EXPIRED) {
            MissInterest::Expiry
        } else {
            MissInterest::Nothing
        };
        (is_wanted, interest)
    }

    fn classes(&self) -> EventClasses {
        EventClasses::from_bits_retain(self.classes.load(Ordering::Relaxed))
    }

    /// Whether lookups of missing keys are events.
    pub(crate) fn has_misses(&self) -> bool {
        self.classes().contains(EventClasses::KEY_MISS)
    }

    /// Queues the events of a change; latches are held.
    pub(crate) fn note(&self, change: &StoreChange) {
        let classes = self.classes();
        if classes.is_empty() {
            return;
        }
        let wanted = change.keys.iter().flat_map(|key| {
            let events = key.events.iter().map(move |event| (key, *event));
            events.filter(|(_, event)| classes.contains(EventClasses::of(*event)))
        });
        let wanted = wanted.map(|(key, event)| QueuedEvent {
            database: key.database,
            key: key.key.clone(),
            event,
        });
        if held_publications::is_holding() {
            return wanted.for_each(|event| self.hold(event));
        }
        let mut wanted = wanted.peekable();
        if wanted.peek().is_some() {
            let mut queued = self.queued.lock();
            queued.extend(wanted);
            self.is_pending.store(true, Ordering::Release);
        }
    }

    fn hold(&self, event: QueuedEvent) {
        let bytes = event.key.len();
        if let Some(HeldPublication::Event(event)) =
            held_publications::hold(HeldPublication::Event(event), bytes)
        {
            self.queue(event);
        }
    }

    /// Queues a held event.
    pub(crate) fn queue(&self, event: QueuedEvent) {
        let mut queued = self.queued.lock();
        queued.push_back(event);
        self.is_pending.store(true, Ordering::Release);
    }

    /// Whether there are events to publish.
    #[must_use]
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
    }

    /// Whether events are caused faster than they are published.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::Relaxed)
    }

    /// Publishes queued events, for less than half a millisecond, and passes to `wake` the numbers
    /// of workers with messages to send. No latch may be held.
    pub fn publish(&self, pubsub: &PubSub, mut wake: impl FnMut(usize)) {
        let classes = self.classes();
        let mut taken = self.taken.lock();
        let started = Instant::now();
        loop {
            if taken.is_empty() {
                let mut queued = self.queued.lock();
                if queued.is_empty() {
                    self.is_pending.store(false, Ordering::Release);
                    self.is_behind.store(false, Ordering::Relaxed);
                    return;
                }
                std::mem::swap(&mut *queued, &mut *taken);
            }
            let count = STRIDE.min(taken.len());
            for queued in taken.drain(..count) {
                publish_one(&queued, classes, pubsub, &mut wake);
            }
            if started.elapsed() >= SLICE && !taken.is_empty() {
                self.is_behind.store(true, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// Publishes an event on its two channels, if they are enabled.
fn publish_one(
    queued: &QueuedEvent,
    classes: EventClasses,
    pubsub: &PubSub,
    wake: &mut impl FnMut(usize),
) {
    let (key, event) = (&queued.key[..], queued.event.name());
    let mut channel = Vec::with_capacity(32 + key.len());
    let mut publish = |channel: &[u8], message: &[u8]| {
        let published = pubsub.publish(Kind::Channel, channel, || message);
        published.workers.into_iter().for_each(&mut *wake);
    };
    if classes.contains(EventClasses::KEYSPACE) {
        channel.extend(format!("__keyspace@{}__:", queued.database).as_bytes());
        channel.extend(key);
        publish(&channel, event.as_bytes());
    }
    if classes.contains(EventClasses::KEYEVENT) {
        publish(format!("__keyevent@{}__:{event}", queued.database).as_bytes(), key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_shown_in_order() {
        for (given, shown) in [
            ("", ""),
            ("EKAn", "AKE"),
            ("g$lzxeKm", "g$lzxeKm"),
            ("tdnx", "xtdn"),
            ("g$lshzxetdn", "A"),
            ("KEg", "gKE"),
            ("mnK", "nKm"),
            ("KK", "K"),
        ] {
            let classes = EventClasses::of_letters(given);
            assert_eq!(classes.map(EventClasses::letters).as_deref(), Some(shown), "{given}");
        }
        assert!(EventClasses::of_letters("An").is_some_and(|it| it.contains(EventClasses::NEW)));
        for given in ["Q", "K E", "é"] {
            assert_eq!(EventClasses::of_letters(given), None, "{given}");
        }
    }
}
