//! HyperLogLogs: strings in Redis' HYLL format, identical byte for byte.
//!
//! ```text
//!   HYLL  encoding  0 0 0  cached cardinality, little endian; its highest bit: not valid
//!   4     1         3      8                                                    = 16 bytes
//! ```
//!
//! After this header follow 16384 registers of six bits each. A dense sketch has one after the
//! other, low bits first. A sparse one has runs: `00nnnnnn` for n+1 registers of zero, `01nnnnnn
//! nnnnnnnn` for up to 16384 of them, `1vvvvvnn` for n+1 registers of v+1. The format is described
//! at the top of Redis' `hyperloglog.c`; the estimator is Ertl's, "New cardinality estimation
//! algorithms for HyperLogLog sketches", 2017.

use super::Refusal;
use crate::effects::event::Event;
use crate::entry::key::Key;
use crate::entry::value::{NewValue, WrongType};
use crate::keyspace::database::Database;
use crate::keyspace::slot::Slot;
use crate::value::rope::{Patch, StringMut};
use crate::value::string::StringValue;

/// The number of registers of a sketch.
pub const REGISTERS: usize = 1 << INDEX_BITS;

const INDEX_BITS: u32 = 14;
/// The number of bits of a hash that determine the rank.
const RANK_BITS: u32 = 64 - INDEX_BITS;
const SEED: u64 = 0xadc8_3b19;
const HEADER_BYTES: usize = 16;
const ENCODING_AT: usize = 4;
const CACHE_AT: usize = 8;
const INVALID: u8 = 0x80;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * 6 / 8;
/// The maximum size of a sparse sketch: each run covers at least one register, and takes at most
/// two bytes.
const SPARSE_BYTES: usize = HEADER_BYTES + 2 * REGISTERS;
const MAX_SPARSE_RANK: u8 = 32;

/// The contribution of an element to a sketch: the index of a register, and its minimum rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    register: u16,
    rank: u8,
}

impl Mark {
    /// Returns the contribution of `element`.
    #[must_use]
    pub fn of(element: &[u8]) -> Self {
        let hash = hash(element);
        let register = (hash & (REGISTERS as u64 - 1)) as u16;
        let rest = hash >> INDEX_BITS | 1 << RANK_BITS;
        Mark { register, rank: rest.trailing_zeros() as u8 + 1 }
    }
}

/// MurmurHash64A (Appleby). Redis reads the input as little endian on all platforms.
fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    let scramble = |word: u64| word ^ word >> 47;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks();
    for word in words {
        let word = scramble(u64::from_le_bytes(*word).wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ word).wrapping_mul(FACTOR);
    }
    scramble(scramble(hash).wrapping_mul(FACTOR))
}

/// An owned sketch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch(Vec<u8>);

/// The ranks of all registers.
#[derive(Clone, Debug)]
pub struct Registers(Vec<u8>);

impl Default for Sketch {
    fn default() -> Self {
        let mut bytes = b"HYLL".to_vec();
        bytes.resize(HEADER_BYTES, 0);
        if let Some(encoding) = bytes.get_mut(ENCODING_AT) {
            *encoding = SPARSE;
        }
        bytes.extend(zeros(REGISTERS));
        Sketch(bytes)
    }
}

impl Sketch {
    /// Parses a string as a sketch.
    ///
    /// # Errors
    /// [`Refusal::NotASketch`] if it is not a sketch.
    pub fn new(bytes: &[u8]) -> Result<Self, Refusal> {
        check(bytes)?;
        Ok(Sketch(bytes.to_vec()))
    }

    /// Returns the string.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether its encoding is dense.
    #[must_use]
    pub fn is_dense(&self) -> bool {
        is_dense(&self.0)
    }

