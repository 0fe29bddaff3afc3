//! Intersections, unions and differences of sets: returned, counted, or stored.

use crate::families::sets::combination::{Operation, Selection, Shown, Stored};
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::context::Job;
use crate::runtime::multi_key::{self, Claimed, Values, Worked};
use crate::runtime::suspension::Slice;
use crate::{
    Access, Category, Command, Context, Error, Flags, Group, JobProgress, KeyGroup, Keys, Notes,
};
use nagi_proto::Args;
use nagi_store::types::collection::NewCollections;
use nagi_store::{Event, Kind, SharedValue};
use std::ops::ControlFlow;

/// The family's rows.
pub(crate) static ALL: &[&Command] =
    &[&SDIFF, &SDIFFSTORE, &SINTER, &SINTERCARD, &SINTERSTORE, &SUNION, &SUNIONSTORE];

/// Maximum members of all sets that are processed while their latches are held.
const QUICK_MEMBERS: u64 = 128;

const SETS: &[Kind] = &[Kind::Set];

fn new_collections(cx: &Context<'_>) -> NewCollections {
    NewCollections::new(cx.db.store(), cx.server.config().collection_limits())
}

/// Runs the job that `begin` creates from the sets under the keys of a request, which are shared at
/// one moment.
fn with_sets(
    cx: &mut Context<'_>,
    keys: &'static Keys,
    mut begin: impl FnMut(&Context<'_>, Vec<Option<SharedValue>>) -> Job + Send + 'static,
) -> Result<(), Error> {
    if !multi_key::is_long(keys, cx.args) {
        let keys: Vec<_> = keys.of(cx.args).map(|key| cx.key(key)).collect();
        let sets = cx.db.share_all(&keys, SETS)?;
        let job = begin(cx, sets);
        return cx.start(job);
    }
    let mut values = Values::new(keys, SETS);
    multi_key::claimed_then(cx, Claimed::to_read(keys), move |cx, slice| {
        Ok(match values.go_on(cx, slice)? {
            Some(sets) => Worked::Then(begin(cx, sets)),
            None => Worked::Unfinished,
        })
    })
}

/// Replies with the result of an operation.
fn show(cx: &mut Context<'_>, keys: &'static Keys, operation: Operation) -> Result<(), Error> {
    with_sets(cx, keys, move |cx, sets| {
        let mut work = Some(Shown::new(operation, sets, &new_collections(cx)));
        let mut reply: Option<Job> = None;
        Box::new(move |cx| {
            let slice = Slice::begin();
            if let Some(shown) = &mut work
                && !shown.go_on(|| slice.is_over())
            {
                return Ok(JobProgress::NEXT_TICK);
            }
            if let Some(shown) = work.take() {
                reply = Some(shown.reply());
            }
            reply.as_mut().map_or(Ok(JobProgress::Done), |reply| reply(cx))
        })
    })
}

/// Stores the result of an operation, and replies with the number of its members.
fn store<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    command: &'static Command,
    operation: Operation,
    event: Event,
) -> Result<(), Error> {
    let keys = &command.keys;
    if !multi_key::is_long(keys, args) {
        let sources: Vec<_> = args.from(2).map(|key| cx.key(key)).collect();
        let new = new_collections(cx);
        let at_once = |sets| {
            let mut stored = Stored::new(operation, sets, &new);
            stored.go_on(|| false);
            Ok::<_, Error>(stored.into_result())
        };
        let to = (cx.key(args.at(1)), event);
        if let Some(len) = cx.db.derive_collection((&sources, SETS), to, QUICK_MEMBERS, at_once) {
            cx.reply.integer(len? as i64);
            return Ok(());
        }
    }
    let (mut sets, mut work) = (Values::new(&ONLY_SOURCES, SETS), None);
    multi_key::claimed(cx, Claimed::all(keys), move |cx, slice| {
        let stored = match &mut work {
            Some(stored) => stored,
            None => match sets.go_on(cx, slice)? {
                Some(sets) => work.insert(Stored::new(operation, sets, &new_collections(cx))),
                None => return Ok(false),
            },
        };
        if !stored.go_on(|| slice.is_over()) {
            return Ok(false);
        }
        let key = cx.key(cx.args.at(1));
        let result =
            work.take().map(|stored| cx.db.store_collection(key, stored.into_result(), event));
        cx.reply.integer(result.unwrap_or(0) as i64);
        Ok(true)
    })
}

const SOURCES: KeyGroup = KeyGroup::range(2, -1, 1, Access::RO.union(Access::ACCESS));
/// The destination is only written to.
static ONLY_SOURCES: Keys = Keys::only(SOURCES);

