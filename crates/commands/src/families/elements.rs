//! Replies with elements of collections: all elements, random elements, or those of one step of a
//! scan by cursor.
//!
//! A small collection is written while its latch is held. A larger one is shared: the shared value
//! is immutable, and is written in slices, as its client reads.

use crate::families::keys::keyspace::{NO_VALUES, cursor};
use crate::glob::Pattern;
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::context::Job;
use crate::runtime::numbers::score;
use crate::runtime::suspension::Slice;
use crate::{Context, Error, JobProgress};
use fastrand::Rng;
use nagi_proto::resp::Writer;
use nagi_proto::{Args, OutputMark};
use nagi_store::{Member, StringValue};
use std::collections::HashSet;

/// Maximum elements that are written while a latch is held, and between two readings of the clock.
pub(crate) const ELEMENTS_PER_HOLD: u64 = 64;
/// Maximum memory of a collection that is written as a whole while its latch is held, in bytes.
pub(crate) const BYTES_PER_HOLD: u64 = 16 * 1024;
/// Bytes copied while a latch is held after which only one more part of a reply is written. Strings
/// that a collection does not store out of line are too short to reach it.
const COPIED_PER_HOLD: usize = 64 * 1024;

/// Writes a string of a collection.
pub(crate) fn write(reply: &mut Writer<'_>, string: StringValue<'_>) {
    match string {
        StringValue::Bytes(bytes) => reply.bulk(bytes),
        StringValue::Int(value) => reply.bulk_integer(value),
        StringValue::Rope(rope) => reply.bulk_chunks(rope.share(), 0..rope.len()),
    }
}

/// A reply with a few elements of a collection of any size, written while its latch is held. If it
/// turns out to be long, it is removed, to be written without the latch.
#[derive(Debug)]
pub(crate) struct ShortReply<'r, 'w> {
    reply: &'r mut Writer<'w>,
    before: OutputMark,
    is_short: bool,
}

impl<'r, 'w> ShortReply<'r, 'w> {
    pub(crate) fn begin(reply: &'r mut Writer<'w>) -> Self {
        let before = reply.mark();
        ShortReply { reply, before, is_short: true }
    }

