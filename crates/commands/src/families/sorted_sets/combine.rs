//! Combining sorted sets: ZUNION, ZINTER and ZDIFF, whose results are returned, counted, or stored.

use crate::families::derived_set::{self, Begin, Derivation, Plan, Shown};
use crate::families::sorted_sets::combination::{Aggregate, Combination, Operation};
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::numbers::double;
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::sorted_set::NewSortedSet;
use nagi_store::{Event, Kind, SharedValue};

/// The family's rows.
pub(crate) static ALL: &[&Command] =
    &[&ZDIFF, &ZDIFFSTORE, &ZINTER, &ZINTERCARD, &ZINTERSTORE, &ZUNION, &ZUNIONSTORE];

/// The types that can be combined. Sets are accepted as well.
const KINDS: &[Kind] = &[Kind::Set, Kind::SortedSet];

/// The use of the result, which determines the allowed options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Shown,
    Stored,
    Counted,
}

/// The combination that a request asks for.
struct Combined {
    combination: Combination,
    shown: Shown,
}

impl Combined {
    fn begin(
        cx: &Context<'_>,
        values: Vec<Option<SharedValue>>,
        (operation, usage): (Operation, Use),
    ) -> Result<Self, Error> {
        let combination = Combination::new(cx.db.store(), operation, values);
        let shown = if usage == Use::Counted { Shown::Count } else { Shown::Members };
        let mut combined = Combined { combination, shown };
        combined.parse(cx.args, (operation, usage))?;
        combined.combination.arrange();
        Ok(combined)
    }

    /// Parses the options after the keys.
    fn parse(&mut self, args: Args<'_>, (operation, usage): (Operation, Use)) -> Result<(), Error> {
        let is_weighted = operation != Operation::Difference && usage != Use::Counted;
        let keys_at = if usage == Use::Stored { 3 } else { 2 };
        let mut rest = RemainingArguments::from(args, keys_at + self.combination.sources());
        while let Some(option) = rest.next() {
            if is_weighted && is(option, "WEIGHTS") {
                self.weigh(&mut rest)?;
            } else if is_weighted && is(option, "AGGREGATE") {
                let aggregate = Aggregate::parse(rest.value()?).ok_or(Error::SYNTAX)?;
                self.combination.set_aggregate(aggregate);
            } else if usage == Use::Shown && is(option, "WITHSCORES") {
                self.shown = Shown::WithScores;
            } else if usage == Use::Counted && is(option, "LIMIT") {
                const NEGATIVE: Error = Error::fixed("ERR LIMIT can't be negative");
                let limit = integer(rest.value()?).ok().and_then(|it| u64::try_from(it).ok());
                let limit = limit.ok_or(NEGATIVE)?;
                self.combination.set_most(if limit == 0 { u64::MAX } else { limit });
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(())
    }

    fn weigh(&mut self, rest: &mut RemainingArguments<'_>) -> Result<(), Error> {
        let sources = self.combination.sources();
        if rest.len() < sources {
            return Err(Error::SYNTAX);
        }
        for source in 0..sources {
            let weight = double(rest.value()?);
            let weight = weight.ok_or(Error::fixed("ERR weight value is not a float"))?;
            self.combination.set_weight(source, weight);
        }
        Ok(())
    }
}

impl Derivation for Combined {
    fn go_on(&mut self, is_over: impl Fn() -> bool) -> bool {
        self.combination.go_on(is_over)
    }

    fn shown(&self) -> Shown {
        self.shown
    }

    fn take(&mut self) -> NewSortedSet {
        self.combination.take()
    }
}

/// Checks the number of keys at the position `at`.
fn check_count(args: Args<'_>, at: usize, command: &'static Command) -> Result<(), Error> {
    let count = integer(args.at(at))?;
    if count < 1 {
        let name = command.name.to_lowercase();
        return Err(Error::new(format!("ERR at least 1 input key is needed for '{name}' command")));
    }
    let room = args.len() - at - 1;
    if usize::try_from(count).is_ok_and(|count| count <= room) {
        Ok(())
    } else {
        Err(Error::SYNTAX)
    }
}

/// Replies with the result of a combination.
fn show(
    cx: &mut Context<'_>,
    command: &'static Command,
    begin: Begin<Combined>,
) -> Result<(), Error> {
    check_count(cx.args, 1, command)?;
    let plan = Plan { keys: &command.keys, sources: &command.keys, kinds: KINDS, begin };
    derived_set::show(cx, plan)
}

const SOURCES: KeyGroup = KeyGroup::counted(2, Access::RO.union(Access::ACCESS));
static ONLY_SOURCES: Keys = Keys::only(SOURCES);

/// Stores the result of a combination, and publishes `event`.
fn store(
    cx: &mut Context<'_>,
    (command, event): (&'static Command, Event),
    begin: Begin<Combined>,
) -> Result<(), Error> {
    check_count(cx.args, 2, command)?;
    let plan = Plan { keys: &command.keys, sources: &ONLY_SOURCES, kinds: KINDS, begin };
    derived_set::store(cx, plan, 1, event)
}

fn zunion<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    show(cx, &ZUNION, |cx, values| Combined::begin(cx, values, (Operation::Union, Use::Shown)))
}

pub(crate) static ZUNION: Command = Command {
    name: "ZUNION",
    syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] \
             [WITHSCORES]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::counted(1, Access::RO.union(Access::ACCESS))),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "6.2.0",
    notes: Notes::of("O(N log(M)), N being the members of all, M those of the result"),
    summary: "Returns the union of sorted sets and sets",
    subcommands: &[],
    run: zunion,
};

