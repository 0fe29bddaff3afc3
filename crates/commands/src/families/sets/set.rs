//! Sets: adding, removing, looking up and moving members.

use crate::families::elements::ELEMENTS_PER_HOLD;
use crate::families::sets::walk;
use crate::runtime::multi_key::{self, Claimed};
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_store::{Event, SetLimits, SetRef, Text};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&SADD, &SCARD, &SISMEMBER, &SMISMEMBER, &SMOVE, &SREM];

/// Maximum members of a request that are processed per hold of a latch; a request with more members
/// claims its key.
const MEMBERS_PER_HOLD: usize = ELEMENTS_PER_HOLD as usize;

fn limits(cx: &Context<'_>) -> SetLimits {
    cx.server.config().collection_limits().set
}

fn sadd<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (key, limits, count) = (cx.key(args.at(1)), limits(cx), args.len() - 2);
    if count > MEMBERS_PER_HOLD {
        return add_many(cx);
    }
    let event = Some(Event::SAdd);
    let added = if count == 1 {
        cx.db.add_members(key, &[Text::to_store(args.at(2))], 1, limits, event)?
    } else {
        let members: Vec<_> = args.from(2).map(Text::to_store).collect();
        cx.db.add_members(key, &members, count, limits, event)?
    };
    cx.reply.integer(added as i64);
    Ok(())
}

/// Adds more members than may be added under one hold of the latch.
fn add_many(cx: &mut Context<'_>) -> Result<(), Error> {
    let (mut at, mut added) = (2, 0);
    multi_key::claimed(cx, Claimed::all(&SADD.keys), move |cx, slice| {
        let (key, limits, args) = (cx.key(cx.args.at(1)), limits(cx), cx.args);
        while at < args.len() {
            let batch = args.from(at).take(MEMBERS_PER_HOLD);
            let members: Vec<_> = batch.map(Text::to_store).collect();
            let event = (added == 0).then_some(Event::SAdd);
            // As in Redis, the length of the request counts once, before its first member.
            let expected = if at == 2 { args.len() - 2 } else { 0 };
            added += cx.db.add_members(key, &members, expected, limits, event)?;
            at += members.len();
            if slice.is_over() && at < args.len() {
                return Ok(false);
            }
        }
        cx.reply.integer(added as i64);
        Ok(true)
    })
}

pub(crate) static SADD: Command = Command {
    name: "SADD",
    syntax: "key member [member ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::INSERT)),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the members").history(&[("2.4.0", "several members")]),
    summary: "Adds members to a set, which is created if there is none",
    subcommands: &[],
    run: sadd,
};

fn srem<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if args.len() - 2 > MEMBERS_PER_HOLD {
        return remove_many(cx);
    }
    let members: Vec<_> = args.from(2).map(Text::new).collect();
    let removed = cx.db.remove_members(cx.key(args.at(1)), &members, Some(Event::SRem))?;
    cx.reply.integer(removed as i64);
    Ok(())
}

/// Removes more members than may be removed under one hold of the latch.
fn remove_many(cx: &mut Context<'_>) -> Result<(), Error> {
    let (mut at, mut removed) = (2, 0);
    multi_key::claimed(cx, Claimed::all(&SREM.keys), move |cx, slice| {
        let (key, args) = (cx.key(cx.args.at(1)), cx.args);
        while at < args.len() {
            let members: Vec<_> = args.from(at).take(MEMBERS_PER_HOLD).map(Text::new).collect();
            let event = (removed == 0).then_some(Event::SRem);
            removed += cx.db.remove_members(key, &members, event)?;
            at += members.len();
            if slice.is_over() && at < args.len() {
                return Ok(false);
            }
        }
        cx.reply.integer(removed as i64);
        Ok(true)
    })
}

pub(crate) static SREM: Command = Command {
    name: "SREM",
    syntax: "key member [member ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::DELETE)),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(N), N being the members").history(&[("2.4.0", "several members")]),
    summary: "Removes members of a set, and the set with its last one",
    subcommands: &[],
    run: srem,
};

fn smove<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let (keys, limits) = ((cx.key(args.at(1)), cx.key(args.at(2))), limits(cx));
    let is_moved = cx.db.move_member(keys, &Text::to_store(args.at(3)), limits)?;
    cx.reply.integer(is_moved.into());
    Ok(())
}

