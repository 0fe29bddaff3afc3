//! Commands that block on lists until they have elements.

use crate::families::deadline::deadline;
use crate::families::elements::write;
use crate::families::first_of_several::PopOptions;
use crate::families::lists::pop::{BOTH_LISTS, rest, show, side};
use crate::runtime::blocking::{Blocking, wait};
use crate::runtime::context::Job;
use crate::runtime::multi_key;
use crate::state::blocked::{Name, Taken, Wanted, has_other_type};
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::collection::Limits;
use nagi_store::types::list::Popped;
use nagi_store::{Database, Key, Kind, Side};
use std::ops::Range;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&BLMOVE, &BLMPOP, &BLPOP, &BRPOP, &BRPOPLPUSH];

/// Elements to pop from the first non-empty list of several.
#[derive(Debug)]
struct Elements {
    keys: Box<[Name]>,
    side: Side,
    /// The maximum number; `None` for a single element that is not in an array.
    count: Option<u64>,
}

impl Wanted for Elements {
    fn kind(&self) -> Kind {
        Kind::List
    }

    fn destination(&self) -> Option<&Name> {
        None
    }

    fn take(
        &self,
        db: Database<'_>,
        limits: &Limits,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Taken> {
        let (mut names, mut keys, mut wrong_type) = (Vec::new(), Vec::new(), None);
        for name in &self.keys {
            if may_take(name) {
                names.push(name);
                keys.push(db.key(name));
            } else if has_other_type(db, name, Kind::List) {
                wrong_type = Some(Taken::WrongType);
                break;
            }
        }
        let look = |place: usize, popped: Popped<'_>| {
            let name = Name::clone(names.get(place)?);
            Some(match self.count {
                None => Taken::Element(name, popped.first()?),
                Some(_) => Taken::Elements(name, popped.share()),
            })
        };
        let count = self.count.unwrap_or(1);
        let pop = |keys: &[Key<'_>], from: usize| {
            let look = |place: usize, popped: Popped<'_>| look(from + place, popped);
            match db.pop_first(keys, self.side, count, limits.list, look) {
                Err(_) => Some(Taken::WrongType),
                Ok(taken) => taken.flatten(),
            }
        };
        let taken = match multi_key::are_long(&keys) {
            // A new request has claimed the keys; for a blocked client, few are left here.
            true => (0..).zip(keys.chunks(1)).find_map(|(place, key)| pop(key, place)),
            false => pop(&keys, 0),
        };
        taken.or(wrong_type)
    }
}

/// An element to move to another list.
#[derive(Debug)]
struct Move {
    from: (Name, Side),
    to: (Name, Side),
}

impl Wanted for Move {
    fn kind(&self) -> Kind {
        Kind::List
    }

    fn destination(&self) -> Option<&Name> {
        Some(&self.to.0)
    }

    fn take(
        &self,
        db: Database<'_>,
        limits: &Limits,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Taken> {
        let Move { from: (from, from_side), to: (to, to_side) } = self;
        if !may_take(from) || !may_take(to) {
            return None;
        }
        let (from, to) = ((db.key(from), *from_side), (db.key(to), *to_side));
        match db.move_element(from, to, limits.list) {
            Err(_) => Some(Taken::WrongType),
            Ok(moved) => moved.map(Taken::Moved),
        }
    }
}

/// Replies with the elements that a blocked client was served.
fn reply(cx: &mut Context<'_>, taken: Taken) -> Result<Option<Job>, Error> {
    let reply = &mut cx.reply;
    match taken {
        Taken::WrongType => return Err(Error::WRONG_TYPE),
        Taken::Moved(element) => write(reply, element.value()),
        Taken::Element(name, element) => {
            reply.array(2);
            reply.bulk(&name);
            write(reply, element.value());
        }
        Taken::Elements(name, elements) => {
            reply.array(2);
            reply.bulk(&name);
            let more = elements.read().and_then(|popped| show(reply, popped));
            return Ok(more.map(rest));
        }
        // A client that is blocked on lists is not served values of other types.
        Taken::Members(..) | Taken::Streams(_) | Taken::NoGroup(_) => reply.null_array(),
    }
    Ok(None)
}

/// Blocks on the lists whose keys are at these positions among the arguments.
fn wait_for_elements(
    cx: &mut Context<'_>,
    command: &'static Command,
    keys: Range<usize>,
    (side, count): (Side, Option<u64>),
    until_ms: Option<u64>,
) -> Result<(), Error> {
    let args = cx.args;
    let keys: Box<[Name]> = keys.map(|at| args.at(at).into()).collect();
    let wanted = Box::new(Elements { keys: keys.clone(), side, count });
    wait(
        cx,
        command,
        Blocking {
            keys,
            wanted,
            until_ms,
            may_wait: true,
            nothing: |reply| reply.null_array(),
            reply,
        },
    )
}

/// Blocks until an element of one list can be moved to another.
fn wait_to_move(
    cx: &mut Context<'_>,
    command: &'static Command,
    (from, to): (Side, Side),
    until_ms: Option<u64>,
) -> Result<(), Error> {
    let [source, destination] = [1, 2].map(|at| Name::from(cx.args.at(at)));
    let keys = Box::new([Name::clone(&source)]);
    let wanted = Box::new(Move { from: (source, from), to: (destination, to) });
    wait(
        cx,
        command,
        Blocking { keys, wanted, until_ms, may_wait: true, nothing: |reply| reply.null(), reply },
    )
}

fn blpop<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let last = args.len() - 1;
    let until_ms = deadline(cx, args.at(last))?;
    wait_for_elements(cx, &BLPOP, 1..last, (Side::Start, None), until_ms)
}

