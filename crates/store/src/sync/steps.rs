//! The steps of changes and of snapshots, at which a test may stop a thread. In other builds they
//! do nothing.

#[cfg(test)]
use std::cell::RefCell;

/// An action that a thread is about to perform, or has just performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is about to take a latch.
    Locking,
    /// Another thread has the latch, and this one is about to wait.
    Blocked,
    /// It has the latch.
    Locked,
    /// It is about to release the latch.
    Unlocking,
    /// It has read the store's word.
    WordRead,
    /// It is about to make the cut.
    Cutting,
    /// It has made the cut.
    Cut,
    /// It is about to end the save.
    Ending,
    /// It has reached the barrier with an entry.
    AtBarrier,
    /// An image of the entry waits for the saver.
    HandedOver,
    /// The entry has the new epoch, and may be changed.
    Passed,
    /// The walk has saved an image of an entry, which has the new epoch.
    Walked,
    /// Images have been sent to the saver.
    Sent,
    /// It has nothing to do until another thread makes progress.
    #[cfg(test)]
    Idle,
}

#[cfg(test)]
type Observer = Box<dyn Fn(Step)>;

#[cfg(test)]
thread_local! {
    static OBSERVER: RefCell<Option<Observer>> = const { RefCell::new(None) };
}

/// Makes this thread call `observer` at each of its steps from now on.
#[cfg(test)]
pub(crate) fn observe(observer: impl Fn(Step) + 'static) {
    OBSERVER.set(Some(Box::new(observer)));
}

/// Calls the thread's observer, if it has one.
#[inline]
pub(crate) fn reach(step: Step) {
    #[cfg(not(test))]
    let _ = step;
    #[cfg(test)]
    report(step);
}

#[cfg(test)]
fn report(step: Step) {
    // Steps during the destruction of thread-locals are not reported.
    let _ = OBSERVER.try_with(|observer| {
        if let Ok(observer) = observer.try_borrow()
            && let Some(observer) = &*observer
        {
            observer(step);
        }
    });
}
