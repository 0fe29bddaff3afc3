//! The process' resource usage, as the kernel counts it.

use std::time::Duration;

/// The resource usage of the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// CPU time in user mode.
    pub(crate) user: Duration,
    /// CPU time in kernel mode.
    pub(crate) system: Duration,
    /// Memory that is not swapped out.
    pub(crate) resident_bytes: u64,
}

impl Usage {
    /// Reads it from the kernel: proc(5), `/proc/pid/stat`.
    pub(crate) fn read() -> Option<Usage> {
        Usage::parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
    }

    /// Reads it for the process's first thread only.
    pub(crate) fn read_main_thread() -> Option<Usage> {
        let path = format!("/proc/self/task/{}/stat", std::process::id());
        Usage::parse(&std::fs::read_to_string(path).ok()?)
    }

    fn parse(stat: &str) -> Option<Usage> {
        // The second field is a file name in parentheses, which may contain anything; the fields
        // after it are counted from the third on.
        let (_, rest) = stat.rsplit_once(") ")?;
        let field = |number: usize| rest.split(' ').nth(number - 3)?.parse::<u64>().ok();
        let duration = |number| Some(duration_of_ticks(field(number)?));
        let resident_bytes = field(24)? * rustix::param::page_size() as u64;
        Some(Usage { user: duration(14)?, system: duration(15)?, resident_bytes })
    }
}

/// Clock ticks per second if the kernel does not report them: the same on all architectures of
/// Linux.
const USUAL_TICKS: u64 = 100;

/// The processor time of a number of clock ticks, the unit of /proc.
#[must_use]
pub fn duration_of_ticks(ticks: u64) -> Duration {
    // Under Valgrind, the number is not reported.
    let second = match rustix::param::clock_ticks_per_second() {
        0 => USUAL_TICKS,
        ticks => ticks,
    };
    Duration::from_millis(ticks.saturating_mul(1000) / second)
}

/// How long a thread of the process has run, in nanoseconds: proc(5),
/// `/proc/pid/task/tid/schedstat`. `None` if the kernel does not count that.
pub(crate) fn thread_time_ns(thread: i32) -> Option<u64> {
    let times = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    times.split(' ').next()?.parse().ok()
}

/// The machine's load averages over the last 1, 5 and 15 minutes: proc(5), `/proc/loadavg`.
pub(crate) fn load_averages() -> Option<[f64; 3]> {
    parse_load(&std::fs::read_to_string("/proc/loadavg").ok()?)
}

fn parse_load(text: &str) -> Option<[f64; 3]> {
    let mut fields = text.split(' ').map(|field| field.parse().ok());
    Some([fields.next()??, fields.next()??, fields.next()??])
}

/// Bytes of memory of the machine.
pub(crate) fn system_memory_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}

/// The memory limit of the process's container in bytes, if there is one: `memory.max` of cgroup
/// v2, or `memory.limit_in_bytes` of v1.
pub(crate) fn container_memory_bytes() -> Option<u64> {
    let files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limit = files.iter().find_map(|file| std::fs::read_to_string(file).ok())?;
    // Without a limit, it is `max`, or a number beyond the machine's memory.
    limit.trim().parse().ok().filter(|bytes| *bytes < system_memory_bytes())
}

/// The kernel's name, version and architecture.
pub(crate) fn operating_system() -> String {
    let name = rustix::system::uname();
    let parts = [name.sysname(), name.release(), name.machine()];
    parts.map(|part| part.to_string_lossy().into_owned()).join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_is_that_of_three_times() {
        assert_eq!(parse_load("0.52 1.00 12.34 2/345 6789\n"), Some([0.52, 1.0, 12.34]));
        assert_eq!(parse_load("0.52 1.00\n"), None);
        assert!(load_averages().is_some_and(|load| load.iter().all(|load| *load >= 0.0)));
    }

    #[test]
    fn fields_are_counted_after_the_name_in_parentheses() {
        let stat = "7 (a) b (c) S 1 1 1 0 -1 4 11 12 13 14 250 50 0 0 20 0 3 0 99 4096 10 18446";
        let usage = Usage::parse(stat).unwrap();
        assert_eq!(usage.resident_bytes, 10 * rustix::param::page_size() as u64);
        assert_eq!(usage.user, 5 * usage.system);
        assert!(Usage::read().unwrap().resident_bytes > 0);
    }
}
