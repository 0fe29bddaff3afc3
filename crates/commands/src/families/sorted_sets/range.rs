//! Ranges of sorted sets: counted, returned, or stored.

use crate::families::derived_set::{self, Derivation, Plan, Shown};
use crate::families::elements::{
    ELEMENTS_PER_HOLD, ShortReply, begin_members, in_strides, write_member,
};
use crate::families::sorted_sets::span::{By, Part, Span};
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::sorted_set::NewSortedSet;
use nagi_store::{Event, Kind, SharedValue, SortedSetRef, Text};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[
    &ZCOUNT,
    &ZLEXCOUNT,
    &ZRANGE,
    &ZRANGEBYLEX,
    &ZRANGEBYSCORE,
    &ZRANGESTORE,
    &ZREVRANGE,
    &ZREVRANGEBYLEX,
    &ZREVRANGEBYSCORE,
];

/// The arguments for a range, without the key.
#[derive(Clone, Debug)]
struct Selection<'a> {
    span: Span<'a>,
    is_reversed: bool,
    /// The number of members to skip, and the number to return after them.
    limit: Option<(i64, i64)>,
    with_scores: bool,
}

/// Properties of a range that the name of the command determines. ZRANGE has options for them.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    by: Option<By>,
    is_reversed: Option<bool>,
    /// Whether the range is to be stored, so that there is no option for scores.
    is_stored: bool,
}

impl<'a> Selection<'a> {
    /// Parses a range that begins at the position `at`, and the options after it.
    fn parse(args: Args<'a>, at: usize, known: Known) -> Result<Self, Error> {
        let Known { mut by, mut is_reversed, is_stored } = known;
        let (mut limit, mut with_scores) = (None, false);
        let mut rest = RemainingArguments::from(args, at + 2);
        while let Some(option) = rest.next() {
            if !is_stored && is(option, "WITHSCORES") {
                with_scores = true;
            } else if is(option, "LIMIT") {
                let (offset, count) = (rest.value()?, rest.value()?);
                limit = Some((integer(offset)?, integer(count)?));
            } else if is_reversed.is_none() && is(option, "REV") {
                is_reversed = Some(true);
            } else if by.is_none() && is(option, "BYLEX") {
                by = Some(By::Member);
            } else if by.is_none() && is(option, "BYSCORE") {
                by = Some(By::Score);
            } else {
                return Err(Error::SYNTAX);
            }
        }
        let (by, is_reversed) = (by.unwrap_or(By::Rank), is_reversed.unwrap_or(false));
        if by == By::Rank && limit.is_some_and(|(_, count)| count != -1) {
            let text = "ERR syntax error, LIMIT is only supported in combination with either \
                        BYSCORE or BYLEX";
            return Err(Error::fixed(text));
        }
        if by == By::Member && with_scores {
            let text = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
            return Err(Error::fixed(text));
        }
        let (mut min, mut max) = (args.at(at), args.at(at + 1));
        if is_reversed && by != By::Rank {
            std::mem::swap(&mut min, &mut max);
        }
        let span = Span::parse(by, min, max)?;
        let limit = limit.filter(|_| by != By::Rank);
        Ok(Selection { span, is_reversed, limit, with_scores })
    }

    fn part(&self, set: Option<SortedSetRef<'_>>) -> Part {
        let Some(set) = set else { return Part::all(0..0, self.is_reversed) };
        let part = Part::all(self.span.ranks(set, self.is_reversed), self.is_reversed);
        match self.limit {
            // As in Redis, a negative offset skips all members of a listpack.
            Some((..0, _)) if set.is_listpack() => part.limited((i64::MAX, 0)),
            Some(limit) => part.limited(limit),
            None => part,
        }
    }
}

