//! What a server process has used, from /proc.

use std::fs;

use anyhow::{Context, Result};

/// The unit of the times in /proc, which Linux fixes at 100 a second for every program.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time of all threads of a process since it began, in seconds.
#[derive(Clone, Copy)]
pub(super) struct CpuTime {
    pub(super) user: f64,
    pub(super) system: f64,
}

impl CpuTime {
    /// Reads fields 14 and 15 of /proc/PID/stat: proc_pid_stat(5).
    pub(super) fn of(process_id: u32) -> Result<Self> {
        let path = format!("/proc/{process_id}/stat");
        let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        Self::parse(&stat).with_context(|| format!("{path} is not as expected: {stat}"))
    }

    fn parse(stat: &str) -> Option<Self> {
        // The second field is a name in parentheses that may hold spaces; the third comes next.
        let (_, from_third) = stat.rsplit_once(')')?;
        let mut fields = from_third.split_whitespace().skip(11);
        let mut seconds = || Some(fields.next()?.parse::<f64>().ok()? / TICKS_PER_SECOND);
        Some(Self { user: seconds()?, system: seconds()? })
    }
}

/// Memory of a process that is in RAM, in bytes: VmRSS of /proc/PID/status.
pub(super) fn resident_bytes(process_id: u32) -> Result<f64> {
    let path = format!("/proc/{process_id}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let kilobytes: f64 = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .with_context(|| format!("{path} has no VmRSS"))?;
    Ok(kilobytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::{CpuTime, resident_bytes};

    #[test]
    fn times_are_found_behind_a_name_with_spaces_and_parentheses() {
        let stat = "12 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 125 0 0 20 0 4 0 99";
        let CpuTime { user, system } = CpuTime::parse(stat).unwrap();
        assert_eq!((user, system), (2.5, 1.25));
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(resident_bytes(std::process::id()).unwrap() > 100_000.0);
    }
}