    /// Adds an element. Returns whether the sketch changed. `sparse_limit_bytes` is the maximum
    /// size of a sparse sketch.
    ///
    /// # Errors
    /// [`Refusal::Corrupted`].
    pub fn add(&mut self, mark: Mark, sparse_limit_bytes: usize) -> Result<bool, Refusal> {
        let changed = if self.is_dense() {
            raise(&mut self.0, mark)
        } else {
            self.add_sparsely(mark, sparse_limit_bytes)?
        };
        if changed {
            invalidate(&mut self.0);
        }
        Ok(changed)
    }

    /// Raises the registers to the ranks of `registers`, starting at index `from`, until `is_over`.
    /// Returns the index to continue at, or `None` at the end.
    ///
    /// # Errors
    /// [`Refusal::Corrupted`].
    pub fn merge(
        &mut self,
        registers: &Registers,
        from: usize,
        sparse_limit_bytes: usize,
        mut is_over: impl FnMut() -> bool,
    ) -> Result<Option<usize>, Refusal> {
        for (register, rank) in registers.0.iter().enumerate().skip(from) {
            if *rank > 0 {
                let mark = Mark { register: register as u16, rank: *rank };
                self.add(mark, sparse_limit_bytes)?;
            }
            if register % 64 == 63 && register + 1 < REGISTERS && is_over() {
                return Ok(Some(register + 1));
            }
        }
        invalidate(&mut self.0);
        Ok(None)
    }

    /// Converts the sketch to the dense encoding. Returns whether it was sparse.
    ///
    /// # Errors
    /// [`Refusal::Corrupted`].
    pub fn make_dense(&mut self) -> Result<bool, Refusal> {
        if self.is_dense() {
            return Ok(false);
        }
        let mut registers = Registers::default();
        registers.merge(&self.0)?;
        let mut dense = vec![0; DENSE_BYTES];
        for (to, from) in dense.iter_mut().zip(self.0.iter().take(HEADER_BYTES)) {
            *to = *from;
        }
        if let Some(encoding) = dense.get_mut(ENCODING_AT) {
            *encoding = DENSE;
        }
        for (register, rank) in registers.0.iter().enumerate() {
            raise(&mut dense, Mark { register: register as u16, rank: *rank });
        }
        self.0 = dense;
        Ok(true)
    }

    /// Returns the runs of a sparse sketch in the format of PFDEBUG DECODE.
    #[must_use]
    pub fn runs(&self) -> String {
        let mut at = HEADER_BYTES;
        let mut shown = Vec::new();
        while let Some(run) = Run::read(&self.0, at) {
            at += run.bytes;
            shown.push(match (run.rank, run.bytes) {
                (0, 1) => format!("z:{}", run.len),
                (0, _) => format!("Z:{}", run.len),
                (rank, _) => format!("v:{rank},{}", run.len),
            });
        }
        shown.join(" ")
    }

    fn add_sparsely(&mut self, mark: Mark, limit_bytes: usize) -> Result<bool, Refusal> {
        if mark.rank > MAX_SPARSE_RANK {
            return self.add_densely(mark);
        }
        let index = usize::from(mark.register);
        let (mut at, mut first, mut previous) = (HEADER_BYTES, 0, None);
        let run = loop {
            let run = Run::read(&self.0, at).ok_or(Refusal::Corrupted)?;
            if index < first + run.len {
                break run;
            }
            previous = Some(at);
            (at, first) = (at + run.bytes, first + run.len);
        };
        if run.rank >= mark.rank {
            return Ok(false);
        }
        // The run is split into the part before the register, the register, and the part after it.
        let (before, after) = (index - first, first + run.len - index - 1);
        let part = |len: usize| match run.rank {
            0 => zeros(len).collect(),
            rank => values(rank, len),
        };
        let parts = [part(before), values(mark.rank, 1), part(after)].concat();
        if parts.len() > run.bytes && self.0.len() + parts.len() - run.bytes > limit_bytes {
            return self.add_densely(mark);
        }
        self.0.splice(at..at + run.bytes, parts);
        self.join_runs(previous.unwrap_or(HEADER_BYTES));
        Ok(true)
    }

