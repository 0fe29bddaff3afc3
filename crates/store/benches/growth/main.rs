//! Measures the cost of operations while the store grows from 100 thousand to 16 million keys, in
//! CPU time of its threads: `cargo bench -p nagi-store --bench growth [MAX_KEYS]`. It prints a line
//! of JSON for each size; `cargo xtask bench --store` prints a table of them.
//!
//! Keys have 16 bytes and values 32; requests are in batches whose buckets and entries are
//! prefetched, as a worker does. The work within holds of latches is counted, and compared with as
//! many pauses without a latch, which show the machine's own delays. The speedup of lookups by a
//! second thread is compared with what their CPU time implies, and with that of two threads that
//! share nothing.

mod machine;

use fastrand::Rng;
use nagi_store::accounting::Counting;
use nagi_store::holds::{self, Holds};
use nagi_store::types::string::SetOptions;
use nagi_store::{Counters, Database, Prefetch, Store, StoreOptions, StringValue};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

const SIZES: [u64; 5] = [100_000, 1_000_000, 4_000_000, 8_000_000, 16_000_000];
const BATCH: usize = 32;
/// The number of batches between two probes of kernel statistics.
const WINDOW: usize = 32;
const LOOKUPS: u64 = 2_000_000;
/// The number of random memory accesses of a lookup.
const READS: u64 = 3;
const VALUE: [u8; 32] = [b'v'; 32];
const KEY_AND_VALUE_BYTES: f64 = 48.0;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let most = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    holds::watch(machine::probe);
    let store = Store::new(&StoreOptions { seed: 1, workers: 2, ..StoreOptions::default() });
    let counters = [store.counters(0), store.counters(1)];
    let base_bytes = resident_bytes();
    let mut sizes = Vec::new();
    let mut from = 0;
    for keys in SIZES.into_iter().filter(|keys| *keys <= most) {
        let filled = fill(&store, &counters[0], from..keys);
        let used_bytes = resident_bytes() - base_bytes;
        let get_ns = look_up_often(&store, &counters[0], keys);
        let two_threads = machine::speedup(|thread| {
            let counters = counters.get(thread as usize).unwrap_or(&counters[0]);
            look_up(&store, counters, keys, 5 + thread);
        });
        let two_threads_cpu = look_up_together(&store, &counters, keys);
        sizes.push(Size { keys, filled, used_bytes, get_ns, two_threads, two_threads_cpu });
        from = keys;
    }
    // Printed last, since its memory would count as the store's.
    sizes.iter().for_each(Size::print);
}

/// The results for one number of keys.
struct Size {
    keys: u64,
    filled: Filled,
    used_bytes: usize,
    get_ns: f64,
    /// The speedup of lookups by two threads over one.
    two_threads: f64,
    /// The speedup computed from CPU times: it shows how much the threads slow each other down,
    /// regardless of scheduling.
    two_threads_cpu: f64,
}

impl Size {
    /// Prints the results, with the machine's limits for the same amount of memory.
    fn print(&self) {
        let Filled { set_ns, holds, control } = &self.filled;
        let over = self.used_bytes as f64 / self.keys as f64 - KEY_AND_VALUE_BYTES;
        let memory = machine::memory(self.used_bytes);
        let read = |thread| machine::read_at_random(&memory, READS * LOOKUPS, thread);
        let reading_ns = median([1, 2, 3, 4, 5].map(|seed| {
            let started = cpu_ns();
            read(seed);
            (cpu_ns() - started) as f64 / LOOKUPS as f64
        }));
        println!(
            "{{\"keys\": {}, \"set_ns\": {set_ns:.0}, \"get_ns\": {:.0}, \
             \"overhead_bytes\": {over:.1}, \"holds\": {}, \"control\": {}, \
             \"reading_ns\": {reading_ns:.1}, \"two_threads\": {:.2}, \"two_threads_cpu\": {:.2}, \
             \"two_threads_reading\": {:.2}, \"two_threads_computing\": {:.2}}}",
            self.keys,
            self.get_ns,
            machine::holds_json(holds),
            machine::holds_json(control),
            self.two_threads,
            self.two_threads_cpu,
            machine::speedup(read),
            machine::speedup(machine::compute),
        );
    }
}