pub(crate) static BLPOP: Command = Command {
    name: "BLPOP",
    syntax: "key [key ...] timeout",
    arity: -3,
    flags: Flags::WRITE.union(Flags::BLOCKING),
    keys: Keys::only(KeyGroup::range(
        1,
        -2,
        1,
        Access::RW.union(Access::ACCESS).union(Access::DELETE),
    )),
    categories: Category::LIST,
    group: Group::List,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the keys").history(&[("6.0.0", "timeout with decimals")]),
    summary: "Removes the first element of the first list that exists, and returns it; blocks if \
              there is none",
    subcommands: &[],
    run: blpop,
};

fn brpop<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let last = args.len() - 1;
    let until_ms = deadline(cx, args.at(last))?;
    wait_for_elements(cx, &BRPOP, 1..last, (Side::End, None), until_ms)
}

pub(crate) static BRPOP: Command = Command {
    name: "BRPOP",
    syntax: "key [key ...] timeout",
    arity: -3,
    flags: Flags::WRITE.union(Flags::BLOCKING),
    keys: Keys::only(KeyGroup::range(
        1,
        -2,
        1,
        Access::RW.union(Access::ACCESS).union(Access::DELETE),
    )),
    categories: Category::LIST,
    group: Group::List,
    since: "2.0.0",
    notes: Notes::of("O(N), N being the keys").history(&[("6.0.0", "timeout with decimals")]),
    summary: "Removes the last element of the first list that exists, and returns it; blocks if \
              there is none",
    subcommands: &[],
    run: brpop,
};

fn blmpop<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let PopOptions { after_keys, side, count } = PopOptions::parse(args, 2, side)?;
    let until_ms = deadline(cx, args.at(1))?;
    wait_for_elements(cx, &BLMPOP, 3..after_keys, (side, Some(count)), until_ms)
}

pub(crate) static BLMPOP: Command = Command {
    name: "BLMPOP",
    syntax: "timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
    arity: -5,
    flags: Flags::WRITE.union(Flags::BLOCKING),
    keys: Keys::only(KeyGroup::counted(2, Access::RW.union(Access::ACCESS).union(Access::DELETE))),
    categories: Category::LIST,
    group: Group::List,
    since: "7.0.0",
    notes: Notes::of("O(N + M), N being the keys and M the elements returned"),
    summary: "Removes elements at a side of the first list that exists, and returns them; blocks \
              if there is none",
    subcommands: &[],
    run: blmpop,
};

fn blmove<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let sides = (side(args.at(3))?, side(args.at(4))?);
    let until_ms = deadline(cx, args.at(5))?;
    wait_to_move(cx, &BLMOVE, sides, until_ms)
}

pub(crate) static BLMOVE: Command = Command {
    name: "BLMOVE",
    syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout",
    arity: 6,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::BLOCKING),
    keys: BOTH_LISTS,
    categories: Category::LIST,
    group: Group::List,
    since: "6.2.0",
    notes: Notes::of("O(1)"),
    summary: "Moves an element from a side of one list to a side of another, and returns it; \
              blocks if there is none",
    subcommands: &[],
    run: blmove,
};

fn brpoplpush<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let until_ms = deadline(cx, args.at(3))?;
    wait_to_move(cx, &BRPOPLPUSH, (Side::End, Side::Start), until_ms)
}

