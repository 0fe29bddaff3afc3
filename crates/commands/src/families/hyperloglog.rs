//! HyperLogLog: sketches that estimate the number of distinct elements.

use crate::runtime::arguments::is;
use crate::runtime::multi_key::{self, Claimed, Strings};
use crate::runtime::suspension::Slice;
use crate::{
    Access, Category, Command, Context, Error, Flags, Group, JobProgress, KeyGroup, Keys, Notes,
};
use nagi_proto::Args;
use nagi_store::types::Refusal;
use nagi_store::types::derived::Outcome;
use nagi_store::types::hyperloglog::{Mark, REGISTERS, Registers, Sketch};
use nagi_store::{CHUNK_BYTES, Event, Rope};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&PFADD, &PFCOUNT, &PFDEBUG, &PFMERGE, &PFSELFTEST];

/// Maximum elements that are added while a latch is held; more are added in slices.
const BATCH: usize = 16;
/// Maximum bytes of all sketches that are merged while their latches are held.
const QUICK_BYTES: usize = 512;

fn pfadd<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let limit_bytes = cx.server.config().hll_sparse_max_bytes.bytes();
    let marks: Vec<Mark> = args.from(2).map(Mark::of).collect();
    if marks.len() > BATCH {
        return add_in_slices(cx, marks, limit_bytes);
    }
    let changed = cx.db.add_to_sketch(cx.key(args.at(1)), &marks, limit_bytes)?;
    cx.reply.integer(i64::from(changed));
    Ok(())
}

pub(crate) static PFADD: Command = Command {
    name: "PFADD",
    syntax: "key [element [element ...]]",
    arity: -2,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::INSERT)),
    categories: Category::HYPERLOGLOG,
    group: Group::HyperLogLog,
    since: "2.8.9",
    notes: Notes::of("O(1) for each element"),
    summary: "Adds elements to a HyperLogLog, and returns whether its estimate may have changed",
    subcommands: &[],
    run: pfadd,
};

/// A sketch that is being changed, with the state of its key.
struct Draft {
    sketch: Sketch,
    /// Whether the key existed.
    is_there: bool,
    changed: bool,
    /// The number of elements added.
    done: usize,
}

impl Draft {
    /// Parses the string under the key into a sketch; the sketch is empty if the key does not
    /// exist.
    fn new(string: Option<&Rope>) -> Result<Self, Refusal> {
        let sketch = string.map_or_else(|| Ok(Sketch::default()), sketch_of)?;
        let is_there = string.is_some();
        Ok(Draft { sketch, is_there, changed: !is_there, done: 0 })
    }

    /// The change of the key.
    fn outcome(&self) -> Outcome {
        match self.changed {
            true => Outcome::Changed(Rope::from_bytes(self.sketch.bytes())),
            false => Outcome::Same,
        }
    }
}

/// Parses a string as a sketch. A string of several chunks is not a sketch.
fn sketch_of(rope: &Rope) -> Result<Sketch, Refusal> {
    let sketch = Sketch::new(rope.chunk(0).map_or(&[], |chunk| chunk))?;
    if rope.len() == sketch.bytes().len() { Ok(sketch) } else { Err(Refusal::Corrupted) }
}

fn add_in_slices(cx: &mut Context<'_>, marks: Vec<Mark>, limit_bytes: usize) -> Result<(), Error> {
    let mut work = None;
    multi_key::claimed(cx, Claimed::all(&PFADD.keys), move |cx, slice| {
        let key = cx.key(cx.args.at(1));
        let draft = match &mut work {
            Some(draft) => draft,
            None => work.insert(Draft::new(cx.db.strings(&[key])?.pop().flatten().as_ref())?),
        };
        while let Some(batch) = marks.get(draft.done..).filter(|rest| !rest.is_empty()) {
            if slice.is_over() {
                return Ok(false);
            }
            for mark in batch.iter().take(BATCH) {
                draft.changed |= draft.sketch.add(*mark, limit_bytes)?;
                draft.done += 1;
            }
        }
        cx.db.settle(key, draft.outcome(), draft.is_there, Event::PfAdd);
        cx.reply.integer(i64::from(draft.changed));
        Ok(true)
    })
}

