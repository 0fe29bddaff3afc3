//! Adding elements to lists, at one side or in place of another element.

use crate::families::lists::{limit, rank};
use crate::runtime::arguments::{integer, length, value};
use crate::runtime::multi_key::{self, Claimed};
use crate::{Access, Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::list::Push;
use nagi_store::{Side, Text};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&LPUSH, &LPUSHX, &LSET, &RPUSH, &RPUSHX];

const NO_SUCH_KEY: Error = Error::fixed("ERR no such key");
const OUT_OF_RANGE: Error = Error::fixed("ERR index out of range");

/// Maximum elements that are pushed per hold of a latch; a request with more claims its key.
const ELEMENTS_PER_HOLD: usize = 64;

/// Pushes the elements of a request, and replies with the new length of the list.
fn push<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    (side, only_existing): (Side, bool),
    command: &'static Command,
) -> Result<(), Error> {
    if args.len() - 2 > ELEMENTS_PER_HOLD {
        return push_many(cx, (side, only_existing), command);
    }
    let (key, limit) = (cx.key(args.at(1)), limit(cx));
    let element = |at| Text::from_input(value(args, at));
    let announced = Some(announced(args));
    let push = |elements: &[Text<'_>]| {
        let push = Push { elements, side, announced, is_last: true, only_existing, limit };
        cx.db.push(key, &push)
    };
    let len = if args.len() == 3 {
        push(&[element(2)])?
    } else {
        push(&(2..args.len()).map(element).collect::<Vec<_>>())?
    };
    cx.reply.integer(len.unwrap_or(0) as i64);
    Ok(())
}

/// The number of a request's elements, and of their bytes in total.
fn announced(args: Args<'_>) -> (usize, usize) {
    (args.len() - 2, (2..args.len()).map(|at| length(args, at)).sum())
}

/// Pushes more elements than may be pushed under one hold of the latch.
fn push_many(
    cx: &mut Context<'_>,
    (side, only_existing): (Side, bool),
    command: &'static Command,
) -> Result<(), Error> {
    let (mut at, mut len) = (2, 0);
    multi_key::claimed(cx, Claimed::all(&command.keys), move |cx, slice| {
        let (key, limit, args) = (cx.key(cx.args.at(1)), limit(cx), cx.args);
        while at < args.len() {
            let end = args.len().min(at + ELEMENTS_PER_HOLD);
            let elements: Vec<_> = (at..end).map(|at| Text::from_input(value(args, at))).collect();
            let is_first = at == 2;
            let pushed = cx.db.push(
                key,
                &Push {
                    elements: &elements,
                    side,
                    announced: is_first.then(|| announced(args)),
                    is_last: end == args.len(),
                    // If the list expires between two parts, the remaining elements are dropped.
                    only_existing: only_existing || !is_first,
                    limit,
                },
            )?;
            if is_first && pushed.is_none() {
                break;
            }
            len = pushed.unwrap_or(len + elements.len() as u64);
            at = end;
            if slice.is_over() && at < args.len() {
                return Ok(false);
            }
        }
        cx.reply.integer(len as i64);
        Ok(true)
    })
}

fn lpush<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    push(cx, args, (Side::Start, false), &LPUSH)
}

pub(crate) static LPUSH: Command = Command {
    name: "LPUSH",
    syntax: "key element [element ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::INSERT)),
    categories: Category::LIST,
    group: Group::List,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the elements").history(&[("2.4.0", "several elements")]),
    summary: "Pushes elements before those of a list, which is created if there is none",
    subcommands: &[],
    run: lpush,
};

fn rpush<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    push(cx, args, (Side::End, false), &RPUSH)
}

pub(crate) static RPUSH: Command = Command {
    name: "RPUSH",
    syntax: "key element [element ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::INSERT)),
    categories: Category::LIST,
    group: Group::List,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the elements").history(&[("2.4.0", "several elements")]),
    summary: "Pushes elements after those of a list, which is created if there is none",
    subcommands: &[],
    run: rpush,
};

fn lpushx<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    push(cx, args, (Side::Start, true), &LPUSHX)
}

