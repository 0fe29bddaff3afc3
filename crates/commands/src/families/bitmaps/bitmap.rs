//! SETBIT, GETBIT, BITCOUNT and BITPOS: single bits of strings, counted and searched for.

use crate::families::bitmaps::bits;
use crate::families::strings::range::{resolve, resolve_loosely};
use crate::runtime::arguments::{integer, is};
use crate::runtime::suspension::Slice;
use crate::{Access, Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::{Args, Chunk};
use nagi_store::{CHUNK_BYTES, EntryView, Rope, StringValue, WrongType};
use std::convert::Infallible;
use std::ops::Range;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&BITCOUNT, &BITPOS, &GETBIT, &SETBIT];

const NOT_A_BIT: Error = Error::fixed("ERR bit is not an integer or out of range");
const NOT_AN_OFFSET: Error = Error::fixed("ERR bit offset is not an integer or out of range");
const NEITHER_BIT: Error = Error::fixed("ERR The bit argument must be 1 or 0.");

/// Checks the number of a bit, which must lie within a string of the maximum length.
pub(crate) fn bit_offset(cx: &Context<'_>, number: Option<i64>) -> Result<usize, Error> {
    let most = cx.server.config().proto_max_bulk_len.bytes();
    let offset = number.and_then(|number| usize::try_from(number).ok());
    offset.filter(|offset| offset / 8 < most).ok_or(NOT_AN_OFFSET)
}

fn setbit<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let offset = bit_offset(cx, integer(args.at(2)).ok())?;
    let value = match integer(args.at(3)) {
        Ok(0) => false,
        Ok(1) => true,
        _ => return Err(NOT_A_BIT),
    };
    let old = cx.db.set_bit(cx.key(args.at(1)), offset, value)?;
    cx.reply.integer(i64::from(old));
    Ok(())
}

pub(crate) static SETBIT: Command = Command {
    name: "SETBIT",
    syntax: "key offset value",
    arity: 4,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::BITMAP,
    group: Group::Bitmap,
    since: "2.2.0",
    notes: Notes::of("O(1)"),
    summary: "Sets a bit of a string, which grows with zeros, and returns what it was",
    subcommands: &[],
    run: setbit,
};

fn getbit<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let offset = bit_offset(cx, integer(args.at(2)).ok())?;
    let bit = cx.db.bit(cx.key(args.at(1)), offset)?;
    cx.reply.integer(i64::from(bit));
    Ok(())
}

pub(crate) static GETBIT: Command = Command {
    name: "GETBIT",
    syntax: "key offset",
    arity: 3,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::BITMAP,
    group: Group::Bitmap,
    since: "2.2.0",
    notes: Notes::of("O(1)"),
    summary: "Returns a bit of a string, which is 0 after its end",
    subcommands: &[],
    run: getbit,
};

/// Whether an argument specifies a range in bits, rather than in bytes.
fn is_in_bits(unit: Option<&[u8]>) -> Result<bool, Error> {
    match unit {
        None => Ok(false),
        Some(unit) if is(unit, "BIT") => Ok(true),
        Some(unit) if is(unit, "BYTE") => Ok(false),
        Some(_) => Err(Error::SYNTAX),
    }
}

/// Converts a range given in bits or bytes to bits.
fn to_bits(range: Option<Range<usize>>, in_bits: bool) -> Range<usize> {
    let range = range.unwrap_or(0..0);
    if in_bits { range } else { range.start * 8..range.end * 8 }
}

/// The result of reading a string under its latch.
enum AtOnce<R> {
    Result(R),
    /// The string is long, and is read without the latch.
    Long(Rope),
}

/// Applies `work` to the string under a key; to an empty string if the key does not exist.
fn at_once<R>(
    entry: Option<EntryView<'_>>,
    work: impl FnOnce(&[u8]) -> R,
) -> Result<AtOnce<R>, WrongType> {
    let string = entry.map_or(Ok(StringValue::Bytes(b"")), |entry| entry.string())?;
    Ok(match string {
        StringValue::Rope(rope) => AtOnce::Long(rope.clone()),
        string => AtOnce::Result(string.with_bytes(work)),
    })
}