pub(crate) static BRPOPLPUSH: Command = Command {
    name: "BRPOPLPUSH",
    syntax: "source destination timeout",
    arity: 4,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::BLOCKING),
    keys: BOTH_LISTS,
    categories: Category::LIST,
    group: Group::List,
    since: "2.2.0",
    notes: Notes::of("O(1)")
        .history(&[("6.0.0", "timeout with decimals")])
        .replaced("6.2.0", "BLMOVE with RIGHT and LEFT"),
    summary: "Moves the last element of a list before those of another, and returns it; blocks if \
              there is none",
    subcommands: &[],
    run: brpoplpush,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientInfo;
    use crate::state::blocked::{
        Attempt, FirstStep, NewWaiter, Outcome, Permission, Step, Steps, Waiting,
    };
    use crate::testing::{Bench, START_MS, converse};
    use std::sync::Arc;
    use std::task::Waker;

    fn name(name: &str) -> Name {
        name.as_bytes().into()
    }

    fn elements(keys: &[&str], count: Option<u64>) -> Box<dyn Wanted> {
        let keys = keys.iter().map(|key| name(key)).collect();
        Box::new(Elements { keys, side: Side::Start, count })
    }

    fn moves(from: &str, to: &str) -> Box<dyn Wanted> {
        Box::new(Move { from: (name(from), Side::Start), to: (name(to), Side::End) })
    }

    /// Blocks another client.
    fn wait(bench: &Bench, client: u64, keys: &[&str], wanted: Box<dyn Wanted>) -> Waiting {
        let keys = keys.iter().map(|key| name(key)).collect();
        let waker = Waker::noop().clone();
        let new = NewWaiter {
            client: Arc::new(ClientInfo { id: client, ..ClientInfo::default() }),
            database: 0,
            keys,
            wanted,
            permission: Permission::new(|_| true),
            tracks: false,
            needs_memory: false,
            waker,
        };
        bench.process.hooks.block(new, &bench.store)
    }

    /// The elements that a client was served.
    fn served(waiting: &Waiting) -> Option<String> {
        let text = |value: nagi_store::StringValue<'_>| {
            value.with_bytes(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        match waiting.outcome(false) {
            Outcome::Waiting => None,
            Outcome::Served(Taken::Element(_, element) | Taken::Moved(element)) => {
                Some(text(element.value()))
            }
            Outcome::Served(Taken::Elements(_, elements)) => {
                let mut all = Vec::new();
                elements.read().unwrap().show(0, 100, |element| all.push(text(element)));
                Some(all.join(" "))
            }
            other => Some(format!("{other:?}")),
        }
    }

    #[test]
    fn elements_that_exist_are_popped_without_blocking() {
        converse(
            "RPUSH l a b c d e => :5|
             BLPOP none l 0 => *2|$1|l|$1|a|
             BRPOP l 0 => *2|$1|l|$1|e|
             BLMOVE l other LEFT LEFT 0 => $1|b|
             BRPOPLPUSH l other 0 => $1|d|
             BLMPOP 0 2 none other LEFT COUNT 5 => *2|$5|other|*2|$1|d|$1|b|
             MULTI => +OK|
             BLPOP none 0 => +QUEUED|
             BLMOVE none l LEFT LEFT 0 => +QUEUED|
             BLPOP l 0 => +QUEUED|
             EXEC => *3|*-1|$-1|*2|$1|l|$1|c|
             SET s x => +OK|
             BLPOP none s 0 => -WRONGTYPE Operation against a key holding the wrong kind of value|",
        );
    }

    /// The housekeeper wakes the client only once, by its own clock: a worker whose time is earlier
    /// must not block the client again.
    #[test]
    fn a_timeout_ends_a_block_by_the_clock_of_the_housekeeper() {
        converse("BLPOP none 0.01 => *-1|");
    }

    #[test]
    fn blocked_clients_are_served_in_order_of_arrival() {
        let mut bench = Bench::new();
        let first = wait(&bench, 10, &["a", "b"], elements(&["a", "b"], None));
        let second = wait(&bench, 11, &["b"], elements(&["b"], Some(2)));
        let third = wait(&bench, 12, &["b"], moves("b", "c"));
        let fourth = wait(&bench, 13, &["c"], elements(&["c"], None));
        assert_eq!(bench.process.hooks.blocked.keys(), 3);
        bench.expect("RPUSH b 1 2 3 4 5", ":5|");
        let events = "b:rpush b:lpop b:lpop c:rpush b:lpop c:lpop c:del";
        assert_eq!(bench.take_events(), events);
        assert_eq!(served(&first).as_deref(), Some("1"));
        assert_eq!(served(&second).as_deref(), Some("2 3"));
        assert_eq!(served(&third).as_deref(), Some("4"));
        assert_eq!(served(&fourth).as_deref(), Some("4"));
        bench.expect("LRANGE b 0 -1", "*1|$1|5|");
        assert_eq!(bench.process.hooks.blocked.keys(), 0);
        assert!(bench.process.hooks.blocked.is_empty());
    }

    #[test]
    fn blocked_clients_are_served_after_a_transaction_or_a_long_push() {
        let mut bench = Bench::new();
        let first = wait(&bench, 10, &["q"], elements(&["q"], None));
        bench.expect("MULTI", "+OK|");
        bench.expect("RPUSH q 1", "+QUEUED|");
        bench.expect("LPUSH q 0", "+QUEUED|");
        bench.expect("LLEN q", "+QUEUED|");
        bench.expect("EXEC", "*3|:1|:2|:2|");
        assert_eq!(served(&first).as_deref(), Some("0"));
        bench.expect("DEL q", ":1|");
        let second = wait(&bench, 11, &["q"], elements(&["q"], None));
        let numbers: String = (0..1000).map(|number| format!(" {number}")).collect();
        bench.expect(&format!("LPUSH q{numbers}"), ":1000|");
        assert_eq!(served(&second).as_deref(), Some("999"));
        bench.expect("LLEN q", ":999|");
    }

    #[test]
    fn a_client_that_is_served_in_steps_waits_for_their_end() {
        #[derive(Debug)]
        struct InSteps;

        impl Wanted for InSteps {
            fn kind(&self) -> Kind {
                Kind::List
            }

            fn destination(&self) -> Option<&Name> {
                None
            }

            fn take(
                &self,
                _: Database<'_>,
                _: &Limits,
                _: &dyn Fn(&[u8]) -> bool,
            ) -> Option<Taken> {
                None
            }

            fn begin_to_take(
                &self,
                _: Database<'_>,
                _: &Limits,
                _: &dyn Fn(&[u8]) -> bool,
            ) -> FirstStep {
                FirstStep::Unfinished(Box::new(LastStep))
            }
        }

        struct LastStep;

        impl Steps for LastStep {
            fn take_some(&mut self, _: Database<'_>, _: &dyn Fn(&[u8]) -> bool) -> Step {
                Step::Complete(Some(Taken::WrongType))
            }
        }

        let mut bench = Bench::new();
        let waiting = wait(&bench, 10, &["q"], Box::new(InSteps));
        let waiter = bench.process.hooks.blocked.next(b"q", 0, 0, Some(Kind::List)).unwrap();
        let limits = bench.process.config.collection_limits();
        let db = bench.store.database(0, &bench.counters, START_MS);
        let serve = || waiter.serve(db, &limits, &|_| true);
        assert!(matches!(serve(), Attempt::Begun(_)) && matches!(serve(), Attempt::Failed));
        bench.expect("CLIENT UNBLOCK 10", ":0|");
        assert!(matches!(waiting.outcome(true), Outcome::Serving), "although its time is up");
        waiter.end_serving(None);
        assert!(matches!(waiting.outcome(false), Outcome::Waiting));
        bench.expect("RPUSH q x", ":1|");
        assert_eq!(served(&waiting).as_deref(), Some("Served(WrongType)"));
    }

    #[test]
    fn disconnected_and_unblocked_clients_are_not_served() {
        let mut bench = Bench::new();
        drop(wait(&bench, 10, &["q"], elements(&["q"], None)));
        let other = wait(&bench, 11, &["r"], elements(&["r"], None));
        let unblocked = wait(&bench, 12, &["q"], elements(&["q"], None));
        bench.expect("CLIENT UNBLOCK 10", ":0|");
        bench.expect("CLIENT UNBLOCK 12 ERROR", ":1|");
        bench.expect("CLIENT UNBLOCK 12", ":0|");
        bench.expect("RPUSH q 1", ":1|");
        bench.expect("LLEN q", ":1|");
        assert_eq!(served(&other), None);
        assert!(matches!(unblocked.outcome(false), Outcome::Unblocked { with_error: true }));
        bench.expect("SELECT 1", "+OK|");
        bench.expect("RPUSH r 1", ":1|");
        assert_eq!(served(&other), None, "it is blocked in another database");
        bench.expect("SWAPDB 0 1", "+OK|");
        assert_eq!(served(&other).as_deref(), Some("1"));
    }

    #[test]
    fn a_client_blocked_twice_on_one_key_is_served_once() {
        let mut bench = Bench::new();
        let waiting = wait(&bench, 10, &["q", "q"], elements(&["q", "q"], None));
        assert!(bench.process.hooks.blocked.may_concern(b"q"));
        bench.expect("RPUSH q 1 2", ":2|");
        assert_eq!(served(&waiting).as_deref(), Some("1"));
        drop(waiting);
        assert!(!bench.process.hooks.blocked.may_concern(b"q"));
        bench.expect("LLEN q", ":1|");
    }
}
