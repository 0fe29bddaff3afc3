//! The progress of loading, for INFO.

use nagi_persist::rdb::Progress;
use nagi_store::since_1970;
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The file being loaded, if any.
#[derive(Debug, Default)]
pub struct Loading {
    /// The progress of reading it.
    pub progress: Progress,
    total_bytes: AtomicU64,
    began: Mutex<Option<Began>>,
}

/// The start of loading.
#[derive(Clone, Copy, Debug)]
struct Began {
    at: Instant,
    at_s: u64,
}

/// The progress of a file that is being loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// When it began, in seconds since 1970.
    pub began_at_s: u64,
    /// Its duration so far, in seconds.
    pub took_s: f64,
    /// The length of the file.
    pub total_bytes: u64,
    /// Bytes read of it.
    pub bytes: u64,
    /// Keys read.
    pub keys: u64,
    /// Memory used by the server that wrote the file, in bytes, once known.
    pub used_memory_bytes: u64,
}

impl Loading {
    /// Begins with a file of `total_bytes` bytes.
    pub fn begin(&self, total_bytes: u64) {
        self.progress.reset();
        self.total_bytes.store(total_bytes, Ordering::Relaxed);
        let now = since_1970();
        *self.lock() = Some(Began { at: Instant::now(), at_s: now.as_secs() });
    }

    /// Ends loading.
    pub fn end(&self) {
        *self.lock() = None;
    }

    /// The progress, if a file is being loaded.
    #[must_use]
    pub fn stage(&self) -> Option<Stage> {
        let began = (*self.lock())?;
        Some(Stage {
            began_at_s: began.at_s,
            took_s: began.at.elapsed().as_secs_f64(),
            total_bytes: self.total_bytes.load(Ordering::Relaxed),
            bytes: self.progress.bytes.load(Ordering::Relaxed),
            keys: self.progress.keys.load(Ordering::Relaxed),
            used_memory_bytes: self.progress.used_memory_bytes.load(Ordering::Relaxed),
        })
    }

    /// Locks the state, which no operation under the lock can leave inconsistent.
    fn lock(&self) -> MutexGuard<'_, Option<Began>> {
        self.began.lock()
    }
}

impl Stage {
    /// The part of the file that was read, in percent.
    #[must_use]
    pub fn percent(&self) -> f64 {
        self.bytes as f64 * 100.0 / self.total_bytes.max(1) as f64
    }

    /// The estimated time for the rest, in seconds.
    #[must_use]
    pub fn left_s(&self) -> u64 {
        let left = self.total_bytes.saturating_sub(self.bytes);
        match self.bytes {
            // Redis also estimates 1 s as long as no data has been read.
            0 => 1,
            bytes => (self.took_s * left as f64 / bytes as f64) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_estimated_from_the_bytes_read() {
        let mut stage = Stage {
            began_at_s: 0,
            took_s: 3.0,
            total_bytes: 400,
            bytes: 0,
            keys: 0,
            used_memory_bytes: 0,
        };
        assert_eq!((stage.percent(), stage.left_s()), (0.0, 1));
        stage.bytes = 100;
        assert_eq!((stage.percent(), stage.left_s()), (25.0, 9));
        stage.bytes = 401;
        assert_eq!(stage.left_s(), 0, "a file may grow meanwhile");
    }
}