/// Replies with the range of a request.
fn show<'a>(cx: &mut Context<'a>, args: Args<'a>, known: Known) -> Result<(), Error> {
    let selection = Selection::parse(args, 2, known)?;
    let (key, with_scores) = (cx.key(args.at(1)), selection.with_scores);
    let Context { db, reply, .. } = cx;
    let is_shown = db.read_sorted_set(key, |set| {
        let part = selection.part(set);
        if part.len() > ELEMENTS_PER_HOLD {
            return false;
        }
        let mut reply = ShortReply::begin(reply);
        reply.add(|reply| begin_members(reply, part.len(), with_scores));
        set.into_iter().for_each(|set| {
            part.visit(set, |member| reply.add(|reply| write_member(reply, member, with_scores)));
        });
        reply.end()
    })?;
    if is_shown {
        return Ok(());
    }
    // The sorted set may have been removed after its length was read.
    let shared = cx.db.share_again(key, &[Kind::SortedSet])?;
    let set = shared.as_ref().and_then(|shared| shared.read().sorted_set().ok());
    let mut left = selection.part(set);
    begin_members(&mut cx.reply, left.len(), with_scores);
    in_strides(cx, move |reply| {
        let part = left.take(ELEMENTS_PER_HOLD);
        let set = shared.as_ref().and_then(|shared| shared.read().sorted_set().ok());
        set.into_iter().for_each(|set| part.write(set, reply, with_scores));
        left.len() == 0
    })
}

/// Replies with the number of members in a range.
fn count<'a>(cx: &mut Context<'a>, args: Args<'a>, by: By) -> Result<(), Error> {
    let span = Span::parse(by, args.at(2), args.at(3))?;
    let count = cx.db.read_sorted_set(cx.key(args.at(1)), |set| {
        let ranks = set.map_or(0..0, |set| span.ranks(set, false));
        ranks.end - ranks.start
    })?;
    cx.reply.integer(count as i64);
    Ok(())
}

fn zcount<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    count(cx, args, By::Score)
}

pub(crate) static ZCOUNT: Command = Command {
    name: "ZCOUNT",
    syntax: "key min max",
    arity: 4,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "2.0.0",
    notes: Notes::of("O(log(N)), N being the members of the sorted set"),
    summary: "Returns how many members of a sorted set have scores between two",
    subcommands: &[],
    run: zcount,
};

fn zlexcount<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    count(cx, args, By::Member)
}

pub(crate) static ZLEXCOUNT: Command = Command {
    name: "ZLEXCOUNT",
    syntax: "key min max",
    arity: 4,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "2.8.9",
    notes: Notes::of("O(log(N)), N being the members of the sorted set"),
    summary: "Returns how many members of a sorted set, all of one score, lie between two",
    subcommands: &[],
    run: zlexcount,
};

fn zrange<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    show(cx, args, Known::default())
}

pub(crate) static ZRANGE: Command = Command {
    name: "ZRANGE",
    syntax: "key start stop [BYSCORE | BYLEX] [REV] [LIMIT offset count] [WITHSCORES]",
    arity: -4,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "1.2.0",
    notes: Notes::of("O(log(N) + M), N being the members of the sorted set, M those returned")
        .history(&[("6.2.0", "REV, BYSCORE, BYLEX and LIMIT")]),
    summary: "Returns the members of a sorted set between two ranks, scores or members",
    subcommands: &[],
    run: zrange,
};

fn zrevrange<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let known = Known { by: Some(By::Rank), is_reversed: Some(true), is_stored: false };
    show(cx, args, known)
}

pub(crate) static ZREVRANGE: Command = Command {
    name: "ZREVRANGE",
    syntax: "key start stop [WITHSCORES]",
    arity: -4,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "1.2.0",
    notes: Notes::of("O(log(N) + M), N being the members of the sorted set, M those returned")
        .replaced("6.2.0", "ZRANGE with REV"),
    summary: "Returns the members of a sorted set between two ranks, counted from the end",
    subcommands: &[],
    run: zrevrange,
};

fn zrangebyscore<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let known = Known { by: Some(By::Score), is_reversed: Some(false), is_stored: false };
    show(cx, args, known)
}

pub(crate) static ZRANGEBYSCORE: Command = Command {
    name: "ZRANGEBYSCORE",
    syntax: "key min max [WITHSCORES] [LIMIT offset count]",
    arity: -4,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "1.0.5",
    notes: Notes::of("O(log(N) + M), N being the members of the sorted set, M those returned")
        .history(&[("2.0.0", "WITHSCORES")])
        .replaced("6.2.0", "ZRANGE with BYSCORE"),
    summary: "Returns the members of a sorted set whose scores lie between two",
    subcommands: &[],
    run: zrangebyscore,
};

fn zrevrangebyscore<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let known = Known { by: Some(By::Score), is_reversed: Some(true), is_stored: false };
    show(cx, args, known)
}

