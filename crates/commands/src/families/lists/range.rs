//! Elements of lists by their indexes.

use crate::families::elements::{ELEMENTS_PER_HOLD, ShortReply, in_strides, write};
use crate::families::lists::{elements, limit, rank, ranks, shared_list};
use crate::runtime::arguments::integer;
use crate::{Access, Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_store::{Side, StringValue};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&LINDEX, &LLEN, &LRANGE, &LTRIM];

fn llen<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let len = cx.db.read_list(cx.key(args.at(1)), |list| list.map_or(0, |list| list.len()))?;
    cx.reply.integer(len as i64);
    Ok(())
}

pub(crate) static LLEN: Command = Command {
    name: "LLEN",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO),
    categories: Category::LIST,
    group: Group::List,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns how many elements a list has",
    subcommands: &[],
    run: llen,
};

fn lindex<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let key = cx.key(args.at(1));
    let Context { db, reply, .. } = cx;
    db.read_list(key, |list| {
        let element = match list {
            None => None,
            Some(list) => rank(integer(args.at(2))?, list.len()).and_then(|rank| list.get(rank)),
        };
        match element {
            Some(element) => write(reply, element),
            None => reply.null(),
        }
        Ok(())
    })?
}

pub(crate) static LINDEX: Command = Command {
    name: "LINDEX",
    syntax: "key index",
    arity: 3,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::LIST,
    group: Group::List,
    since: "1.0.0",
    notes: Notes::of("O(log N), N being the elements of the list"),
    summary: "Returns the element at an index; negative indexes count from the end",
    subcommands: &[],
    run: lindex,
};

fn lrange<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    let key = cx.key(args.at(1));
    let Context { db, reply, .. } = cx;
    let is_shown = db.read_list(key, |list| {
        let ranks = ranks(start, end, list.map_or(0, |list| list.len()));
        let len = ranks.end - ranks.start;
        if len > ELEMENTS_PER_HOLD {
            return false;
        }
        let mut reply = ShortReply::begin(reply);
        reply.add(|reply| reply.array(len as usize));
        let mut show = |value: StringValue<'_>| reply.add(|reply| write(reply, value));
        list.into_iter().for_each(|list| list.show(ranks.start, Side::End, len, &mut show));
        reply.end()
    })?;
    if is_shown {
        return Ok(());
    }
    // The list may have been removed after its length was read.
    let shared = shared_list(cx, key)?;
    let ranks = ranks(start, end, elements(shared.as_ref()).map_or(0, |list| list.len()));
    cx.reply.array((ranks.end - ranks.start) as usize);
    let mut rank = ranks.start;
    in_strides(cx, move |reply| {
        let most = ELEMENTS_PER_HOLD.min(ranks.end - rank);
        let list = elements(shared.as_ref());
        list.into_iter()
            .for_each(|list| list.show(rank, Side::End, most, |value| write(reply, value)));
        rank += most;
        rank == ranks.end
    })
}

pub(crate) static LRANGE: Command = Command {
    name: "LRANGE",
    syntax: "key start stop",
    arity: 4,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::LIST,
    group: Group::List,
    since: "1.0.0",
    notes: Notes::of(
        "O(log N + M), N being the elements of the list and M those that are returned",
    ),
    summary: "Returns the elements of a list from one index to another",
    subcommands: &[],
    run: lrange,
};

fn ltrim<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (start, end) = (integer(args.at(2))?, integer(args.at(3))?);
    cx.db.trim(cx.key(args.at(1)), |len| ranks(start, end, len), limit(cx))?;
    cx.reply.ok();
    Ok(())
}

pub(crate) static LTRIM: Command = Command {
    name: "LTRIM",
    syntax: "key start stop",
    arity: 4,
    flags: Flags::WRITE,
    keys: Keys::one(Access::RW.union(Access::DELETE)),
    categories: Category::LIST,
    group: Group::List,
    since: "1.0.0",
    notes: Notes::of("O(log N), N being the elements of the list"),
    summary: "Removes all elements of a list outside a range of indexes",
    subcommands: &[],
    run: ltrim,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn lists_are_read_and_trimmed_by_index() {
        converse(
            "LLEN l => :0|
             LINDEX l x => $-1|
             LRANGE l 0 -1 => *0|
             LRANGE l x 1 => -ERR value is not an integer or out of range|
             LTRIM l 1 2 => +OK|
             RPUSH l a b c d e => :5|
             LLEN l => :5|
             LINDEX l 1 => $1|b|
             LINDEX l -5 => $1|a|
             LINDEX l 5 => $-1|
             LINDEX l x => -ERR value is not an integer or out of range|
             LRANGE l -2 9 => *2|$1|d|$1|e|
             LTRIM l 1 -2 => +OK|
             LRANGE l 0 -1 => *3|$1|b|$1|c|$1|d|
             LTRIM l 0 x => -ERR value is not an integer or out of range|
             LTRIM l 2 1 => +OK|
             EXISTS l => :0|",
        );
    }

    #[test]
    fn long_lists_are_read_and_trimmed_by_index() {
        let mut bench = Bench::new();
        let elements: String = (0..5000).map(|number| format!(" {number}")).collect();
        bench.expect(&format!("RPUSH l{elements}"), ":5000|");
        let shown = |from: usize, to: usize| -> String {
            let elements = (from..to).map(|number| {
                let number = number.to_string();
                format!("${}|{number}|", number.len())
            });
            format!("*{}|{}", to - from, elements.collect::<String>())
        };
        bench.expect("LRANGE l 0 -1", &shown(0, 5000));
        bench.expect("LRANGE l 4000 4100", &shown(4000, 4101));
        bench.expect("OBJECT ENCODING l", "$9|quicklist|");
        bench.expect("LTRIM l 100 -101", "+OK|");
        bench.expect("LRANGE l 0 -1", &shown(100, 4900));
        bench.expect("LTRIM l 0 499", "+OK|");
        bench.expect("LRANGE l 0 -1", &shown(100, 600));
        bench.expect("OBJECT ENCODING l", "$8|listpack|");
    }
}
