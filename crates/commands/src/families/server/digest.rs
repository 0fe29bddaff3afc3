//! DEBUG DIGEST and DIGEST-VALUE: digests of 20 bytes, which are equal for equal data, independent
//! of its order in memory. They equal the digests of Redis (`debug.c` of Redis 7): parts whose
//! order matters are *mixed*, and elements of unordered collections are combined by exclusive or.

use crate::runtime::numbers::shortest;
use crate::runtime::suspension::Slice;
use crate::{Context, Error, JobProgress};
use nagi_proto::{Args, Chunk};
use nagi_store::types::key::Cursor;
use nagi_store::{CHUNK_BYTES, Counters, EntryView, Rope, SharedValue, StringValue, Value};
use sha1::{Digest as _, Sha1};
use std::collections::VecDeque;
use std::ops::ControlFlow;

/// Entries between two readings of the clock; they are copied under the latch.
const STRIDE: usize = 8;
/// Elements of a collection that are hashed between two readings of the clock.
const ELEMENTS_PER_STEP: u64 = 64;

/// A sum of 20 bytes, initially zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum([u8; 20]);

impl Sum {
    /// Combines a hash with the sum by exclusive or, so that the order does not matter.
    fn add(&mut self, hash: &[u8]) {
        self.0.iter_mut().zip(hash).for_each(|(byte, other)| *byte ^= other);
    }

    /// Combines a hash with the sum by exclusive or and hashes the result, so that the order
    /// matters.
    fn mix(&mut self, hash: &[u8]) {
        self.add(hash);
        self.0 = Sha1::digest(self.0).into();
    }

    fn mix_bytes(&mut self, bytes: &[u8]) {
        self.mix(&Sha1::digest(bytes));
    }

    fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A value whose contents are being hashed.
enum Content {
    /// A string, hashed chunk by chunk.
    String(Rope),
    /// A collection, hashed element by element.
    Collection(SharedValue),
}

impl Content {
    fn of(value: &Value<'_>) -> Self {
        match value {
            Value::String(StringValue::Rope(rope)) => Content::String(Rope::clone(rope)),
            Value::String(string) => Content::String(string.with_bytes(Rope::from_bytes)),
            value => Content::Collection(value.share()),
        }
    }

