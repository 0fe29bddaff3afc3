//! The steps of changes and of snapshots, at each of which a test may stop a thread. In other
//! builds they do nothing.

#[cfg(test)]
use std::cell::RefCell;

/// What a thread is about to do, or has just done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is about to take a latch.
    Locking,
    /// The latch is another's, and it will wait for that one.
    Blocked,
    /// It has the latch.
    Locked,
    /// It is about to let go of the latch.
    Unlocking,
    /// It has read the store's word.
    WordRead,
    /// It is about to make the cut.
    Cutting,
    /// It has made the cut.
    Cut,
    /// It is about to end the save.
    Ending,
    /// It has come to the barrier with an entry.
    AtBarrier,
    /// An image of the entry waits for the saver.
    HandedOver,
    /// The entry is stamped, and may be changed.
    Passed,
    /// The walk has left an image of an entry, which is stamped.
    Walked,
    /// Images have been sent to the saver.
    Sent,
    /// There is nothing to do before another thread has done something.
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
    // What a thread does while it ends is not a step.
    let _ = OBSERVER.try_with(|observer| {
        if let Ok(observer) = observer.try_borrow()
            && let Some(observer) = &*observer
        {
            observer(step);
        }
    });
}
