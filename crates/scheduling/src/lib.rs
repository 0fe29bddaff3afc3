//! How the kernel schedules the calling thread: its policy, and its time slice.

use std::io;

/// The shortest time slice that the kernel accepts, in nanoseconds.
const SHORTEST_SLICE_NS: u64 = 100_000;

/// The kernel's number for the calling thread.
const OWN_THREAD: libc::pid_t = 0;

/// Scheduling policies of the kernel.
#[derive(Clone, Copy, Debug)]
#[repr(i32)]
pub enum Policy {
    /// By niceness (SCHED_NORMAL, in C SCHED_OTHER).
    Normal = libc::SCHED_OTHER,
    /// Only processors that no other thread wants (SCHED_IDLE).
    Idle = libc::SCHED_IDLE,
}

/// Sets the policy of the calling thread; its niceness stays.
///
/// # Errors
/// The process may not raise the priority of its threads.
pub fn set_policy(policy: Policy) -> io::Result<()> {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the parameter and does not retain its address.
    let result =
        unsafe { libc::sched_setscheduler(OWN_THREAD, policy as i32, &raw const parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives the calling thread the shortest time slice. It then runs for a shorter time while other
/// threads wait for its processor, but does not wait itself until the slice of another thread ends:
/// when it wakes, it preempts threads with longer slices. Its share of the processor, its policy
/// and its niceness stay as they are.
///
/// Linux has slices by thread since 6.12; older versions ignore the request. See sched_setattr(2).
///
/// # Errors
/// The system call is forbidden, or the thread has a policy without time slices.
pub fn shorten_slice() -> io::Result<()> {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: libc::SCHED_FLAG_KEEP_POLICY as u64,
        sched_nice: rustix::process::getpriority_process(None)?,
        sched_priority: 0,
        sched_runtime: SHORTEST_SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of the attributes and does not retain their address.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_setattr, OWN_THREAD, &raw const attributes, NO_FLAGS)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

const NO_FLAGS: libc::c_uint = 0;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::MaybeUninit;
    use std::{fs, thread};

    fn attributes() -> libc::sched_attr {
        let size = size_of::<libc::sched_attr>() as libc::c_uint;
        let mut attributes = MaybeUninit::<libc::sched_attr>::zeroed();
        let into = attributes.as_mut_ptr();
        // SAFETY: the kernel writes at most `size` bytes.
        let result =
            unsafe { libc::syscall(libc::SYS_sched_getattr, OWN_THREAD, into, size, NO_FLAGS) };
        assert_eq!(result, 0, "{}", io::Error::last_os_error());
        // SAFETY: all fields are integers, which were zero or have been written by the kernel.
        unsafe { attributes.assume_init() }
    }

    /// Whether the kernel has slices by thread.
    fn has_slices() -> bool {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        (numbers.next(), numbers.next()) >= (Some(6), Some(12))
    }

    #[test]
    fn slice_is_shortened_and_the_rest_stays() {
        thread::spawn(|| {
            let niceness = rustix::process::getpriority_process(None).unwrap();
            let nicer = (niceness + 3).min(19);
            rustix::process::setpriority_process(None, nicer).unwrap();
            shorten_slice().unwrap();
            let set = attributes();
            assert_eq!(set.sched_nice, nicer);
            assert_eq!(set.sched_policy as i32, libc::SCHED_OTHER);
            assert_eq!(set.sched_runtime == SHORTEST_SLICE_NS, has_slices());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn policy_is_lowered_and_the_niceness_stays() {
        thread::spawn(|| {
            let niceness = rustix::process::getpriority_process(None).unwrap();
            set_policy(Policy::Idle).unwrap();
            let set = attributes();
            assert_eq!(set.sched_policy as i32, libc::SCHED_IDLE);
            assert_eq!(set.sched_nice, niceness);
        })
        .join()
        .unwrap();
    }
}
