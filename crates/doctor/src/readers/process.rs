//! Reads the server's process: the activity of its threads, its file descriptors, and its memory in
//! swap (`Documentation/filesystems/proc.rst` of Linux).

use super::control_group;
use nagi_findings::observation::{BusyThread, Process, Throttling};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Kernel ticks per second, the unit of processor time in /proc (`sysconf(_SC_CLK_TCK)`).
const TICKS: f64 = 100.0;
/// Names of programs that are recognized as servers.
const PROGRAMS: [&str; 8] =
    ["redis", "valkey", "nagi", "memcached", "dragonfly", "keydb", "garnet", "pogocache"];

/// Returns the folder of a server's process, if it runs on this host.
pub(crate) fn process_of(proc: &Path, id: u32) -> Option<PathBuf> {
    let folder = proc.join(id.to_string());
    let program = std::fs::read_to_string(folder.join("comm")).ok()?;
    // The whole command line is searched, because a worker's name may precede the program's name.
    let line = std::fs::read_to_string(folder.join("cmdline")).unwrap_or_default();
    let is_known = |text: &str| PROGRAMS.iter().any(|it| text.contains(it));
    (is_known(&program) || is_known(&line)).then_some(folder)
}

/// Samples a process repeatedly.
#[derive(Debug)]
pub(crate) struct ProcessReader {
    id: u32,
    folder: PathBuf,
    looks: u64,
    stopped: u64,
    waiting: u64,
    /// By thread ID: the ticks that the thread had used, and the nanoseconds that it had waited for
    /// a processor.
    first_times: BTreeMap<String, (u64, u64)>,
    first_faults: Option<u64>,
    first_throttling: Option<Throttling>,
}

impl ProcessReader {
    pub(crate) fn new(id: u32, folder: PathBuf) -> Self {
        let mut reader = ProcessReader {
            id,
            folder,
            looks: 0,
            stopped: 0,
            waiting: 0,
            first_times: BTreeMap::new(),
            first_faults: None,
            first_throttling: None,
        };
        let times = reader.threads().map(|(id, _, stat)| {
            let waited_ns = reader.waited_ns(&id);
            (id, (stat.ticks, waited_ns))
        });
        reader.first_times = times.collect();
        reader.first_faults = reader.stat().map(|stat| stat.major_faults);
        reader.first_throttling = control_group::throttling(&reader.folder);
        reader
    }

    fn stat(&self) -> Option<Stat> {
        Stat::parse(&std::fs::read_to_string(self.folder.join("stat")).ok()?)
    }

    /// Lists the threads of the process with their ID and name.
    fn threads(&self) -> impl Iterator<Item = (String, String, Stat)> {
        let tasks = std::fs::read_dir(self.folder.join("task")).into_iter().flatten().flatten();
        tasks.filter_map(|task| {
            let id = task.file_name().to_string_lossy().into_owned();
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
            Some((id, name.trim().to_owned(), Stat::parse(&stat)?))
        })
    }

    /// Returns how long a thread was ready to run without a processor (`schedstat`), in
    /// nanoseconds; 0 if the kernel does not count it.
    fn waited_ns(&self, thread: &str) -> u64 {
        let path = self.folder.join("task").join(thread).join("schedstat");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().nth(1).and_then(|it| it.parse().ok()).unwrap_or(0)
    }

    /// Adds a sample.
    pub(crate) fn look(&mut self) {
        let states: Vec<char> = self.threads().map(|(_, _, stat)| stat.state).collect();
        self.looks += u64::from(!states.is_empty());
        self.stopped += u64::from(!states.is_empty() && states.iter().all(|it| *it == 'T'));
        self.waiting += u64::from(states.contains(&'D'));
    }

    /// Returns the results of a run of `seconds`.
    pub(crate) fn finish(&self, seconds: f64) -> Process {
        let share = |count: u64| count as f64 / self.looks.max(1) as f64;
        let busy = self.threads().map(|(id, name, stat)| {
            let (ticks, waited_ns) = self.first_times.get(&id).copied().unwrap_or((stat.ticks, 0));
            let used = stat.ticks.saturating_sub(ticks) as f64 / TICKS / seconds.max(0.1);
            let waited_ns = self.waited_ns(&id).saturating_sub(waited_ns);
            BusyThread { name, used, waited: waited_ns as f64 / 1e9 / seconds.max(0.1) }
        });
        let stat = self.stat();
        let faults = stat.zip(self.first_faults);
        let now = control_group::throttling(&self.folder);
        Process {
            id: self.id,
            stopped_share: share(self.stopped),
            disk_share: share(self.waiting),
            busiest: busy.max_by(|one, other| one.used.total_cmp(&other.used)),
            open_files: std::fs::read_dir(self.folder.join("fd")).ok().map(|it| it.count() as u64),
            max_files: self.max_files(),
            swap_bytes: self.swap_bytes(),
            major_faults: faults.map(|(stat, first)| stat.major_faults.saturating_sub(first)),
            throttling: now.zip(self.first_throttling).map(|(now, first)| since(now, first)),
        }
    }

    fn max_files(&self) -> Option<u64> {
        max_files(&std::fs::read_to_string(self.folder.join("limits")).ok()?)
    }

