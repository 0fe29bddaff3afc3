//! The memory and time of collections: `cargo test --release -p nagi-store measure_collections --
//! --ignored --nocapture`, with `NAGI_MEASURE_ELEMENTS` for another size than a million.

use crate::collections::hash::{FieldExpiry, Hash, HashLimits};
use crate::collections::list::List;
use crate::collections::set::{Set, SetLimits};
use crate::collections::sorted_set::{SortedSet, SortedSetLimits};
use crate::memory::pages::PagePool;
use crate::tree::blocks::Blocks;
use crate::tree::root::Side;
use crate::value::item::Text;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

const HASH_LIMITS: HashLimits = HashLimits { entries: 128, value_bytes: 64 };
const SET_LIMITS: SetLimits =
    SetLimits { intset_entries: 512, listpack_entries: 128, value_bytes: 64 };
const SORTED_LIMITS: SortedSetLimits = SortedSetLimits { entries: 128, value_bytes: 64 };
const VALUE: [u8; 16] = *b"a value of 16 by";

/// The operations that are measured for each type; elements are numbered.
trait Measured: Default {
    const NAME: &'static str;
    fn add(&mut self, number: u64, blocks: &Arc<Blocks>);
    fn find(&self, number: u64) -> bool;
    fn remove(&mut self, number: u64);
    fn len(&self) -> u64;
    fn bytes(&self) -> u64;
    fn copy(&self) -> Self;
}