fn sinter<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    show(cx, &SINTER.keys, Operation::Intersection)
}

pub(crate) static SINTER: Command = Command {
    name: "SINTER",
    syntax: "key [key ...]",
    arity: -2,
    flags: Flags::READONLY,
    keys: Keys::all(Access::RO.union(Access::ACCESS)),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(N*M), N being the members of the smallest set and M the sets")
        .tips(&["nondeterministic_output_order"]),
    summary: "Returns the members that several sets have in common",
    subcommands: &[],
    run: sinter,
};

fn sintercard<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    const NO_KEYS: Error = Error::fixed("ERR numkeys should be greater than 0");
    const TOO_MANY_KEYS: Error =
        Error::fixed("ERR Number of keys can't be greater than number of args");
    const NEGATIVE: Error = Error::fixed("ERR LIMIT can't be negative");
    let count = integer(args.at(1)).ok().filter(|count| *count > 0).ok_or(NO_KEYS)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > args.len() - 2 {
        return Err(TOO_MANY_KEYS);
    }
    let (mut limit, mut rest) = (0, RemainingArguments::from(args, 2 + count));
    while let Some(option) = rest.next() {
        if !is(option, "LIMIT") {
            return Err(Error::SYNTAX);
        }
        let value = integer(rest.value()?).ok();
        limit = value.and_then(|value| u64::try_from(value).ok()).ok_or(NEGATIVE)?;
    }
    let limit = if limit == 0 { u64::MAX } else { limit };
    with_sets(cx, &SINTERCARD.keys, move |_, sets| {
        let sets: Option<Vec<_>> = sets.into_iter().collect();
        let mut selection = sets.map(Selection::intersection);
        let mut found = 0;
        Box::new(move |cx| {
            let slice = Slice::begin();
            let keep = |found: &mut u64| {
                *found += 1;
                if *found == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            while let Some(selection) = &mut selection
                && !selection.step(|_, _| keep(&mut found))
            {
                if slice.is_over() {
                    return Ok(JobProgress::NEXT_TICK);
                }
            }
            cx.reply.integer(found as i64);
            Ok(JobProgress::Done)
        })
    })
}

pub(crate) static SINTERCARD: Command = Command {
    name: "SINTERCARD",
    syntax: "numkeys key [key ...] [LIMIT limit]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::only(KeyGroup::counted(1, Access::RO.union(Access::ACCESS))),
    categories: Category::SET,
    group: Group::Set,
    since: "7.0.0",
    notes: Notes::of("O(N*M), N being the members of the smallest set and M the sets"),
    summary: "Returns how many members several sets have in common",
    subcommands: &[],
    run: sintercard,
};

fn sinterstore<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    store(cx, args, &SINTERSTORE, Operation::Intersection, Event::SInterStore)
}

pub(crate) static SINTERSTORE: Command = Command {
    name: "SINTERSTORE",
    syntax: "destination key [key ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[KeyGroup::at(1, Access::OW.union(Access::UPDATE)), SOURCES]),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(N*M), N being the members of the smallest set and M the sets"),
    summary: "Stores the members that several sets have in common, and returns their number",
    subcommands: &[],
    run: sinterstore,
};

fn sunion<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    show(cx, &SUNION.keys, Operation::Union)
}

pub(crate) static SUNION: Command = Command {
    name: "SUNION",
    syntax: "key [key ...]",
    arity: -2,
    flags: Flags::READONLY,
    keys: Keys::all(Access::RO.union(Access::ACCESS)),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the members of all sets")
        .tips(&["nondeterministic_output_order"]),
    summary: "Returns the members of several sets, each once",
    subcommands: &[],
    run: sunion,
};

fn sunionstore<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    store(cx, args, &SUNIONSTORE, Operation::Union, Event::SUnionStore)
}

pub(crate) static SUNIONSTORE: Command = Command {
    name: "SUNIONSTORE",
    syntax: "destination key [key ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[KeyGroup::at(1, Access::OW.union(Access::UPDATE)), SOURCES]),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the members of all sets"),
    summary: "Stores the members of several sets, and returns their number",
    subcommands: &[],
    run: sunionstore,
};

fn sdiff<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    show(cx, &SDIFF.keys, Operation::Difference)
}

pub(crate) static SDIFF: Command = Command {
    name: "SDIFF",
    syntax: "key [key ...]",
    arity: -2,
    flags: Flags::READONLY,
    keys: Keys::all(Access::RO.union(Access::ACCESS)),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the members of all sets")
        .tips(&["nondeterministic_output_order"]),
    summary: "Returns the members of the first set that no other one has",
    subcommands: &[],
    run: sdiff,
};