pub(crate) static SMOVE: Command = Command {
    name: "SMOVE",
    syntax: "source destination member",
    arity: 4,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::groups(&[
        KeyGroup::at(1, Access::RW.union(Access::ACCESS).union(Access::DELETE)),
        KeyGroup::at(2, Access::RW.union(Access::INSERT)),
    ]),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Moves a member from one set to another, atomically",
    subcommands: &[],
    run: smove,
};

fn sismember<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let member = Text::new(args.at(2));
    let is_member = |set: Option<SetRef<'_>>| set.is_some_and(|set| set.contains(&member));
    let is_member = cx.db.read_set(cx.key(args.at(1)), is_member)?;
    cx.reply.integer(is_member.into());
    Ok(())
}

pub(crate) static SISMEMBER: Command = Command {
    name: "SISMEMBER",
    syntax: "key member",
    arity: 3,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns whether a string is a member of a set",
    subcommands: &[],
    run: sismember,
};

fn smismember<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let key = cx.key(args.at(1));
    if args.len() - 2 > MEMBERS_PER_HOLD {
        return walk::named_members(cx, key);
    }
    let Context { db, reply, .. } = cx;
    Ok(db.read_set(key, |set| {
        reply.array(args.len() - 2);
        for member in args.from(2) {
            let is_member = set.is_some_and(|set| set.contains(&Text::new(member)));
            reply.integer(is_member.into());
        }
    })?)
}

pub(crate) static SMISMEMBER: Command = Command {
    name: "SMISMEMBER",
    syntax: "key member [member ...]",
    arity: -3,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::SET,
    group: Group::Set,
    since: "6.2.0",
    notes: Notes::of("O(N), N being the members"),
    summary: "Returns for each of several strings whether it is a member of a set",
    subcommands: &[],
    run: smismember,
};

fn scard<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let len = cx.db.read_set(cx.key(args.at(1)), |set| set.map_or(0, SetRef::len))?;
    cx.reply.integer(len as i64);
    Ok(())
}

pub(crate) static SCARD: Command = Command {
    name: "SCARD",
    syntax: "key",
    arity: 2,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO),
    categories: Category::SET,
    group: Group::Set,
    since: "1.0.0",
    notes: Notes::of("O(1)"),
    summary: "Returns how many members a set has",
    subcommands: &[],
    run: scard,
};

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, converse};

    #[test]
    fn members_are_added_removed_and_looked_up() {
        converse(
            "SADD s 1 2 1 => :2|
             OBJECT ENCODING s => $6|intset|
             SADD s 2 => :0|
             SADD s x => :1|
             OBJECT ENCODING s => $8|listpack|
             SCARD s => :3|
             SISMEMBER s x => :1|
             SISMEMBER s 3 => :0|
             SMISMEMBER s 1 3 x => *3|:1|:0|:1|
             SMISMEMBER none a b => *2|:0|:0|
             SREM s 1 9 => :1|
             SREM s 2 x => :2|
             EXISTS s => :0|
             SREM s x => :0|
             SCARD s => :0|",
        );
    }

    #[test]
    fn smove_moves_a_member_and_removes_an_empty_source() {
        converse(
            "SADD a 1 2 => :2|
             SMOVE a b 1 => :1|
             SMOVE a b 1 => :0|
             SMOVE a a 2 => :1|
             SMOVE a a 3 => :0|
             SMOVE none b 1 => :0|
             SMOVE a b 2 => :1|
             EXISTS a => :0|
             SMEMBERS b => *2|$1|1|$1|2|",
        );
    }

    #[test]
    fn many_members_publish_one_event() {
        let mut bench = Bench::new();
        let names: String = (0..1000).map(|number| format!(" {number}")).collect();
        bench.expect(&format!("SADD s{names}"), ":1000|");
        assert_eq!(bench.take_events(), "s:sadd");
        bench.expect("OBJECT ENCODING s", "$9|hashtable|");
        bench.expect(&format!("SADD s{names}"), ":0|");
        assert_eq!(bench.take_events(), "");
        bench.expect("SCARD s", ":1000|");
        bench.expect(&format!("SREM s x{names}{names}"), ":1000|");
        assert_eq!(bench.take_events(), "s:srem s:del");
    }

    #[test]
    fn a_request_that_names_many_members_changes_the_encoding() {
        let mut bench = Bench::new();
        bench.expect("SADD s a", ":1|");
        let _ = bench.take_events();
        bench.expect(&format!("SADD s{}", " a".repeat(129)), ":0|");
        assert_eq!(bench.take_events(), "");
        bench.expect("OBJECT ENCODING s", "$9|hashtable|");
    }
}
