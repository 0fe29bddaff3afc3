//! Time as nanoseconds, and a timer that an event loop can wait for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Returns the time of the monotonic clock in nanoseconds.
#[must_use]
pub fn now_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Returns the time since 1970 according to the system clock; 0 if the clock is set to a time
/// before 1970.
#[must_use]
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the milliseconds since 1970.
#[must_use]
pub fn unix_ms() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}

/// Converts a time of the monotonic clock to seconds since 1970.
pub(crate) fn unix_seconds(at_ns: u64) -> f64 {
    since_1970().as_secs_f64() + (at_ns as f64 - now_ns() as f64) / SECOND as f64
}

/// Returns the processor time, user and system, that this thread has used, in nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// A `timerfd` that becomes readable at a time of the monotonic clock, to the nanosecond. The
/// timeout of `epoll_wait` would round to milliseconds, and would set a kernel timer at every wait.
#[derive(Debug)]
pub(crate) struct Timer {
    fd: OwnedFd,
    armed_ns: u64,
}

impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        Ok(Timer { fd, armed_ns: 0 })
    }

    /// Sets the time of the next wake-up.
    pub(crate) fn arm(&mut self, at_ns: u64) -> io::Result<()> {
        if at_ns == self.armed_ns {
            return Ok(());
        }
        self.armed_ns = at_ns;
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: (at_ns / SECOND) as i64,
                tv_nsec: (at_ns % SECOND) as i64,
            },
        };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &once)?;
        Ok(())
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
