//! Elements popped from either side of a list, to be returned or pushed to another list.

use crate::families::elements::{ELEMENTS_PER_HOLD, strides, write};
use crate::families::first_of_several::PopOptions;
use crate::families::lists::limit;
use crate::runtime::arguments::{integer, is};
use crate::runtime::multi_key::{self, Claimed};
use crate::{Access, Category, Command, Context, Error, Flags, Group, Job, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::types::list::{Popped, SharedPopped};
use nagi_store::{Key, Side};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&LMOVE, &LMPOP, &LPOP, &RPOP, &RPOPLPUSH];

const NEGATIVE: Error = Error::fixed("ERR value is out of range, must be positive");

/// Parses the side that an argument names.
pub(super) fn side(argument: &[u8]) -> Result<Side, Error> {
    let sides = [("LEFT", Side::Start), ("RIGHT", Side::End)];
    let named = sides.into_iter().find(|(name, _)| is(argument, name));
    named.map(|(_, side)| side).ok_or(Error::SYNTAX)
}

/// Writes popped elements. If they are too many to be written at once, returns them as a shared
/// value instead.
pub(super) fn show(reply: &mut Writer<'_>, popped: Popped<'_>) -> Option<SharedPopped> {
    reply.array(popped.len() as usize);
    if popped.len() > ELEMENTS_PER_HOLD {
        return Some(popped.share());
    }
    popped.show(0, popped.len(), |element| write(reply, element));
    None
}

/// Writes a part of the popped elements, of which the first `shown` have been written. Returns
/// whether it was the last part.
fn show_part(reply: &mut Writer<'_>, popped: &SharedPopped, shown: &mut u64) -> bool {
    let Some(popped) = popped.read() else { return true };
    popped.show(*shown, ELEMENTS_PER_HOLD, |element| write(reply, element));
    *shown += ELEMENTS_PER_HOLD;
    *shown >= popped.len()
}

/// A job that writes all popped elements.
pub(super) fn rest(popped: SharedPopped) -> Job {
    let mut shown = 0;
    strides(move |reply| show_part(reply, &popped, &mut shown))
}

fn show_rest(cx: &mut Context<'_>, popped: Option<SharedPopped>) -> Result<(), Error> {
    popped.map_or(Ok(()), |popped| cx.start(rest(popped)))
}

/// Pops one element, or the requested number.
fn pop<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    side: Side,
    command: &'static Command,
) -> Result<(), Error> {
    if args.len() > 3 {
        return Err(Error::wrong_arity(&command.name.to_lowercase()));
    }
    let (key, limit) = (cx.key(args.at(1)), limit(cx));
    let Context { db, reply, .. } = cx;
    let Some(count) = args.get(2) else {
        let show = |popped: Popped<'_>| popped.show(0, 1, |element| write(reply, element));
        if db.pop(key, side, 1, limit, show)?.is_none() {
            reply.null();
        }
        return Ok(());
    };
    let count = integer(count).ok().and_then(|count| u64::try_from(count).ok());
    let count = count.ok_or(NEGATIVE)?;
    match db.pop(key, side, count, limit, |popped| show(reply, popped))? {
        None => reply.null_array(),
        Some(rest) => return show_rest(cx, rest),
    }
    Ok(())
}

fn lpop<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    pop(cx, args, Side::Start, &LPOP)
}

pub(crate) static LPOP: Command = Command {
    name: "LPOP",
    syntax: "key [count]",
    arity: -2,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::DELETE)),
    categories: Category::LIST,
    group: Group::List,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the elements returned").history(&[("6.2.0", "count")]),
    summary: "Removes the first elements of a list, and the list with its last one, and returns \
              them",
    subcommands: &[],
    run: lpop,
};

fn rpop<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    pop(cx, args, Side::End, &RPOP)
}

pub(crate) static RPOP: Command = Command {
    name: "RPOP",
    syntax: "key [count]",
    arity: -2,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::DELETE)),
    categories: Category::LIST,
    group: Group::List,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the elements returned").history(&[("6.2.0", "count")]),
    summary: "Removes the last elements of a list, and the list with its last one, and returns \
              them",
    subcommands: &[],
    run: rpop,
};