    /// Merges adjacent runs of equal rank, among those that a single change can affect.
    fn join_runs(&mut self, mut at: usize) {
        const RUNS: usize = 5;
        const MOST: usize = 4;
        for _ in 0..RUNS {
            let Some(run) = Run::read(&self.0, at) else { return };
            let next = Run::read(&self.0, at + run.bytes).filter(|next| next.rank == run.rank);
            match next {
                Some(next) if run.rank > 0 && run.len + next.len <= MOST => {
                    self.0.splice(at..at + 2, values(run.rank, run.len + next.len));
                }
                _ => at += run.bytes,
            }
        }
    }

    fn add_densely(&mut self, mark: Mark) -> Result<bool, Refusal> {
        self.make_dense()?;
        Ok(raise(&mut self.0, mark))
    }
}

/// A run of a sparse sketch.
struct Run {
    rank: u8,
    len: usize,
    bytes: usize,
}

impl Run {
    fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let byte = *bytes.get(at)?;
        Some(match byte >> 6 {
            0 => Run { rank: 0, len: usize::from(byte & 0x3f) + 1, bytes: 1 },
            1 => {
                let low = *bytes.get(at + 1)?;
                Run {
                    rank: 0,
                    len: (usize::from(byte & 0x3f) << 8 | usize::from(low)) + 1,
                    bytes: 2,
                }
            }
            _ => Run { rank: (byte >> 2 & 0x1f) + 1, len: usize::from(byte & 3) + 1, bytes: 1 },
        })
    }
}

/// Encodes a run of `len` zeros; nothing if `len` is 0.
fn zeros(len: usize) -> impl Iterator<Item = u8> {
    let count = len.saturating_sub(1);
    let [high, low] = [(count >> 8) as u8 | 0x40, count as u8];
    let bytes = if len > 64 { [Some(high), Some(low)] } else { [None, Some(low)] };
    bytes.into_iter().flatten().filter(move |_| len > 0)
}

/// Encodes a run of a rank; nothing if `len` is 0.
fn values(rank: u8, len: usize) -> Vec<u8> {
    if len == 0 { Vec::new() } else { vec![0x80 | (rank - 1) << 2 | (len - 1) as u8] }
}

impl Default for Registers {
    fn default() -> Self {
        Registers(vec![0; REGISTERS])
    }
}

impl Registers {
    /// Returns the ranks in order.
    pub fn ranks(&self) -> impl ExactSizeIterator<Item = u8> {
        self.0.iter().copied()
    }

    /// Raises the registers to the ranks of a sketch.
    ///
    /// # Errors
    /// [`Refusal::NotASketch`] or [`Refusal::Corrupted`].
    pub fn merge(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        check(bytes)?;
        if is_dense(bytes) {
            for (register, rank) in self.0.iter_mut().enumerate() {
                *rank = (*rank).max(rank_at(bytes, register));
            }
            return Ok(());
        }
        walk(bytes, |first, run| {
            if run.rank > 0 {
                let ranks = self.0.iter_mut().skip(first).take(run.len);
                ranks.for_each(|rank| *rank = (*rank).max(run.rank));
            }
        })
    }

    /// Returns the estimated number of distinct elements.
    #[must_use]
    pub fn cardinality(&self) -> u64 {
        let mut histogram = Histogram::default();
        self.0.iter().for_each(|rank| histogram.add(*rank, 1));
        histogram.cardinality()
    }
}

/// Visits all runs of a sparse sketch, each with the index of its first register.
fn walk(bytes: &[u8], mut look: impl FnMut(usize, &Run)) -> Result<(), Refusal> {
    let (mut at, mut first) = (HEADER_BYTES, 0);
    while at < bytes.len() {
        let run = Run::read(bytes, at).ok_or(Refusal::Corrupted)?;
        if first + run.len > REGISTERS {
            return Err(Refusal::Corrupted);
        }
        look(first, &run);
        (at, first) = (at + run.bytes, first + run.len);
    }
    if first == REGISTERS { Ok(()) } else { Err(Refusal::Corrupted) }
}

