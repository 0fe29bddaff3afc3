//! Measures how much of the machine's processors is used by programs that are not part of a test.
//! Such programs may cause the doctor's findings, or its misses.

use std::collections::BTreeMap;
use std::fs;

/// The share of all processors from which other programs influence the findings.
pub(crate) const CONTENDED: f64 = 0.25;

/// Processor time until one moment, in ticks of the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The time of all processors, busy or idle.
    all: u64,
    /// The time for which processors were busy with any process.
    busy: u64,
    /// The time used by this process and all of its descendants.
    own: u64,
}

impl Moment {
    pub(crate) fn now() -> Self {
        let table = fs::read_to_string("/proc/stat").expect("the kernel counts");
        let line = table.lines().next().expect("a line of all processors");
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).map_while(|it| it.parse().ok()).collect();
        // The fields after the eighth are times of guests, which the first two include.
        let all = ticks.iter().take(8).sum();
        let idle: u64 = ticks.iter().skip(3).take(2).sum();
        Moment { all, busy: all - idle, own: own_ticks(std::process::id()) }
    }

    /// Returns the share of all processors that other programs have used since then.
    pub(crate) fn others_since(self) -> f64 {
        let now = Self::now();
        let own = now.own.saturating_sub(self.own);
        let others = now.busy.saturating_sub(self.busy).saturating_sub(own);
        others as f64 / now.all.saturating_sub(self.all).max(1) as f64
    }
}

/// Returns the ticks that a process and its descendants have used, including those that have
/// exited.
fn own_ticks(process: u32) -> u64 {
    let folders = fs::read_dir("/proc").expect("the kernel lists processes").flatten();
    let processes = folders.filter_map(|folder| {
        let id: u32 = folder.file_name().to_str()?.parse().ok()?;
        let text = fs::read_to_string(folder.path().join("stat")).ok()?;
        // The name in parentheses may contain any bytes. The fields after it are the state, the
        // parent and so on.
        let fields = text.rsplit_once(')')?.1.split_whitespace().skip(1);
        let fields: Vec<u64> = fields.map(|field| field.parse().unwrap_or(0)).collect();
        let times = fields.get(10..14)?.iter().sum();
        Some((id, (u32::try_from(*fields.first()?).ok()?, times)))
    });
    let processes: BTreeMap<u32, (u32, u64)> = processes.collect();
    let is_own = |mut id: u32| {
        while let Some((parent, _)) = processes.get(&id).filter(|_| id != process) {
            id = *parent;
        }
        id == process
    };
    let own = processes.iter().filter(|(id, _)| is_own(**id));
    own.map(|(_, (_, ticks))| ticks).sum()
}

#[test]
fn work_of_this_process_does_not_count_as_others() {
    let before = Moment::now();
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_millis(300) {
        std::hint::spin_loop();
    }
    let (before_own, now) = (before.own, Moment::now());
    assert!(now.own >= before_own + 10, "{before:?} {now:?}");
    assert!(now.all > before.all && now.busy >= before.busy, "{before:?} {now:?}");
}
