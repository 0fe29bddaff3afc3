//! How long threads have run and waited for a processor, by the kernel's count.

use std::fs;
use std::time::Duration;

/// How long a thread has run and waited for a processor: proc(5), `/proc/pid/task/tid/schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadTimes {
    pub(crate) ran: Duration,
    pub(crate) waited: Duration,
}

impl ThreadTimes {
    /// The times of this thread, if the kernel counts them.
    pub(crate) fn of_this_thread() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    /// The times of a thread of this process, by its kernel ID.
    pub(crate) fn of(thread: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?)
    }

    /// The difference from `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        ThreadTimes {
            ran: self.ran.saturating_sub(before.ran),
            waited: self.waited.saturating_sub(before.waited),
        }
    }

    /// The fields are nanoseconds running, nanoseconds waiting, and the number of time slices.
    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split_whitespace().map(|word| word.parse().ok());
        let mut next = || Some(Duration::from_nanos(numbers.next()??));
        Some(ThreadTimes { ran: next()?, waited: next()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_is_parsed() {
        let times = ThreadTimes::parse("1500 2500 7\n").unwrap();
        assert_eq!((times.ran.as_nanos(), times.waited.as_nanos()), (1500, 2500));
        assert!(ThreadTimes::parse("").is_none() && ThreadTimes::parse("1 x 2").is_none());
        let thread = rustix::thread::gettid().as_raw_nonzero().get();
        let (first, second) = (ThreadTimes::of_this_thread(), ThreadTimes::of(thread));
        assert!(first.is_some() && first.unwrap().ran <= second.unwrap().ran);
    }
}
