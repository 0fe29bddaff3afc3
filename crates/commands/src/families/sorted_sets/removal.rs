//! Popping members from either end of sorted sets, and removing ranges.

use crate::families::elements::{ELEMENTS_PER_HOLD, write, write_member, write_score};
use crate::families::first_of_several::PopOptions;
use crate::families::sorted_sets::span::{By, Part, Span};
use crate::runtime::arguments::{integer, is};
use crate::runtime::multi_key::{self, Claimed};
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::{Event, Key, Kind, Member, SharedValue, SortedSetRef};
use std::ops::Range;

/// The family's rows.
pub(crate) static ALL: &[&Command] =
    &[&ZMPOP, &ZPOPMAX, &ZPOPMIN, &ZREMRANGEBYLEX, &ZREMRANGEBYRANK, &ZREMRANGEBYSCORE];

/// The form of the reply to popping members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A flat array of members and scores.
    Flat,
    /// Pairs of members and scores, which are flat in RESP2.
    Pairs,
    /// The key, followed by an array of pairs.
    AfterKey,
}

/// A request to pop members from the first existing sorted set of several.
#[derive(Clone, Copy, Debug)]
struct Pop {
    keys: &'static Keys,
    from_end: bool,
    count: u64,
    shape: Shape,
}

/// The event for popping from an end.
pub(super) fn pop_event(from_end: bool) -> Event {
    if from_end { Event::ZPopMax } else { Event::ZPopMin }
}

impl Pop {
    /// The part to pop from a sorted set with `len` members.
    fn part(&self, len: u64) -> Part {
        Part::all(0..len, self.from_end).limited((0, i64::try_from(self.count).unwrap_or(i64::MAX)))
    }

    fn begin(&self, reply: &mut Writer<'_>, key: &[u8], members: u64) {
        let members = members as usize;
        match self.shape {
            Shape::Flat => reply.array(2 * members),
            Shape::Pairs => reply.pairs(members),
            Shape::AfterKey => {
                reply.array(2);
                reply.bulk(key);
                reply.array(members);
            }
        }
    }

    fn write(&self, reply: &mut Writer<'_>, member: &Member<'_>) {
        if self.shape == Shape::Pairs {
            return write_member(reply, member, true);
        }
        if self.shape == Shape::AfterKey {
            reply.array(2);
        }
        write(reply, member.name);
        write_score(reply, member.score);
    }

    /// Writes the members to pop from a set, and returns their ranks. If they are too many for one
    /// hold, writes nothing and returns `None`.
    fn remove_from(
        &self,
        key: &[u8],
        set: SortedSetRef<'_>,
        reply: &mut Writer<'_>,
    ) -> Option<Range<u64>> {
        let part = self.part(set.len());
        if part.len() > ELEMENTS_PER_HOLD {
            return None;
        }
        self.begin(reply, key, part.len());
        part.visit(set, |member| self.write(reply, member));
        Some(part.ranks())
    }

    /// Pops from the first sorted set of the keys, and replies.
    fn run(self, cx: &mut Context<'_>) -> Result<(), Error> {
        if multi_key::is_long(self.keys, cx.args) {
            return self.pop_many(cx);
        }
        let keys: Vec<Key<'_>> = self.keys.of(cx.args).map(|key| cx.key(key)).collect();
        let (mut is_long, reply) = (false, &mut cx.reply);
        let mut from_set = |place: usize, set: SortedSetRef<'_>| {
            let key = keys.get(place).map_or(&b""[..], Key::bytes);
            let ranks = self.remove_from(key, set, reply);
            is_long = ranks.is_none();
            ranks.unwrap_or(0..0)
        };
        let is_found = match keys.as_slice() {
            [key] => {
                let mut is_found = false;
                cx.db.remove_ranks(*key, Some(pop_event(self.from_end)), |set| {
                    is_found = set.is_some();
                    set.map_or(0..0, |set| from_set(0, set))
                })?;
                is_found
            }
            keys => cx.db.remove_ranks_of_first(keys, pop_event(self.from_end), from_set)?,
        };
        if is_long {
            return self.pop_many(cx);
        }
        if !is_found {
            self.nothing(&mut cx.reply);
        }
        Ok(())
    }

    /// Begins to pop from the first sorted set of the claimed keys; `None` if no key exists.
    fn begin_pop_many(&self, cx: &mut Context<'_>) -> Result<Option<Popping>, Error> {
        for position in self.keys.positions(cx.args) {
            let key = cx.args.at(position);
            let Some(value) = cx.db.share_again(cx.key(key), &[Kind::SortedSet])? else { continue };
            let len = value.read().len();
            let left = self.part(len);
            self.begin(&mut cx.reply, key, left.len());
            return Ok(Some(Popping { position, value, left, is_begun: false }));
        }
        Ok(None)
    }

    /// Pops more members than may be popped under one hold of the latch.
    fn pop_many(self, cx: &mut Context<'_>) -> Result<(), Error> {
        let mut popping: Option<Popping> = None;
        multi_key::claimed(cx, Claimed::all(self.keys), move |cx, slice| {
            let popping = match &mut popping {
                Some(popping) => popping,
                None => match self.begin_pop_many(cx)? {
                    Some(begun) => popping.insert(begun),
                    None => {
                        self.nothing(&mut cx.reply);
                        return Ok(true);
                    }
                },
            };
            while popping.left.len() > 0 {
                popping.step(cx, &self)?;
                if slice.is_over() {
                    break;
                }
            }
            Ok(popping.left.len() == 0)
        })
    }

    fn nothing(&self, reply: &mut Writer<'_>) {
        match self.shape {
            Shape::AfterKey => reply.null_array(),
            Shape::Flat | Shape::Pairs => reply.array(0),
        }
    }
}

