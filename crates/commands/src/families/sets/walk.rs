//! Sets as a whole: all of their members, random ones, and scans by cursor.

use crate::families::elements::{
    BYTES_PER_HOLD, Drawn, ELEMENTS_PER_HOLD, ScanOptions, Scanned, end_of_scan, in_strides, scan,
    strides, write,
};
use crate::runtime::arguments::integer;
use crate::runtime::context::Job;
use crate::runtime::multi_key::{self, Claimed, Worked};
use crate::runtime::suspension::Slice;
use crate::{Access, Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::types::set::Taken;
use nagi_store::{Event, Key, Kind, SetRef, SharedValue, Text, WrongType};
use std::ops::ControlFlow;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&SMEMBERS, &SPOP, &SRANDMEMBER, &SSCAN];

const SET: &[Kind] = &[Kind::Set];

/// Shares the set under a key, so that it can be read without its latch.
fn shared_set(cx: &Context<'_>, key: Key<'_>) -> Result<Option<SharedValue>, WrongType> {
    cx.db.share_as(key, SET)
}

/// The members of a shared set.
pub(super) fn members(shared: &SharedValue) -> Option<SetRef<'_>> {
    shared.read().set().ok()
}

/// A job that replies with all members of a set.
pub(super) fn show_all(shared: SharedValue) -> Job {
    let len = shared.read().len();
    let mut next = None;
    strides(move |reply| {
        let rank = *next.get_or_insert_with(|| {
            reply.set(len as usize);
            0
        });
        show_from(reply, &shared, rank);
        next = Some(rank + ELEMENTS_PER_HOLD);
        rank + ELEMENTS_PER_HOLD >= len
    })
}

/// Writes some members, beginning with the member at `rank`.
fn show_from(reply: &mut Writer<'_>, shared: &SharedValue, rank: u64) {
    let mut left = ELEMENTS_PER_HOLD;
    members(shared).and_then(|set| {
        set.walk(rank, |member| {
            write(reply, member);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    });
}

fn smembers<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let key = cx.key(args.at(1));
    let Context { db, reply, .. } = cx;
    let is_shown = db.read_set(key, |set| {
        let (len, bytes) = set.map_or((0, 0), |set| (set.len(), set.bytes()));
        if len > ELEMENTS_PER_HOLD || bytes > BYTES_PER_HOLD {
            return false;
        }
        reply.set(len as usize);
        set.and_then(|set| {
            set.walk(0, |member| {
                write(reply, member);
                ControlFlow::<()>::Continue(())
            })
        });
        true
    })?;
    if is_shown {
        return Ok(());
    }
    match cx.db.share_again(key, SET)? {
        Some(shared) => cx.start(show_all(shared)),
        // The set may have been removed after its length was read.
        None => {
            cx.reply.set(0);
            Ok(())
        }
    }
}

pub(crate) static SMEMBERS: Command = Command {
    name: "SMEMBERS",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the members of the set")
        .tips(&["nondeterministic_output_order"]),
    summary: "Returns all members of a set",
    subcommands: &[],
    run: smembers,
};

/// Executes SMISMEMBER with many members.
pub(super) fn named_members(cx: &mut Context<'_>, key: Key<'_>) -> Result<(), Error> {
    let shared = shared_set(cx, key)?;
    cx.reply.array(cx.args.len() - 2);
    let mut at = 2;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        let set = shared.as_ref().and_then(members);
        while at < cx.args.len() {
            for member in cx.args.from(at).take(ELEMENTS_PER_HOLD as usize) {
                let is_member = set.is_some_and(|set| set.contains(&Text::new(member)));
                cx.reply.integer(is_member.into());
                at += 1;
            }
            if slice.is_over() && at < cx.args.len() {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
        Ok(JobProgress::Done)
    }))
}

fn srandmember<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    const OUT_OF_RANGE: Error = Error::fixed(
        "ERR value is out of range, value must between -9223372036854775807 and \
         9223372036854775807",
    );
    let (key, random) = (cx.key(args.at(1)), cx.db.random());
    if args.len() == 2 {
        let Context { db, reply, .. } = cx;
        return Ok(db.read_set(key, |set| {
            match set.and_then(|set| set.select(random % set.len().max(1))) {
                Some(member) => write(reply, member),
                None => reply.null(),
            }
        })?);
    }
    if args.len() > 3 {
        return Err(Error::SYNTAX);
    }
    let count = integer(args.at(2))?;
    if count == i64::MIN {
        return Err(OUT_OF_RANGE);
    }
    let Some(shared) = shared_set(cx, key)?.filter(|_| count != 0) else {
        cx.reply.array(0);
        return Ok(());
    };
    let drawn = Drawn::new(shared.read().len(), count, random);
    cx.reply.array(drawn.left() as usize);
    in_strides(cx, show_drawn(shared, drawn))
}