fn sdiffstore<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    store(cx, args, &SDIFFSTORE, Operation::Difference, Event::SDiffStore)
}

pub(crate) static SDIFFSTORE: Command = Command {
    name: "SDIFFSTORE",
    syntax: "destination key [key ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[KeyGroup::at(1, Access::OW.union(Access::UPDATE)), SOURCES]),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the members of all sets"),
    summary: "Stores the members of the first set that no other one has, and returns their number",
    subcommands: &[],
    run: sdiffstore,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn sets_are_combined_returned_and_stored() {
        converse(
            "SADD a 1 2 3 4 => :4|
             SADD b 2 3 x => :3|
             SADD c 3 4 5 => :3|
             SINTER a b => *2|$1|2|$1|3|
             SINTER a none => *0|
             SINTERCARD 2 a b => :2|
             SINTERCARD 2 a b LIMIT 1 => :1|
             SINTERCARD 1 a LIMIT 0 => :4|
             SINTERCARD 2 a none => :0|
             SUNION b none b => *3|$1|2|$1|3|$1|x|
             SDIFF a b c => *1|$1|1|
             SDIFF a a => *0|
             SDIFF none a => *0|
             SDIFF a none => *4|$1|1|$1|2|$1|3|$1|4|
             SUNIONSTORE d a c => :5|
             OBJECT ENCODING d => $6|intset|
             SUNIONSTORE d a b => :5|
             OBJECT ENCODING d => $8|listpack|
             SINTERSTORE b b c => :1|
             SMEMBERS b => *1|$1|3|
             OBJECT ENCODING b => $6|intset|
             SDIFFSTORE a a c => :2|
             SMEMBERS a => *2|$1|1|$1|2|
             SDIFFSTORE a none a => :0|
             EXISTS a => :0|
             SET d text EX 10 => +OK|
             SUNIONSTORE d c => :3|
             TTL d => :-1|
             SET d text => +OK|
             SINTERSTORE c none d => \
             -WRONGTYPE Operation against a key holding the wrong kind of value|
             SCARD c => :3|
             SINTERSTORE d none c => :0|
             EXISTS d => :0|",
        );
    }

    #[test]
    fn large_sets_and_many_keys_are_combined_with_one_event() {
        let mut bench = Bench::new();
        let range = |from: usize, to: usize| -> String {
            (from..to).map(|number| format!(" m{number}")).collect()
        };
        bench.expect(&format!("SADD a{}", range(0, 2000)), ":2000|");
        bench.expect(&format!("SADD b{}", range(1500, 3000)), ":1500|");
        bench.expect(&format!("SADD c{}", range(1900, 2100)), ":200|");
        let _ = bench.take_events();
        for (request, len, event) in [
            ("SINTERSTORE d a b", 500, "d:sinterstore"),
            ("SINTERSTORE d a b c", 100, "d:sinterstore"),
            ("SUNIONSTORE d a b c", 3000, "d:sunionstore"),
            ("SDIFFSTORE d a b", 1500, "d:sdiffstore"),
            ("SDIFFSTORE d a c c c c", 1900, "d:sdiffstore"),
            ("SDIFFSTORE a a b", 1500, "a:sdiffstore"),
            ("SDIFFSTORE a a b", 1500, "a:sdiffstore"),
        ] {
            bench.expect(request, &format!(":{len}|"));
            assert_eq!(bench.take_events(), event, "{request}");
        }
        bench.expect("SINTERCARD 2 b c LIMIT 150", ":150|");
        bench.expect("SINTERCARD 2 b c", ":200|");
        for (request, len) in [("SINTER b c", 200), ("SUNION b c", 1500), ("SDIFF b c", 1300)] {
            let reply = bench.resp(format!("{request}\r\n").as_bytes());
            assert!(reply.starts_with(format!("*{len}\r\n").as_bytes()), "{request}");
            assert_eq!(reply.iter().filter(|byte| **byte == b'$').count(), len, "{request}");
        }
        let many = " b c".repeat(200);
        bench.expect(&format!("SINTERCARD 400{many}"), ":200|");
        bench.expect(&format!("SINTERSTORE d{many}"), ":200|");
        bench.expect(&format!("SUNIONSTORE d{many}"), ":1500|");
        bench.expect(&format!("SDIFFSTORE d{many}"), ":0|");
        let reply = bench.resp(format!("SUNION{many}\r\n").as_bytes());
        assert!(reply.starts_with(b"*1500\r\n"));
    }
}