/// Members that are being popped from a sorted set.
struct Popping {
    /// Position of the key among the arguments.
    position: usize,
    /// The sorted set as it was before the first member was removed.
    value: SharedValue,
    left: Part,
    is_begun: bool,
}

impl Popping {
    fn step(&mut self, cx: &mut Context<'_>, pop: &Pop) -> Result<(), Error> {
        let key = cx.key(cx.args.at(self.position));
        let Ok(value) = self.value.read().sorted_set() else { return Ok(()) };
        let part = self.left.take(ELEMENTS_PER_HOLD);
        part.visit(value, |member| pop.write(&mut cx.reply, member));
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        cx.db.remove_ranks(key, is_first.then(|| pop_event(pop.from_end)), |set| {
            set.map_or(0..0, |set| {
                let end = if pop.from_end { set.len() } else { part.len() };
                end.saturating_sub(part.len())..end
            })
        })?;
        Ok(())
    }
}

fn pop<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    keys: &'static Keys,
    from_end: bool,
) -> Result<(), Error> {
    const NOT_POSITIVE: Error = Error::fixed("ERR value is out of range, must be positive");
    let (count, shape) = match args.get(2) {
        _ if args.len() > 3 => return Err(Error::SYNTAX),
        None => (1, Shape::Flat),
        Some(count) => {
            let count = integer(count).ok().and_then(|count| u64::try_from(count).ok());
            (count.ok_or(NOT_POSITIVE)?, Shape::Pairs)
        }
    };
    Pop { keys, from_end, count, shape }.run(cx)
}

fn zpopmin<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    pop(cx, args, &ZPOPMIN.keys, false)
}

pub(crate) static ZPOPMIN: Command = Command {
    name: "ZPOPMIN",
    syntax: "key [count]",
    arity: -2,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::DELETE)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "5.0.0",
    notes: Notes::of("O(M log(N)), M being the members popped, N those of the sorted set"),
    summary: "Removes and returns the members of a sorted set with the lowest scores",
    subcommands: &[],
    run: zpopmin,
};

fn zpopmax<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    pop(cx, args, &ZPOPMAX.keys, true)
}

pub(crate) static ZPOPMAX: Command = Command {
    name: "ZPOPMAX",
    syntax: "key [count]",
    arity: -2,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::DELETE)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "5.0.0",
    notes: Notes::of("O(M log(N)), M being the members popped, N those of the sorted set"),
    summary: "Removes and returns the members of a sorted set with the highest scores",
    subcommands: &[],
    run: zpopmax,
};

/// Parses the end from which to pop: `true` for MAX, the highest scores.
pub(super) fn is_end(argument: &[u8]) -> Result<bool, Error> {
    match argument {
        side if is(side, "MIN") => Ok(false),
        side if is(side, "MAX") => Ok(true),
        _ => Err(Error::SYNTAX),
    }
}

fn zmpop<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let PopOptions { side: from_end, count, .. } = PopOptions::parse(args, 1, is_end)?;
    Pop { keys: &ZMPOP.keys, from_end, count, shape: Shape::AfterKey }.run(cx)
}