pub(crate) static LPUSHX: Command = Command {
    name: "LPUSHX",
    syntax: "key element [element ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::INSERT)),
    categories: Category::LIST,
    group: Group::List,
    since: "2.2.0",
    notes: Notes::of("O(N), N being the elements").history(&[("4.0.0", "several elements")]),
    summary: "Pushes elements before those of a list that exists",
    subcommands: &[],
    run: lpushx,
};

fn rpushx<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    push(cx, args, (Side::End, true), &RPUSHX)
}

pub(crate) static RPUSHX: Command = Command {
    name: "RPUSHX",
    syntax: "key element [element ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::INSERT)),
    categories: Category::LIST,
    group: Group::List,
    since: "2.2.0",
    notes: Notes::of("O(N), N being the elements").history(&[("4.0.0", "several elements")]),
    summary: "Pushes elements after those of a list that exists",
    subcommands: &[],
    run: rpushx,
};

fn lset<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (key, limit) = (cx.key(args.at(1)), limit(cx));
    let place = |len| rank(integer(args.at(2))?, len).ok_or(OUT_OF_RANGE);
    let element = Text::from_input(value(args, 3));
    if !cx.db.set_element(key, place, &element, limit)? {
        return Err(NO_SUCH_KEY);
    }
    cx.reply.ok();
    Ok(())
}

pub(crate) static LSET: Command = Command {
    name: "LSET",
    syntax: "key index element",
    arity: 4,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::LIST,
    group: Group::List,
    since: "1.0.0",
    notes: Notes::of("O(log N), N being the elements of the list"),
    summary: "Replaces the element at an index",
    subcommands: &[],
    run: lset,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn elements_are_pushed_and_set_at_either_side() {
        converse(
            "LPUSHX l a => :0|
             RPUSHX l a => :0|
             EXISTS l => :0|
             RPUSH l a b => :2|
             LPUSH l c d => :4|
             LPUSHX l e => :5|
             RPUSHX l f 12 => :7|
             LRANGE l 0 -1 => *7|$1|e|$1|d|$1|c|$1|a|$1|b|$1|f|$2|12|
             LSET l 0 x => +OK|
             LSET l -1 '' => +OK|
             LRANGE l 0 -1 => *7|$1|x|$1|d|$1|c|$1|a|$1|b|$1|f|$0||
             LSET l 7 x => -ERR index out of range|
             LSET l -8 x => -ERR index out of range|
             LSET l x x => -ERR value is not an integer or out of range|
             LSET none x x => -ERR no such key|
             OBJECT ENCODING l => $8|listpack|",
        );
    }

    #[test]
    fn many_elements_are_pushed_in_order_with_one_event() {
        for (name, event, first, last) in
            [("LPUSH", "lpush", "999", "0"), ("RPUSH", "rpush", "0", "999")]
        {
            let mut bench = Bench::new();
            let elements: String = (0..1000).map(|number| format!(" {number}")).collect();
            bench.expect(&format!("{name}X l{elements}"), ":0|");
            bench.expect(&format!("{name} l{elements}"), ":1000|");
            bench.expect("LINDEX l 0", &format!("${}|{first}|", first.len()));
            bench.expect("LINDEX l -1", &format!("${}|{last}|", last.len()));
            assert_eq!(bench.take_events(), format!("l:{event}"));
            bench.expect(&format!("{name}X l{elements}"), ":2000|");
            bench.expect("SET s x", "+OK|");
            bench.expect(
                &format!("{name} s{elements}"),
                "-WRONGTYPE Operation against a key holding the wrong kind of value|",
            );
        }
    }

    #[test]
    fn the_encoding_depends_on_the_bytes_of_all_elements_of_a_request() {
        // As elements of a listpack they would take more bytes than the limit; the encoding is
        // chosen by the bytes of their values.
        let mut bench = Bench::new();
        let elements = format!(" {}", "e".repeat(80)).repeat(102);
        bench.expect(&format!("RPUSH l{elements}"), ":102|");
        bench.expect("OBJECT ENCODING l", "$8|listpack|");
        bench.expect("RPUSH l x", ":103|");
        bench.expect("OBJECT ENCODING l", "$9|quicklist|");
    }
}