fn zinter<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    show(cx, &ZINTER, |cx, values| {
        Combined::begin(cx, values, (Operation::Intersection, Use::Shown))
    })
}

pub(crate) static ZINTER: Command = Command {
    name: "ZINTER",
    syntax: "numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | MIN | MAX>] \
             [WITHSCORES]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::counted(1, Access::RO.union(Access::ACCESS))),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "6.2.0",
    notes: Notes::of(
        "O(N K log(M)), N being the members of the smallest, K the keys, M those of the largest",
    ),
    summary: "Returns the intersection of sorted sets and sets",
    subcommands: &[],
    run: zinter,
};

fn zdiff<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    show(cx, &ZDIFF, |cx, values| Combined::begin(cx, values, (Operation::Difference, Use::Shown)))
}

pub(crate) static ZDIFF: Command = Command {
    name: "ZDIFF",
    syntax: "numkeys key [key ...] [WITHSCORES]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::counted(1, Access::RO.union(Access::ACCESS))),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "6.2.0",
    notes: Notes::of(
        "O(N K log(M)), N being the members of the first, K the keys, M those of the largest",
    ),
    summary: "Returns the members of a sorted set that the other sorted sets do not have",
    subcommands: &[],
    run: zdiff,
};

fn zintercard<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    show(cx, &ZINTERCARD, |cx, values| {
        Combined::begin(cx, values, (Operation::Intersection, Use::Counted))
    })
}

pub(crate) static ZINTERCARD: Command = Command {
    name: "ZINTERCARD",
    syntax: "numkeys key [key ...] [LIMIT limit]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::counted(1, Access::RO.union(Access::ACCESS))),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "7.0.0",
    notes: Notes::of(
        "O(N K log(M)), N being the members of the smallest, K the keys, M those of the largest",
    ),
    summary: "Returns how many members the intersection of sorted sets and sets has",
    subcommands: &[],
    run: zintercard,
};

fn zunionstore<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    store(cx, (&ZUNIONSTORE, Event::ZUnionStore), |cx, values| {
        Combined::begin(cx, values, (Operation::Union, Use::Stored))
    })
}

pub(crate) static ZUNIONSTORE: Command = Command {
    name: "ZUNIONSTORE",
    syntax: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | \
             MIN | MAX>]",
    arity: -4,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[KeyGroup::at(1, Access::OW.union(Access::UPDATE)), SOURCES]),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "2.0.0",
    notes: Notes::of("O(N log(M)), N being the members of all, M those of the result"),
    summary: "Stores the union of sorted sets and sets, and returns how many members it has",
    subcommands: &[],
    run: zunionstore,
};

fn zinterstore<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    store(cx, (&ZINTERSTORE, Event::ZInterStore), |cx, values| {
        Combined::begin(cx, values, (Operation::Intersection, Use::Stored))
    })
}

pub(crate) static ZINTERSTORE: Command = Command {
    name: "ZINTERSTORE",
    syntax: "destination numkeys key [key ...] [WEIGHTS weight [weight ...]] [AGGREGATE <SUM | \
             MIN | MAX>]",
    arity: -4,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[KeyGroup::at(1, Access::OW.union(Access::UPDATE)), SOURCES]),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "2.0.0",
    notes: Notes::of(
        "O(N K log(M)), N being the members of the smallest, K the keys, M those of the largest",
    ),
    summary: "Stores the intersection of sorted sets and sets, and returns how many members it has",
    subcommands: &[],
    run: zinterstore,
};

fn zdiffstore<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    store(cx, (&ZDIFFSTORE, Event::ZDiffStore), |cx, values| {
        Combined::begin(cx, values, (Operation::Difference, Use::Stored))
    })
}

pub(crate) static ZDIFFSTORE: Command = Command {
    name: "ZDIFFSTORE",
    syntax: "destination numkeys key [key ...]",
    arity: -4,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[KeyGroup::at(1, Access::OW.union(Access::UPDATE)), SOURCES]),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "6.2.0",
    notes: Notes::of(
        "O(N K log(M)), N being the members of the first, K the keys, M those of the largest",
    ),
    summary: "Stores the members of a sorted set that the other sorted sets do not have, and \
              returns how many these are",
    subcommands: &[],
    run: zdiffstore,
};