    /// Writes a part of the reply, unless the parts before it are long.
    #[inline]
    pub(crate) fn add(&mut self, part: impl FnOnce(&mut Writer<'_>)) {
        if self.reply.copied_since(self.before) <= COPIED_PER_HOLD {
            part(self.reply);
        } else {
            self.is_short = false;
        }
    }

    /// Whether all parts were written. Otherwise, those that were are removed.
    pub(crate) fn end(self) -> bool {
        if !self.is_short {
            self.reply.cut_back(self.before);
        }
        self.is_short
    }
}

/// Writes a score.
pub(crate) fn write_score(reply: &mut Writer<'_>, number: f64) {
    reply.decimal(&score(number));
}

/// Writes a member of a sorted set. With its score, it is an element of [`Writer::pairs`].
pub(crate) fn write_member(reply: &mut Writer<'_>, member: &Member<'_>, with_score: bool) {
    if with_score {
        reply.pair();
    }
    write(reply, member.name);
    if with_score {
        write_score(reply, member.score);
    }
}

/// Begins an array of this number of members, with or without their scores.
pub(crate) fn begin_members(reply: &mut Writer<'_>, members: u64, with_scores: bool) {
    if with_scores { reply.pairs(members as usize) } else { reply.array(members as usize) }
}

/// Calls `write` for one part of the reply after the other, slice by slice and as the client reads,
/// until `write` returns that the part was the last.
pub(crate) fn in_strides(
    cx: &mut Context<'_>,
    write: impl FnMut(&mut Writer<'_>) -> bool + Send + 'static,
) -> Result<(), Error> {
    cx.start(strides(write))
}

/// A job that calls `write` as `in_strides` does.
pub(crate) fn strides(mut write: impl FnMut(&mut Writer<'_>) -> bool + Send + 'static) -> Job {
    Box::new(move |cx| {
        let slice = Slice::begin();
        loop {
            if write(&mut cx.reply) {
                return Ok(JobProgress::Done);
            }
            if slice.is_over() {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
    })
}

/// Parses the number of random elements to return; a negative count allows repetitions.
pub(crate) fn drawn_count(argument: &[u8]) -> Result<i64, Error> {
    let count = integer(argument)?;
    if count == i64::MIN {
        return Err(Error::fixed(
            "ERR value is out of range, value must between -9223372036854775807 and \
             9223372036854775807",
        ));
    }
    Ok(count)
}

/// Ranks drawn at random: distinct ones, unless repetitions are allowed. The same seed leads to the
/// same ranks.
#[derive(Debug)]
pub(crate) struct Drawn {
    /// Number of elements to draw from.
    len: u64,
    /// The number of ranks still to draw.
    left: u64,
    random: Rng,
    method: Method,
}

#[derive(Debug)]
enum Method {
    /// Repetitions are allowed.
    Again,
    /// All or most ranks: in ascending order, each with the probability that leads to the requested
    /// number (Knuth, "The Art of Computer Programming", volume 2, algorithm 3.4.2 S).
    InOrder { next: u64 },
    /// Few of many ranks: those drawn so far, which are not drawn again.
    Distinct(Ranks),
}

/// Ranks that have been drawn. They never move, since moving millions takes longer than a slice.
#[derive(Debug)]
enum Ranks {
    /// So few of all that a bit for each would take more memory.
    Listed(HashSet<u64>),
    /// A bit for each rank.
    Marked(Vec<u64>),
}

impl Ranks {
    const WORD_BITS: u64 = u64::BITS as u64;

    /// No ranks, with room for `most` of those below `len`.
    fn new(len: u64, most: u64) -> Self {
        /// The bits of a rank in a set, including its unused places.
        const LISTED_BITS: u64 = 128;
        if most < len / LISTED_BITS {
            Ranks::Listed(HashSet::with_capacity(most as usize))
        } else {
            // Memory that comes from the kernel is zero, and is not touched here.
            Ranks::Marked(vec![0; len.div_ceil(Self::WORD_BITS) as usize])
        }
    }

    /// Adds a rank. Returns whether it is new.
    fn insert(&mut self, rank: u64) -> bool {
        match self {
            Ranks::Listed(ranks) => ranks.insert(rank),
            Ranks::Marked(words) => {
                let bit = 1_u64 << (rank % Self::WORD_BITS);
                words.get_mut((rank / Self::WORD_BITS) as usize).is_none_or(|word| {
                    let is_new = *word & bit == 0;
                    *word |= bit;
                    is_new
                })
            }
        }
    }
}

impl Drawn {
    /// Draws `count` of `len` elements, which must not be 0; a negative count allows repetitions.
    pub(crate) fn new(len: u64, count: i64, seed: u64) -> Self {
        let wanted = count.unsigned_abs();
        let (left, method) = match count {
            ..0 => (wanted, Method::Again),
            _ if wanted >= len / 3 => (wanted.min(len), Method::InOrder { next: 0 }),
            _ => (wanted, Method::Distinct(Ranks::new(len, wanted))),
        };
        Drawn { len, left, random: Rng::with_seed(seed), method }
    }

    /// The number of ranks still to draw.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// A random number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.random.u64(..bound.max(1))
    }
}

impl Iterator for Drawn {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        loop {
            match &mut self.method {
                Method::Again => return Some(self.below(self.len)),
                Method::InOrder { next } => {
                    let rank = *next;
                    *next += 1;
                    let (remaining, wanted) = (self.len - rank, self.left + 1);
                    if wanted >= remaining || self.below(remaining) < wanted {
                        return Some(rank);
                    }
                }
                Method::Distinct(_) => {
                    let rank = self.below(self.len);
                    if let Method::Distinct(drawn) = &mut self.method
                        && drawn.insert(rank)
                    {
                        return Some(rank);
                    }
                }
            }
        }
    }
}

/// The arguments of a step of a scan by cursor.
#[derive(Debug)]
pub(crate) struct ScanOptions {
    /// The cursor with which the step begins.
    cursor: u64,
    pattern: Option<Box<[u8]>>,
    /// The approximate number of elements to scan.
    count: u64,
    /// Whether the values or scores of elements are omitted.
    pub(crate) names_only: bool,
}

impl ScanOptions {
    /// Parses the cursor of a scan of a key's elements.
    pub(crate) fn cursor(args: Args<'_>) -> Result<u64, Error> {
        cursor(args.at(2)).ok_or(Error::fixed("ERR invalid cursor"))
    }

    /// Parses the options after the cursor. `names_only` is the option that omits values or scores,
    /// if the command has one.
    pub(crate) fn parse(
        args: Args<'_>,
        cursor: u64,
        names_only: Option<&str>,
    ) -> Result<Self, Error> {
        let mut options = ScanOptions { cursor, pattern: None, count: 10, names_only: false };
        let mut rest = RemainingArguments::from(args, 3);
        while let Some(option) = rest.next() {
            if is(option, "COUNT") {
                let count = u64::try_from(integer(rest.value()?)?).ok();
                options.count = count.filter(|count| *count > 0).ok_or(Error::SYNTAX)?;
            } else if is(option, "MATCH") {
                options.pattern = Some(rest.value()?.into());
            } else if names_only.is_some_and(|word| is(option, word)) {
                options.names_only = true;
            } else if is(option, "NOVALUES") {
                return Err(NO_VALUES);
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(options)
    }
}

/// Replies that the scan is complete, without elements.
pub(crate) fn end_of_scan(reply: &mut Writer<'_>) {
    reply.array(2);
    reply.bulk(b"0");
    reply.array(0);
}

/// An element in the reply to a scan by cursor.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scanned<'a> {
    /// A member.
    Name(StringValue<'a>),
    /// A field, and its value.
    Pair(StringValue<'a>, StringValue<'a>),
    /// A member, and its formatted score.
    Scored(StringValue<'a>, &'a str),
}

impl<'a> Scanned<'a> {
    fn name(self) -> StringValue<'a> {
        match self {
            Scanned::Name(name) | Scanned::Pair(name, _) | Scanned::Scored(name, _) => name,
        }
    }

    fn write(self, reply: &mut Writer<'_>) {
        match self {
            Scanned::Name(name) => write(reply, name),
            Scanned::Pair(name, value) => {
                write(reply, name);
                write(reply, value);
            }
            Scanned::Scored(name, score) => {
                write(reply, name);
                reply.bulk(score.as_bytes());
            }
        }
    }
}

/// Replies with one step of a scan. `step` gets a cursor and about the number of elements to scan,
/// passes them on, and returns the next cursor. If it returns `None`, its work is unfinished, and
/// it is called again with the same cursor. The elements are scanned twice, first to count the
/// matches.
pub(crate) fn scan(
    cx: &mut Context<'_>,
    options: ScanOptions,
    strings_per_element: usize,
    mut step: impl FnMut(u64, usize, &mut dyn FnMut(Scanned<'_>)) -> Option<u64> + Send + 'static,
) -> Result<(), Error> {
    let ScanOptions { cursor, pattern, count, .. } = options;
    let matches = move |element: &Scanned<'_>| {
        let is_match = |name: &[u8]| {
            pattern.as_deref().is_none_or(|pattern| Pattern::new(pattern).matches(name))
        };
        element.name().with_bytes(is_match)
    };
    let (mut at, mut left, mut looked_at) = (cursor, count, 0);
    let (mut found, mut is_counted) = (0, false);
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        loop {
            let stride = left.min(ELEMENTS_PER_HOLD);
            let reply = &mut cx.reply;
            let next = step(at, stride as usize, &mut |element| {
                looked_at += 1;
                if !matches(&element) {
                } else if is_counted {
                    element.write(reply);
                } else {
                    found += 1;
                }
            });
            if let Some(next) = next {
                left -= left.min(stride.max(looked_at));
                looked_at = 0;
                at = next;
                let is_last = next == 0 || left == 0;
                if is_last && is_counted {
                    return Ok(JobProgress::Done);
                }
                if is_last {
                    is_counted = true;
                    (at, left) = (cursor, count);
                    reply.array(2);
                    reply.bulk(next.to_string().as_bytes());
                    reply.array(found * strings_per_element);
                }
            }
            if slice.is_over() {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, collect, show};
    use nagi_proto::Output;
    use nagi_proto::resp::Version;

    #[test]
    fn a_reply_that_becomes_long_is_removed() {
        for (strings, bytes, is_short) in
            [(64, 512, true), (1, 65_536, true), (2, 65_536, false), (200, 512, false)]
        {
            let string = vec![b'x'; bytes];
            let mut out = Output::default();
            let mut reply = Writer::new(&mut out, Version::Two);
            reply.ok();
            let mut short = ShortReply::begin(&mut reply);
            (0..strings).for_each(|_| short.add(|reply| reply.bulk(&string)));
            assert_eq!(short.end(), is_short, "{strings} of {bytes} bytes");
            if is_short {
                assert!(out.len() > strings * bytes);
            } else {
                assert_eq!(collect(&out), b"+OK\r\n");
            }
        }
    }

    /// Too many bytes to be copied while a latch is held.
    #[test]
    fn collections_of_few_long_strings_are_returned_whole() {
        let long: Vec<String> = (10..74).map(|at| format!("{at}{}", "x".repeat(2000))).collect();
        let mut bench = Bench::new();
        for (at, text) in long.iter().enumerate() {
            bench.call(&["HSET", "h", text, text]);
            bench.call(&["SADD", "s", text]);
            bench.call(&["RPUSH", "l", text]);
            bench.call(&["ZADD", "z", &at.to_string(), text]);
        }
        let bulks = long.iter().map(|text| format!("${}|{text}|", text.len()));
        let all = format!("*64|{}", bulks.collect::<String>());
        let names: Vec<&str> =
            ["HMGET", "h"].into_iter().chain(long.iter().map(|it| &**it)).collect();
        assert_eq!(bench.call(&names), all);
        bench.expect("LRANGE l 0 -1", &all);
        bench.expect("ZRANGE z 0 -1", &all);
        for (request, each) in [("HGETALL h", 2), ("HKEYS h", 1), ("HVALS h", 1), ("SMEMBERS s", 1)]
        {
            let reply = show(&bench.resp(format!("{request}\r\n").as_bytes()));
            assert!(reply.starts_with(&format!("*{}|", 64 * each)), "{request}");
            let mut shown: Vec<&str> = reply.split('|').filter(|it| it.len() > 2000).collect();
            shown.sort_unstable();
            let expected = long.iter().flat_map(|text| std::iter::repeat_n(&**text, each));
            assert!(shown.into_iter().eq(expected), "{request}");
        }
    }

    #[test]
    fn draws_have_the_requested_length_and_repeat_only_if_allowed() {
        let few_of_many = [(4, 0), (1000, 5), (1000, 300), (100_000, 700), (100_000, 30_000)];
        let most = [(1, 1), (10, 3), (10, 9), (10, 10), (10, 100)];
        for (len, count) in most.into_iter().chain(few_of_many) {
            let drawn: Vec<u64> = Drawn::new(len, count, 7).collect();
            let expected = count.unsigned_abs().min(len) as usize;
            assert_eq!(drawn.len(), expected);
            assert!(drawn.iter().all(|rank| *rank < len));
            assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), expected);
        }
        let drawn: Vec<u64> = Drawn::new(3, -50, 7).collect();
        assert_eq!(drawn.len(), 50);
        assert_eq!(drawn.iter().collect::<HashSet<_>>().len(), 3);
    }

    #[test]
    fn ranks_that_were_drawn_are_not_moved() {
        for (len, count) in [(1_000_000, 5000), (1_000_000, 300_000)] {
            let room = |drawn: &Drawn| match &drawn.method {
                Method::Distinct(Ranks::Listed(ranks)) => ranks.capacity(),
                Method::Distinct(Ranks::Marked(words)) => words.capacity(),
                method => panic!("{method:?}"),
            };
            let mut drawn = Drawn::new(len, count, 7);
            let before = room(&drawn);
            assert_eq!(drawn.by_ref().count() as i64, count);
            assert_eq!(room(&drawn), before);
        }
    }

    #[test]
    fn draws_are_uniform() {
        for count in [-1, 1, 4, 9] {
            let mut drawn = [0_u32; 16];
            for seed in 0..16_000_u64 {
                let mixed = seed.wrapping_mul(0x2545_f491_4f6c_dd1d);
                Drawn::new(16, count, mixed).for_each(|rank| drawn[rank as usize] += 1);
            }
            let expected = 1000 * count.unsigned_abs() as u32;
            for number in drawn {
                assert!(number.abs_diff(expected) < expected / 5, "{count}: {drawn:?}");
            }
        }
    }
}
