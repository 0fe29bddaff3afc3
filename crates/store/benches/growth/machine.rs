//! Measures the machine's own effects: interruptions of a thread that holds no latch, and the
//! speedup by a second thread when nothing is shared.

use fastrand::Rng;
use nagi_store::holds::{self, Hold, Holds, Probe, Work};
use rustix::mm::{Advice, madvise};
use std::cell::OnceCell;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Returns the kernel statistics of this thread: the 10th field of /proc/PID/stat (minor faults),
/// the third of schedstat (proc_pid_stat(5) and the kernel's sched-stats.rst), and its CPU time,
/// read without allocating memory. Zero if the kernel does not provide them.
pub(crate) fn probe() -> Probe {
    thread_local! {
        static FILES: OnceCell<Option<[File; 2]>> = const { OnceCell::new() };
    }
    let open = || {
        let [stat, schedstat] =
            ["stat", "schedstat"].map(|name| File::open(format!("/proc/thread-self/{name}")).ok());
        stat.zip(schedstat).map(|(stat, schedstat)| [stat, schedstat])
    };
    FILES.with(|files| {
        let Some([stat, schedstat]) = files.get_or_init(open) else { return Probe::default() };
        // The name, which is the second field, has no spaces in this program.
        let (faults, switches) = (number(stat, 9), number(schedstat, 2));
        Probe { faults, switches, cpu_ns: super::cpu_ns() }
    })
}

/// Returns the cost of a probe, in CPU nanoseconds.
pub(crate) fn probe_ns() -> u64 {
    static COST: OnceLock<u64> = OnceLock::new();
    *COST.get_or_init(|| {
        let started = super::cpu_ns();
        (0..1000).for_each(|_| _ = black_box(probe()));
        (super::cpu_ns() - started) / 1000
    })
}

/// Returns the number at an index of a line of numbers.
fn number(file: &File, place: usize) -> u64 {
    let mut text = [0; 512];
    let len = file.read_at(&mut text, 0).unwrap_or(0);
    let line = text.get(..len).and_then(|line| std::str::from_utf8(line).ok());
    let field = line.and_then(|line| line.split_ascii_whitespace().nth(place));
    field.and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Passes as much time as `holds` took together, in as many pieces, without a latch and without
/// accessing memory: the apparent durations are the machine's effect.
pub(crate) fn hold_nothing(holds: &Holds, into: &mut Holds) {
    let piece = holds.total / u32::try_from(holds.count.max(1)).unwrap_or(u32::MAX);
    for _ in 0..holds.count {
        let before = holds::probe();
        let started = Instant::now();
        while started.elapsed() < piece {
            std::hint::spin_loop();
        }
        let took = started.elapsed();
        let after = holds::probe();
        let probe = after.since(before);
        into.add(Hold { took, work: Work { probe, ..Work::default() } });
    }
}

/// Returns the speedup of two threads over one by wall-clock time: the median of five pairs. `work`
/// receives the index of its thread.
pub(crate) fn speedup(work: impl Fn(u64) + Sync) -> f64 {
    let timed = |threads: u64| {
        let started = Instant::now();
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let work = &work;
                scope.spawn(move || work(thread));
            }
        });
        started.elapsed()
    };
    let ratio = |_| 2.0 * timed(1).as_secs_f64() / timed(2).as_secs_f64();
    let mut ratios: Vec<f64> = (0..5).map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or_default()
}

/// Computes without accessing memory, as a thread's share of the machine.
pub(crate) fn compute(thread: u64) {
    let mut random = Rng::with_seed(thread);
    for _ in 0..100_000_000 {
        black_box(random.u64(..));
    }
}

/// Allocates this much memory, in large pages if the kernel has some, like the store's.
pub(crate) fn memory(bytes: usize) -> Vec<u64> {
    const PAGE_BYTES: usize = 4096;
    let mut memory = vec![0_u64; bytes / size_of::<u64>()];
    let start = memory.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE_BYTES);
    // SAFETY: whole pages of the vector, whose bytes do not change. A kernel without large pages
    // may ignore the request.
    let _ = unsafe {
        let whole = bytes.saturating_sub(skipped + PAGE_BYTES);
        madvise(start.wrapping_add(skipped).cast(), whole, Advice::LinuxHugepage)
    };
    memory.fill(1);
    memory
}

/// Reads `reads` random words of a memory, with as many in flight as the processor allows.
pub(crate) fn read_at_random(memory: &[u64], reads: u64, thread: u64) {
    let mut random = Rng::with_seed(thread);
    let mut sum = 0_u64;
    for _ in 0..reads {
        let place = random.usize(..memory.len().max(1));
        sum = sum.wrapping_add(memory.get(place).copied().unwrap_or_default());
    }
    black_box(sum);
}

/// Returns a hold as JSON.
pub(crate) fn hold_json(hold: &Hold) -> String {
    format!("{{\"us\": {}, \"work\": {}}}", micros(hold.took), work_json(&hold.work))
}

fn work_json(work: &Work) -> String {
    let Work { entries, hashed, compared, directory, bytes, pages, requests, probe, .. } = work;
    let Probe { faults, switches, cpu_ns } = probe;
    format!(
        "{{\"entries\": {entries}, \"hashed\": {hashed}, \"compared\": {compared}, \
         \"directory\": {directory}, \"bytes\": {bytes}, \"pages\": {pages}, \
         \"requests\": {requests}, \"faults\": {faults}, \"switches\": {switches}, \
         \"cpu_us\": {}}}",
        cpu_ns / 1000
    )
}

/// Returns holds as JSON.
pub(crate) fn holds_json(holds: &Holds) -> String {
    let long: Vec<String> = holds.long.iter().map(hold_json).collect();
    format!(
        "{{\"count\": {}, \"total_ms\": {}, \"longer\": {:?}, \"longest\": {}, \
         \"longest_alone\": {}, \"most\": {}, \"long\": [{}]}}",
        holds.count,
        holds.total.as_millis(),
        holds.longer,
        hold_json(&holds.longest),
        hold_json(&holds.longest_alone),
        work_json(&holds.most),
        long.join(", ")
    )
}

fn micros(time: Duration) -> u128 {
    time.as_micros()
}
