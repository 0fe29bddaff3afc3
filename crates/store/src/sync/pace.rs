//! Lets background threads yield processors to workers.
//!
//! A running thread keeps a processor for milliseconds, and a worker that becomes runnable there
//! waits meanwhile. A lower priority changes little. The lowest one (SCHED_IDLE) does, but such a
//! thread may be preempted for long while it holds a lock that workers need. So these threads work
//! in slices, and between slices, when they hold no lock, they yield to any other thread.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The shortest and the longest slice. A worker may wait this long.
const SHORTEST_SLICE: Duration = Duration::from_micros(100);
const LONGEST_SLICE: Duration = Duration::from_micros(400);
/// A thread that waited for longer than this many slices gets a longer one: if workers are always
/// busy, memory waiting to be freed must not grow without bound.
const PATIENCE: u32 = 8;

thread_local! {
    /// The current slice of this thread; `None` if it does not work in slices.
    static SLICE: Cell<Option<Slice>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    began: Instant,
    length: Duration,
}

impl Slice {
    /// Begins a slice after the thread has waited this long.
    fn after(waited: Duration) -> Self {
        let length = (waited / PATIENCE).clamp(SHORTEST_SLICE, LONGEST_SLICE);
        Slice { began: Instant::now(), length }
    }
}

/// Makes this thread work in slices from now on.
pub(crate) fn begin() {
    SLICE.set(Some(Slice::after(Duration::ZERO)));
}

/// Yields to other threads if this one works in slices and its slice has ended. Returns whether it
/// did. Call it often, with no lock held.
pub fn pause() -> bool {
    let is_over = SLICE.get().is_some_and(|slice| slice.began.elapsed() >= slice.length);
    if is_over {
        let before = Instant::now();
        std::thread::yield_now();
        SLICE.set(Some(Slice::after(before.elapsed())));
    }
    is_over
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_threads_that_have_begun_work_in_slices() {
        let pauses = || {
            let began = Instant::now();
            let mut pauses = 0;
            while began.elapsed() < 20 * LONGEST_SLICE {
                pauses += u32::from(pause());
            }
            pauses
        };
        assert_eq!(pauses(), 0);
        let paused = std::thread::spawn(move || {
            begin();
            pauses()
        });
        assert!(paused.join().unwrap() > 0);
    }

    #[test]
    fn slice_follows_the_wait_within_bounds() {
        let length_after = |us| Slice::after(Duration::from_micros(us)).length.as_micros();
        assert_eq!([0, 100, 800].map(length_after), [100; 3]);
        assert_eq!([1600, 3200, 1_000_000].map(length_after), [200, 400, 400]);
    }
}
