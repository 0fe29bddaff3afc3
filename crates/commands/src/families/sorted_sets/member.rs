//! Sorted sets: adding, incrementing, reading and removing members.

use crate::families::elements::write_score;
use crate::runtime::arguments::is;
use crate::runtime::multi_key::{self, Claimed};
use crate::runtime::numbers::double;
use crate::runtime::suspension::Slice;
use crate::{Access, Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::types::sorted_set::{Incremented, Placed, ScoreCondition, Scored};
use nagi_store::{Event, Kind, SortedSetLimits, SortedSetRef, Text};

/// The family's rows.
pub(crate) static ALL: &[&Command] =
    &[&ZADD, &ZCARD, &ZINCRBY, &ZMSCORE, &ZRANK, &ZREM, &ZREVRANK, &ZSCORE];

const NOT_A_FLOAT: Error = Error::fixed("ERR value is not a valid float");
const NOT_A_NUMBER: Error = Error::fixed("ERR resulting score is not a number (NaN)");

/// Maximum members of a request that are processed per hold of a latch; a request with more members
/// claims its key.
const MEMBERS_PER_HOLD: usize = 64;

/// The limits of sorted sets in the settings.
pub(crate) fn limits(cx: &Context<'_>) -> SortedSetLimits {
    cx.server.config().collection_limits().sorted_set
}

/// The options of ZADD, and the position at which its scores begin.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    condition: ScoreCondition,
    /// Whether the reply also counts members whose score has changed.
    counts_changed: bool,
    increments: bool,
    scores_at: usize,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, Error> {
        let mut options = Options { scores_at: 2, ..Options::default() };
        let condition = &mut options.condition;
        for option in args.from(2) {
            let flag = match option {
                it if is(it, "NX") => &mut condition.new_only,
                it if is(it, "XX") => &mut condition.existing_only,
                it if is(it, "GT") => &mut condition.greater_only,
                it if is(it, "LT") => &mut condition.less_only,
                it if is(it, "CH") => &mut options.counts_changed,
                it if is(it, "INCR") => &mut options.increments,
                _ => break,
            };
            *flag = true;
            options.scores_at += 1;
        }
        let words = args.len() - options.scores_at;
        if words == 0 || !words.is_multiple_of(2) {
            return Err(Error::SYNTAX);
        }
        let ScoreCondition { new_only, existing_only, greater_only, less_only } = options.condition;
        if new_only && existing_only {
            let text = "ERR XX and NX options at the same time are not compatible";
            return Err(Error::fixed(text));
        }
        if new_only && (greater_only || less_only) || greater_only && less_only {
            let text = "ERR GT, LT, and/or NX options at the same time are not compatible";
            return Err(Error::fixed(text));
        }
        if options.increments && words > 2 {
            let text = "ERR INCR option supports a single increment-element pair";
            return Err(Error::fixed(text));
        }
        Ok(options)
    }

    fn reply(&self, reply: &mut Writer<'_>, placed: Placed) {
        let changed = if self.counts_changed { placed.changed } else { 0 };
        reply.integer((placed.added + changed) as i64);
    }
}

fn scored(args: Args<'_>, at: usize) -> Result<Scored<'_>, Error> {
    let score = double(args.at(at)).ok_or(NOT_A_FLOAT)?;
    Ok((Text::to_store(args.at(at + 1)), score))
}

fn zadd<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let options = Options::parse(args)?;
    if options.increments {
        return increment(cx, args.at(1), scored(args, options.scores_at)?, options.condition);
    }
    let members = (args.len() - options.scores_at) / 2;
    if members > MEMBERS_PER_HOLD {
        return add_many(cx, options, members);
    }
    let places = (options.scores_at..args.len()).step_by(2);
    let scored = places.map(|at| scored(args, at)).collect::<Result<Vec<_>, _>>()?;
    let (key, limits) = (cx.key(args.at(1)), limits(cx));
    let placed = cx.db.place_members(
        key,
        &scored,
        options.condition,
        (members, limits),
        Some(Event::ZAdd),
    )?;
    options.reply(&mut cx.reply, placed);
    Ok(())
}