fn pfcount<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.len() == 2 {
        let count = cx.db.sketch_cardinality(cx.key(args.at(1)))?;
        cx.reply.integer(count as i64);
        return Ok(());
    }
    if multi_key::is_long(&PFCOUNT.keys, args) {
        let (mut strings, mut work) = (Strings::new(&PFCOUNT.keys), None);
        return multi_key::claimed(cx, Claimed::to_read(&PFCOUNT.keys), move |cx, slice| {
            let union = match &mut work {
                Some(union) => union,
                None => match strings.go_on(cx, slice)? {
                    Some(strings) => work.insert(Union::new(strings)),
                    None => return Ok(false),
                },
            };
            let done = union.go_on(|| slice.is_over())?;
            if done {
                cx.reply.integer(union.registers.cardinality() as i64);
            }
            Ok(done)
        });
    }
    let keys: Vec<_> = args.from(1).map(|key| cx.key(key)).collect();
    let mut union = Union::new(cx.db.strings(&keys)?);
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        if !union.go_on(|| slice.is_over())? {
            return Ok(JobProgress::NEXT_TICK);
        }
        cx.reply.integer(union.registers.cardinality() as i64);
        Ok(JobProgress::Done)
    }))
}

pub(crate) static PFCOUNT: Command = Command {
    name: "PFCOUNT",
    syntax: "key [key ...]",
    arity: -2,
    flags: Flags::READONLY.union(Flags::PAUSED_AS_WRITE),
    keys: Keys::all(Access::RW.union(Access::ACCESS)),
    categories: Category::HYPERLOGLOG,
    group: Group::HyperLogLog,
    since: "2.8.9",
    notes: Notes::of("O(1) for one key that has not changed; O(N) for N keys"),
    summary: "Returns the estimated number of distinct elements in HyperLogLogs",
    subcommands: &[],
    run: pfcount,
};

/// Sketches that are being merged.
struct Union {
    strings: Vec<Option<Rope>>,
    next: usize,
    registers: Registers,
    /// Whether any of them was dense.
    dense: bool,
}

impl Union {
    fn new(strings: Vec<Option<Rope>>) -> Self {
        Union { strings, next: 0, registers: Registers::default(), dense: false }
    }

    /// Continues until `is_over` reports the end of the slice; returns whether all are merged.
    fn go_on(&mut self, is_over: impl Fn() -> bool) -> Result<bool, Refusal> {
        while let Some(string) = self.strings.get(self.next) {
            if is_over() {
                return Ok(false);
            }
            if let Some(rope) = string {
                let sketch = sketch_of(rope)?;
                self.dense |= sketch.is_dense();
                self.registers.merge(sketch.bytes())?;
            }
            self.next += 1;
        }
        Ok(true)
    }
}

/// Sketches that are being merged into the first of them.
struct Merger {
    union: Union,
    draft: Draft,
    limit_bytes: usize,
}

impl Merger {
    fn new(strings: Vec<Option<Rope>>, limit_bytes: usize) -> Result<Self, Refusal> {
        let draft = Draft::new(strings.first().and_then(Option::as_ref))?;
        Ok(Merger { union: Union::new(strings), draft, limit_bytes })
    }

    /// Continues until `is_over` reports the end of the slice; returns whether the sketch is
    /// complete.
    fn go_on(&mut self, is_over: impl Fn() -> bool) -> Result<bool, Refusal> {
        let Merger { union, draft, limit_bytes } = self;
        if !union.go_on(&is_over)? {
            return Ok(false);
        }
        if union.dense {
            draft.sketch.make_dense()?;
        }
        draft.changed = true;
        let next = draft.sketch.merge(&union.registers, draft.done, *limit_bytes, is_over)?;
        draft.done = next.unwrap_or(draft.done);
        Ok(next.is_none())
    }
}

