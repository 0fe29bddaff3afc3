//! Elements of lists by their values: searching and removing them, and inserting next to one.

use crate::families::lists::{elements, limit, shared_list};
use crate::runtime::arguments::{RemainingArguments, integer, is, length, value};
use crate::runtime::multi_key::{self, Claimed};
use crate::runtime::suspension::Slice;
use crate::{Access, Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::types::list::Insertion;
use nagi_store::{CHUNK_BYTES, ListRef, Rope, Side, Text};
use std::ops::ControlFlow;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&LINSERT, &LPOS, &LREM];

const RANK_ZERO: Error = Error::fixed(
    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use \
     negative to start from the end of the list",
);
const TOO_SMALL: Error = Error::fixed(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

/// Maximum elements that are compared while a latch is held.
const COMPARED_PER_HOLD: u64 = 256;
/// Maximum elements that are compared between two readings of the clock, and removed per hold,
/// unless a comparison takes long.
const COMPARED_PER_STEP: u64 = 64;
/// Longest string that is compared while a latch is held.
const QUICK_BYTES: usize = 1024;

/// The argument at `index`, as the element to search for. If it is long, it stays in the chunks in
/// which it was received.
fn wanted(args: Args<'_>, index: usize) -> Text<'_> {
    match args.large(index).filter(|large| !large.is_joined()) {
        Some(large) => Text::in_chunks(Rope::from_chunks(large.chunks())),
        None => Text::new(args.at(index)),
    }
}

/// Whether the argument at `index` is short enough to search for it while a latch is held.
fn is_quick(args: Args<'_>, index: usize) -> bool {
    length(args, index) <= QUICK_BYTES
}

/// Maximum elements that are compared with the argument at `index` between two readings of the
/// clock.
fn compared_per_step(args: Args<'_>, index: usize) -> u64 {
    if length(args, index) > CHUNK_BYTES { 1 } else { COMPARED_PER_STEP }
}

/// Parses a count whose sign is the side from which to search.
fn from_side(argument: &[u8]) -> Result<(Side, u64), Error> {
    match integer(argument)? {
        i64::MIN => Err(TOO_SMALL),
        number @ ..0 => Ok((Side::End, number.unsigned_abs())),
        number => Ok((Side::Start, number.unsigned_abs())),
    }
}

/// The rank at which a search from a side begins, and its direction.
fn start_and_direction(from: Side, len: u64) -> (u64, Side) {
    match from {
        Side::Start => (0, Side::End),
        Side::End => (len.saturating_sub(1), Side::Start),
    }
}

/// A search for the positions of an element, which can be paused.
#[derive(Clone, Copy, Debug)]
struct Positions {
    from: Side,
    /// The rank at which to continue, once the search has begun.
    next: Option<u64>,
    /// Matches still to be skipped.
    skipped: u64,
    /// Matches still to be found.
    wanted: u64,
    /// Elements that may still be compared.
    uncompared: u64,
    /// Maximum elements that are compared in a step.
    per_step: u64,
}

impl Positions {
    /// Searches for one step, and passes the ranks of matches to `found`. Returns whether the
    /// search is over.
    fn go_on(&mut self, list: ListRef<'_>, element: &Text<'_>, mut found: impl FnMut(u64)) -> bool {
        let (begin, towards) = start_and_direction(self.from, list.len());
        let rank = self.next.unwrap_or(begin);
        let most = self.per_step.min(self.uncompared);
        self.uncompared -= most;
        self.next = list.search(element, rank, towards, most, |rank| {
            if self.skipped > 0 {
                self.skipped -= 1;
                return ControlFlow::Continue(());
            }
            found(rank);
            self.wanted -= 1;
            if self.wanted == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.next.is_none() || self.uncompared == 0
    }
}

/// The reply to LPOS, which may be written in several steps.
#[derive(Clone, Copy, Debug)]
struct Report {
    positions: Positions,
    /// If the reply is an array: the search that first counts its elements, and the count so far.
    count: Option<(Positions, usize)>,
    /// Whether a position, or the array, has been written.
    is_found: bool,
}

impl Report {
    fn parse(args: Args<'_>) -> Result<Self, Error> {
        let (mut from, mut rank, mut count, mut uncompared) = (Side::Start, 1, None, u64::MAX);
        let natural = |argument: &[u8], problem| {
            let number = integer(argument).ok().and_then(|number| u64::try_from(number).ok());
            number.ok_or(Error::fixed(problem))
        };
        let unlimited = |number: u64| if number == 0 { u64::MAX } else { number };
        let mut rest = RemainingArguments::from(args, 3);
        while let Some(option) = rest.next() {
            if is(option, "RANK") {
                (from, rank) = from_side(rest.value()?)?;
                if rank == 0 {
                    return Err(RANK_ZERO);
                }
            } else if is(option, "COUNT") {
                let wanted = natural(rest.value()?, "ERR COUNT can't be negative")?;
                count = Some(unlimited(wanted));
            } else if is(option, "MAXLEN") {
                uncompared = unlimited(natural(rest.value()?, "ERR MAXLEN can't be negative")?);
            } else {
                return Err(Error::SYNTAX);
            }
        }
        let (wanted, per_step) = (count.unwrap_or(1), compared_per_step(args, 2));
        let skipped = rank - 1;
        let positions = Positions { from, next: None, skipped, wanted, uncompared, per_step };
        Ok(Report { positions, count: count.map(|_| (positions, 0)), is_found: false })
    }

    /// Writes the reply for a missing list.
    fn end_without_list(&self, reply: &mut Writer<'_>) {
        match self.count {
            Some(_) => reply.array(0),
            None => reply.null(),
        }
    }

    /// Continues for one step. Returns whether the reply is complete.
    fn go_on(&mut self, reply: &mut Writer<'_>, list: ListRef<'_>, element: &Text<'_>) -> bool {
        if let Some((counting, found)) = &mut self.count {
            if counting.go_on(list, element, |_| *found += 1) {
                reply.array(*found);
                let is_over = *found == 0;
                self.count = None;
                self.is_found = true;
                return is_over;
            }
            return false;
        }
        let is_over = self.positions.go_on(list, element, |rank| {
            reply.integer(rank as i64);
            self.is_found = true;
        });
        if is_over && !self.is_found {
            reply.null();
        }
        is_over
    }
}

fn lpos<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let mut report = Report::parse(args)?;
    let key = cx.key(args.at(1));
    let is_quick = is_quick(args, 2);
    let Context { db, reply, .. } = cx;
    let is_over = db.read_list(key, |list| match list {
        None => {
            report.end_without_list(reply);
            true
        }
        Some(list) if is_quick && list.len() <= COMPARED_PER_HOLD => {
            let element = wanted(args, 2);
            while !report.go_on(reply, list, &element) {}
            true
        }
        Some(_) => false,
    })?;
    if is_over {
        return Ok(());
    }
    // The list may have been removed after its length was read.
    let shared = shared_list(cx, key)?;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        let Some(list) = elements(shared.as_ref()) else {
            report.end_without_list(&mut cx.reply);
            return Ok(JobProgress::Done);
        };
        let element = wanted(cx.args, 2);
        while !report.go_on(&mut cx.reply, list, &element) {
            if slice.is_over() {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
        Ok(JobProgress::Done)
    }))
}

pub(crate) static LPOS: Command = Command {
    name: "LPOS",
    syntax: "key element [RANK rank] [COUNT num-matches] [MAXLEN len]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::LIST,
    group: Group::List,
    since: "6.0.6",
    notes: Notes::of("O(N), N being the elements that are looked at"),
    summary: "Returns the indexes of elements that equal one",
    subcommands: &[],
    run: lpos,
};

fn lrem<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (from, count) = from_side(args.at(2))?;
    let count = if count == 0 { u64::MAX } else { count };
    if is_quick(args, 3) {
        let (key, element) = (cx.key(args.at(1)), wanted(args, 3));
        let (most, limit) = (COMPARED_PER_HOLD, limit(cx));
        if let Some(removed) = cx.db.remove_equal(key, &element, (from, count), most, limit)? {
            cx.reply.integer(removed as i64);
            return Ok(());
        }
    }
    let (mut next, mut left, mut removed) = (None, count, 0);
    let most = compared_per_step(args, 3);
    multi_key::claimed(cx, Claimed::all(&LREM.keys), move |cx, slice| {
        let (key, element, limit) = (cx.key(cx.args.at(1)), wanted(cx.args, 3), limit(cx));
        loop {
            // Since the key is claimed, the list cannot change, and is searched without its latch.
            let shared = shared_list(cx, key)?;
            let mut ranks = Vec::new();
            let rest = elements(shared.as_ref()).and_then(|list| {
                let (begin, towards) = start_and_direction(from, list.len());
                let rank = next.unwrap_or(begin);
                list.search(&element, rank, towards, most, |rank| {
                    ranks.push(rank);
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
            });
            drop(shared);
            ranks.sort_unstable();
            let count = ranks.len() as u64;
            removed += count;
            let is_complete = rest.is_none() && removed > 0;
            if count > 0 || is_complete {
                cx.db.remove_elements(key, &ranks, is_complete, limit)?;
            }
            let Some(rank) = rest else {
                cx.reply.integer(removed as i64);
                return Ok(true);
            };
            next = Some(if from == Side::Start { rank - count } else { rank });
            if slice.is_over() {
                return Ok(false);
            }
        }
    })
}

pub(crate) static LREM: Command = Command {
    name: "LREM",
    syntax: "key count element",
    arity: 4,
    flags: Flags::WRITE,
    keys: Keys::one(Access::RW.union(Access::DELETE)),
    categories: Category::LIST,
    group: Group::List,
    since: "1.0.0",
    notes: Notes::of(
        "O(N + M log N), N being the elements of the list and M those that are removed",
    ),
    summary: "Removes elements that equal one: the first, the last, or all of them",
    subcommands: &[],
    run: lrem,
};

fn linsert<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let sides = [("BEFORE", Side::Start), ("AFTER", Side::End)];
    let side = sides.into_iter().find(|(name, _)| is(args.at(2), name));
    let (_, side) = side.ok_or(Error::SYNTAX)?;
    // A long element can be taken from the input only once, so it is not tried first under the
    // latch.
    if is_quick(args, 3) && args.large(4).is_none() {
        let (key, pivot, limit) = (cx.key(args.at(1)), wanted(args, 3), limit(cx));
        let element = Text::from_input(value(args, 4));
        let beside = (&pivot, side);
        match cx.db.insert_beside(key, beside, COMPARED_PER_HOLD, &element, limit)? {
            Insertion::TooLong => {}
            insertion => {
                answer(&mut cx.reply, insertion);
                return Ok(());
            }
        }
    }
    let (mut next, most) = (0, compared_per_step(args, 3));
    multi_key::claimed(cx, Claimed::all(&LINSERT.keys), move |cx, slice| {
        let (key, pivot, limit) = (cx.key(cx.args.at(1)), wanted(cx.args, 3), limit(cx));
        let shared = shared_list(cx, key)?;
        let Some(list) = elements(shared.as_ref()) else {
            answer(&mut cx.reply, Insertion::NoList);
            return Ok(true);
        };
        let mut found = None;
        while found.is_none() {
            let rest = list.search(&pivot, next, Side::End, most, |rank| {
                found = Some(rank);
                ControlFlow::Break(())
            });
            match rest {
                None => break,
                Some(rank) => next = rank,
            }
            if found.is_none() && slice.is_over() {
                return Ok(false);
            }
        }
        drop(shared);
        let insertion = match found {
            None => Insertion::Missing,
            Some(rank) => {
                let rank = if side == Side::Start { rank } else { rank + 1 };
                let element = Text::from_input(value(cx.args, 4));
                let len = cx.db.insert_element(key, rank, &element, limit)?;
                len.map_or(Insertion::NoList, Insertion::Done)
            }
        };
        answer(&mut cx.reply, insertion);
        Ok(true)
    })
}

fn answer(reply: &mut Writer<'_>, insertion: Insertion) {
    reply.integer(match insertion {
        Insertion::Done(len) => len as i64,
        Insertion::NoList => 0,
        Insertion::Missing | Insertion::TooLong => -1,
    });
}

pub(crate) static LINSERT: Command = Command {
    name: "LINSERT",
    syntax: "key <BEFORE | AFTER> pivot element",
    arity: 5,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::one(Access::RW.union(Access::INSERT)),
    categories: Category::LIST,
    group: Group::List,
    since: "2.2.0",
    notes: Notes::of("O(N), N being the elements up to the pivot"),
    summary: "Inserts an element before or after the first one that equals the pivot",
    subcommands: &[],
    run: linsert,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn lpos_finds_positions_by_rank_count_and_maxlen() {
        converse(
            "LPOS l a => $-1|
             LPOS l a COUNT 1 => *0|
             RPUSH l a b c 1 2 3 c c => :8|
             LPOS l c => :2|
             LPOS l 3 => :5|
             LPOS l x => $-1|
             LPOS l x COUNT 0 => *0|
             LPOS l c RANK 2 => :6|
             LPOS l c RANK -1 => :7|
             LPOS l c RANK -4 => $-1|
             LPOS l c COUNT 2 => *2|:2|:6|
             LPOS l c COUNT 0 RANK 2 => *2|:6|:7|
             LPOS l c RANK -1 COUNT 2 => *2|:7|:6|
             LPOS l c COUNT 0 MAXLEN 7 => *2|:2|:6|
             LPOS l c MAXLEN 2 => $-1|
             LPOS l c RANK -2 MAXLEN 1 => $-1|
             LPOS l c RANK 0 => -ERR RANK can't be zero: use 1 to start from the first match, 2 \
             from the second ... or use negative to start from the end of the list|
             LPOS l c RANK -9223372036854775808 => -ERR value is out of range, value must between \
             -9223372036854775807 and 9223372036854775807|
             LPOS l c RANK x => -ERR value is not an integer or out of range|
             LPOS l c COUNT -1 => -ERR COUNT can't be negative|
             LPOS l c MAXLEN x => -ERR MAXLEN can't be negative|
             LPOS l c COUNT => -ERR syntax error|
             LPOS l c FOO 1 => -ERR syntax error|",
        );
    }

    #[test]
    fn lrem_removes_equal_elements_from_either_side() {
        converse(
            "LREM l 0 a => :0|
             RPUSH l a b a c a d a => :7|
             LREM l 2 a => :2|
             LRANGE l 0 -1 => *5|$1|b|$1|c|$1|a|$1|d|$1|a|
             LREM l -1 a => :1|
             LRANGE l 0 -1 => *4|$1|b|$1|c|$1|a|$1|d|
             LREM l 0 x => :0|
             LREM l x a => -ERR value is not an integer or out of range|
             LREM l -9223372036854775808 a => -ERR value is out of range, value must between \
             -9223372036854775807 and 9223372036854775807|
             RPUSH k a a a => :3|
             LREM k 0 a => :3|
             EXISTS k => :0|",
        );
    }

    #[test]
    fn linsert_inserts_beside_the_pivot() {
        converse(
            "LINSERT l BEFORE a x => :0|
             LINSERT none NEAR a x => -ERR syntax error|
             EXISTS l => :0|
             RPUSH l a b a => :3|
             LINSERT l BEFORE a x => :4|
             LINSERT l after a y => :5|
             LINSERT l AFTER none y => :-1|
             LRANGE l 0 -1 => *5|$1|x|$1|a|$1|y|$1|b|$1|a|",
        );
    }

    /// A list of 10,000 elements of which every hundredth is `x`, and the rest are numbers.
    fn long_list() -> Bench {
        let mut bench = Bench::new();
        let element = |at: u32| if at % 100 == 99 { "x".to_owned() } else { at.to_string() };
        let elements: String = (0..10_000).map(|at| format!(" {}", element(at))).collect();
        bench.expect(&format!("RPUSH l{elements}"), ":10000|");
        bench
    }

    /// They are compared one at a time.
    #[test]
    fn long_elements_are_found_inserted_beside_and_removed() {
        let mut bench = Bench::new();
        let [first, other] = ["x", "y"].map(|byte| byte.repeat(70_000));
        let mut check = |words: &[&str], reply: &str| {
            assert_eq!(bench.call(words), reply, "{}", words[0]);
        };
        check(&["RPUSH", "l", &first, "a", &other, &first, "b", &other, &first], ":7|");
        check(&["LPOS", "l", &first, "RANK", "-2"], ":3|");
        check(&["LPOS", "l", &first, "COUNT", "0"], "*3|:0|:3|:6|");
        check(&["LPOS", "l", &first, "COUNT", "0", "MAXLEN", "6"], "*2|:0|:3|");
        check(&["LPOS", "l", &other, "RANK", "2", "MAXLEN", "5"], "$-1|");
        check(&["LINSERT", "l", "AFTER", &other, "c"], ":8|");
        check(&["LINSERT", "l", "BEFORE", &"z".repeat(70_000), "c"], ":-1|");
        check(&["LREM", "l", "-2", &first], ":2|");
        check(&["LPOS", "l", &first, "COUNT", "0"], "*1|:0|");
        check(&["LREM", "l", "0", &other], ":2|");
        check(&["LREM", "l", "1", &first], ":1|");
        check(&["LRANGE", "l", "0", "-1"], "*3|$1|a|$1|c|$1|b|");
    }

    #[test]
    fn lpos_searches_long_lists() {
        let mut bench = long_list();
        bench.expect("LPOS l x RANK 50", ":4999|");
        bench.expect("LPOS l x RANK -50", ":5099|");
        bench.expect("LPOS l x COUNT 3 RANK -2 MAXLEN 350", "*3|:9899|:9799|:9699|");
        bench.expect("LPOS l x COUNT 0 MAXLEN 299", "*2|:99|:199|");
        bench.expect("LPOS l none", "$-1|");
        bench.expect("LPOS l none COUNT 0", "*0|");
        let all: String = (0..100).map(|at| format!(":{}|", at * 100 + 99)).collect();
        bench.expect("LPOS l x COUNT 0", &format!("*100|{all}"));
    }

    #[test]
    fn lrem_on_long_lists_publishes_one_event() {
        for (count, removed, first, last) in [
            ("3", 3, ":396|", ":9996|"),
            ("-3", 3, ":99|", ":9699|"),
            ("1", 1, ":198|", ":9998|"),
            ("99", 99, ":9900|", ":9900|"),
            ("-99", 99, ":99|", ":99|"),
        ] {
            let mut bench = long_list();
            bench.take_events();
            bench.expect(&format!("LREM l {count} x"), &format!(":{removed}|"));
            assert_eq!(bench.take_events(), "l:lrem", "{count}");
            bench.expect("LPOS l x", first);
            bench.expect("LPOS l x RANK -1", last);
            bench.expect("LLEN l", &format!(":{}|", 10_000 - removed));
        }
        let mut bench = Bench::new();
        bench.expect(&format!("RPUSH l{}", " x".repeat(1000)), ":1000|");
        bench.take_events();
        bench.expect("LREM l -500 y", ":0|");
        assert_eq!(bench.take_events(), "");
        bench.expect("LREM l 1000 x", ":1000|");
        assert_eq!(bench.take_events(), "l:lrem l:del");
    }

    #[test]
    fn linsert_searches_long_lists_for_the_pivot() {
        let mut bench = long_list();
        bench.expect("LINSERT l AFTER 5050 y", ":10001|");
        bench.expect("LPOS l y", ":5051|");
        bench.expect("LINSERT l BEFORE 9998 z", ":10002|");
        bench.expect("LRANGE l -4 -1", "*4|$4|9997|$1|z|$4|9998|$1|x|");
        bench.expect("LINSERT l BEFORE none z", ":-1|");
        bench.expect("LPOS l none", "$-1|");
    }
}
