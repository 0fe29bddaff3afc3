//! Failed logins and refused requests, for ACL LOG.

use nagi_store::accounting::Overhead;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Equal refusals within this time are combined into one entry.
const TOGETHER_MS: u64 = 60_000;

/// The longest name that is kept, in bytes.
const NAME_BYTES: usize = 128;

/// The reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A login failed.
    Login,
    /// The user may not run the command.
    Command,
    /// The user may not access the key in this way.
    Key,
    /// The user may not use the channel.
    Channel,
}

impl Reason {
    /// Its name in ACL LOG.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Reason::Login => "auth",
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
        }
    }
}

/// A refused login or request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused<'a> {
    pub(crate) reason: Reason,
    /// The origin of the request: `toplevel`, `multi` if EXEC ran it, or `lua`.
    pub(crate) context: &'static str,
    /// The command, key or channel; for a login, the command that attempted it.
    pub(crate) object: &'a [u8],
    /// The name of the user.
    pub(crate) user: &'a [u8],
}

/// One or more equal refusals.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    /// Unique and ascending.
    pub(crate) id: u64,
    /// The number of refusals.
    pub(crate) count: u64,
    pub(crate) reason: Reason,
    pub(crate) context: &'static str,
    pub(crate) object: Vec<u8>,
    pub(crate) user: Vec<u8>,
    /// The client's line of CLIENT LIST, at the last one.
    pub(crate) client: String,
    /// The time of the first refusal, in milliseconds since 1970.
    pub(crate) first_ms: u64,
    /// The time of the last refusal.
    pub(crate) last_ms: u64,
}

/// An entry of the log, whose memory is not data: any client can fill the log.
#[derive(Debug)]
struct Logged {
    refusal: Refusal,
    _overhead: Overhead,
}

/// The latest refusals, and their counts.
#[derive(Debug, Default)]
pub(crate) struct AccessLog {
    /// The latest refusal first.
    entries: Mutex<VecDeque<Logged>>,
    next_id: AtomicU64,
    counts: [AtomicU64; 4],
}

impl AccessLog {
    /// The number of refusals for a reason since the start or the last reset of the statistics.
    #[must_use]
    pub(crate) fn count(&self, reason: Reason) -> u64 {
        self.counts.get(reason as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Resets the counts.
    pub(crate) fn reset(&self) {
        self.counts.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }

    /// Adds a refusal, with its client's line of CLIENT LIST, and keeps at most `most` entries.
    pub(crate) fn add(&self, refused: Refused<'_>, client: String, now_ms: u64, most: usize) {
        let Refused { reason, context, object, user } = refused;
        let count = self.counts.get(reason as usize);
        count.map(|count| count.fetch_add(1, Ordering::Relaxed));
        let kept = |bytes: &[u8]| bytes.get(..NAME_BYTES).unwrap_or(bytes).to_vec();
        let (object, user) = (kept(object), kept(user));
        let mut entries = self.entries.lock();
        let same = entries.iter().position(|Logged { refusal: known, .. }| {
            (known.reason, known.context) == (reason, context)
                && known.user == user
                && known.object == object
                && now_ms.saturating_sub(known.last_ms) < TOGETHER_MS
        });
        let known = same.and_then(|place| entries.remove(place)).map(|logged| logged.refusal);
        let entry = known.unwrap_or_else(|| Refusal {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            count: 0,
            reason,
            context,
            object,
            user,
            client: String::new(),
            first_ms: now_ms,
            last_ms: now_ms,
        });
        let count = entry.count + 1;
        let refusal = Refusal { count, client, last_ms: now_ms, ..entry };
        let names_bytes = refusal.object.capacity() + refusal.user.capacity();
        let texts_bytes = names_bytes + refusal.client.capacity();
        let overhead = Overhead::new(size_of::<Logged>() + texts_bytes);
        entries.push_front(Logged { refusal, _overhead: overhead });
        entries.truncate(most);
    }

    /// The latest `count` entries, the latest first.
    pub(crate) fn latest(&self, count: usize) -> Vec<Refusal> {
        self.entries.lock().iter().take(count).map(|logged| logged.refusal.clone()).collect()
    }

    /// Removes all entries.
    pub(crate) fn clear(&self) {
        self.entries.lock().clear();
    }
}
