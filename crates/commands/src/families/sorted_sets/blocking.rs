//! Commands that block on sorted sets until they have members.

use crate::families::deadline::deadline;
use crate::families::elements::{ELEMENTS_PER_HOLD, strides, write, write_score};
use crate::families::first_of_several::PopOptions;
use crate::families::sorted_sets::removal::{is_end, pop_event};
use crate::families::sorted_sets::span::Part;
use crate::runtime::blocking::{Blocking, Reply, wait};
use crate::runtime::context::Job;
use crate::state::blocked::{
    FirstStep, Name, Scored, Step, Steps, StepsOf, Stepwise, Taken, Wanted, has_other_type,
};
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::collection::Limits;
use nagi_store::{Database, Key, Kind, SortedSetRef, WrongType};
use std::ops::Range;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&BZMPOP, &BZPOPMAX, &BZPOPMIN];

/// Members to pop from the first existing sorted set of several.
#[derive(Clone, Debug)]
struct Members {
    keys: Box<[Name]>,
    from_end: bool,
    /// The maximum number of members.
    count: u64,
}

impl Members {
    /// Pops members from the sorted set under a key, as many as one hold allows. Returns whether
    /// there may be more to pop.
    fn pop_some(
        &self,
        db: Database<'_>,
        key: Key<'_>,
        members: &mut Scored,
    ) -> Result<bool, WrongType> {
        let left = self.count - members.len() as u64;
        let most = left.min(ELEMENTS_PER_HOLD);
        let event = members.is_empty().then(|| pop_event(self.from_end));
        let removed = db.remove_ranks(key, event, |set: Option<SortedSetRef<'_>>| {
            let Some(set) = set else { return 0..0 };
            let part = Part::all(0..set.len(), self.from_end).take(most);
            part.visit(set, |member| members.push(member.to_owned_name(), member.score));
            part.ranks()
        })?;
        Ok(removed == most && left > most)
    }
}

impl Wanted for Members {
    fn kind(&self) -> Kind {
        Kind::SortedSet
    }

    fn destination(&self) -> Option<&Name> {
        None
    }

    fn steps(&self) -> Option<Box<dyn Steps>> {
        let are_several = self.keys.len() > 1 || self.count > ELEMENTS_PER_HOLD;
        are_several.then(|| StepsOf::begin(self.clone()))
    }

    fn take(
        &self,
        db: Database<'_>,
        _: &Limits,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Taken> {
        self.take_all(db, may_take)
    }

    fn begin_to_take(
        &self,
        db: Database<'_>,
        _: &Limits,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> FirstStep {
        StepsOf::first(self, db, may_take)
    }
}

/// The members that were popped so far.
#[derive(Default)]
struct Popping {
    /// The index of the current key.
    at: usize,
    members: Scored,
}

impl Stepwise for Members {
    type Progress = Popping;

    fn has_taken(progress: &Popping) -> bool {
        !progress.members.is_empty()
    }

    fn take_some(
        &self,
        progress: &mut Popping,
        db: Database<'_>,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> Step {
        let Popping { at, members } = progress;
        let Some(name) = self.keys.get(*at) else { return Step::Complete(None) };
        if !may_take(name) {
            if has_other_type(db, name, Kind::SortedSet) {
                return Step::Complete(Some(Taken::WrongType));
            }
            *at += 1;
            return Step::Unfinished;
        }
        match self.pop_some(db, db.key(name), members) {
            Err(WrongType) => return Step::Complete(Some(Taken::WrongType)),
            Ok(true) => {}
            Ok(false) if members.is_empty() => *at += 1,
            Ok(false) => {
                let members = std::mem::take(members);
                return Step::Complete(Some(Taken::Members(Name::clone(name), members)));
            }
        }
        Step::Unfinished
    }
}

/// The members that a blocked client was served.
fn members(taken: Taken) -> Result<Option<(Name, Scored)>, Error> {
    match taken {
        Taken::WrongType => Err(Error::WRONG_TYPE),
        Taken::Members(name, members) => Ok(Some((name, members))),
        // A client that is blocked on sorted sets is not served values of other types.
        Taken::Element(..)
        | Taken::Elements(..)
        | Taken::Moved(_)
        | Taken::Streams(_)
        | Taken::NoGroup(_) => Ok(None),
    }
}

/// Replies with one member that a blocked client was served.
fn reply_flat(cx: &mut Context<'_>, taken: Taken) -> Result<Option<Job>, Error> {
    let taken = members(taken)?;
    let first = taken.and_then(|(name, mut members)| Some((name, members.take_first()?)));
    let reply = &mut cx.reply;
    match first {
        None => reply.null_array(),
        Some((name, (member, score))) => {
            reply.array(3);
            reply.bulk(&name);
            write(reply, member.value());
            write_score(reply, score);
        }
    }
    Ok(None)
}

/// Replies with the members that a blocked client was served, as pairs after the key.
fn reply_pairs(cx: &mut Context<'_>, taken: Taken) -> Result<Option<Job>, Error> {
    let Some((name, mut members)) = members(taken)? else {
        cx.reply.null_array();
        return Ok(None);
    };
    cx.reply.array(2);
    cx.reply.bulk(&name);
    cx.reply.array(members.len());
    Ok(Some(strides(move |reply| {
        for _ in 0..ELEMENTS_PER_HOLD {
            let Some((member, score)) = members.take_first() else { break };
            reply.array(2);
            write(reply, member.value());
            write_score(reply, score);
        }
        members.is_empty()
    })))
}

/// Blocks on the sorted sets whose keys are at these positions among the arguments.
fn wait_for_members(
    cx: &mut Context<'_>,
    command: &'static Command,
    keys: Range<usize>,
    (from_end, count): (bool, u64),
    (until_ms, reply): (Option<u64>, Reply),
) -> Result<(), Error> {
    let args = cx.args;
    let keys: Box<[Name]> = keys.map(|at| args.at(at).into()).collect();
    let wanted = Box::new(Members { keys: keys.clone(), from_end, count });
    let nothing = |reply: &mut nagi_proto::resp::Writer<'_>| reply.null_array();
    wait(cx, command, Blocking { keys, wanted, until_ms, may_wait: true, nothing, reply })
}

/// Blocks on the sorted sets of a request, to pop one member.
fn bzpop<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    command: &'static Command,
    from_end: bool,
) -> Result<(), Error> {
    let last = args.len() - 1;
    let until_ms = deadline(cx, args.at(last))?;
    wait_for_members(cx, command, 1..last, (from_end, 1), (until_ms, reply_flat))
}

fn bzpopmin<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    bzpop(cx, args, &BZPOPMIN, false)
}