/// Returns a function that writes a stride of drawn members per call, and returns whether these
/// were the last.
fn show_drawn(
    shared: SharedValue,
    mut drawn: Drawn,
) -> impl FnMut(&mut Writer<'_>) -> bool + Send + 'static {
    move |reply| {
        for rank in drawn.by_ref().take(ELEMENTS_PER_HOLD as usize) {
            if let Some(member) = members(&shared).and_then(|set| set.select(rank)) {
                write(reply, member);
            }
        }
        drawn.left() == 0
    }
}

pub(crate) static SRANDMEMBER: Command = Command {
    name: "SRANDMEMBER",
    syntax: "key [count]",
    arity: -2,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the members returned")
        .history(&[("2.6.0", "the count")])
        .tips(&["nondeterministic_output"]),
    summary: "Returns random members of a set",
    subcommands: &[],
    run: srandmember,
};

fn spop<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    const NOT_POSITIVE: Error = Error::fixed("ERR value is out of range, must be positive");
    let (key, random) = (cx.key(args.at(1)), cx.db.random());
    match args.len() {
        2 => {
            let Context { db, reply, .. } = cx;
            Ok(db.pop_members(key, |set| {
                let rank = set.map_or(0, |set| random % set.len().max(1));
                match set.and_then(|set| set.select(rank)) {
                    Some(member) => write(reply, member),
                    None => {
                        reply.null();
                        return Vec::new();
                    }
                }
                vec![rank]
            })?)
        }
        3 => {
            let count = integer(args.at(2)).ok().and_then(|count| u64::try_from(count).ok());
            pop(cx, key, count.ok_or(NOT_POSITIVE)?, random)
        }
        _ => Err(Error::SYNTAX),
    }
}

/// Removes `count` random members, and replies with them.
fn pop(cx: &mut Context<'_>, key: Key<'_>, count: u64, random: u64) -> Result<(), Error> {
    if count > ELEMENTS_PER_HOLD {
        return match cx.db.take_set(key, count)? {
            Taken::TooLarge => pop_many(cx, count, random),
            Taken::Missing => {
                cx.reply.set(0);
                Ok(())
            }
            Taken::Whole(set) => cx.start(show_all(set)),
        };
    }
    let Context { db, reply, .. } = cx;
    Ok(db.pop_members(key, |set| {
        let Some(set) = set else {
            reply.set(0);
            return Vec::new();
        };
        let ranks: Vec<u64> = Drawn::new(set.len(), count as i64, random).collect();
        reply.set(ranks.len());
        ranks.iter().filter_map(|rank| set.select(*rank)).for_each(|member| write(reply, member));
        ranks
    })?)
}

/// Removes more members than may be removed under one hold of the latch, but not all members.
fn pop_many(cx: &mut Context<'_>, count: u64, random: u64) -> Result<(), Error> {
    let mut work: Option<Popping> = None;
    multi_key::claimed_then(cx, Claimed::all(&SPOP.keys), move |cx, slice| {
        let key = cx.key(cx.args.at(1));
        let popping = match &mut work {
            Some(popping) => popping,
            None => match (cx.db.take_set(key, count)?, cx.db.share_again(key, SET)?) {
                // The set has shrunk before its key was claimed, so all members are removed.
                (Taken::Whole(set), _) => return Ok(Worked::Then(show_all(set))),
                (_, None) => {
                    cx.reply.set(0);
                    return Ok(Worked::Done);
                }
                (_, Some(set)) => work.insert(Popping::new(set, count, random)),
            },
        };
        while !popping.is_done() {
            popping.step(cx, key)?;
            if slice.is_over() {
                return Ok(Worked::Unfinished);
            }
        }
        Ok(work.take().map_or(Worked::Done, |popping| Worked::Then(popping.reply())))
    })
}

/// Random members that are being removed.
struct Popping {
    /// The set as it was before the first member was removed.
    set: SharedValue,
    /// The ranks of all members to remove, and of those that have not been removed yet.
    all: Drawn,
    left: Drawn,
    has_event: bool,
}

impl Popping {
    fn new(set: SharedValue, count: u64, random: u64) -> Self {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let len = set.read().len();
        let drawn = || Drawn::new(len, count, random);
        Popping { set, all: drawn(), left: drawn(), has_event: false }
    }

    fn is_done(&self) -> bool {
        self.left.left() == 0
    }

    /// Removes a few members.
    fn step(&mut self, cx: &Context<'_>, key: Key<'_>) -> Result<(), WrongType> {
        for rank in self.left.by_ref().take(ELEMENTS_PER_HOLD as usize) {
            let Some(member) = members(&self.set).and_then(|set| set.select(rank)) else { break };
            let event = (!self.has_event).then_some(Event::SPop);
            self.has_event = true;
            member.with_bytes(|bytes| cx.db.remove_members(key, &[Text::new(bytes)], event))?;
        }
        Ok(())
    }

    /// A job that replies with the removed members.
    fn reply(self) -> Job {
        let (len, mut is_begun) = (self.all.left(), false);
        let mut show = show_drawn(self.set, self.all);
        strides(move |reply| {
            if !std::mem::replace(&mut is_begun, true) {
                reply.set(len as usize);
            }
            show(reply)
        })
    }
}

