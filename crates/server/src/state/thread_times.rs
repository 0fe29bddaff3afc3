//! How long threads have had a processor, and have waited for one, as the kernel counts it.

use std::fs;
use std::time::Duration;

/// How long a thread has had a processor, and has waited for one: proc(5),
/// `/proc/pid/task/tid/schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ThreadTimes {
    pub(crate) ran: Duration,
    pub(crate) waited: Duration,
}

impl ThreadTimes {
    /// Those of this thread, where the kernel counts.
    pub(crate) fn of_this_thread() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    /// Those of a thread of this process, by the kernel's number.
    pub(crate) fn of(thread: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?)
    }

    /// What has been added since.
    pub(crate) fn since(self, before: Self) -> Self {
        ThreadTimes {
            ran: self.ran.saturating_sub(before.ran),
            waited: self.waited.saturating_sub(before.waited),
        }
    }

    /// Nanoseconds on a processor, nanoseconds of waiting for one, and how often it got one.
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
