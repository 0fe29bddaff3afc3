//! The activity of workers, the script thread and hot keys in the last sample, for INFO.

use parking_lot::Mutex;
use std::sync::Arc;

/// The latest fields. The sampler sets them once a second, any thread reads.
#[derive(Debug, Default)]
pub(crate) struct Activity(Mutex<Arc<Fields>>);

/// Names and values as INFO shows them.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) threads: Vec<(String, String)>,
    /// Fields with names of keys.
    pub(crate) hot_keys: Vec<(String, String)>,
}

impl Activity {
    pub(crate) fn set(&self, fields: Fields) {
        *self.0.lock() = Arc::new(fields);
    }

    /// Passes the fields to `look`, under the lock: the sampler must be the thread that frees them,
    /// since it has allocated them as overhead.
    pub(crate) fn show(&self, look: impl FnOnce(&Fields)) {
        look(&self.0.lock());
    }
}
