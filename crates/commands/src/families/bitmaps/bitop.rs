//! BITOP: bitwise operations between strings.

use crate::runtime::arguments::is;
use crate::runtime::multi_key::{self, Claimed, Strings};
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::derived::Outcome;
use nagi_store::{CHUNK_BYTES, Event, Rope};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&BITOP];

/// Maximum bytes of all sources that are processed while their latches are held; with more, the
/// keys are claimed.
const QUICK_BYTES: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

fn bitop<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let operations = [
        ("AND", Operation::And),
        ("OR", Operation::Or),
        ("XOR", Operation::Xor),
        ("NOT", Operation::Not),
    ];
    let operation = operations.into_iter().find(|(name, _)| is(args.at(1), name));
    let (_, operation) = operation.ok_or(Error::SYNTAX)?;
    if operation == Operation::Not && args.len() != 4 {
        return Err(Error::fixed("ERR BITOP NOT must be called with a single source key."));
    }
    if !multi_key::is_long(&BITOP.keys, args) {
        let keys: Vec<_> = args.from(3).map(|key| cx.key(key)).collect();
        let at_once = |strings| {
            let mut combination = Combination::new(operation, strings);
            combination.go_on(|| false);
            let len = combination.len;
            Ok::<_, Error>((combination.outcome(), len))
        };
        if let Some(len) =
            cx.db.derive(&keys, cx.key(args.at(2)), QUICK_BYTES, Some(Event::Set), at_once)
        {
            cx.reply.integer(len? as i64);
            return Ok(());
        }
    }
    combine_claimed(cx, operation)
}

const SOURCES: KeyGroup = KeyGroup::range(3, -1, 1, Access::RO.union(Access::ACCESS));
/// The destination is only written to.
static ONLY_SOURCES: Keys = Keys::only(SOURCES);

fn combine_claimed(cx: &mut Context<'_>, operation: Operation) -> Result<(), Error> {
    let (mut strings, mut work) = (Strings::new(&ONLY_SOURCES), None);
    multi_key::claimed(cx, Claimed::all(&BITOP.keys), move |cx, slice| {
        let combination = match &mut work {
            Some(combination) => combination,
            None => match strings.go_on(cx, slice)? {
                Some(strings) => work.insert(Combination::new(operation, strings)),
                None => return Ok(false),
            },
        };
        if !combination.go_on(|| slice.is_over()) {
            return Ok(false);
        }
        cx.reply.integer(combination.len as i64);
        cx.db.settle(cx.key(cx.args.at(2)), combination.outcome(), false, Event::Set);
        Ok(true)
    })
}

pub(crate) static BITOP: Command = Command {
    name: "BITOP",
    syntax: "<AND | OR | XOR | NOT> destkey key [key ...]",
    arity: -4,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[KeyGroup::at(2, Access::OW.union(Access::UPDATE)), SOURCES]),
    categories: Category::BITMAP,
    group: Group::Bitmap,
    since: "2.6.0",
    notes: Notes::of("O(N), N being the length of the longest string"),
    summary: "Stores the result of a bitwise operation between strings, and returns its length",
    subcommands: &[],
    run: bitop,
};

/// An operation that is being executed: chunk by chunk, source by source.
struct Combination {
    operation: Operation,
    sources: Vec<Option<Rope>>,
    /// Length of the result in bytes.
    len: usize,
    result: Rope,
    /// The current chunk of the result, combined from the sources processed so far.
    chunk: Vec<u8>,
    seen: usize,
}

impl Combination {
    fn new(operation: Operation, sources: Vec<Option<Rope>>) -> Self {
        let len = sources.iter().flatten().map(Rope::len).max().unwrap_or(0);
        Combination { operation, sources, len, result: Rope::default(), chunk: Vec::new(), seen: 0 }
    }

    /// Continues until `is_over` reports the end of the slice; returns whether the result is
    /// complete.
    fn go_on(&mut self, is_over: impl Fn() -> bool) -> bool {
        while self.result.len() < self.len {
            if is_over() {
                return false;
            }
            self.step();
        }
        true
    }

    /// The change of the destination.
    fn outcome(&mut self) -> Outcome {
        if self.len == 0 {
            Outcome::Nothing
        } else {
            Outcome::Anew(std::mem::take(&mut self.result))
        }
    }

    /// Processes a chunk of one source.
    fn step(&mut self) {
        let index = self.result.len() / CHUNK_BYTES;
        let source = self.sources.get(self.seen).and_then(Option::as_ref);
        let piece = source.and_then(|rope| rope.chunk(index)).map_or(&[][..], |chunk| chunk);
        if self.seen == 0 {
            self.chunk.clear();
            self.chunk.extend_from_slice(piece);
            self.chunk.resize((self.len - self.result.len()).min(CHUNK_BYTES), 0);
            if self.operation == Operation::Not {
                self.chunk.iter_mut().for_each(|byte| *byte = !*byte);
            }
        } else {
            self.combine(index);
        }
        self.seen += 1;
        if self.seen == self.sources.len() {
            self.result.push_bytes(&self.chunk);
            self.seen = 0;
        }
    }

    fn combine(&mut self, index: usize) {
        let source = self.sources.get(self.seen).and_then(Option::as_ref);
        let piece = source.and_then(|rope| rope.chunk(index)).map_or(&[][..], |chunk| chunk);
        let pairs = self.chunk.iter_mut().zip(piece);
        match self.operation {
            Operation::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                // Missing bytes are zero.
                self.chunk.iter_mut().skip(piece.len()).for_each(|byte| *byte = 0);
            }
            Operation::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Operation::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            Operation::Not => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn bitop_combines_strings() {
        converse(
            "SET a abcd EX 100 => +OK|
             SET b Ab => +OK|
             BITOP and d a b => :4|
             GET d => $4|Ab\0\0|
             BITOP OR d a b none => :4|
             GET d => $4|abcd|
             BITOP XOR a a b => :4|
             GET a => $4| \0cd|
             TTL a => :-1|
             BITOP XOR d a => :4|
             BITOP NOT d b => :2|
             BITOP NOT d d => :2|
             GET d => $2|Ab|
             OBJECT ENCODING d => $3|raw|
             BITOP AND d none none => :0|
             EXISTS d => :0|
             BITOP NOT d a b => -ERR BITOP NOT must be called with a single source key.|
             BITOP FOO d a => -ERR syntax error|
             BITOP AND d => -ERR wrong number of arguments for 'bitop' command|",
        );
    }

    #[test]
    fn long_strings_are_combined_in_slices() {
        let mut bench = Bench::new();
        for (bit, key) in [(4_000_000, "a"), (1, "a"), (3_999_999, "b"), (1, "b"), (90, "short")] {
            bench.expect(&format!("SETBIT {key} {bit} 1"), ":0|");
        }
        bench.expect("BITOP OR d a b short", ":500001|");
        bench.expect("BITCOUNT d", ":4|");
        bench.expect("BITOP AND d a b short", ":500001|");
        bench.expect("BITCOUNT d", ":0|");
        bench.expect("BITOP AND d a b", ":500001|");
        bench.expect("BITCOUNT d", ":1|");
        bench.expect("BITOP NOT d b", ":500000|");
        bench.expect("BITCOUNT d", ":3999998|");
    }
}