fn pfmerge<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let limit_bytes = cx.server.config().hll_sparse_max_bytes.bytes();
    if !multi_key::is_long(&PFMERGE.keys, args) {
        let keys: Vec<_> = args.from(1).map(|key| cx.key(key)).collect();
        let at_once = |strings| {
            let mut merger = Merger::new(strings, limit_bytes)?;
            merger.go_on(|| false)?;
            Ok::<_, Refusal>((merger.draft.outcome(), ()))
        };
        if let Some(done) =
            cx.db.derive(&keys, cx.key(args.at(1)), QUICK_BYTES, Some(Event::PfAdd), at_once)
        {
            done?;
            cx.reply.ok();
            return Ok(());
        }
    }
    let (mut strings, mut work) = (Strings::new(&PFMERGE.keys), None);
    multi_key::claimed(cx, Claimed::all(&PFMERGE.keys), move |cx, slice| {
        let merger = match &mut work {
            Some(merger) => merger,
            None => match strings.go_on(cx, slice)? {
                Some(strings) => work.insert(Merger::new(strings, limit_bytes)?),
                None => return Ok(false),
            },
        };
        if !merger.go_on(|| slice.is_over())? {
            return Ok(false);
        }
        let draft = &merger.draft;
        cx.db.settle(cx.key(cx.args.at(1)), draft.outcome(), draft.is_there, Event::PfAdd);
        cx.reply.ok();
        Ok(true)
    })
}

pub(crate) static PFMERGE: Command = Command {
    name: "PFMERGE",
    syntax: "destkey [sourcekey [sourcekey ...]]",
    arity: -2,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[
        KeyGroup::at(1, Access::RW.union(Access::ACCESS).union(Access::INSERT)),
        KeyGroup::range(2, -1, 1, Access::RO.union(Access::ACCESS)),
    ]),
    categories: Category::HYPERLOGLOG,
    group: Group::HyperLogLog,
    since: "2.8.9",
    notes: Notes::of("O(N), N being the keys"),
    summary: "Merges HyperLogLogs into one, created if it does not exist",
    subcommands: &[],
    run: pfmerge,
};

fn pfdebug<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (word, key) = (args.at(1), cx.key(args.at(2)));
    let string = cx.db.strings(&[key])?.pop().flatten();
    let rope = string.as_ref();
    let rope = rope.ok_or(Error::fixed("ERR The specified key does not exist"))?;
    let sketch = sketch_of(rope)?;
    let known = ["GETREG", "DECODE", "ENCODING", "TODENSE"];
    if !known.iter().any(|name| is(word, name)) {
        return Err(Error::quoting("ERR Unknown PFDEBUG subcommand '", word, "'"));
    }
    if is(word, "ENCODING") {
        cx.reply.simple(if sketch.is_dense() { "dense" } else { "sparse" });
    } else if is(word, "DECODE") {
        if sketch.is_dense() {
            return Err(Error::fixed("ERR HLL encoding is not sparse"));
        }
        cx.reply.bulk(sketch.runs().as_bytes());
    } else {
        let at_once = |strings: Vec<Option<Rope>>| {
            let mut draft = Draft::new(strings.first().and_then(Option::as_ref))?;
            draft.changed = draft.sketch.make_dense()?;
            Ok::<_, Refusal>((draft.outcome(), (draft.changed, draft.sketch)))
        };
        let done = cx.db.derive(&[key], key, CHUNK_BYTES, None, at_once);
        let (changed, sketch) = done.ok_or(Refusal::Corrupted)??;
        if is(word, "TODENSE") {
            cx.reply.integer(i64::from(changed));
        } else {
            let mut registers = Registers::default();
            registers.merge(sketch.bytes())?;
            cx.reply.array(REGISTERS);
            registers.ranks().for_each(|rank| cx.reply.integer(i64::from(rank)));
        }
    }
    Ok(())
}

pub(crate) static PFDEBUG: Command = Command {
    name: "PFDEBUG",
    syntax: "subcommand key",
    arity: 3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::ADMIN),
    keys: Keys::only(KeyGroup::at(2, Access::RW.union(Access::ACCESS))),
    categories: Category::HYPERLOGLOG,
    group: Group::HyperLogLog,
    since: "2.8.9",
    notes: Notes::of("O(1)").internal(),
    summary: "Shows the internals of a HyperLogLog, or makes it dense",
    subcommands: &[],
    run: pfdebug,
};

