//! A limit on requests of unlimited duration: blocking commands, messages, WebSockets. It leaves
//! connections for other requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of requests in progress that may block.
#[derive(Clone, Debug)]
pub(super) struct Lasting {
    under_way: Arc<AtomicUsize>,
    most: usize,
}

/// One such request, counted until it is dropped.
#[derive(Debug)]
pub(super) struct LastingRequest(Lasting);

impl Lasting {
    /// A counter at zero with this maximum.
    pub(super) fn most(most: usize) -> Self {
        Lasting { under_way: Arc::default(), most }
    }

    /// Counts another request, unless there are too many.
    pub(super) fn begin(&self) -> Option<LastingRequest> {
        let request = LastingRequest(self.clone());
        (self.under_way.fetch_add(1, Ordering::Relaxed) < self.most).then_some(request)
    }
}

impl Drop for LastingRequest {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_requests_last_at_a_time() {
        let lasting = Lasting::most(2);
        let begun = [lasting.begin().unwrap(), lasting.begin().unwrap()];
        for _ in 0..3 {
            assert!(lasting.begin().is_none());
        }
        drop(begun);
        assert!(lasting.begin().is_some());
    }
}