    fn swap_bytes(&self) -> Option<u64> {
        swap_bytes(&std::fs::read_to_string(self.folder.join("status")).ok()?)
    }
}

/// Parses the limit on file descriptors in a process' `limits`.
pub(super) fn max_files(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Parses the number of bytes in swap in a process' `status`.
pub(super) fn swap_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmSwap:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes.saturating_mul(1024))
}

pub(super) fn since(now: Throttling, first: Throttling) -> Throttling {
    Throttling {
        periods: now.periods.saturating_sub(first.periods),
        throttled_periods: now.throttled_periods.saturating_sub(first.throttled_periods),
        throttled_us: now.throttled_us.saturating_sub(first.throttled_us),
    }
}

/// The needed fields of `stat` of a process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    state: char,
    pub(super) major_faults: u64,
    /// User and system time, in ticks.
    ticks: u64,
}

impl Stat {
    /// Parses the fields after the name. The name itself may contain blanks and parentheses.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |place: usize| fields.get(place)?.parse::<u64>().ok();
        Some(Stat {
            state: fields.first()?.chars().next()?,
            major_faults: number(9)?,
            ticks: number(11)?.saturating_add(number(12)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::sample_files::SampleFiles;

    #[test]
    fn names_may_contain_brackets_and_blanks() {
        let text = "7 (W0 R ) 9) T 1 7 7 0 -1 4194304 100 0 31 0 250 50 0 0 20 0 4 0 1 1 1\n";
        let stat = Stat { state: 'T', major_faults: 31, ticks: 300 };
        assert_eq!(Stat::parse(text), Some(stat));
        assert_eq!(Stat::parse("7 (x"), None);
    }

    fn stat(state: char, major_faults: u64, ticks: u64) -> String {
        format!("7 (redis) {state} 1 7 7 0 -1 4194304 100 0 {major_faults} 0 {ticks} 0 0 0 20 0\n")
    }

    #[test]
    fn a_made_up_process_is_in_swap_throttled_and_out_of_descriptors() {
        let group = "sys/fs/cgroup/box/cpu.stat";
        let figures = |throttled| {
            format!("nr_periods {throttled}0\nnr_throttled {throttled}\nthrottled_usec 900\n")
        };
        let root = SampleFiles::new(&[
            ("proc/7/comm", "redis-server\n"),
            ("proc/7/stat", &stat('S', 10, 100)),
            ("proc/7/task/7/comm", "redis-server\n"),
            ("proc/7/task/7/stat", &stat('S', 10, 100)),
            ("proc/7/task/7/schedstat", "1000000000 500000000 7\n"),
            ("proc/7/status", "Name:\tredis\nVmRSS:\t  9000 kB\nVmSwap:\t   20000 kB\n"),
            ("proc/7/limits", "Limit  Soft  Hard  Units\nMax open files  2  4096  files\n"),
            ("proc/7/fd/0", ""),
            ("proc/7/fd/1", ""),
            ("proc/7/cgroup", "0::/box\n"),
            ("sys/fs/cgroup/box/cpu.max", "20000 100000\n"),
            (group, &figures(1)),
        ]);
        let proc = root.path().join("proc");
        assert_eq!(process_of(&proc, 8), None);
        let mut reader = ProcessReader::new(7, process_of(&proc, 7).unwrap());
        reader.look();
        root.write("proc/7/stat", &stat('D', 510, 250));
        root.write("proc/7/task/7/stat", &stat('D', 510, 250));
        root.write("proc/7/task/7/schedstat", "2500000000 900000000 9\n");
        root.write(group, &figures(4));
        reader.look();
        let process = reader.finish(2.0);
        assert_eq!((process.swap_bytes, process.major_faults), (Some(20_480_000), Some(500)));
        assert_eq!((process.open_files, process.max_files), (Some(2), Some(2)));
        assert_eq!((process.stopped_share, process.disk_share), (0.0, 0.5));
        let busiest = process.busiest.unwrap();
        assert_eq!((&*busiest.name, busiest.used, busiest.waited), ("redis-server", 0.75, 0.2));
        let throttling = process.throttling.unwrap();
        assert_eq!((throttling.periods, throttling.throttled_periods), (30, 3));
    }

    #[test]
    fn numbers_at_their_ends_are_read() {
        assert_eq!(swap_bytes("Name:\tx\nVmSwap:\t 9 kB\n"), Some(9216));
        assert_eq!(swap_bytes("VmSwap: 18446744073709551615 kB"), Some(u64::MAX));
        let text = format!("7 (x) R 1 7 7 0 -1 0 1 0 2 0 {0} {0}", u64::MAX);
        assert_eq!(Stat::parse(&text).map(|stat| stat.ticks), Some(u64::MAX));
    }

    #[test]
    fn this_process_can_be_read() {
        let folder = PathBuf::from("/proc/self");
        let mut reader = ProcessReader::new(std::process::id(), folder);
        reader.look();
        let process = reader.finish(1.0);
        assert_eq!(process.stopped_share, 0.0);
        assert!(process.open_files > Some(2) && process.max_files >= process.open_files);
        assert!(process.busiest.is_some());
    }
}