/// Adds more members than may be added under one hold of the latch. All scores are checked before
/// the first member is added.
fn add_many(cx: &mut Context<'_>, options: Options, members: usize) -> Result<(), Error> {
    let (mut checked, mut at) = (options.scores_at, options.scores_at);
    let mut placed = Placed::default();
    multi_key::claimed(cx, Claimed::all(&ZADD.keys), move |cx, slice| {
        let (key, limits, args) = (cx.key(cx.args.at(1)), limits(cx), cx.args);
        while checked < args.len() {
            let end = args.len().min(checked + 2 * MEMBERS_PER_HOLD);
            for score in (checked..end).step_by(2) {
                double(args.at(score)).ok_or(NOT_A_FLOAT)?;
            }
            checked = end;
            if slice.is_over() {
                return Ok(false);
            }
        }
        while at < args.len() {
            let end = args.len().min(at + 2 * MEMBERS_PER_HOLD);
            let places = (at..end).step_by(2);
            let scored = places.map(|at| scored(args, at)).collect::<Result<Vec<_>, _>>()?;
            let event = (placed == Placed::default()).then_some(Event::ZAdd);
            let sizes = (members, limits);
            let some = cx.db.place_members(key, &scored, options.condition, sizes, event)?;
            placed.added += some.added;
            placed.changed += some.changed;
            at = end;
            if slice.is_over() && at < args.len() {
                return Ok(false);
            }
        }
        options.reply(&mut cx.reply, placed);
        Ok(true)
    })
}

fn increment(
    cx: &mut Context<'_>,
    key: &[u8],
    amount: Scored<'_>,
    condition: ScoreCondition,
) -> Result<(), Error> {
    let limits = limits(cx);
    match cx.db.increment_score(cx.db.key(key), amount, condition, limits)? {
        Incremented::To(score) => write_score(&mut cx.reply, score),
        Incremented::Refused => cx.reply.null(),
        Incremented::NotANumber => return Err(NOT_A_NUMBER),
    }
    Ok(())
}

pub(crate) static ZADD: Command = Command {
    name: "ZADD",
    syntax: "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
    arity: -4,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "1.2.0",
    notes: Notes::of("O(M log(N)), M being the members given, N those of the sorted set").history(
        &[("2.4.0", "several members"), ("3.0.2", "XX, NX, CH and INCR"), ("6.2.0", "GT and LT")],
    ),
    summary: "Gives members of a sorted set, which is created if there is none, their scores",
    subcommands: &[],
    run: zadd,
};

fn zincrby<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    // The options of ZADD cannot be scores.
    if ["NX", "XX", "GT", "LT", "CH", "INCR"].iter().any(|option| is(args.at(2), option)) {
        return Err(Error::SYNTAX);
    }
    increment(cx, args.at(1), scored(args, 2)?, ScoreCondition::default())
}

pub(crate) static ZINCRBY: Command = Command {
    name: "ZINCRBY",
    syntax: "key increment member",
    arity: 4,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "1.2.0",
    notes: Notes::of("O(log(N)), N being the members of the sorted set"),
    summary: "Adds an amount to the score of a member, which begins at 0 if it is not there",
    subcommands: &[],
    run: zincrby,
};

fn zcard<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let len = |set: Option<SortedSetRef<'_>>| set.map_or(0, SortedSetRef::len);
    let len = cx.db.read_sorted_set(cx.key(args.at(1)), len)?;
    cx.reply.integer(len as i64);
    Ok(())
}

pub(crate) static ZCARD: Command = Command {
    name: "ZCARD",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "1.2.0",
    notes: Notes::of("O(1)"),
    summary: "Returns how many members a sorted set has",
    subcommands: &[],
    run: zcard,
};

fn zscore<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (key, member) = (cx.key(args.at(1)), Text::new(args.at(2)));
    let Context { db, reply, .. } = cx;
    Ok(db.read_sorted_set(key, |set| match set.and_then(|set| set.score(&member)) {
        Some(score) => write_score(reply, score),
        None => reply.null(),
    })?)
}

pub(crate) static ZSCORE: Command = Command {
    name: "ZSCORE",
    syntax: "key member",
    arity: 3,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "1.2.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the score of a member of a sorted set",
    subcommands: &[],
    run: zscore,
};

