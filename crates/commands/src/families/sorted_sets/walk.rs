//! Sorted sets as a whole: random members, and scans by cursor.

use crate::families::elements::{
    Drawn, ELEMENTS_PER_HOLD, ScanOptions, Scanned, begin_members, drawn_count, end_of_scan,
    in_strides, scan, write, write_member,
};
use crate::runtime::arguments::is;
use crate::runtime::numbers::{score, seventeen_digits};
use crate::{Access, Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_store::{Kind, SharedValue, SortedSetScan};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&ZRANDMEMBER, &ZSCAN];

const SORTED_SET: &[Kind] = &[Kind::SortedSet];

/// Maximum members that are read between two readings of the clock.
const READ_PER_STEP: u64 = 1024;

fn zrandmember<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let key = cx.key(args.at(1));
    let random = cx.db.random();
    if args.len() == 2 {
        let Context { db, reply, .. } = cx;
        return Ok(db.read_sorted_set(key, |set| {
            match set.and_then(|set| set.select(random % set.len().max(1))) {
                Some(member) => write(reply, member.name),
                None => reply.null(),
            }
        })?);
    }
    let count = drawn_count(args.at(2))?;
    let with_scores = match args.get(3) {
        None => false,
        Some(option) if args.len() == 4 && is(option, "WITHSCORES") => true,
        Some(_) => return Err(Error::SYNTAX),
    };
    if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(Error::fixed("ERR value is out of range"));
    }
    let Some(shared) = cx.db.share_as(key, SORTED_SET)?.filter(|_| count != 0) else {
        cx.reply.array(0);
        return Ok(());
    };
    let mut drawn = Drawn::new(shared.read().len(), count, random);
    begin_members(&mut cx.reply, drawn.left(), with_scores);
    in_strides(cx, move |reply| {
        let set = shared.read().sorted_set().ok();
        for rank in drawn.by_ref().take(ELEMENTS_PER_HOLD as usize) {
            if let Some(member) = set.and_then(|set| set.select(rank)) {
                write_member(reply, &member, with_scores);
            }
        }
        drawn.left() == 0
    })
}

pub(crate) static ZRANDMEMBER: Command = Command {
    name: "ZRANDMEMBER",
    syntax: "key [count [WITHSCORES]]",
    arity: -2,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "6.2.0",
    notes: Notes::of("O(N log(M)), N being the members returned, M those of the sorted set")
        .tips(&["nondeterministic_output"]),
    summary: "Returns random members of a sorted set",
    subcommands: &[],
    run: zrandmember,
};

/// A scan over a sorted set, each step of which may take several slices.
struct SortedSetWalk {
    shared: SharedValue,
    /// The step in progress.
    step: Option<SortedSetScan>,
}

impl SortedSetWalk {
    fn go_on(
        &mut self,
        cursor: u64,
        count: usize,
        show: &mut dyn FnMut(Scanned<'_>),
    ) -> Option<u64> {
        let Ok(set) = self.shared.read().sorted_set() else { return Some(0) };
        let step = self.step.get_or_insert_with(|| set.scan(cursor, count));
        let next = step.next;
        // Listpacks store scores as text; in Redis, those of skiplists are formatted with 17
        // digits.
        let digits = if set.is_listpack() { score } else { seventeen_digits };
        let is_done = step.show(set, READ_PER_STEP, |member| {
            show(Scanned::Scored(member.name, &digits(member.score)));
        });
        if is_done {
            self.step = None;
        }
        is_done.then_some(next)
    }
}

fn zscan<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let cursor = ScanOptions::cursor(args)?;
    let Some(shared) = cx.db.share_as(cx.key(args.at(1)), SORTED_SET)? else {
        end_of_scan(&mut cx.reply);
        return Ok(());
    };
    let options = ScanOptions::parse(args, cursor, None)?;
    let mut walk = SortedSetWalk { shared, step: None };
    scan(cx, options, 2, move |cursor, count, show| walk.go_on(cursor, count, show))
}

pub(crate) static ZSCAN: Command = Command {
    name: "ZSCAN",
    syntax: "key cursor [MATCH pattern] [COUNT count]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "2.8.0",
    notes: Notes::of("O(1) for each call; O(N) for a whole walk, N being the members")
        .tips(&["nondeterministic_output"]),
    summary: "Returns some members of a sorted set, and a cursor for the next call that is 0 at \
              the end",
    subcommands: &[],
    run: zscan,
};
