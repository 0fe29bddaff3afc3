//! What the whole host does: swap, huge pages, overcommit.

use std::path::PathBuf;

/// Reads it below a folder, which is `/` but in tests.
#[derive(Clone, Debug)]
pub(crate) struct System {
    root: PathBuf,
}

/// Counts at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemCounts {
    /// Pages read back from swap since the host was started.
    pub(crate) swapped_in: Option<u64>,
}

impl System {
    pub(crate) fn new(root: PathBuf) -> Self {
        System { root }
    }

    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(path)).ok()
    }

    pub(crate) fn counts(&self) -> SystemCounts {
        let table = self.read("proc/vmstat").unwrap_or_default();
        let line = table.lines().find_map(|line| line.strip_prefix("pswpin "));
        SystemCounts { swapped_in: line.and_then(|it| it.parse().ok()) }
    }

    /// The choice in brackets: `always [madvise] never`.
    pub(crate) fn huge_pages(&self) -> Option<String> {
        let text = self.read("sys/kernel/mm/transparent_hugepage/enabled")?;
        Some(text.split_once('[')?.1.split_once(']')?.0.to_owned())
    }

    pub(crate) fn overcommit(&self) -> Option<u64> {
        self.read("proc/sys/vm/overcommit_memory")?.trim().parse().ok()
    }
}