pub(crate) static ZMPOP: Command = Command {
    name: "ZMPOP",
    syntax: "numkeys key [key ...] <MIN | MAX> [COUNT count]",
    arity: -4,
    flags: Flags::WRITE,
    keys: Keys::only(KeyGroup::counted(1, Access::RW.union(Access::ACCESS).union(Access::DELETE))),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "7.0.0",
    notes: Notes::of(
        "O(K) + O(M log(N)), K being the keys, M the members popped, N those of the sorted set",
    ),
    summary: "Removes and returns members from an end of the first of several sorted sets",
    subcommands: &[],
    run: zmpop,
};

/// Removes the range of a request, publishes `event`, and replies with the number of removed
/// members.
fn remove<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    (keys, by): (&'static Keys, By),
    event: Event,
) -> Result<(), Error> {
    let span = Span::parse(by, args.at(2), args.at(3))?;
    let mut is_long = false;
    let removed = cx.db.remove_ranks(cx.key(args.at(1)), Some(event), |set| {
        let Some(set) = set else { return 0..0 };
        let found = span.ranks(set, false);
        // Removing all members is quick, however many there are.
        let is_quick = found == (0..set.len()) || found.end - found.start <= ELEMENTS_PER_HOLD;
        if is_quick {
            return found;
        }
        is_long = true;
        0..0
    })?;
    if is_long {
        return remove_many(cx, (keys, by), event);
    }
    cx.reply.integer(removed as i64);
    Ok(())
}

/// Removes a range of more members than may be removed under one hold of the latch.
fn remove_many(
    cx: &mut Context<'_>,
    (keys, by): (&'static Keys, By),
    event: Event,
) -> Result<(), Error> {
    let (mut left, mut removed): (Option<Part>, u64) = (None, 0);
    multi_key::claimed(cx, Claimed::all(keys), move |cx, slice| {
        let (key, args) = (cx.key(cx.args.at(1)), cx.args);
        let left = match &mut left {
            Some(left) => left,
            None => {
                let span = Span::parse(by, args.at(2), args.at(3))?;
                let find = |set: SortedSetRef<'_>| span.ranks(set, false);
                let ranks = cx.db.read_sorted_set(key, |set| set.map_or(0..0, find))?;
                // Removed from the end, so that the ranks of the remaining members stay the same.
                left.insert(Part::all(ranks, true))
            }
        };
        while left.len() > 0 {
            let ranks = left.take(ELEMENTS_PER_HOLD).ranks();
            let event = (removed == 0).then_some(event);
            removed += cx.db.remove_ranks(key, event, |_| ranks)?;
            if slice.is_over() && left.len() > 0 {
                return Ok(false);
            }
        }
        cx.reply.integer(removed as i64);
        Ok(true)
    })
}

fn zremrangebyrank<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    remove(cx, args, (&ZREMRANGEBYRANK.keys, By::Rank), Event::ZRemRangeByRank)
}

pub(crate) static ZREMRANGEBYRANK: Command = Command {
    name: "ZREMRANGEBYRANK",
    syntax: "key start stop",
    arity: 4,
    flags: Flags::WRITE,
    keys: Keys::one(Access::RW.union(Access::DELETE)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "2.0.0",
    notes: Notes::of("O(log(N) + M), N being the members of the sorted set, M those removed"),
    summary: "Removes the members of a sorted set between two ranks",
    subcommands: &[],
    run: zremrangebyrank,
};

fn zremrangebyscore<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    remove(cx, args, (&ZREMRANGEBYSCORE.keys, By::Score), Event::ZRemRangeByScore)
}

pub(crate) static ZREMRANGEBYSCORE: Command = Command {
    name: "ZREMRANGEBYSCORE",
    syntax: "key min max",
    arity: 4,
    flags: Flags::WRITE,
    keys: Keys::one(Access::RW.union(Access::DELETE)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "1.2.0",
    notes: Notes::of("O(log(N) + M), N being the members of the sorted set, M those removed"),
    summary: "Removes the members of a sorted set whose scores lie between two",
    subcommands: &[],
    run: zremrangebyscore,
};

fn zremrangebylex<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    remove(cx, args, (&ZREMRANGEBYLEX.keys, By::Member), Event::ZRemRangeByLex)
}

pub(crate) static ZREMRANGEBYLEX: Command = Command {
    name: "ZREMRANGEBYLEX",
    syntax: "key min max",
    arity: 4,
    flags: Flags::WRITE,
    keys: Keys::one(Access::RW.union(Access::DELETE)),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "2.8.9",
    notes: Notes::of("O(log(N) + M), N being the members of the sorted set, M those removed"),
    summary: "Removes the members of a sorted set, all of one score, between two",
    subcommands: &[],
    run: zremrangebylex,
};