    /// The number by which digests identify its type.
    fn number(&self) -> u32 {
        match self {
            Content::String(_) => 0,
            Content::Collection(value) => match value.read() {
                Value::String(_) => 0,
                Value::List(_) => 1,
                Value::Set(_) => 2,
                Value::SortedSet(_) => 3,
                Value::Hash(_) => 4,
                Value::Stream(_) => 6,
            },
        }
    }
}

/// Adds some elements of a collection, beginning with the element at `rank`. Returns whether there
/// are more.
fn add_elements(sum: &mut Sum, value: Value<'_>, rank: u64) -> bool {
    let mut left = ELEMENTS_PER_STEP;
    let mut go_on = || {
        left -= 1;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let broken_off = match value {
        Value::String(_) => None,
        Value::List(list) => list.walk(rank, |item| {
            item.with_bytes(|item| sum.mix_bytes(item));
            go_on()
        }),
        Value::Set(set) => set.walk(rank, |member| {
            member.with_bytes(|member| sum.add(&Sha1::digest(member)));
            go_on()
        }),
        Value::SortedSet(set) => set.walk(rank, |member| {
            let mut element = Sum::default();
            member.name.with_bytes(|name| element.mix_bytes(name));
            element.mix_bytes(shortest(member.score).as_bytes());
            sum.add(&Sha1::digest(element.0));
            go_on()
        }),
        Value::Hash(hash) => hash.walk(rank, |field| {
            let mut element = Sum::default();
            field.name.with_bytes(|name| element.mix_bytes(name));
            field.value.with_bytes(|value| element.mix_bytes(value));
            if field.expires_at_ms.is_some() {
                element.add(&Sha1::digest(b"!!hexpire!!"));
            }
            sum.add(&Sha1::digest(element.0));
            go_on()
        }),
        Value::Stream(stream) => stream.walk_after(rank, |entry| {
            sum.mix_bytes(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (name, value) in entry.fields() {
                name.with_bytes(|name| sum.mix_bytes(name));
                value.with_bytes(|value| sum.mix_bytes(value));
            }
            go_on()
        }),
    };
    broken_off.is_some()
}

/// A value that is hashed in several slices.
struct Work {
    /// The sum into which the value is mixed. Initially, it is the hash of the key, or zero.
    sum: Sum,
    /// A long key that has not been mixed in completely, and the number of its bytes already
    /// hashed.
    key: Option<(Chunk, usize)>,
    content: Content,
    next: usize,
    hash: Sha1,
    expires: bool,
}

impl Work {
    fn new(with_key: bool, entry: &EntryView<'_>) -> Self {
        let (mut sum, content) = (Sum::default(), Content::of(&entry.value()));
        let key = entry.long_key().filter(|_| with_key).map(|key| (key, 0));
        if key.is_none() {
            if with_key {
                sum.mix_bytes(entry.key());
            }
            sum.mix_bytes(&content.number().to_be_bytes());
        }
        let expires = entry.expire_at_ms().is_some();
        Work { sum, key, content, next: 0, hash: Sha1::new(), expires }
    }

    /// Hashes one chunk. Returns the digest once everything is hashed.
    fn step(&mut self) -> Option<Sum> {
        if let Some((key, hashed)) = &mut self.key {
            let rest = key.get(*hashed..).unwrap_or_default();
            let piece = rest.get(..CHUNK_BYTES).unwrap_or(rest);
            self.hash.update(piece);
            *hashed += piece.len();
            if piece.len() == rest.len() {
                self.key = None;
                self.sum.mix(&std::mem::take(&mut self.hash).finalize());
                self.sum.mix_bytes(&self.content.number().to_be_bytes());
            }
            return None;
        }
        match &self.content {
            Content::String(rope) => {
                if let Some(chunk) = rope.chunk(self.next) {
                    self.hash.update(chunk);
                    self.next += 1;
                    return None;
                }
                self.sum.mix(&std::mem::take(&mut self.hash).finalize());
            }
            Content::Collection(value) => {
                let rank = self.next as u64;
                self.next += ELEMENTS_PER_STEP as usize;
                if add_elements(&mut self.sum, value.read(), rank) {
                    return None;
                }
            }
        }
        if self.expires {
            self.sum.add(&Sha1::digest(b"!!expire!!"));
        }
        Some(self.sum)
    }
}

/// A walk over all databases.
#[derive(Default)]
struct Whole {
    sum: Sum,
    database: usize,
    /// Whether the walk over the current database has begun.
    begun: bool,
    cursor: Cursor,
    waiting: VecDeque<Work>,
}

impl Whole {
    /// Hashes a few entries. Returns whether all entries are hashed.
    fn step(&mut self, cx: &Context<'_>) -> bool {
        if let Some(work) = self.waiting.front_mut() {
            if let Some(sum) = work.step() {
                // As in Redis, the digest of an entry is hashed again.
                self.sum.add(&Sha1::digest(sum.0));
                self.waiting.pop_front();
            }
            return false;
        }
        if self.database == cx.db.store().databases() {
            return true;
        }
        let unused = Counters::default();
        let db = cx.db.store().database(self.database, &unused, cx.db.now_ms());
        if !self.begun {
            if db.size() == 0 {
                self.database += 1;
                return false;
            }
            let number = u32::try_from(self.database).unwrap_or(u32::MAX);
            self.sum.mix_bytes(&number.to_be_bytes());
        }
        let waiting = &mut self.waiting;
        self.cursor = db.scan(self.cursor, STRIDE, |entry| {
            waiting.push_back(Work::new(true, &entry));
        });
        self.begun = self.cursor != 0;
        self.database += usize::from(!self.begun);
        false
    }
}

/// Executes DEBUG DIGEST.
pub(crate) fn whole<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    let mut whole = Whole::default();
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        while !whole.step(cx) {
            if slice.is_over() {
                return Ok(JobProgress::NEXT_TICK);
            }
        }
        cx.reply.simple(&whole.sum.text());
        Ok(JobProgress::Done)
    }))
}

/// Executes DEBUG DIGEST-VALUE.
pub(crate) fn values<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let mut next = 2;
    let mut work: Option<Work> = None;
    let mut sums = Vec::with_capacity(args.len().saturating_sub(next));
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        while next < cx.args.len() || work.is_some() {
            match work.as_mut().map(Work::step) {
                Some(None) => {}
                Some(Some(sum)) => {
                    sums.push(sum);
                    work = None;
                }
                None => {
                    let key = cx.db.key(cx.args.at(next));
                    next += 1;
                    work = cx
                        .db
                        .untouched()
                        .unnoticed()
                        .get(key, |entry| Some(Work::new(false, &entry?)));
                    if work.is_none() {
                        sums.push(Sum::default());
                    }
                }
            }
            if slice.is_over() {
                return Ok(JobProgress::NEXT_TICK);
            }
        }
        cx.reply.array(sums.len());
        sums.iter().for_each(|sum| cx.reply.simple(&sum.text()));
        Ok(JobProgress::Done)
    }))
}
