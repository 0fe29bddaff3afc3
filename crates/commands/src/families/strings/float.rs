//! INCRBYFLOAT: adds to numbers that are stored as text.

use crate::families::strings::long_double::LongDouble;
use crate::runtime::multi_key::{self, Claimed};
use crate::{Access, Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::derived::Outcome;
use nagi_store::{CHUNK_BYTES, Event, Rope};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&INCRBYFLOAT];

const NOT_A_FLOAT: Error = Error::fixed("ERR value is not a valid float");
const NOT_FINITE: Error = Error::fixed("ERR increment would produce NaN or Infinity");

/// Maximum length in bytes of a number to which an increment is added under the latch.
const QUICK_BYTES: usize = 40;

fn incrbyfloat<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let amount = LongDouble::parse(args.at(2));
    let key = cx.key(args.at(1));
    if is_plain(args.at(2)) {
        let at_once = |strings: Vec<Option<Rope>>| {
            let old = strings.first().and_then(Option::as_ref);
            if !is_plain(bytes(old)) {
                return Ok((Outcome::Same, None));
            }
            let sum = sum(old, amount)?;
            Ok::<_, Error>((Outcome::Rewritten(sum.clone()), Some(sum)))
        };
        if let Some(sum) = cx
            .db
            .unnoticed()
            .derive(&[key], key, QUICK_BYTES, Some(Event::IncrByFloat), at_once)
            .transpose()?
            .flatten()
        {
            cx.reply.bulk(sum.as_bytes());
            return Ok(());
        }
    }
    multi_key::claimed(cx, Claimed::all(&INCRBYFLOAT.keys), move |cx, _| {
        let key = cx.key(cx.args.at(1));
        let strings = cx.db.strings(&[key])?;
        let old = strings.first().and_then(Option::as_ref);
        let sum = sum(old, amount)?;
        cx.reply.bulk(sum.as_bytes());
        cx.db.settle(key, Outcome::Rewritten(sum), old.is_some(), Event::IncrByFloat);
        Ok(true)
    })
}

/// Whether a number has no exponent and only few digits, so that adding to it is quick.
fn is_plain(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_digit() || b"+-.".contains(byte);
    text.len() <= QUICK_BYTES && text.iter().all(is_part)
}

/// The string in one piece; empty if it does not exist or is too long for a number.
fn bytes(string: Option<&Rope>) -> &[u8] {
    string.and_then(|string| string.chunk(0)).map_or(&[], |chunk| chunk)
}

fn sum(old: Option<&Rope>, amount: Option<LongDouble>) -> Result<String, Error> {
    let old = match old.filter(|old| old.len() <= CHUNK_BYTES) {
        None if old.is_some() => None,
        None => LongDouble::parse(b"0"),
        old => LongDouble::parse(bytes(old)),
    };
    let (old, amount) = (old.ok_or(NOT_A_FLOAT)?, amount.ok_or(NOT_A_FLOAT)?);
    Ok(old.checked_add(amount).ok_or(NOT_FINITE)?.format())
}

pub(crate) static INCRBYFLOAT: Command = Command {
    name: "INCRBYFLOAT",
    syntax: "key increment",
    arity: 3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::STRING,
    group: Group::String,
    since: "2.6.0",
    notes: Notes::of("O(1)"),
    summary: "Increments a floating-point number by an amount, from 0 if it does not exist",
    subcommands: &[],
    run: incrbyfloat,
};

#[cfg(test)]
mod tests {
    use crate::testing::converse;

    #[test]
    fn incrbyfloat_adds_and_refuses_numbers_that_are_not_finite() {
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