pub(crate) static SPOP: Command = Command {
    name: "SPOP",
    syntax: "key [count]",
    arity: -2,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::DELETE)),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the members returned")
        .history(&[("3.2.0", "the count")])
        .tips(&["nondeterministic_output"]),
    summary: "Removes and returns random members of a set",
    subcommands: &[],
    run: spop,
};

fn sscan<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let cursor = ScanOptions::cursor(args)?;
    let Some(shared) = shared_set(cx, cx.key(args.at(1)))? else {
        end_of_scan(&mut cx.reply);
        return Ok(());
    };
    let options = ScanOptions::parse(args, cursor, None)?;
    scan(cx, options, 1, move |cursor, count, show| {
        let set = members(&shared);
        Some(set.map_or(0, |set| set.scan(cursor, count, |member| show(Scanned::Name(member)))))
    })
}

pub(crate) static SSCAN: Command = Command {
    name: "SSCAN",
    syntax: "key cursor [MATCH pattern] [COUNT count]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SET,
    group: Group::Set,
    since: "2.8.0",
    notes: Notes::of("O(1) for each call; O(N) for a whole walk, N being the members")
        .tips(&["nondeterministic_output"]),
    summary: "Returns some members of a set, and a cursor for the next call that is 0 at the end",
    subcommands: &[],
    run: sscan,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse, show};
    use std::collections::BTreeSet;

    /// A server with a set of this length.
    fn with_set(members: usize) -> Bench {
        let mut bench = Bench::new();
        let names: String = (0..members).map(|number| format!(" m{number}")).collect();
        bench.expect(&format!("SADD s{names}"), &format!(":{members}|"));
        let _ = bench.take_events();
        bench
    }

    /// Parses the members in a reply, which must be distinct.
    fn members(reply: &str) -> BTreeSet<&str> {
        let lines: Vec<&str> = reply.split('|').skip(1).step_by(2).collect();
        let members: BTreeSet<&str> = reply.split('|').filter(|it| it.starts_with('m')).collect();
        assert_eq!(lines.len() - 1, members.len(), "{reply}");
        assert!(reply.starts_with(&format!("*{}|", members.len())), "{reply}");
        members
    }

    #[test]
    fn srandmember_and_spop_return_members_of_the_set() {
        const OUT_OF_RANGE: &str = "-ERR value is out of range, must be positive|";
        converse(
            &format!(
                "SRANDMEMBER none => $-1|
             SRANDMEMBER none 2 => *0|
             SPOP none => $-1|
             SPOP none 2 => *0|
             SPOP none 200 => *0|
             SADD s a => :1|
             SRANDMEMBER s => $1|a|
             SRANDMEMBER s 2 => *1|$1|a|
             SRANDMEMBER s -2 => *2|$1|a|$1|a|
             SRANDMEMBER s 0 => *0|
             SRANDMEMBER s 1 x => -ERR syntax error|
             SPOP s 0 => *0|
             SPOP s -1 => {OUT_OF_RANGE}|
             SPOP s x => {OUT_OF_RANGE}|
             SPOP s 1 x => -ERR syntax error|
             SPOP s => $1|a|
             EXISTS s => :0|"
            )
            .replace("||", "|"),
        );
    }

    #[test]
    fn smembers_returns_all_members() {
        for len in [1, 64, 65, 1000] {
            let mut bench = with_set(len);
            let reply = show(&bench.resp(b"SMEMBERS s\r\n"));
            assert_eq!(members(&reply).len(), len);
        }
    }

    #[test]
    fn spop_removes_members_and_publishes_one_event() {
        for (len, count) in [(10, 3), (10, 10), (1000, 64), (1000, 65), (1000, 900), (1000, 1000)] {
            let mut bench = with_set(len);
            let before = show(&bench.resp(b"SMEMBERS s\r\n"));
            let popped = show(&bench.resp(format!("SPOP s {count}\r\n").as_bytes()));
            let is_gone = len == count;
            assert_eq!(bench.take_events(), if is_gone { "s:spop s:del" } else { "s:spop" });
            let after = show(&bench.resp(b"SMEMBERS s\r\n"));
            let (before, popped, after) = (members(&before), members(&popped), members(&after));
            assert_eq!((popped.len(), after.len()), (count, len - count));
            assert!(popped.is_disjoint(&after));
            assert_eq!(&popped | &after, before);
        }
    }

    #[test]
    fn sscan_returns_all_members() {
        let mut bench = with_set(1000);
        let (mut cursor, mut shown) = ("0".to_owned(), BTreeSet::new());
        loop {
            let reply = show(&bench.resp(format!("SSCAN s {cursor} COUNT 50\r\n").as_bytes()));
            cursor = reply.split('|').nth(2).unwrap().to_owned();
            shown.extend(reply.split('|').filter(|it| it.starts_with('m')).map(str::to_owned));
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(shown.len(), 1000);
        let matching = show(&bench.resp(b"SSCAN s 0 COUNT 5000 MATCH m99?\r\n"));
        assert!(matching.starts_with("*2|$1|0|*10|"), "{matching}");
    }
}
