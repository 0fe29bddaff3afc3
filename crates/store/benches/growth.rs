//! What the store costs while it grows from 100 thousand to 16 million keys, by the CPU clock of
//! the threads that use it: `cargo bench -p nagi-store --bench growth [MOST_KEYS]`, a line of JSON
//! for each size, of which `cargo xtask bench --store` makes a table.
//!
//! Keys of 16 bytes, values of 32, requests in batches whose buckets and entries are prefetched,
//! as a worker's are. A hold of a latch counts as undisturbed if the kernel did not let its thread
//! wait for a processor in the same thousand or so writes.

use nagi_store::memory::Counting;
use nagi_store::types::string::SetOptions;
use nagi_store::{Counters, Database, Options, Store, Value};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

const SIZES: [u64; 5] = [100_000, 1_000_000, 4_000_000, 8_000_000, 16_000_000];
const BATCH: usize = 32;
/// Batches between two looks at what the kernel did.
const WINDOW: usize = 32;
const LOOKUPS: u64 = 4_000_000;
const VALUE: [u8; 32] = [b'v'; 32];
const KEY_AND_VALUE_BYTES: f64 = 48.0;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let most = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    let store = Store::new(&Options { seed: 1, workers: 2, ..Options::default() });
    let counters = [store.counters(0), store.counters(1)];
    let base_bytes = resident_bytes();
    let mut from = 0;
    for keys in SIZES.into_iter().filter(|keys| *keys <= most) {
        let (set_ns, holds) = fill(&store, &counters[0], from..keys);
        let over = (resident_bytes() - base_bytes) as f64 / keys as f64 - KEY_AND_VALUE_BYTES;
        let get_ns = look_up(&store, &counters[0], keys, 1);
        let speedup = speedup(&store, [&counters[0], &counters[1]], keys);
        println!(
            "{{\"keys\": {keys}, \"set_ns\": {set_ns:.0}, \"get_ns\": {get_ns:.0}, \
             \"overhead_bytes\": {over:.1}, \"longest_hold_us\": {}, \
             \"longest_undisturbed_hold_us\": {}, \"two_threads\": {speedup:.2}}}",
            holds.longest.as_micros(),
            holds.undisturbed.as_micros(),
        );
        from = keys;
    }
}

/// The longest holds of latches.
#[derive(Default)]
struct Holds {
    longest: Duration,
    /// Of those during which the thread did not have to wait for a processor.
    undisturbed: Duration,
}

/// Sets keys that are not there yet; CPU nanoseconds for each.
fn fill(store: &Store, counters: &Counters, keys: std::ops::Range<u64>) -> (f64, Holds) {
    let mut holds = Holds::default();
    let mut waited_ns = waited_for_a_processor_ns();
    let started = cpu_ns();
    let count = keys.end - keys.start;
    for window in keys.clone().step_by(WINDOW * BATCH) {
        store.reset_counters();
        let end = keys.end.min(window + (WINDOW * BATCH) as u64);
        for first in (window..end).step_by(BATCH) {
            let batch: Vec<_> = (first..end.min(first + BATCH as u64)).map(key).collect();
            in_batch(store, counters, &batch, |db, key| {
                db.set(db.key(key), &VALUE, SetOptions::default());
            });
        }
        let (hold, before_ns) = (store.longest_latch_hold(), waited_ns);
        waited_ns = waited_for_a_processor_ns();
        holds.longest = holds.longest.max(hold);
        if waited_ns == before_ns {
            holds.undisturbed = holds.undisturbed.max(hold);
        }
    }
    ((cpu_ns() - started) as f64 / count as f64, holds)
}

/// Looks up random keys; CPU nanoseconds for each.
fn look_up(store: &Store, counters: &Counters, keys: u64, seed: u64) -> f64 {
    let mut state = seed;
    let started = cpu_ns();
    for _ in 0..LOOKUPS / BATCH as u64 {
        let batch: Vec<_> = (0..BATCH).map(|_| key(random(&mut state) % keys)).collect();
        in_batch(store, counters, &batch, |db, key| {
            let len = db.get(db.key(key), |entry| {
                entry.map(|entry| match entry.value() {
                    Value::Bytes(bytes) => black_box(bytes).len(),
                    value => value.len(),
                })
            });
            assert_eq!(len, Some(VALUE.len()));
        });
    }
    (cpu_ns() - started) as f64 / LOOKUPS as f64
}

/// How many times faster two threads look keys up than one does, by the clock on the wall: the
/// median of five pairs.
fn speedup(store: &Store, counters: [&Counters; 2], keys: u64) -> f64 {
    let mut ratios: Vec<f64> = (0..5)
        .map(|_| {
            let started = Instant::now();
            look_up(store, counters[0], keys, 3);
            let alone = started.elapsed();
            let started = Instant::now();
            std::thread::scope(|scope| {
                for (index, counters) in counters.into_iter().enumerate() {
                    scope.spawn(move || look_up(store, counters, keys, 5 + index as u64));
                }
            });
            2.0 * alone.as_secs_f64() / started.elapsed().as_secs_f64()
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied().unwrap_or_default()
}

fn in_batch(
    store: &Store,
    counters: &Counters,
    keys: &[[u8; 16]],
    work: impl Fn(Database<'_>, &[u8]),
) {
    let db = store.database(0, counters, 1);
    let mut aheads = [None; BATCH];
    for (key, ahead) in keys.iter().zip(&mut aheads) {
        *ahead = store.prefetch(0, db.key(key));
    }
    for (key, ahead) in keys.iter().zip(aheads) {
        ahead.into_iter().for_each(|ahead| ahead.prefetch_entry(db.key(key)));
    }
    for key in keys {
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

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 24
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How long this thread could have run and did not; always 0 where the kernel does not say.
fn waited_for_a_processor_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedstat.split(' ').nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// 0 where the kernel does not say.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_usize) * rustix::param::page_size()
}