/// Returns sixteen pseudorandom bytes.
fn name(number: u64) -> [u8; 16] {
    let mut name = *b"member:000000000";
    let mut rest = number;
    for digit in name.iter_mut().skip(7).rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

fn mixed(number: u64) -> u64 {
    let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11
}

struct MeasuredSet(Set);

impl Default for MeasuredSet {
    fn default() -> Self {
        MeasuredSet(Set::new(&Text::new(b"a"), 1, SET_LIMITS))
    }
}

impl Measured for MeasuredSet {
    const NAME: &'static str = "set";
    fn add(&mut self, number: u64, blocks: &Arc<Blocks>) {
        self.0.add(&Text::new(&name(number)), SET_LIMITS, blocks);
    }
    fn find(&self, number: u64) -> bool {
        self.0.read().contains(&Text::new(&name(number)))
    }
    fn remove(&mut self, number: u64) {
        self.0.remove(&Text::new(&name(number)));
    }
    fn len(&self) -> u64 {
        self.0.read().len()
    }
    fn bytes(&self) -> u64 {
        self.0.read().bytes()
    }
    fn copy(&self) -> Self {
        MeasuredSet(Set(self.0.0.read().to_owned()))
    }
}

#[derive(Default)]
struct MeasuredHash(Hash);

impl Measured for MeasuredHash {
    const NAME: &'static str = "hash";
    fn add(&mut self, number: u64, blocks: &Arc<Blocks>) {
        let (name, value) = (name(number), Text::new(&VALUE));
        self.0.set(&Text::new(&name), &value, (FieldExpiry::Never, 0), HASH_LIMITS, blocks);
    }
    fn find(&self, number: u64) -> bool {
        self.0.read().get(&Text::new(&name(number)), 0).is_some()
    }
    fn remove(&mut self, number: u64) {
        self.0.remove(&Text::new(&name(number)), 0);
    }
    fn len(&self) -> u64 {
        self.0.read().len()
    }
    fn bytes(&self) -> u64 {
        self.0.read().bytes()
    }
    fn copy(&self) -> Self {
        MeasuredHash(Hash(self.0.0.read().to_owned()))
    }
}

#[derive(Default)]
struct MeasuredSortedSet(SortedSet);

impl Measured for MeasuredSortedSet {
    const NAME: &'static str = "sorted set";
    fn add(&mut self, number: u64, blocks: &Arc<Blocks>) {
        let score = mixed(number) as f64;
        self.0.set(&Text::new(&name(number)), score, SORTED_LIMITS, blocks);
    }
    fn find(&self, number: u64) -> bool {
        self.0.read().score(&Text::new(&name(number))).is_some()
    }
    fn remove(&mut self, number: u64) {
        self.0.remove(&Text::new(&name(number)));
    }
    fn len(&self) -> u64 {
        self.0.read().len()
    }
    fn bytes(&self) -> u64 {
        self.0.read().bytes()
    }
    fn copy(&self) -> Self {
        MeasuredSortedSet(self.0.read().to_owned())
    }
}

#[derive(Default)]
struct MeasuredList(List);

impl Measured for MeasuredList {
    const NAME: &'static str = "list";
    fn add(&mut self, number: u64, blocks: &Arc<Blocks>) {
        let side = if number.is_multiple_of(2) { Side::Start } else { Side::End };
        self.0.push(side, &Text::new(&name(number)), blocks);
    }
    fn find(&self, number: u64) -> bool {
        self.0.read().get(mixed(number) % self.len()).is_some()
    }
    fn remove(&mut self, number: u64) {
        self.0.remove(mixed(number) % self.len());
    }
    fn len(&self) -> u64 {
        self.0.read().len()
    }
    fn bytes(&self) -> u64 {
        self.0.read().bytes()
    }
    fn copy(&self) -> Self {
        MeasuredList(self.0.read().to_owned())
    }
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Returns the CPU time per number, in nanoseconds.
fn timed(numbers: impl Iterator<Item = u64>, mut work: impl FnMut(u64)) -> u64 {
    let (mut count, started) = (0, cpu_ns());
    for number in numbers {
        work(number);
        count += 1;
    }
    (cpu_ns() - started) / count.max(1)
}

fn measure<M: Measured>(size: u64) {
    let pool = Arc::new(PagePool::default());
    let blocks = Blocks::new(Arc::clone(&pool));
    let mut it = M::default();
    let before = resident_bytes();
    let fill = |it: &mut M, numbers: std::ops::Range<u64>| {
        timed(numbers, |number| it.add(number, &blocks))
    };
    let first_ns = fill(&mut it, 0..size / 5);
    let (first, first_resident) = (it.bytes(), resident_bytes());
    let add_ns = fill(&mut it, size / 5..size);
    let slope = (resident_bytes() - first_resident) as f64 / (size - size / 5) as f64;
    let each = (it.bytes() - first) as f64 / (size - size / 5) as f64;
    let sample = (size / 4).min(1_000_000);
    let find_ns = timed(0..sample, |number| assert!(it.find(mixed(number) % size)));
    let copy = it.copy();
    let shared_ns = timed(0..sample / 10, |number| it.add(size + number, &blocks));
    drop(copy);
    let removed = size / 10..size;
    let remove_ns = timed(removed.map(|number| mixed(number) % size), |number| it.remove(number));
    let again_ns = timed(size / 10..size, |number| {
        if it.len() > size / 10 {
            it.remove(number);
        }
    });
    println!(
        "{}: {size} elements: add {first_ns} then {add_ns} ns, find {find_ns} ns, add beside a \
         clone {shared_ns} ns, remove {remove_ns} and {again_ns} ns; {each:.1} bytes each, \
         resident {slope:.1} (in all {:.1}); {} left of {:.1} bytes each",
        M::NAME,
        (it.bytes().max(1) + resident_bytes() - before - it.bytes()) as f64 / it.len() as f64,
        it.len(),
        it.bytes() as f64 / it.len() as f64
    );
}

#[test]
#[ignore = "it measures, and shows nothing right or wrong"]
fn measure_collections() {
    let size = std::env::var("NAGI_MEASURE_ELEMENTS").ok().and_then(|it| it.parse().ok());
    let size = size.unwrap_or(1_000_000);
    measure::<MeasuredSet>(size);
    measure::<MeasuredHash>(size);
    measure::<MeasuredSortedSet>(size);
    measure::<MeasuredList>(size);
}
