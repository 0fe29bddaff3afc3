//! Reads the CPU time of a server process from /proc.

use std::{fs, io};

use anyhow::{Context, Result};

/// CPU time that a process has used, in seconds.
#[derive(Clone, Copy)]
pub(super) struct CpuTime {
    /// The CPU time of the existing threads, counted by the scheduler in nanoseconds.
    pub(super) total: f64,
    /// The CPU time in user mode, which the kernel counts in ticks.
    user_ticks: f64,
    system_ticks: f64,
}

/// CPU time between two readings, in seconds.
pub(super) struct CpuUse {
    pub(super) user: f64,
    pub(super) system: f64,
}

impl CpuTime {
    /// Sums the first field of /proc/PID/task/*/schedstat (sched-stats.rst of the kernel's
    /// documentation), and reads fields 14 and 15 of /proc/PID/stat (proc_pid_stat(5)).
    pub(super) fn of(process_id: u32) -> Result<Self> {
        let path = format!("/proc/{process_id}/stat");
        let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let (user_ticks, system_ticks) =
            ticks(&stat).with_context(|| format!("{path} is not as expected: {stat}"))?;
        let mut nanoseconds = 0.0;
        for task in fs::read_dir(format!("/proc/{process_id}/task"))? {
            let path = task?.path().join("schedstat");
            let text = match fs::read_to_string(&path) {
                // The thread was only needed at the start and has ended since it was listed.
                Err(error) if ended(&error) => continue,
                read => read.with_context(|| format!("cannot read {}", path.display()))?,
            };
            let field = text.split_whitespace().next().unwrap_or_default();
            nanoseconds += field.parse::<f64>().with_context(|| format!("no number in {text}"))?;
        }
        Ok(Self { total: nanoseconds / 1e9, user_ticks, system_ticks })
    }

    /// Returns the CPU time since `earlier`. The scheduler's count is exact. The ticks only
    /// determine the shares of user and system time, which take about a second to become accurate.
    pub(super) fn since(self, earlier: Self) -> CpuUse {
        let total = self.total - earlier.total;
        let user = self.user_ticks - earlier.user_ticks;
        let system = self.system_ticks - earlier.system_ticks;
        let share = if user + system > 0.0 { user / (user + system) } else { 0.5 };
        CpuUse { user: total * share, system: total * (1.0 - share) }
    }
}

/// Whether opening or reading a thread's file failed because the thread has ended.
fn ended(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(ESRCH)
}

/// Returns fields 14 and 15 of a line of `stat`.
fn ticks(stat: &str) -> Option<(f64, f64)> {
    // The second field is a name in parentheses, which may contain blanks and parentheses; the
    // third field follows it.
    let (_, from_third) = stat.rsplit_once(')')?;
    let mut fields = from_third.split_whitespace().skip(11).map(str::parse);
    Some((fields.next()?.ok()?, fields.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::{CpuTime, ticks};

    #[test]
    fn times_are_found_after_a_name_with_spaces_and_parentheses() {
        let stat = "12 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 125 0 0 20 0 4 0 99";
        assert_eq!(ticks(stat), Some((250.0, 125.0)));
    }

    #[test]
    fn the_exact_total_is_shared_out_as_the_ticks_say() {
        let at = |total, user_ticks, system_ticks| CpuTime { total, user_ticks, system_ticks };
        let used = at(3.0, 30.0, 90.0).since(at(1.0, 10.0, 30.0));
        assert_eq!((used.user, used.system), (0.5, 1.5));
    }

    #[test]
    fn this_process_uses_time() {
        assert!(CpuTime::of(std::process::id()).unwrap().total > 0.0);
    }

    #[test]
    fn threads_may_end_while_they_are_listed() {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    thread::spawn(|| ()).join().unwrap();
                }
            });
            let read = (0..2000).try_for_each(|_| CpuTime::of(std::process::id()).map(drop));
            stop.store(true, Ordering::Relaxed);
            read.unwrap();
        });
    }
}