pub(crate) static ZREVRANGEBYSCORE: Command = Command {
    name: "ZREVRANGEBYSCORE",
    syntax: "key max min [WITHSCORES] [LIMIT offset count]",
    arity: -4,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "2.2.0",
    notes: Notes::of("O(log(N) + M), N being the members of the sorted set, M those returned")
        .history(&[("2.1.6", "bounds that lie outside")])
        .replaced("6.2.0", "ZRANGE with REV and BYSCORE"),
    summary: "Returns the members of a sorted set whose scores lie between two, from the end",
    subcommands: &[],
    run: zrevrangebyscore,
};

fn zrangebylex<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let known = Known { by: Some(By::Member), is_reversed: Some(false), is_stored: false };
    show(cx, args, known)
}

pub(crate) static ZRANGEBYLEX: Command = Command {
    name: "ZRANGEBYLEX",
    syntax: "key min max [LIMIT offset count]",
    arity: -4,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "2.8.9",
    notes: Notes::of("O(log(N) + M), N being the members of the sorted set, M those returned")
        .replaced("6.2.0", "ZRANGE with BYLEX"),
    summary: "Returns the members of a sorted set, all of one score, between two",
    subcommands: &[],
    run: zrangebylex,
};

fn zrevrangebylex<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let known = Known { by: Some(By::Member), is_reversed: Some(true), is_stored: false };
    show(cx, args, known)
}

pub(crate) static ZREVRANGEBYLEX: Command = Command {
    name: "ZREVRANGEBYLEX",
    syntax: "key max min [LIMIT offset count]",
    arity: -4,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "2.8.9",
    notes: Notes::of("O(log(N) + M), N being the members of the sorted set, M those returned")
        .replaced("6.2.0", "ZRANGE with REV and BYLEX"),
    summary: "Returns the members of a sorted set, all of one score, between two, from the end",
    subcommands: &[],
    run: zrevrangebylex,
};

/// A range that is being copied.
struct Copied {
    source: Option<SharedValue>,
    left: Part,
    set: NewSortedSet,
}

impl Copied {
    fn begin(cx: &Context<'_>, mut values: Vec<Option<SharedValue>>) -> Result<Self, Error> {
        let known = Known { is_stored: true, ..Known::default() };
        let selection = Selection::parse(cx.args, 3, known)?;
        let source = values.pop().flatten();
        let set = source.as_ref().and_then(|source| source.read().sorted_set().ok());
        let left = selection.part(set);
        Ok(Copied { source, left, set: NewSortedSet::new(cx.db.store()) })
    }
}

impl Derivation for Copied {
    fn go_on(&mut self, is_over: impl Fn() -> bool) -> bool {
        let source = self.source.as_ref().and_then(|source| source.read().sorted_set().ok());
        let Some(source) = source else { return true };
        while self.left.len() > 0 {
            if is_over() {
                return false;
            }
            let set = &mut self.set;
            self.left.take(ELEMENTS_PER_HOLD).visit(source, |member| {
                member.name.with_bytes(|name| set.set(&Text::new(name), member.score));
            });
        }
        true
    }

    fn shown(&self) -> Shown {
        Shown::Members
    }

    fn take(&mut self) -> NewSortedSet {
        self.set.take()
    }
}

const SOURCE: KeyGroup = KeyGroup::at(2, Access::RO.union(Access::ACCESS));
static ONLY_SOURCE: Keys = Keys::only(SOURCE);

fn zrangestore<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    // As in Redis, errors of the request take precedence over those of the keys.
    Selection::parse(args, 3, Known { is_stored: true, ..Known::default() })?;
    let (keys, begin) = (&ZRANGESTORE.keys, Copied::begin);
    let plan = Plan { keys, sources: &ONLY_SOURCE, kinds: &[Kind::SortedSet], begin };
    derived_set::store(cx, plan, 1, Event::ZRangeStore)
}

pub(crate) static ZRANGESTORE: Command = Command {
    name: "ZRANGESTORE",
    syntax: "dst src min max [BYSCORE | BYLEX] [REV] [LIMIT offset count]",
    arity: -5,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[KeyGroup::at(1, Access::OW.union(Access::UPDATE)), SOURCE]),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "6.2.0",
    notes: Notes::of("O(log(N) + M), N being the members of the sorted set, M those stored"),
    summary: "Stores the members of a sorted set between two ranks, scores or members",
    subcommands: &[],
    run: zrangestore,
};
