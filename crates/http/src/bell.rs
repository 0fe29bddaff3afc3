//! Wakes the task of a page that is not complete yet, without a blocked thread.

use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// Rung by any thread when more data is available for pages.
#[derive(Debug, Default)]
pub struct Bell(Notify);

impl Bell {
    /// Wakes all waiting tasks.
    pub fn ring(&self) {
        self.0.notify_waiters();
    }

    /// Waits until `is_over`, which is checked at each ring, for `longest` at most.
    pub(crate) async fn wait(&self, longest: Duration, mut is_over: impl FnMut() -> bool) {
        let end = Instant::now() + longest;
        loop {
            // Created before the check, so that a ring during it is not missed.
            let rung = self.0.notified();
            if is_over() || timeout_at(end, rung).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use tokio::runtime::Builder;

    #[test]
    fn a_wait_ends_with_the_event_or_with_its_timeout() {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let (bell, looks, longest) = (Bell::default(), Cell::new(0), Duration::from_secs(3));
            let started = Instant::now();
            let ring = async {
                for _ in 0..5 {
                    bell.ring();
                    tokio::task::yield_now().await;
                }
            };
            let is_over = || {
                looks.set(looks.get() + 1);
                looks.get() == 3
            };
            tokio::join!(bell.wait(longest, is_over), ring);
            assert_eq!((looks.get(), started.elapsed()), (3, Duration::ZERO));
            bell.wait(longest, || false).await;
            assert_eq!(started.elapsed().as_secs(), 3);
        });
    }
}