fn zmscore<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    fn show(reply: &mut Writer<'_>, set: Option<SortedSetRef<'_>>, member: &[u8]) {
        match set.and_then(|set| set.score(&Text::new(member))) {
            Some(score) => write_score(reply, score),
            None => reply.null(),
        }
    }
    let (key, members) = (cx.key(args.at(1)), args.len() - 2);
    if members <= MEMBERS_PER_HOLD {
        let Context { db, reply, .. } = cx;
        return Ok(db.read_sorted_set(key, |set| {
            reply.array(members);
            args.from(2).for_each(|member| show(reply, set, member));
        })?);
    }
    let shared = cx.db.share_as(key, &[Kind::SortedSet])?;
    cx.reply.array(members);
    let mut at = 2;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        let set = shared.as_ref().and_then(|shared| shared.read().sorted_set().ok());
        while at < cx.args.len() {
            for member in cx.args.from(at).take(MEMBERS_PER_HOLD) {
                show(&mut cx.reply, set, member);
                at += 1;
            }
            if slice.is_over() && at < cx.args.len() {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
        Ok(JobProgress::Done)
    }))
}

pub(crate) static ZMSCORE: Command = Command {
    name: "ZMSCORE",
    syntax: "key member [member ...]",
    arity: -3,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "6.2.0",
    notes: Notes::of("O(N), N being the members asked for"),
    summary: "Returns the scores of several members of a sorted set",
    subcommands: &[],
    run: zmscore,
};

/// Replies with the number of members before a member, or after it.
fn rank(
    cx: &mut Context<'_>,
    args: Args<'_>,
    command: &'static Command,
    from_end: bool,
) -> Result<(), Error> {
    let with_score = match args.get(3) {
        None => false,
        Some(_) if args.len() > 4 => {
            return Err(Error::wrong_arity(&command.name.to_lowercase()));
        }
        Some(option) if is(option, "WITHSCORE") => true,
        Some(_) => return Err(Error::SYNTAX),
    };
    let (key, member) = (cx.db.key(args.at(1)), Text::new(args.at(2)));
    let found = cx.db.read_sorted_set(key, |set| {
        let set = set?;
        let (rank, score) = set.rank(&member)?;
        Some((if from_end { set.len() - 1 - rank } else { rank }, score))
    })?;
    match found {
        None if with_score => cx.reply.null_array(),
        None => cx.reply.null(),
        Some((rank, _)) if !with_score => cx.reply.integer(rank as i64),
        Some((rank, score)) => {
            cx.reply.array(2);
            cx.reply.integer(rank as i64);
            write_score(&mut cx.reply, score);
        }
    }
    Ok(())
}

fn zrank<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    rank(cx, args, &ZRANK, false)
}

pub(crate) static ZRANK: Command = Command {
    name: "ZRANK",
    syntax: "key member [WITHSCORE]",
    arity: -3,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "2.0.0",
    notes: Notes::of("O(log(N)), N being the members of the sorted set")
        .history(&[("7.2.0", "WITHSCORE")]),
    summary: "Returns how many members of a sorted set come before one",
    subcommands: &[],
    run: zrank,
};

fn zrevrank<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    rank(cx, args, &ZREVRANK, true)
}

pub(crate) static ZREVRANK: Command = Command {
    name: "ZREVRANK",
    syntax: "key member [WITHSCORE]",
    arity: -3,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "2.0.0",
    notes: Notes::of("O(log(N)), N being the members of the sorted set")
        .history(&[("7.2.0", "WITHSCORE")]),
    summary: "Returns how many members of a sorted set come after one",
    subcommands: &[],
    run: zrevrank,
};

fn zrem<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.len() - 2 <= MEMBERS_PER_HOLD {
        let names: Vec<_> = args.from(2).map(Text::new).collect();
        let removed = cx.db.remove_scored(cx.key(args.at(1)), &names, Some(Event::ZRem))?;
        cx.reply.integer(removed as i64);
        return Ok(());
    }
    let (mut at, mut removed) = (2, 0);
    multi_key::claimed(cx, Claimed::all(&ZREM.keys), move |cx, slice| {
        let (key, args) = (cx.key(cx.args.at(1)), cx.args);
        while at < args.len() {
            let names: Vec<_> = args.from(at).take(MEMBERS_PER_HOLD).map(Text::new).collect();
            let event = (removed == 0).then_some(Event::ZRem);
            removed += cx.db.remove_scored(key, &names, event)?;
            at += names.len();
            if slice.is_over() && at < args.len() {
                return Ok(false);
            }
        }
        cx.reply.integer(removed as i64);
        Ok(true)
    })
}

pub(crate) static ZREM: Command = Command {
    name: "ZREM",
    syntax: "key member [member ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::DELETE)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "1.2.0",
    notes: Notes::of("O(M log(N)), M being the members given, N those of the sorted set")
        .history(&[("2.4.0", "several members")]),
    summary: "Removes members of a sorted set, and the sorted set with its last one",
    subcommands: &[],
    run: zrem,
};