/// Writes the key, and then the elements popped from its list.
fn show_with_key(reply: &mut Writer<'_>, key: &[u8], popped: Popped<'_>) -> Option<SharedPopped> {
    reply.array(2);
    reply.bulk(key);
    show(reply, popped)
}

fn lmpop<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let PopOptions { after_keys: at, side, count } = PopOptions::parse(args, 1, side)?;
    if multi_key::is_long(&LMPOP.keys, args) {
        return pop_first_of_many(cx, at, side, count);
    }
    let limit = limit(cx);
    let keys: Vec<Key<'_>> = (2..at).map(|at| cx.key(args.at(at))).collect();
    let Context { db, reply, .. } = cx;
    let popped = db.pop_first(&keys, side, count, limit, |place, popped| {
        show_with_key(reply, args.at(2 + place), popped)
    })?;
    match popped {
        None => reply.null_array(),
        Some(rest) => return show_rest(cx, rest),
    }
    Ok(())
}

/// LMPOP for more keys than may be latched together; the argument at `after_keys` follows the keys.
fn pop_first_of_many(
    cx: &mut Context<'_>,
    after_keys: usize,
    side: Side,
    count: u64,
) -> Result<(), Error> {
    let (mut at, mut rest, mut shown) = (2, None, 0);
    multi_key::claimed(cx, Claimed::all(&LMPOP.keys), move |cx, slice| {
        while rest.is_none() && at < after_keys {
            let (key, limit, name) = (cx.key(cx.args.at(at)), limit(cx), cx.args.at(at));
            let Context { db, reply, .. } = cx;
            let show = |popped: Popped<'_>| show_with_key(reply, name, popped);
            match db.pop(key, side, count, limit, show)? {
                Some(None) => return Ok(true),
                Some(more) => rest = more,
                None => at += 1,
            }
            if slice.is_over() {
                return Ok(false);
            }
        }
        let Some(popped) = &rest else {
            cx.reply.null_array();
            return Ok(true);
        };
        while !show_part(&mut cx.reply, popped, &mut shown) {
            if slice.is_over() {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

pub(crate) static LMPOP: Command = Command {
    name: "LMPOP",
    syntax: "numkeys key [key ...] <LEFT | RIGHT> [COUNT count]",
    arity: -4,
    flags: Flags::WRITE,
    keys: Keys::only(KeyGroup::counted(1, Access::RW.union(Access::ACCESS).union(Access::DELETE))),
    categories: Category::LIST,
    group: Group::List,
    since: "7.0.0",
    notes: Notes::of("O(N + M), N being the keys and M the elements returned"),
    summary: "Removes elements at a side of the first list that exists, and returns them",
    subcommands: &[],
    run: lmpop,
};

/// Moves an element from one list to another, and replies with it.
fn move_element<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    (from, to): (Side, Side),
) -> Result<(), Error> {
    let (source, destination) = (cx.key(args.at(1)), cx.key(args.at(2)));
    let moved = cx.db.move_element((source, from), (destination, to), limit(cx))?;
    match moved {
        Some(element) => write(&mut cx.reply, element.value()),
        None => cx.reply.null(),
    }
    Ok(())
}

/// The source, followed by the destination.
pub(super) const BOTH_LISTS: Keys = Keys::groups(&[
    KeyGroup::at(1, Access::RW.union(Access::ACCESS).union(Access::DELETE)),
    KeyGroup::at(2, Access::RW.union(Access::INSERT)),
]);

fn lmove<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let sides = (side(args.at(3))?, side(args.at(4))?);
    move_element(cx, args, sides)
}

pub(crate) static LMOVE: Command = Command {
    name: "LMOVE",
    syntax: "source destination <LEFT | RIGHT> <LEFT | RIGHT>",
    arity: 5,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: BOTH_LISTS,
    categories: Category::LIST,
    group: Group::List,
    since: "6.2.0",
    notes: Notes::of("O(1)"),
    summary: "Moves an element from a side of one list to a side of another, and returns it",
    subcommands: &[],
    run: lmove,
};

fn rpoplpush<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    move_element(cx, args, (Side::End, Side::Start))
}

pub(crate) static RPOPLPUSH: Command = Command {
    name: "RPOPLPUSH",
    syntax: "source destination",
    arity: 3,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: BOTH_LISTS,
    categories: Category::LIST,
    group: Group::List,
    since: "1.2.0",
    notes: Notes::of("O(1)").replaced("6.2.0", "LMOVE with RIGHT and LEFT"),
    summary: "Moves the last element of a list before those of another, and returns it",
    subcommands: &[],
    run: rpoplpush,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn elements_are_popped_from_either_side() {
        converse(
            "RPUSH l a b c d e f => :6|
             LPOP l => $1|a|
             RPOP l => $1|f|
             LPOP l 0 => *0|
             RPOP l 2 => *2|$1|e|$1|d|
             LPOP l x => -ERR value is out of range, must be positive|
             LPOP l -1 => -ERR value is out of range, must be positive|
             LPOP l 1 2 => -ERR wrong number of arguments for 'lpop' command|
             LPOP l 9 => *2|$1|b|$1|c|
             EXISTS l => :0|
             LPOP l => $-1|
             RPOP l 0 => *-1|
             RPUSH l a b c => :3|
             LMPOP 2 none l RIGHT COUNT 2 => *2|$1|l|*2|$1|c|$1|b|
             LMPOP 1 l left => *2|$1|l|*1|$1|a|
             LMPOP 2 l none LEFT => *-1|
             LMPOP 0 l LEFT => -ERR numkeys should be greater than 0|
             LMPOP 2 l LEFT => -ERR syntax error|
             LMPOP 1 l UP => -ERR syntax error|
             LMPOP 1 l LEFT COUNT 0 => -ERR count should be greater than 0|
             LMPOP 1 l LEFT COUNT => -ERR syntax error|
             LMPOP 1 l LEFT COUNT 1 COUNT 1 => -ERR syntax error|",
        );
    }

    #[test]
    fn an_element_moves_to_another_list_or_within_one() {
        converse(
            "LMOVE a b LEFT RIGHT => $-1|
             RPUSH a 1 2 three => :3|
             LMOVE a b LEFT RIGHT => $1|1|
             LMOVE a b right left => $5|three|
             LRANGE b 0 -1 => *2|$5|three|$1|1|
             RPOPLPUSH b b => $1|1|
             LRANGE b 0 -1 => *2|$1|1|$5|three|
             LMOVE b b LEFT RIGHT => $1|1|
             LRANGE b 0 -1 => *2|$5|three|$1|1|
             RPOPLPUSH a b => $1|2|
             EXISTS a => :0|
             LLEN b => :3|
             LMOVE b b UP LEFT => -ERR syntax error|
             LMOVE b b LEFT UP => -ERR syntax error|
             RPUSH one only => :1|
             EXPIRE one 100 => :1|
             LMOVE one one LEFT LEFT => $4|only|
             TTL one => :100|",
        );
    }

    #[test]
    fn elements_popped_from_a_long_list_are_in_order() {
        let elements: String = (0..1000).map(|number| format!(" {number}")).collect();
        let shown = |ranks: Vec<u32>| -> String {
            let elements = ranks.iter().map(|rank| {
                let rank = rank.to_string();
                format!("${}|{rank}|", rank.len())
            });
            format!("*{}|{}", ranks.len(), elements.collect::<String>())
        };
        let mut bench = Bench::new();
        bench.expect(&format!("RPUSH l{elements}"), ":1000|");
        bench.expect("LPOP l 200", &shown((0..200).collect()));
        bench.expect("RPOP l 300", &shown((700..1000).rev().collect()));
        bench.expect("LLEN l", ":500|");
        bench.expect(
            "LMPOP 1 l LEFT COUNT 100",
            &format!("*2|$1|l|{}", shown((200..300).collect())),
        );
        bench.take_events();
        let keys = format!("{} l", " none".repeat(200));
        let rest = format!("*2|$1|l|{}", shown((300..700).rev().collect()));
        bench.expect(&format!("LMPOP 201{keys} RIGHT COUNT 1000"), &rest);
        assert_eq!(bench.take_events(), "l:rpop l:del");
        bench.expect(&format!("LMPOP 201{keys} RIGHT COUNT 1000"), "*-1|");
    }
}
