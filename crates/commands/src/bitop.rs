//! BITOP: bitwise operations between strings.

use crate::arguments::is;
use crate::context::Slice;
use crate::{Access, Category, Command, Context, Error, Flags, Flow, Group, Keys};
use nagi_proto::Args;
use nagi_store::types::snapshot::Outcome;
use nagi_store::{CHUNK_BYTES, Rope};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&BITOP];

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
    let destination: Box<[u8]> = args.at(2).into();
    let sources: Vec<Box<[u8]>> = args.from(3).map(Box::from).collect();
    let mut work = None;
    cx.start(Box::new(move |cx| {
        let keys: Vec<_> = sources.iter().map(|key| cx.db.key(key)).collect();
        let combination =
            work.get_or_insert_with(|| Combination::new(operation, cx.db.snapshot(&keys)));
        if combination.slice() == Flow::More {
            return Ok(Flow::More);
        }
        let len = combination.result.len();
        let outcome = if len == 0 { Outcome::Nothing } else { Outcome::Anew(&combination.result) };
        if !cx.db.commit(&keys, &combination.sources, cx.db.key(&destination), outcome) {
            // A source has changed meanwhile, so there is another result to work out.
            work = None;
            return Ok(Flow::More);
        }
        cx.reply.integer(len as i64);
        Ok(Flow::Done)
    }))
}

pub(crate) static BITOP: Command = Command {
    name: "BITOP",
    syntax: "AND | OR | XOR | NOT destkey key [key ...]",
    arity: -4,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys { first: 2, last: -1, step: 1, access: Access::OW.union(Access::UPDATE) },
    categories: Category::BITMAP,
    group: Group::Bitmap,
    since: "2.6.0",
    summary: "Stores the result of a bitwise operation between strings, and returns its length",
    subcommands: &[],
    run: bitop,
};

/// An operation under way: chunk by chunk, source by source.
struct Combination {
    operation: Operation,
    sources: Vec<Option<Rope>>,
    /// Length of the result in bytes.
    len: usize,
    result: Rope,
    /// The chunk that is being worked out, from as many sources as have been seen to.
    chunk: Vec<u8>,
    seen: usize,
}

impl Combination {
    fn new(operation: Operation, sources: Vec<Option<Rope>>) -> Self {
        let len = sources.iter().flatten().map(Rope::len).max().unwrap_or(0);
        Combination { operation, sources, len, result: Rope::default(), chunk: Vec::new(), seen: 0 }
    }

    fn slice(&mut self) -> Flow {
        let slice = Slice::begin();
        while self.result.len() < self.len {
            if slice.is_over() {
                return Flow::More;
            }
            self.step();
        }
        Flow::Done
    }

    /// Sees to a chunk of one source.
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
                // What is missing is zero.
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
    fn operations() {
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
    fn long_strings() {
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