fn bitcount<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (start, end) = match args.len() {
        2 => (0, -1),
        4 | 5 => (integer(args.at(2))?, integer(args.at(3))?),
        _ => return Err(Error::SYNTAX),
    };
    let in_bits = is_in_bits(args.get(4))?;
    let range_in = move |len: usize| {
        to_bits(resolve(start, end, if in_bits { len * 8 } else { len }), in_bits)
    };
    let key = cx.key(args.at(1));
    let counted =
        cx.db.get(key, |entry| at_once(entry, |bytes| bits::count(bytes, range_in(bytes.len()))));
    let rope = match counted? {
        AtOnce::Result(count) => {
            cx.reply.integer(count as i64);
            return Ok(());
        }
        AtOnce::Long(rope) => rope,
    };
    let mut walk = ChunkWalk::new(range_in(rope.len()), rope);
    let mut count = 0;
    cx.start(Box::new(move |cx| {
        let progress: Result<_, Infallible> = walk.slice(|chunk, range, _| {
            if !Rope::is_zeros(chunk) {
                count += bits::count(chunk, range);
            }
            Ok(())
        });
        if progress == Ok(JobProgress::NEXT_TICK) {
            return Ok(JobProgress::NEXT_TICK);
        }
        cx.reply.integer(count as i64);
        Ok(JobProgress::Done)
    }))
}

pub(crate) static BITCOUNT: Command = Command {
    name: "BITCOUNT",
    syntax: "key [start end [BYTE | BIT]]",
    arity: -2,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::BITMAP,
    group: Group::Bitmap,
    since: "2.6.0",
    notes: Notes::of("O(N), N being the bytes counted").history(&[("7.0.0", "BYTE and BIT")]),
    summary: "Returns how many bits of a string, or of a part of it, are 1",
    subcommands: &[],
    run: bitcount,
};

/// A walk over the chunks of a long string that overlap a range of bits, slice by slice.
struct ChunkWalk {
    rope: Rope,
    bits: Range<usize>,
}

impl ChunkWalk {
    fn new(bits: Range<usize>, rope: Rope) -> Self {
        ChunkWalk { rope, bits }
    }

    /// Continues for one slice. `look` gets a chunk, the bits of the range within the chunk, and
    /// the number of the chunk's first bit. An error of `look` ends the walk and is returned.
    fn slice<B>(
        &mut self,
        mut look: impl FnMut(&Chunk, Range<usize>, usize) -> Result<(), B>,
    ) -> Result<JobProgress, B> {
        const CHUNK_BITS: usize = CHUNK_BYTES * 8;
        let slice = Slice::begin();
        while !self.bits.is_empty() {
            let index = self.bits.start / CHUNK_BITS;
            let Some(chunk) = self.rope.chunk(index) else { break };
            let first = index * CHUNK_BITS;
            let range = self.bits.start - first..(self.bits.end - first).min(CHUNK_BITS);
            self.bits.start = first + range.end;
            look(chunk, range, first)?;
            if slice.is_over() && !self.bits.is_empty() {
                return Ok(JobProgress::NEXT_TICK);
            }
        }
        Ok(JobProgress::Done)
    }
}

fn bitpos<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let bit = match integer(args.at(2))? {
        0 => false,
        1 => true,
        _ => return Err(NEITHER_BIT),
    };
    if args.len() > 6 {
        return Err(Error::SYNTAX);
    }
    let start = args.get(3).map_or(Ok(0), integer)?;
    let in_bits = is_in_bits(args.get(5))?;
    let end = args.get(4).map(integer).transpose()?;
    let range_in = move |len: usize| {
        let len = if in_bits { len * 8 } else { len };
        to_bits(resolve_loosely(start, end.unwrap_or(-1), len), in_bits)
    };
    // Zeros follow the string, unless the request gave an end.
    let not_found = move |range: &Range<usize>| {
        let is_behind = !bit && end.is_none() && !range.is_empty();
        if is_behind { range.end as i64 } else { -1 }
    };
    let key = cx.key(args.at(1));
    let found = cx.db.get(key, |entry| {
        let is_there = entry.is_some();
        at_once(entry, |bytes| {
            let range = range_in(bytes.len());
            let found = bits::find(bytes, range.clone(), bit);
            match found {
                Some(place) => place as i64,
                None if is_there => not_found(&range),
                None => -i64::from(bit),
            }
        })
    });
    let rope = match found? {
        AtOnce::Result(place) => {
            cx.reply.integer(place);
            return Ok(());
        }
        AtOnce::Long(rope) => rope,
    };
    let range = range_in(rope.len());
    let mut walk = ChunkWalk::new(range.clone(), rope);
    cx.start(Box::new(move |cx| {
        let progress = walk.slice(|chunk, range, first| match bits::find(chunk, range, bit) {
            Some(place) => Err(first + place),
            None => Ok(()),
        });
        let place = match progress {
            Ok(JobProgress::Done) => not_found(&range),
            Ok(progress) => return Ok(progress),
            Err(place) => place as i64,
        };
        cx.reply.integer(place);
        Ok(JobProgress::Done)
    }))
}