pub(crate) static BZPOPMIN: Command = Command {
    name: "BZPOPMIN",
    syntax: "key [key ...] timeout",
    arity: -3,
    flags: Flags::WRITE.union(Flags::FAST).union(Flags::BLOCKING),
    keys: Keys::only(KeyGroup::range(
        1,
        -2,
        1,
        Access::RW.union(Access::ACCESS).union(Access::DELETE),
    )),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "5.0.0",
    notes: Notes::of("O(log(N)), N being the members of the sorted set")
        .history(&[("6.0.0", "timeout with decimals")]),
    summary: "Removes the member with the lowest score of the first sorted set that exists, and \
              returns it; blocks if there is none",
    subcommands: &[],
    run: bzpopmin,
};

fn bzpopmax<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    bzpop(cx, args, &BZPOPMAX, true)
}

pub(crate) static BZPOPMAX: Command = Command {
    name: "BZPOPMAX",
    syntax: "key [key ...] timeout",
    arity: -3,
    flags: Flags::WRITE.union(Flags::FAST).union(Flags::BLOCKING),
    keys: Keys::only(KeyGroup::range(
        1,
        -2,
        1,
        Access::RW.union(Access::ACCESS).union(Access::DELETE),
    )),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "5.0.0",
    notes: Notes::of("O(log(N)), N being the members of the sorted set")
        .history(&[("6.0.0", "timeout with decimals")]),
    summary: "Removes the member with the highest score of the first sorted set that exists, and \
              returns it; blocks if there is none",
    subcommands: &[],
    run: bzpopmax,
};

fn bzmpop<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let PopOptions { after_keys, side, count } = PopOptions::parse(args, 2, is_end)?;
    let until_ms = deadline(cx, args.at(1))?;
    wait_for_members(cx, &BZMPOP, 3..after_keys, (side, count), (until_ms, reply_pairs))
}

pub(crate) static BZMPOP: Command = Command {
    name: "BZMPOP",
    syntax: "timeout numkeys key [key ...] <MIN | MAX> [COUNT count]",
    arity: -5,
    flags: Flags::WRITE.union(Flags::BLOCKING),
    keys: Keys::only(KeyGroup::counted(2, Access::RW.union(Access::ACCESS).union(Access::DELETE))),
    categories: Category::SORTEDSET,
    group: Group::SortedSet,
    since: "7.0.0",
    notes: Notes::of(
        "O(K) + O(M log(N)), K being the keys, M the members popped, N those of the sorted set",
    ),
    summary: "Removes and returns members from an end of the first of several sorted sets; blocks \
              if there is none",
    subcommands: &[],
    run: bzmpop,
};

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn many_members_are_popped_in_order() {
        let mut bench = Bench::new();
        let members: String = (0..2000).map(|number| format!(" {number} m{number:04}")).collect();
        bench.expect(&format!("ZADD z{members}"), ":2000|");
        let pair = |number: i32| {
            let score = number.to_string();
            format!("*2|$5|m{number:04}|${}|{score}|", score.len())
        };
        let popped: String = (0..1500).map(pair).collect();
        bench.expect("BZMPOP 0 1 z MIN COUNT 1500", &format!("*2|$1|z|*1500|{popped}"));
        bench.expect("BZPOPMIN z 0", "*3|$1|z|$5|m1500|$4|1500|");
        bench.expect("ZCARD z", ":499|");
    }
}