/// The number of registers of each rank.
struct Histogram([u32; 64]);

impl Default for Histogram {
    fn default() -> Self {
        Histogram([0; 64])
    }
}

impl Histogram {
    fn add(&mut self, rank: u8, registers: usize) {
        if let Some(count) = self.0.get_mut(usize::from(rank)) {
            *count += registers as u32;
        }
    }

    fn cardinality(&self) -> u64 {
        const M: f64 = REGISTERS as f64;
        /// 1 / (2 ln 2), with as many digits as in Redis.
        const ALPHA: f64 = 0.721_347_520_444_481_7;
        let of = |rank: u32| self.0.get(rank as usize).map_or(0.0, |count| f64::from(*count));
        let mut z = M * tau((M - of(RANK_BITS + 1)) / M);
        for rank in (1..=RANK_BITS).rev() {
            z = (z + of(rank)) * 0.5;
        }
        z += M * sigma(of(0) / M);
        let estimate = (ALPHA * M * M / z).round();
        // All registers of a damaged sketch may be full; Redis' conversion then has this result.
        if estimate.is_finite() { estimate as u64 } else { i64::MIN.cast_unsigned() }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn check(bytes: &[u8]) -> Result<(), Refusal> {
    let is_sketch = bytes.len() >= HEADER_BYTES
        && bytes.starts_with(b"HYLL")
        && match bytes.get(ENCODING_AT) {
            Some(&DENSE) => bytes.len() == DENSE_BYTES,
            encoding => encoding == Some(&SPARSE),
        };
    if !is_sketch {
        return Err(Refusal::NotASketch);
    }
    if bytes.len() > SPARSE_BYTES { Err(Refusal::Corrupted) } else { Ok(()) }
}

fn is_dense(bytes: &[u8]) -> bool {
    bytes.get(ENCODING_AT) == Some(&DENSE)
}

/// Returns the two bytes that contain a register of a dense sketch, their index, and the register's
/// lowest bit.
fn dense_window(bytes: &[u8], register: usize) -> (u16, usize, usize) {
    let at = HEADER_BYTES + register * 6 / 8;
    let byte = |at: usize| u16::from(bytes.get(at).copied().unwrap_or(0));
    (byte(at) | byte(at + 1) << 8, at, register * 6 % 8)
}

fn rank_at(bytes: &[u8], register: usize) -> u8 {
    let (window, _, shift) = dense_window(bytes, register);
    (window >> shift & 0x3f) as u8
}

/// Raises a register of a dense sketch. Returns whether its rank was lower.
fn raise(bytes: &mut [u8], mark: Mark) -> bool {
    let (window, at, shift) = dense_window(bytes, usize::from(mark.register));
    let is_lower = ((window >> shift & 0x3f) as u8) < mark.rank;
    if is_lower {
        let window = window & !(0x3f << shift) | u16::from(mark.rank) << shift;
        let target = bytes.iter_mut().skip(at);
        target.zip(window.to_le_bytes()).for_each(|(to, from)| *to = from);
    }
    is_lower
}

fn invalidate(bytes: &mut [u8]) {
    if let Some(byte) = bytes.get_mut(HEADER_BYTES - 1) {
        *byte |= INVALID;
    }
}

fn cached(bytes: &[u8]) -> Option<u64> {
    let cache = bytes.get(CACHE_AT..HEADER_BYTES)?.first_chunk()?;
    let is_valid = bytes.get(HEADER_BYTES - 1).is_some_and(|byte| byte & INVALID == 0);
    is_valid.then(|| u64::from_le_bytes(*cache))
}

fn estimate(bytes: &[u8]) -> Result<u64, Refusal> {
    let mut histogram = Histogram::default();
    if is_dense(bytes) {
        (0..REGISTERS).for_each(|register| histogram.add(rank_at(bytes, register), 1));
    } else {
        walk(bytes, |_, run| histogram.add(run.rank, run.len))?;
    }
    Ok(histogram.cardinality())
}

impl Database<'_> {
    /// Adds elements to a sketch, which is created if there is none. Returns whether it changed.
    /// The latch is held for all of them, so there should be few.
    ///
    /// # Errors
    /// [`Refusal::WrongType`], [`Refusal::NotASketch`] or [`Refusal::Corrupted`]; elements added
    /// before the error stay.
    pub fn add_to_sketch(
        &self,
        key: Key<'_>,
        marks: &[Mark],
        sparse_limit_bytes: usize,
    ) -> Result<bool, Refusal> {
        self.write(key, |slot| {
            let mut changed = false;
            if marks.is_empty() && slot.string()?.is_some_and(looks_like_one) {
                show_as_raw(slot)?;
                return Ok(false);
            }
            let mut sketch = match slot.string()? {
                None => {
                    changed = true;
                    Sketch::default()
                }
                Some(StringValue::Bytes(bytes)) => {
                    check(bytes)?;
                    let news = |mark: &Mark| rank_at(bytes, usize::from(mark.register)) < mark.rank;
                    if is_dense(bytes) {
                        let changed = marks.iter().any(news);
                        if changed {
                            slot.change(0, |string| raise_in_place(string, marks))?;
                            slot.note(Event::PfAdd);
                        }
                        return Ok(changed);
                    }
                    Sketch(bytes.to_vec())
                }
                Some(value) => return Err(refusal_of(value)),
            };
            let mut result = Ok(());
            for mark in marks {
                match sketch.add(*mark, sparse_limit_bytes) {
                    Ok(news) => changed |= news,
                    Err(refusal) => {
                        result = Err(refusal);
                        break;
                    }
                }
            }
            if changed {
                // Redis invalidates the cache of a new sketch as well.
                invalidate(&mut sketch.0);
                slot.set_or_put(NewValue::raw(sketch.bytes()));
                slot.note(Event::PfAdd);
            } else {
                show_as_raw(slot)?;
            }
            result.map(|()| changed)
        })
    }

    /// Returns the estimated number of distinct elements of a sketch; 0 if there is none. The
    /// estimate is cached in the sketch until it changes.
    ///
    /// # Errors
    /// [`Refusal::NotASketch`] or [`Refusal::Corrupted`].
    pub fn sketch_cardinality(&self, key: Key<'_>) -> Result<u64, Refusal> {
        self.write(key, |slot| {
            self.count_lookup_in(slot);
            let estimated = match slot.string()? {
                None => return Ok(0),
                Some(StringValue::Bytes(bytes)) => match cached_or_none(bytes)? {
                    Some(cached) => return Ok(cached),
                    None => estimate(bytes)?,
                },
                Some(StringValue::Rope(rope)) => {
                    let start: &[u8] = rope.chunk(0).map_or(&[], |start| start);
                    return cached_or_none(start)?.ok_or(Refusal::Corrupted);
                }
                Some(value) => return Err(refusal_of(value)),
            };
            let bytes = estimated.to_le_bytes();
            slot.change(0, |string| string.write(&Patch::new(CACHE_AT, &bytes)))?;
            Ok(estimated)
        })
    }
}

/// Returns the estimate cached in a sketch. As in Redis, one that is too long is not noticed while
/// there is one.
fn cached_or_none(bytes: &[u8]) -> Result<Option<u64>, Refusal> {
    match (check(bytes), cached(bytes)) {
        (Ok(()) | Err(Refusal::Corrupted), Some(cached)) => Ok(Some(cached)),
        (checked, _) => checked.map(|()| None),
    }
}

/// Makes OBJECT ENCODING report a restored sketch as `raw`, as Redis does after any PFADD, even one
/// that changes nothing.
fn show_as_raw(slot: &mut Slot<'_>) -> Result<(), WrongType> {
    if slot.entry().is_some_and(|entry| entry.encoding_name() != "raw") {
        slot.change_counted(0, |_, _| ((), 0))?;
    }
    Ok(())
}

/// Whether a value has the header of a sketch.
fn looks_like_one(value: StringValue<'_>) -> bool {
    let is_one = |start: &[u8]| check(start) != Err(Refusal::NotASketch);
    match value {
        StringValue::Bytes(bytes) => is_one(bytes),
        StringValue::Rope(rope) => rope.chunk(0).is_some_and(|start| is_one(start)),
        StringValue::Int(_) => false,
    }
}

/// Returns the error for a value that is an integer, or longer than any sketch.
fn refusal_of(value: StringValue<'_>) -> Refusal {
    let start = match value {
        StringValue::Rope(rope) => rope.chunk(0),
        _ => None,
    };
    start.and_then(|start| check(start).err()).unwrap_or(Refusal::NotASketch)
}

fn raise_in_place(string: &mut StringMut<'_>, marks: &[Mark]) {
    if let Some(bytes) = string.piece_mut() {
        for mark in marks {
            raise(bytes, *mark);
        }
        invalidate(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn added(elements: std::ops::Range<u32>, limit_bytes: usize) -> Sketch {
        let mut sketch = Sketch::default();
        for element in elements {
            sketch.add(Mark::of(&element.to_le_bytes()), limit_bytes).unwrap();
        }
        sketch
    }

    #[test]
    fn an_empty_sketch_is_one_run() {
        let sketch = Sketch::default();
        assert_eq!(sketch.bytes(), b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff");
        assert_eq!(sketch.runs(), "Z:16384");
        assert_eq!(estimate(sketch.bytes()), Ok(0));
    }

    #[test]
    fn estimates_are_within_the_error_bound() {
        for count in [1, 10, 100, 1000, 10_000, 300_000] {
            let sketch = added(0..count, 3000);
            let estimated = estimate(sketch.bytes()).unwrap() as f64;
            let error = (estimated - f64::from(count)).abs() / f64::from(count);
            assert!(error < 0.03, "{count}: {estimated}");
        }
    }

    proptest! {
        #[test]
        fn sparse_and_dense_estimates_are_equal(from: u32, count in 1..3000_u32) {
            let range = from.wrapping_add(0)..from.saturating_add(count);
            let sparse = added(range.clone(), usize::MAX);
            let mut dense = Sketch::default();
            dense.make_dense().unwrap();
            for element in range {
                dense.add(Mark::of(&element.to_le_bytes()), 0).unwrap();
            }
            prop_assert!(!sparse.is_dense() || sparse.bytes() == dense.bytes());
            let [mut one, mut other] = [Registers::default(), Registers::default()];
            one.merge(sparse.bytes()).unwrap();
            other.merge(dense.bytes()).unwrap();
            prop_assert_eq!(&one.0, &other.0);
            prop_assert_eq!(estimate(sparse.bytes()), estimate(dense.bytes()));
            let mut promoted = sparse;
            promoted.make_dense().unwrap();
            prop_assert_eq!(promoted.bytes(), dense.bytes());
        }

        #[test]
        fn corrupted_sketches_are_handled(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            mark in (0..16384_u16, 1..52_u8),
        ) {
            let bytes = [&Sketch::default().bytes()[..HEADER_BYTES], &bytes].concat();
            let mut sketch = Sketch::new(&bytes).unwrap();
            let _ = sketch.runs();
            let _ = estimate(&bytes);
            let _ = Registers::default().merge(&bytes);
            let _ = sketch.add(Mark { register: mark.0, rank: mark.1 }, 3000);
        }
    }
}
