//! LCS: the longest common subsequence of two strings. It takes as many steps as the product of
//! their lengths, so it is computed in slices.

use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::suspension::Slice;
use crate::{
    Access, Category, Command, Context, Error, Flags, Group, JobProgress, KeyGroup, Keys, Notes,
};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::Rope;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&LCS];

const LENGTH_AND_INDEXES: Error =
    Error::fixed("ERR If you want both the length and indexes, please just use IDX.");
const NOT_STRINGS: Error = Error::fixed("ERR The specified keys must contain string values");
const TOO_MUCH: Error =
    Error::fixed("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");

#[derive(Clone, Copy, Debug, Default)]
struct Options {
    only_length: bool,
    indexes: bool,
    least_match: usize,
    match_lengths: bool,
}

fn lcs<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    /// The number of bytes that Redis allocates for each pair of bytes, to which its limit applies.
    const CELL_BYTES: usize = 4;
    let keys = [cx.key(args.at(1)), cx.key(args.at(2))];
    let strings = cx.db.strings(&keys).map_err(|_| NOT_STRINGS)?;
    let mut strings = strings.into_iter().map(Option::unwrap_or_default);
    let options = options(args)?;
    let [first, second] = [strings.next(), strings.next()].map(Option::unwrap_or_default);
    let cells = (first.len() + 1).checked_mul(second.len() + 1);
    let bytes = cells.and_then(|cells| cells.checked_mul(CELL_BYTES));
    if bytes.is_none_or(|bytes| bytes > cx.server.config().proto_max_bulk_len.bytes()) {
        return Err(TOO_MUCH);
    }
    let mut search = Search::new(first, second, options.only_length);
    cx.start(Box::new(move |cx| {
        if search.slice() == JobProgress::NEXT_TICK {
            return Ok(JobProgress::NEXT_TICK);
        }
        if options.indexes {
            write_matches(&mut cx.reply, &search, options);
        } else if options.only_length {
            cx.reply.integer(i64::from(search.len));
        } else {
            search.found.reverse();
            cx.reply.bulk(&search.found);
        }
        Ok(JobProgress::Done)
    }))
}

pub(crate) static LCS: Command = Command {
    name: "LCS",
    syntax: "key1 key2 [LEN] [IDX] [MINMATCHLEN min-match-len] [WITHMATCHLEN]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::range(1, 2, 1, Access::RO.union(Access::ACCESS))),
    categories: Category::STRING,
    group: Group::String,
    since: "7.0.0",
    notes: Notes::of("O(N*M), N and M being the lengths of the strings"),
    summary: "Returns the longest common subsequence of two strings",
    subcommands: &[],
    run: lcs,
};

fn options(args: Args<'_>) -> Result<Options, Error> {
    let mut options = Options::default();
    let mut rest = RemainingArguments::from(args, 3);
    while let Some(option) = rest.next() {
        if is(option, "IDX") {
            options.indexes = true;
        } else if is(option, "LEN") {
            options.only_length = true;
        } else if is(option, "WITHMATCHLEN") {
            options.match_lengths = true;
        } else if is(option, "MINMATCHLEN") {
            options.least_match = usize::try_from(integer(rest.value()?)?).unwrap_or(0);
        } else {
            return Err(Error::SYNTAX);
        }
    }
    if options.indexes && options.only_length {
        return Err(LENGTH_AND_INDEXES);
    }
    Ok(options)
}

