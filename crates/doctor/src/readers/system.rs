//! Reads settings and counters of the whole host: swap, huge pages, overcommit, pressure.

use nagi_findings::observation::Pressure;
use std::path::PathBuf;

/// Reads files below a root folder, which is `/` except in tests.
#[derive(Clone, Debug)]
pub(crate) struct System {
    root: PathBuf,
}

/// The host's counters at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemCounts {
    /// Number of pages read back from swap since the host was started.
    pub(crate) swapped_in: Option<u64>,
    /// How long some task has waited for a processor, for memory and for a disk, in microseconds;
    /// `None` if the kernel does not count it (`Documentation/accounting/psi.rst` of Linux).
    stalled_us: Option<[u64; 3]>,
}

impl SystemCounts {
    /// Returns the share of `seconds` for which some task waited since `before`.
    pub(crate) fn pressure_since(&self, before: &SystemCounts, seconds: f64) -> Option<Pressure> {
        let (now, before) = self.stalled_us.zip(before.stalled_us)?;
        let share = |now: u64, before: u64| {
            (now.saturating_sub(before) as f64 / 1e6 / seconds.max(0.1)).min(1.0)
        };
        let ([cpu, memory, io], [cpu_before, memory_before, io_before]) = (now, before);
        Some(Pressure {
            cpu: share(cpu, cpu_before),
            memory: share(memory, memory_before),
            io: share(io, io_before),
        })
    }
}

impl System {
    pub(crate) fn new(root: PathBuf) -> Self {
        System { root }
    }

    /// Returns the path of the `proc` folder.
    pub(crate) fn proc(&self) -> PathBuf {
        self.root.join("proc")
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok()
    }

    pub(crate) fn counts(&self) -> SystemCounts {
        let table = self.read("proc/vmstat").unwrap_or_default();
        let line = table.lines().find_map(|line| line.strip_prefix("pswpin "));
        let swapped_in = line.and_then(|it| it.parse().ok());
        SystemCounts { swapped_in, stalled_us: self.stalled_us() }
    }

    fn stalled_us(&self) -> Option<[u64; 3]> {
        let total = |name: &str| total_stall(&self.read(&format!("proc/pressure/{name}"))?);
        Some([total("cpu")?, total("memory")?, total("io")?])
    }

    /// Returns the choice in brackets in text such as `always [madvise] never`.
    pub(crate) fn huge_pages(&self) -> Option<String> {
        let text = self.read("sys/kernel/mm/transparent_hugepage/enabled")?;
        Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
    }

    pub(crate) fn overcommit(&self) -> Option<u64> {
        self.read("proc/sys/vm/overcommit_memory")?.trim().parse().ok()
    }
}

/// Parses the total in a line such as `some avg10=0.00 avg60=0.10 avg300=0.25 total=5124348120`.
pub(super) fn total_stall(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readers::sample_files::SampleFiles;

    /// Reads the counters from a root folder with these totals.
    fn counts(totals: [(&str, u64); 3]) -> SystemCounts {
        let files = totals.map(|(name, total)| {
            let text =
                format!("some avg10=0.00 avg60=0.00 total={total}\nfull avg10=0.0 total=1\n");
            (format!("proc/pressure/{name}"), text)
        });
        let files = files.each_ref().map(|(path, text)| (&**path, &**text));
        System::new(SampleFiles::new(&files).path().to_path_buf()).counts()
    }

    #[test]
    fn swap_huge_pages_and_overcommit_are_read() {
        let root = |pages: u64| {
            SampleFiles::new(&[
                ("proc/vmstat", &format!("pgpgin 9\npswpin {pages}\npswpout 5\n")),
                ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
                ("proc/sys/vm/overcommit_memory", "2\n"),
            ])
        };
        let (before, after) = (root(70), root(4170));
        let system = System::new(after.path().to_path_buf());
        assert_eq!(System::new(before.path().to_path_buf()).counts().swapped_in, Some(70));
        assert_eq!(system.counts().swapped_in, Some(4170));
        assert_eq!(system.huge_pages().as_deref(), Some("madvise"));
        assert_eq!(system.overcommit(), Some(2));
        let nothing = System::new(PathBuf::from("/nowhere"));
        assert_eq!(nothing.counts().swapped_in, None);
        assert_eq!((nothing.huge_pages(), nothing.overcommit()), (None, None));
    }

    #[test]
    fn pressure_is_the_share_of_the_run() {
        let before = counts([("cpu", 5_000_000), ("memory", 7), ("io", 0)]);
        let now = counts([("cpu", 7_000_000), ("memory", 7), ("io", 99_000_000)]);
        let pressure = now.pressure_since(&before, 4.0);
        assert_eq!(pressure, Some(Pressure { cpu: 0.5, memory: 0.0, io: 1.0 }));
        assert_eq!(SystemCounts::default().pressure_since(&before, 4.0), None);
    }
}
