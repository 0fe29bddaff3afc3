//! INCRBYFLOAT.

use crate::long_double::LongDouble;
use crate::{Access, Category, Command, Context, Error, Flags, Flow, Group, Keys};
use nagi_proto::Args;
use nagi_store::CHUNK_BYTES;
use nagi_store::types::snapshot::Outcome;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&INCRBYFLOAT];

const NOT_A_FLOAT: Error = Error::fixed("ERR value is not a valid float");
const NOT_FINITE: Error = Error::fixed("ERR increment would produce NaN or Infinity");

fn incrbyfloat<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let key: Box<[u8]> = args.at(1).into();
    let amount = LongDouble::parse(args.at(2));
    cx.start(Box::new(move |cx| {
        let key = cx.db.key(&key);
        let seen = cx.db.snapshot(&[key]);
        let old = seen.iter().flatten().next();
        let old = match old.filter(|old| old.len() <= CHUNK_BYTES) {
            Some(old) => LongDouble::parse(old.chunk(0).map_or(&[], |chunk| chunk)),
            None if old.is_some() => None,
            None => LongDouble::parse(b"0"),
        };
        let (old, amount) = (old.ok_or(NOT_A_FLOAT)?, amount.ok_or(NOT_A_FLOAT)?);
        let sum = old.checked_add(amount).ok_or(NOT_FINITE)?.format();
        if !cx.db.commit(&[key], &seen, key, Outcome::Rewritten(sum.as_bytes())) {
            return Ok(Flow::More);
        }
        cx.reply.bulk(sum.as_bytes());
        Ok(Flow::Done)
    }))
}

pub(crate) static INCRBYFLOAT: Command = Command {
    name: "INCRBYFLOAT",
    syntax: "key amount",
    arity: 3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::STRING,
    group: Group::String,
    since: "2.6.0",
    summary: "Adds an amount to a number with decimals, which counts from 0 if it is not there",
    subcommands: &[],
    run: incrbyfloat,
};

#[cfg(test)]
mod tests {
    use crate::testing::converse;

    #[test]
    fn numbers_with_decimals() {
        converse(
            "INCRBYFLOAT n 1 => $1|1|
             INCRBYFLOAT n 0.25 => $4|1.25|
             GET n => $4|1.25|
             EXPIRE n 100 => :1|
             INCRBYFLOAT n -1.25 => $1|0|
             TTL n => :100|
             INCR n => :1|
             INCRBYFLOAT n x => -ERR value is not a valid float|
             INCRBYFLOAT n inf => -ERR increment would produce NaN or Infinity|
             INCRBYFLOAT n nan => -ERR value is not a valid float|
             SET n abc => +OK|
             INCRBYFLOAT n 1 => -ERR value is not a valid float|
             INCRBYFLOAT n => -ERR wrong number of arguments for 'incrbyfloat' command|",
        );
    }
}