pub(crate) static BITPOS: Command = Command {
    name: "BITPOS",
    syntax: "key bit [start [end [BYTE | BIT]]]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::BITMAP,
    group: Group::Bitmap,
    since: "2.8.7",
    notes: Notes::of("O(N), N being the bytes looked at").history(&[("7.0.0", "BYTE and BIT")]),
    summary: "Returns where the first 1 or 0 of a string, or of a part of it, is",
    subcommands: &[],
    run: bitpos,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn bits_are_set_and_read() {
        converse(
            "GETBIT k 100 => :0|
             SETBIT k 7 1 => :0|
             SETBIT k 7 1 => :1|
             GET k => $1|\u{1}|
             SETBIT k 100 0 => :0|
             STRLEN k => :13|
             GETBIT k 7 => :1|
             GETBIT k 4294967295 => :0|
             SETBIT k 4294967296 1 => -ERR bit offset is not an integer or out of range|
             GETBIT k -1 => -ERR bit offset is not an integer or out of range|
             SETBIT k x 1 => -ERR bit offset is not an integer or out of range|
             SETBIT k 0 2 => -ERR bit is not an integer or out of range|
             SETBIT k 0 x => -ERR bit is not an integer or out of range|
             SETBIT k 0 -1 => -ERR bit is not an integer or out of range|
             SET n 1 EX 100 => +OK|
             SETBIT n 6 1 => :0|
             GET n => $1|3|
             TTL n => :100|",
        );
    }

    #[test]
    fn bitcount_and_bitpos_reply_as_in_redis() {
        converse(
            "SET k foobar => +OK|
             BITCOUNT k => :26|
             BITCOUNT k 0 0 => :4|
             BITCOUNT k 1 1 => :6|
             BITCOUNT k 0 -5 => :10|
             BITCOUNT k 5 30 BIT => :17|
             BITCOUNT k -3 -9 => :0|
             BITCOUNT k 0 0 nonsense => -ERR syntax error|
             BITCOUNT k 0 => -ERR syntax error|
             BITCOUNT none => :0|
             BITCOUNT none x 1 => -ERR value is not an integer or out of range|
             BITPOS k 1 => :1|
             BITPOS k 0 => :0|
             BITPOS k 1 2 => :17|
             BITPOS k 1 7 15 bit => :9|
             BITPOS k 1 10 => :-1|
             BITPOS none 0 => :0|
             BITPOS none 1 => :-1|
             BITPOS k 2 => -ERR The bit argument must be 1 or 0.|
             BITPOS k x => -ERR value is not an integer or out of range|
             BITPOS k 0 0 0 FOO => -ERR syntax error|
             BITPOS k 0 x 0 BIT 1 => -ERR syntax error|
             SET e '' => +OK|
             BITPOS e 0 => :-1|
             BITPOS e 1 => :-1|",
        );
        let mut bench = Bench::new();
        bench.resp(b"SET ones \"\\xff\\xff\"\r\n");
        bench.expect("BITPOS ones 0", ":16|");
        bench.expect("BITPOS ones 0 0", ":16|");
        bench.expect("BITPOS ones 0 0 -1", ":-1|");
        bench.expect("BITPOS ones 0 2", ":-1|");
    }

    #[test]
    fn long_bitmaps_are_counted_and_searched() {
        let mut bench = Bench::new();
        bench.expect("SETBIT k 4294967295 1", ":0|");
        bench.expect("STRLEN k", ":536870912|");
        bench.expect("BITCOUNT k", ":1|");
        bench.expect("BITPOS k 1", ":4294967295|");
        bench.expect("SETBIT k 4000000000 1", ":0|");
        bench.expect("BITPOS k 1", ":4000000000|");
        bench.expect("BITCOUNT k 0 4000000000 BIT", ":1|");
        bench.expect("BITCOUNT k 4000000001 -1 BIT", ":1|");
        bench.expect("BITPOS k 0 -1", ":4294967288|");
        bench.expect("GETBIT k 4000000000", ":1|");
    }
}