/// The results of adding keys.
#[derive(Default)]
struct Filled {
    /// The CPU time per key.
    set_ns: f64,
    holds: Holds,
    /// The same number of pauses without a latch.
    control: Holds,
}

/// Adds new keys.
fn fill(store: &Store, counters: &Counters, keys: std::ops::Range<u64>) -> Filled {
    let mut filled = Filled::default();
    let mut used_ns = 0;
    for window in keys.clone().step_by(WINDOW * BATCH) {
        let started = cpu_ns();
        let end = keys.end.min(window + (WINDOW * BATCH) as u64);
        for first in (window..end).step_by(BATCH) {
            let batch: Vec<_> = (first..end.min(first + BATCH as u64)).map(key).collect();
            in_batch(store, counters, &batch, |db, key| {
                db.set(db.key(key), &VALUE, SetOptions::default());
            });
        }
        let holds = holds::take();
        used_ns += cpu_ns().saturating_sub(started + 2 * holds.count * machine::probe_ns());
        machine::hold_nothing(&holds, &mut filled.control);
        filled.holds.merge(&holds);
    }
    filled.set_ns = used_ns as f64 / (keys.end - keys.start) as f64;
    filled
}

/// Returns the CPU time of a lookup of a random key: the median of five rounds.
fn look_up_often(store: &Store, counters: &Counters, keys: u64) -> f64 {
    median([1, 2, 3, 4, 5].map(|seed| look_up(store, counters, keys, seed)))
}

/// Returns the speedup of lookups by two threads over one, computed from the CPU time of one thread
/// alone and of the same thread next to another: the median of five rounds.
fn look_up_together(store: &Store, counters: &[Arc<Counters>; 2], keys: u64) -> f64 {
    median([1, 2, 3, 4, 5].map(|seed| {
        let [first, second] = counters;
        let alone_ns = look_up(store, first, keys, seed);
        let together_ns = std::thread::scope(|scope| {
            let other = scope.spawn(|| look_up(store, second, keys, seed + 5));
            let ours_ns = look_up(store, first, keys, seed);
            (ours_ns + other.join().unwrap_or(ours_ns)) / 2.0
        });
        2.0 * alone_ns / together_ns
    }))
}

fn median(mut rounds: [f64; 5]) -> f64 {
    rounds.sort_by(f64::total_cmp);
    let [_, _, median, ..] = rounds;
    median
}

/// Looks up random keys. Returns the CPU nanoseconds of each.
fn look_up(store: &Store, counters: &Counters, keys: u64, seed: u64) -> f64 {
    let mut random = Rng::with_seed(seed);
    let started = cpu_ns();
    for _ in 0..LOOKUPS / BATCH as u64 {
        let batch: Vec<_> = (0..BATCH).map(|_| key(random.u64(..keys))).collect();
        in_batch(store, counters, &batch, |db, key| {
            let len = db.get(db.key(key), |entry| {
                entry.map(|entry| match entry.string().unwrap_or(StringValue::Int(0)) {
                    StringValue::Bytes(bytes) => black_box(bytes).len(),
                    value => value.len(),
                })
            });
            assert_eq!(len, Some(VALUE.len()));
        });
    }
    (cpu_ns() - started) as f64 / LOOKUPS as f64
}

fn in_batch(
    store: &Store,
    counters: &Counters,
    keys: &[[u8; 16]],
    work: impl Fn(Database<'_>, &[u8]),
) {
    let _batch = store.batch(counters);
    let db = store.database(0, counters, 1);
    let mut aheads = [None; BATCH];
    for (key, ahead) in keys.iter().zip(&mut aheads) {
        *ahead = store.prefetch(0, db.key(key));
    }
    let look_ahead = |place: usize| {
        let ahead = keys.get(place).zip(aheads.get(place).copied().flatten());
        ahead.into_iter().for_each(|(key, ahead)| ahead.prefetch_entry(db.key(key)));
    };
    (0..Prefetch::REQUESTS).for_each(look_ahead);
    for (place, key) in keys.iter().enumerate() {
        look_ahead(place + Prefetch::REQUESTS);
        work(db, key);
    }
}

/// `key:` and twelve digits.
fn key(number: u64) -> [u8; 16] {
    let mut key = *b"key:000000000000";
    let mut rest = number;
    for digit in key.iter_mut().skip(4).rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns 0 if the kernel does not provide it.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_usize) * rustix::param::page_size()
}