fn write_matches(reply: &mut Writer<'_>, search: &Search, options: Options) {
    let long_enough = search.matches.iter().filter(|it| it.len >= options.least_match);
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(long_enough.clone().count());
    for Match { first, second, len } in long_enough {
        reply.array(2 + usize::from(options.match_lengths));
        for start in [first, second] {
            reply.array(2);
            reply.integer(*start as i64);
            reply.integer((start + len - 1) as i64);
        }
        if options.match_lengths {
            reply.integer(*len as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(i64::from(search.len));
}

/// A run of bytes that are equal in both strings.
#[derive(Clone, Copy, Debug)]
struct Match {
    /// Its start in the first string, and in the second.
    first: usize,
    second: usize,
    len: usize,
}

/// The search: it fills a table of lengths, row by row, and then follows the path back through the
/// table. Each row is for a byte of the longer string, so that rows are short.
struct Search {
    longer: Rope,
    shorter: Vec<u8>,
    /// Whether the longer string is the second one.
    swapped: bool,
    /// The latest row of lengths, by prefixes of the shorter string.
    row: Vec<u32>,
    rows: usize,
    /// A bit for each pair of bytes that differ: whether skipping the byte of the first string
    /// gives a longer subsequence than skipping that of the second. Empty if only the length is
    /// requested.
    ways: Vec<u64>,
    /// The path back: the remaining lengths of both strings.
    back: Option<(usize, usize)>,
    /// The length of the subsequence.
    len: u32,
    /// The bytes of the subsequence, the last one first.
    found: Vec<u8>,
    /// The matches, the last one first.
    matches: Vec<Match>,
    /// Whether the previous step of the path extended the last match.
    is_open: bool,
}

impl Search {
    fn new(first: Rope, second: Rope, only_length: bool) -> Self {
        let swapped = second.len() > first.len();
        let (longer, short) = if swapped { (second, first) } else { (first, second) };
        let mut shorter = Vec::with_capacity(short.len());
        short.copy_range(0..short.len(), &mut shorter);
        let pairs = if only_length { 0 } else { longer.len() * shorter.len() };
        Search {
            row: vec![0; shorter.len()],
            ways: vec![0; pairs.div_ceil(64)],
            longer,
            shorter,
            swapped,
            rows: 0,
            back: None,
            len: 0,
            found: Vec::new(),
            matches: Vec::new(),
            is_open: false,
        }
    }

    fn slice(&mut self) -> JobProgress {
        /// Steps of the path back between two readings of the clock.
        const STRIDE: usize = 1024;
        /// Pairs of bytes between two readings of the clock.
        const PAIRS: usize = 4096;
        let slice = Slice::begin();
        let rows_per_reading = PAIRS / self.shorter.len().max(1) + 1;
        if self.shorter.is_empty() {
            self.rows = self.longer.len();
        }
        while self.rows < self.longer.len() {
            if self.rows.is_multiple_of(rows_per_reading) && slice.is_over() {
                return JobProgress::NEXT_TICK;
            }
            self.fill_row();
        }
        self.len = self.row.last().copied().unwrap_or(0);
        if self.ways.is_empty() {
            return JobProgress::Done;
        }
        while (0..STRIDE).all(|_| self.step_back()) {
            if slice.is_over() {
                return JobProgress::NEXT_TICK;
            }
        }
        JobProgress::Done
    }

    fn fill_row(&mut self) {
        let byte = self.longer.byte(self.rows);
        let first_pair = self.rows * self.shorter.len();
        let keeps_ways = !self.ways.is_empty();
        let (mut diagonal, mut left) = (0, 0);
        for (place, (cell, other)) in self.row.iter_mut().zip(&self.shorter).enumerate() {
            let above = *cell;
            *cell = if *other == byte { diagonal + 1 } else { above.max(left) };
            let shorter_way = if self.swapped { left > above } else { above > left };
            let pair = first_pair + place;
            if keeps_ways
                && shorter_way
                && let Some(word) = self.ways.get_mut(pair / 64)
            {
                *word |= 1 << (pair % 64);
            }
            (diagonal, left) = (above, *cell);
        }
        self.rows += 1;
    }

    /// Goes one step back on the path. Returns whether there was one.
    fn step_back(&mut self) -> bool {
        let ends = (self.longer.len(), self.shorter.len());
        let (long, short) = *self.back.get_or_insert(ends);
        let (Some(row), Some(place)) = (long.checked_sub(1), short.checked_sub(1)) else {
            return false;
        };
        let byte = self.longer.byte(row);
        if self.shorter.get(place) == Some(&byte) {
            self.found.push(byte);
            let (first, second) = if self.swapped { (place, row) } else { (row, place) };
            let len = match self.matches.pop_if(|_| self.is_open) {
                Some(open) => open.len + 1,
                None => 1,
            };
            self.matches.push(Match { first, second, len });
            self.is_open = true;
            self.back = Some((row, place));
            return true;
        }
        self.is_open = false;
        let pair = row * self.shorter.len() + place;
        let leaves_first =
            self.ways.get(pair / 64).is_some_and(|word| word >> (pair % 64) & 1 == 1);
        // The longer string is the first one unless `swapped`.
        let leaves_longer = leaves_first != self.swapped;
        self.back = Some(if leaves_longer { (row, short) } else { (long, place) });
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn lcs_returns_subsequence_length_and_matches() {
        converse(
            "MSET a ohmytext b mynewtext => +OK|
             LCS a b => $6|mytext|
             LCS b a => $6|mytext|
             LCS a b LEN => :6|
             LCS a b IDX => *4|$7|matches|*2|*2|*2|:4|:7|*2|:5|:8|*2|*2|:2|:3|*2|:0|:1|$3|len|:6|
             LCS a b IDX MINMATCHLEN 4 => *4|$7|matches|*1|*2|*2|:4|:7|*2|:5|:8|$3|len|:6|
             LCS a b IDX WITHMATCHLEN MINMATCHLEN 5 => *4|$7|matches|*0|$3|len|:6|
             LCS a none => $0||
             LCS a none IDX => *4|$7|matches|*0|$3|len|:0|
             LCS none none LEN => :0|
             LCS a b LEN IDX => -ERR If you want both the length and indexes, please just use IDX.|
             LCS a b FOO => -ERR syntax error|
             LCS a b MINMATCHLEN => -ERR syntax error|
             LCS a b MINMATCHLEN x => -ERR value is not an integer or out of range|
             LCS a b MINMATCHLEN -5 => $6|mytext|
             LCS a => -ERR wrong number of arguments for 'lcs' command|
             SETRANGE l 20000 x => :20001|
             SETRANGE m 20000 y => :20001|
             LCS l m => -ERR Insufficient memory, transient memory for LCS exceeds
             ... proto-max-bulk-len|",
        );
    }

    #[test]
    fn long_strings_are_compared_in_slices() {
        let mut bench = Bench::new();
        let (one, other) = ("abcdefghij".repeat(400), "jihgfedcba".repeat(400));
        bench.call(&["MSET", "a", &one, "b", &other]);
        let length = bench.call(&["LCS", "a", "b", "LEN"]);
        let found = bench.call(&["LCS", "a", "b"]);
        assert_eq!(found.split('|').nth(1).unwrap().len().to_string(), length[1..length.len() - 1]);
        bench.expect("SETRANGE z 10000000 x", ":10000001|");
        bench.expect("SET x x", "+OK|");
        bench.expect("LCS z x", "$1|x|");
        bench.expect(
            "LCS x z IDX",
            "*4|$7|matches|*1|*2|*2|:0|:0|*2|:10000000|:10000000|$3|len|:1|",
        );
    }
}
