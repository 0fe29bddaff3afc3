//! BITFIELD: strings as arrays of integers of any width.

use crate::families::bitmaps::bitmap::bit_offset;
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::multi_key::{self, Claimed};
use crate::runtime::suspension::Slice;
use crate::{
    Access, Category, Command, Context, Error, Flags, Group, JobProgress, KeyGroup, Keys, Notes,
};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::types::bitmap::{Change, Field, Overflow, change_fields_of};
use nagi_store::types::derived::Outcome;
use nagi_store::{Event, Rope};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&BITFIELD, &BITFIELD_RO];

const NOT_A_TYPE: Error = Error::fixed(
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 \
     is.",
);

/// Maximum operations that are executed while the latch is held; more are executed in slices.
const BATCH: usize = 256;

type Step = (Field, Change);

fn bitfield<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let steps = steps(cx, args)?;
    let changes = steps.iter().any(|(_, change)| *change != Change::None);
    if steps.len() > BATCH {
        return in_slices(cx, steps, changes);
    }
    let key = cx.key(args.at(1));
    let mut answers = Vec::with_capacity(steps.len());
    if changes {
        cx.db.change_fields(key, &steps, |number| answers.push(number))?;
    } else {
        let fields: Vec<_> = steps.iter().map(|(field, _)| *field).collect();
        cx.db.read_fields(key, &fields, |number| answers.push(Some(number)))?;
    }
    cx.reply.array(answers.len());
    answers.iter().for_each(|number| answer(&mut cx.reply, *number));
    Ok(())
}

/// The access of a request to its key: a request with only GET reads.
fn access(args: Args<'_>) -> Access {
    let mut at = 2;
    while let Some(word) = args.get(at) {
        let after = args.len() - at - 1;
        at += match word {
            word if is(word, "GET") && after >= 2 => 3,
            word if is(word, "OVERFLOW") && after >= 1 => 2,
            _ => return Access::RW.union(Access::ACCESS).union(Access::UPDATE),
        };
    }
    Access::RO.union(Access::ACCESS)
}

pub(crate) static BITFIELD: Command = Command {
    name: "BITFIELD",
    syntax: "key [GET encoding offset | [OVERFLOW <WRAP | SAT | FAIL>] \
             <SET encoding offset value | INCRBY encoding offset increment> ...]",
    arity: -2,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::only(
        KeyGroup::at(1, Access::RW.union(Access::ACCESS).union(Access::UPDATE))
            .depending_on_options(access),
    ),
    categories: Category::BITMAP,
    group: Group::Bitmap,
    since: "3.2.0",
    notes: Notes::of("O(1) for each operation"),
    summary: "Reads and changes integers of any width within a string",
    subcommands: &[],
    run: bitfield,
};