fn pfselftest<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    /// Number of elements added.
    const ELEMENTS: u64 = 300_000;
    /// More than three times the standard error of 16384 registers.
    const TOLERANCE: f64 = 0.03;
    let limit_bytes = cx.server.config().hll_sparse_max_bytes.bytes();
    let (mut sketch, mut dense) = (Sketch::default(), Sketch::default());
    let mut noted = 0_u64;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        dense.make_dense()?;
        while noted < ELEMENTS {
            if slice.is_over() {
                return Ok(JobProgress::NEXT_TICK);
            }
            let mark = Mark::of(&noted.to_le_bytes());
            if sketch.add(mark, limit_bytes)? != dense.add(mark, limit_bytes)? {
                return Err(Error::fixed("TESTFAILED sparse and dense sketches differ"));
            }
            noted += 1;
        }
        let mut registers = Registers::default();
        registers.merge(sketch.bytes())?;
        let ratio = registers.cardinality() as f64 / ELEMENTS as f64;
        if (ratio - 1.0).abs() > TOLERANCE {
            return Err(Error::fixed("TESTFAILED the estimate is too far from the number"));
        }
        cx.reply.ok();
        Ok(JobProgress::Done)
    }))
}

pub(crate) static PFSELFTEST: Command = Command {
    name: "PFSELFTEST",
    syntax: "",
    arity: 1,
    flags: Flags::ADMIN,
    keys: Keys::NONE,
    categories: Category::HYPERLOGLOG,
    group: Group::HyperLogLog,
    since: "2.8.9",
    notes: Notes::of("O(1)").internal(),
    summary: "Checks estimates against known numbers",
    subcommands: &[],
    run: pfselftest,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn sketches_are_counted_merged_and_converted() {
        converse(
            "PFADD k => :1|
             PFADD k => :0|
             PFADD k a b c a => :1|
             PFADD k a => :0|
             PFCOUNT k => :3|
             PFCOUNT none => :0|
             PFADD l c d => :1|
             PFCOUNT k l none => :4|
             PFMERGE m k l => +OK|
             PFCOUNT m => :4|
             PFMERGE m => +OK|
             PFDEBUG ENCODING m => +sparse|
             PFDEBUG TODENSE m => :1|
             PFDEBUG TODENSE m => :0|
             PFDEBUG ENCODING m => +dense|
             STRLEN m => :12304|
             PFCOUNT m => :4|
             PFADD m e => :1|
             PFCOUNT m => :5|
             PFDEBUG DECODE m => -ERR HLL encoding is not sparse|
             PFDEBUG FOO m => -ERR Unknown PFDEBUG subcommand 'FOO'|
             PFDEBUG DECODE none => -ERR The specified key does not exist|
             PFSELFTEST => +OK|",
        );
    }

    #[test]
    fn strings_that_are_no_sketch_are_refused() {
        let wrong = "-WRONGTYPE Key is not a valid HyperLogLog string value.|";
        let corrupted = "-INVALIDOBJ Corrupted HLL object detected|";
        converse(&format!(
            "SET k v => +OK|
             PFADD k a => {wrong}
             PFCOUNT k => {wrong}
             PFCOUNT none k => {wrong}
             PFMERGE none k => {wrong}
             PFDEBUG ENCODING k => {wrong}
             PFADD s a b c => :1|
             APPEND s hello => :32|
             PFCOUNT s => {corrupted}
             PFCOUNT s none => {corrupted}
             PFMERGE none s => {corrupted}
             PFDEBUG GETREG s => {corrupted}
             SETRANGE s 4 x => :32|
             PFADD s a => {wrong}
             INCR n => :1|
             PFADD n a => {wrong}
             SETRANGE long 100000 x => :100001|
             PFCOUNT long => {wrong}
             PFADD long a => {wrong}
             PFADD sparse a => :1|
             SETRANGE sparse 100000 x => :100001|
             PFCOUNT sparse => {corrupted}
             PFADD sparse a => {corrupted}",
        ));
    }

    #[test]
    fn elements_added_in_slices_or_one_by_one_make_equal_sketches() {
        let mut bench = Bench::new();
        let elements: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
        let mut words = vec!["PFADD", "many"];
        words.extend(elements.iter().map(String::as_str));
        assert_eq!(bench.call(&words), ":1|");
        assert_eq!(bench.call(&words), ":0|");
        for element in &elements {
            bench.call(&["PFADD", "single", element]);
        }
        assert_eq!(bench.call(&["PFCOUNT", "many"]), bench.call(&["PFCOUNT", "single"]));
        assert_eq!(bench.resp(b"GET many\r\n"), bench.resp(b"GET single\r\n"));
    }
}
