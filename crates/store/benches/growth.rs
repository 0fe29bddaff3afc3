//! What the store costs while it grows from 100 thousand to 16 million keys, by the CPU clock of
//! the threads that use it: `cargo bench -p nagi-store --bench growth [MOST_KEYS]`.
//!
//! Keys of 16 bytes, values of 32, requests in batches whose buckets and entries are prefetched,
//! as a worker's are.

use nagi_store::memory::Counting;
use nagi_store::types::string::SetOptions;
use nagi_store::{Ahead, Counters, Database, Options, Store, Value};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: Counting<mimalloc::MiMalloc> = Counting(mimalloc::MiMalloc);

const SIZES: [u64; 5] = [100_000, 1_000_000, 4_000_000, 8_000_000, 16_000_000];
const BATCH: usize = 32;
const LOOKUPS: u64 = 4_000_000;
const VALUE: [u8; 32] = [b'v'; 32];
const KEY_AND_VALUE_BYTES: f64 = 48.0;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let most = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    let store = Store::new(&Options { seed: 1, workers: 2, ..Options::default() });
    let counters = [store.counters(0), store.counters(1)];
    let base_bytes = resident_bytes();
    println!("      keys  SET ns  GET ns  over key+value, B  longest latch hold, us  two threads");
    let mut from = 0;
    for keys in SIZES.into_iter().filter(|keys| *keys <= most) {
        store.reset_counters();
        let set_ns = fill(&store, &counters[0], from..keys);
        let hold_us = store.longest_latch_hold().as_micros();
        let over = (resident_bytes() - base_bytes) as f64 / keys as f64 - KEY_AND_VALUE_BYTES;
        let get_ns = look_up(&store, &counters[0], keys, 1);
        let speedup = speedup(&store, [&counters[0], &counters[1]], keys);
        println!(
            "{keys:>10}  {set_ns:>6.0}  {get_ns:>6.0}  {over:>17.1}  {hold_us:>22}  \
             {speedup:>10.2}x"
        );
        from = keys;
    }
}

/// Sets keys that are not there yet; CPU nanoseconds for each.
fn fill(store: &Store, counters: &Counters, keys: std::ops::Range<u64>) -> f64 {
    let started = cpu_ns();
    let count = keys.end - keys.start;
    for first in keys.clone().step_by(BATCH) {
        let batch: Vec<_> = (first..keys.end.min(first + BATCH as u64)).map(key).collect();
        in_batch(store, counters, &batch, |db, key| {
            db.set(db.key(key), &VALUE, SetOptions::default());
        });
    }
    (cpu_ns() - started) as f64 / count as f64
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
    aheads.into_iter().flatten().for_each(Ahead::prefetch_entry);
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

/// 0 where the kernel does not say.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0_usize) * rustix::param::page_size()
}