fn bitfield_ro<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let steps = steps(cx, args)?;
    if steps.iter().any(|(_, change)| *change != Change::None) {
        return Err(Error::fixed("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    bitfield(cx, args)
}

pub(crate) static BITFIELD_RO: Command = Command {
    name: "BITFIELD_RO",
    syntax: "key [GET encoding offset [GET encoding offset ...]]",
    arity: -2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::BITMAP,
    group: Group::Bitmap,
    since: "6.0.0",
    notes: Notes::of("O(1) for each operation"),
    summary: "Reads integers of any width within a string",
    subcommands: &[],
    run: bitfield_ro,
};

fn answer(reply: &mut Writer<'_>, number: Option<i64>) {
    match number {
        Some(number) => reply.integer(number),
        None => reply.null(),
    }
}

/// Reads the operations after the key.
fn steps(cx: &Context<'_>, args: Args<'_>) -> Result<Vec<Step>, Error> {
    let mut overflow = Overflow::default();
    let mut steps = Vec::new();
    let mut rest = RemainingArguments::from(args, 2);
    while let Some(word) = rest.next() {
        if is(word, "OVERFLOW") {
            overflow = self::overflow(rest.value()?)?;
            continue;
        }
        let (sets, adds) = (is(word, "SET"), is(word, "INCRBY"));
        if !(sets || adds || is(word, "GET")) {
            return Err(Error::SYNTAX);
        }
        let (encoding, offset) = (rest.value()?, rest.value()?);
        let number = if sets || adds { Some(rest.value()?) } else { None };
        let field = field(cx, encoding, offset)?;
        let change = match number.map(integer).transpose()? {
            None => Change::None,
            Some(number) if sets => Change::Set(number, overflow),
            Some(number) => Change::Add(number, overflow),
        };
        steps.push((field, change));
    }
    Ok(steps)
}

fn overflow(argument: &[u8]) -> Result<Overflow, Error> {
    if is(argument, "WRAP") {
        Ok(Overflow::Wrap)
    } else if is(argument, "SAT") {
        Ok(Overflow::Saturate)
    } else if is(argument, "FAIL") {
        Ok(Overflow::Fail)
    } else {
        Err(Error::fixed("ERR Invalid OVERFLOW type specified"))
    }
}

/// Parses a field: a type such as `u8` or `i16`, and an offset in bits or, after `#`, in fields of
/// this width.
fn field(cx: &Context<'_>, encoding: &[u8], offset: &[u8]) -> Result<Field, Error> {
    let (signed, width) = match encoding.split_first() {
        Some((b'i', width)) => (true, width),
        Some((b'u', width)) => (false, width),
        _ => return Err(NOT_A_TYPE),
    };
    let width = integer(width).map_err(|_| NOT_A_TYPE)?;
    if !(1..=if signed { 64 } else { 63 }).contains(&width) {
        return Err(NOT_A_TYPE);
    }
    let number = match offset.strip_prefix(b"#") {
        Some(index) => integer(index).ok().and_then(|index| index.checked_mul(width)),
        None => integer(offset).ok(),
    };
    Ok(Field { signed, bits: width as u32, offset: bit_offset(cx, number)? })
}

/// Executes many operations in slices. If they change the string, its key is claimed meanwhile;
/// otherwise, they read a shared copy.
fn in_slices(cx: &mut Context<'_>, steps: Vec<Step>, changes: bool) -> Result<(), Error> {
    let mut work = Work { steps, draft: Rope::default(), is_there: false, answers: Vec::new() };
    if !changes {
        work.begin(cx)?;
        return cx.start(Box::new(move |cx| match work.go_on(cx, Slice::begin()) {
            true => Ok(JobProgress::Done),
            false => Ok(JobProgress::NEXT_TICK),
        }));
    }
    let mut begun = false;
    multi_key::claimed(cx, Claimed::all(&BITFIELD.keys), move |cx, slice| {
        if !std::mem::replace(&mut begun, true) {
            work.begin(cx)?;
        }
        let done = work.go_on(cx, slice);
        if done {
            let outcome = Outcome::Changed(std::mem::take(&mut work.draft));
            cx.db.settle(cx.key(cx.args.at(1)), outcome, work.is_there, Event::SetBit);
        }
        Ok(done)
    })
}

/// Operations that are being executed on a copy of the string.
struct Work {
    steps: Vec<Step>,
    draft: Rope,
    /// Whether the key existed.
    is_there: bool,
    answers: Vec<Option<i64>>,
}

impl Work {
    fn begin(&mut self, cx: &Context<'_>) -> Result<(), Error> {
        let string = cx.db.strings(&[cx.key(cx.args.at(1))])?.pop().flatten();
        self.is_there = string.is_some();
        self.draft = string.unwrap_or_default();
        Ok(())
    }

    /// Continues until the slice is over. Returns whether all operations are executed and the reply
    /// is written.
    fn go_on(&mut self, cx: &mut Context<'_>, slice: Slice) -> bool {
        let Work { steps, draft, answers, .. } = self;
        while let Some(batch) = steps.get(answers.len()..).filter(|rest| !rest.is_empty()) {
            if slice.is_over() {
                return false;
            }
            let batch = batch.get(..BATCH).unwrap_or(batch);
            change_fields_of(draft, batch, |number| answers.push(number));
        }
        cx.reply.array(answers.len());
        answers.iter().for_each(|number| answer(&mut cx.reply, *number));
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn bitfield_reads_sets_and_increments_fields() {
        converse(
            "BITFIELD k => *0|
             BITFIELD k GET u8 0 => *1|:0|
             EXISTS k => :0|
             BITFIELD k SET u8 0 255 GET u8 0 get i8 0 => *3|:0|:255|:-1|
             BITFIELD k SET i5 #1 -3 GET i5 5 GET u5 #1 => *3|:-4|:-3|:29|
             BITFIELD k INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1 => *2|:1|:1|
             BITFIELD k INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1 => *2|:2|:2|
             BITFIELD k INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1 => *2|:3|:3|
             BITFIELD k INCRBY u2 100 1 OVERFLOW SAT INCRBY u2 102 1 => *2|:0|:3|
             BITFIELD k OVERFLOW FAIL INCRBY u2 102 1 SET u2 102 4 => *2|$-1|$-1|
             BITFIELD k OVERFLOW FAIL SET u2 102 2 => *1|:3|
             BITFIELD n SET i64 0 9223372036854775807 INCRBY i64 0 1 => *2|:0|:-9223372036854775808|
             BITFIELD n OVERFLOW SAT INCRBY i64 0 -1 => *1|:-9223372036854775808|
             BITFIELD n OVERFLOW SAT SET u8 0 -1 GET u8 0 => *2|:128|:255|
             BITFIELD n OVERFLOW SAT SET i8 0 -1000 GET i8 0 => *2|:-1|:-128|
             BITFIELD n OVERFLOW SAT SET i8 0 -9223372036854775681 GET i8 0 => *2|:-128|:127|
             BITFIELD n OVERFLOW SAT SET i8 0 -9223372036854775680 GET i8 0 => *2|:127|:-128|
             BITFIELD n SET i8 0 -128 => *1|:-128|
             BITFIELD n SET u63 1 -1 GET u63 1 => *2|:0|:9223372036854775807|
             BITFIELD_RO n GET i8 0 => *1|:-1|
             STRLEN n => :8|",
        );
    }

    #[test]
    fn invalid_fields_are_refused() {
        let no_type = "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is \
                       not supported but i64 is.|";
        let no_offset = "-ERR bit offset is not an integer or out of range|";
        converse(&format!(
            "BITFIELD k GET u64 0 => {no_type}
             BITFIELD k GET i65 0 => {no_type}
             BITFIELD k GET I8 0 => {no_type}
             BITFIELD k GET i0 0 => {no_type}
             BITFIELD k GET i 0 => {no_type}
             BITFIELD k GET u8 x => {no_offset}
             BITFIELD k GET u8 -1 => {no_offset}
             BITFIELD k GET u8 4294967296 => {no_offset}
             BITFIELD k GET u8 #9223372036854775807 => {no_offset}
             BITFIELD k GET u8 #536870912 => {no_offset}
             BITFIELD k SET u8 0 x => -ERR value is not an integer or out of range|
             BITFIELD k SET u8 0 => -ERR syntax error|
             BITFIELD k FOO u8 0 => -ERR syntax error|
             BITFIELD k OVERFLOW => -ERR syntax error|
             BITFIELD k OVERFLOW foo => -ERR Invalid OVERFLOW type specified|
             BITFIELD_RO k SET u8 0 1 => -ERR BITFIELD_RO only supports the GET subcommand|
             BITFIELD k SET u8 4294967295 255 => *1|:0|
             STRLEN k => :536870913|
             BITFIELD k GET u8 #536870911 GET u63 4294967290 => *2|:1|:287104476244869120|",
        ));
    }

    #[test]
    fn many_operations_are_executed_in_slices() {
        let mut bench = Bench::new();
        let mut words = vec!["BITFIELD", "k"];
        for _ in 0..3000 {
            words.extend(["INCRBY", "u16", "#60000", "1"]);
        }
        let reply = bench.call(&words);
        assert!(reply.starts_with("*3000|:1|:2|") && reply.ends_with("|:2999|:3000|"), "{reply}");
        bench.expect("BITFIELD k GET u16 #60000", "*1|:3000|");
        bench.expect("STRLEN k", ":120002|");
        bench.expect("SET k 12", "+OK|");
        words.truncate(2);
        for _ in 0..3000 {
            words.extend(["GET", "u8", "0"]);
        }
        assert!(bench.call(&words).starts_with("*3000|:49|:49|"));
        bench.expect("STRLEN k", ":2|");
    }
}
