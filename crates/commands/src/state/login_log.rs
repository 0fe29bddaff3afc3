//! Logins that failed, for ACL LOG: who tries passwords is to be seen.

use nagi_store::accounting::Overhead;
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// Failures of one user within this time are one entry.
const TOGETHER_MS: u64 = 60_000;

/// The longest name of a user that is kept, in bytes.
const NAME_BYTES: usize = 128;

/// One or more logins that failed.
#[derive(Clone, Debug)]
pub(crate) struct FailedLogin {
    /// Unique and ascending.
    pub(crate) id: u64,
    /// How many they were.
    pub(crate) count: u64,
    /// The command that they were tried with, as it was written.
    pub(crate) command: String,
    /// The name that was given.
    pub(crate) user: String,
    /// The client's line of CLIENT LIST, at the last one.
    pub(crate) client: String,
    /// The time of the first, in milliseconds since 1970.
    pub(crate) first_ms: u64,
    /// The time of the last.
    pub(crate) last_ms: u64,
}

/// An entry of the log, whose memory is no data: any client that connects can fill the log.
#[derive(Debug)]
struct Logged {
    login: FailedLogin,
    _overhead: Overhead,
}

/// The latest of them.
#[derive(Debug, Default)]
pub(crate) struct Logins {
    /// The latest first.
    entries: Mutex<VecDeque<Logged>>,
    next_id: AtomicU64,
    failures: AtomicU64,
}

impl Logins {
    /// How many there were since the server has started or the statistics were reset.
    #[must_use]
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Starts counting anew.
    pub(crate) fn reset(&self) {
        self.failures.store(0, Ordering::Relaxed);
    }

    /// Notes one, and keeps `most` entries at most.
    pub(crate) fn add(
        &self,
        command: &[u8],
        user: &[u8],
        client: String,
        now_ms: u64,
        most: usize,
    ) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes.get(..NAME_BYTES).unwrap_or(bytes)).into_owned()
        };
        let (command, user) = (text(command), text(user));
        let mut entries = self.lock();
        let same = entries.iter().position(|Logged { login: entry, .. }| {
            entry.user == user
                && entry.command.eq_ignore_ascii_case(&command)
                && now_ms.saturating_sub(entry.last_ms) < TOGETHER_MS
        });
        let known = same.and_then(|place| entries.remove(place)).map(|logged| logged.login);
        let entry = known.unwrap_or_else(|| FailedLogin {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            count: 0,
            command,
            user,
            client: String::new(),
            first_ms: now_ms,
            last_ms: now_ms,
        });
        let count = entry.count + 1;
        let login = FailedLogin { count, client, last_ms: now_ms, ..entry };
        let texts = [&login.command, &login.user, &login.client];
        let texts_bytes: usize = texts.map(String::capacity).iter().sum();
        let overhead = Overhead::new(size_of::<Logged>() + texts_bytes);
        entries.push_front(Logged { login, _overhead: overhead });
        entries.truncate(most);
    }

    /// So many, the latest first.
    pub(crate) fn latest(&self, count: usize) -> Vec<FailedLogin> {
        self.lock().iter().take(count).map(|logged| logged.login.clone()).collect()
    }

    /// Forgets them.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Nothing that is done under this lock can leave the entries half-done.
    fn lock(&self) -> MutexGuard<'_, VecDeque<Logged>> {
        self.entries.lock()
    }
}
