//! HSETEX: sets fields together with the time at which they expire.

use super::expiry::moment;
use super::hash::{FIELDS_PER_HOLD, limits, pair};
use crate::runtime::arguments::{Time, integer, is};
use crate::runtime::multi_key::{self, Claimed};
use crate::{Access, Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::field_expiry::FieldsWhen;
use nagi_store::{FieldExpiry, Text};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&HSETEX];

/// The arguments before the fields' names and values.
#[derive(Clone, Copy)]
struct Options {
    expiry: FieldExpiry,
    when: FieldsWhen,
    /// The position of the first field.
    first: usize,
}

impl Options {
    fn parse(args: Args<'_>, now_ms: u64) -> Result<Options, Error> {
        const ONE_CONDITION: Error =
            Error::fixed("ERR Only one of FXX or FNX arguments can be specified");
        const ONE_EXPIRY: Error = Error::fixed(
            "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
        );
        let wrong_arity = || Error::wrong_arity("hsetex");
        let (mut expiry, mut when, mut at) = (None, None, 2);
        while let Some(word) = args.get(at) {
            at += 1;
            let condition = match () {
                () if is(word, "FNX") => Some(FieldsWhen::NonePresent),
                () if is(word, "FXX") => Some(FieldsWhen::AllPresent),
                () => None,
            };
            if is(word, "FIELDS") {
                // As in Redis, the words are counted before the number is parsed.
                if args.len() - at < 3 {
                    return Err(wrong_arity());
                }
                let number = integer(args.at(at))
                    .ok()
                    .filter(|number| (1..=i64::from(i32::MAX)).contains(number));
                let number = number.ok_or(Error::fixed("ERR invalid number of fields"))?;
                let first = at + 1;
                let is_right = usize::try_from(number)
                    .is_ok_and(|number| number.checked_mul(2) == Some(args.len() - first));
                let expiry = expiry.unwrap_or(FieldExpiry::Never);
                let when = when.unwrap_or(FieldsWhen::Always);
                return match is_right {
                    true => Ok(Options { expiry, when, first }),
                    false => Err(wrong_arity()),
                };
            } else if let Some(condition) = condition {
                if when.replace(condition).is_some() {
                    return Err(ONE_CONDITION);
                }
            } else if is(word, "KEEPTTL") {
                if expiry.replace(FieldExpiry::Keep).is_some() {
                    return Err(ONE_EXPIRY);
                }
            } else if let Some(time) = Time::of_option(word) {
                if expiry.is_some() {
                    return Err(ONE_EXPIRY);
                }
                let argument = args.get(at).ok_or_else(wrong_arity)?;
                expiry = Some(FieldExpiry::At(moment(time, argument, now_ms, "hsetex")?));
                at += 1;
            } else {
                let word = String::from_utf8_lossy(word);
                return Err(Error::new(format!("ERR unknown argument: {word}")));
            }
        }
        Err(wrong_arity())
    }
}

fn hsetex<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let options = Options::parse(args, cx.db.now_ms())?;
    if (args.len() - options.first) / 2 > FIELDS_PER_HOLD {
        return set_many_fields(cx, options);
    }
    let pairs: Vec<_> = (options.first..args.len()).step_by(2).map(|at| pair(args, at)).collect();
    let (key, given) = (cx.key(args.at(1)), (pairs.len(), limits(cx)));
    let is_done = cx.db.set_expiring_fields(key, &pairs, (options.expiry, options.when), given)?;
    cx.reply.integer(is_done.into());
    Ok(())
}

/// Sets more fields than may be set under one hold of the latch. The condition is checked first,
/// for all fields.
fn set_many_fields(cx: &mut Context<'_>, options: Options) -> Result<(), Error> {
    let Options { expiry, when, first } = options;
    let (mut looked_at, mut at) = (first, first);
    multi_key::claimed(cx, Claimed::all(&HSETEX.keys), move |cx, slice| {
        let (key, limits, args) = (cx.key(cx.args.at(1)), limits(cx), cx.args);
        let stride = 2 * FIELDS_PER_HOLD;
        while when != FieldsWhen::Always && looked_at < args.len() {
            let end = args.len().min(looked_at + stride);
            let names = (looked_at..end).step_by(2).map(|at| Text::new(args.at(at)));
            if !cx.db.are_fields_present(key, names, when)? {
                cx.reply.integer(0);
                return Ok(true);
            }
            looked_at = end;
            if slice.is_over() {
                return Ok(false);
            }
        }
        while at < args.len() {
            let end = args.len().min(at + stride);
            let pairs: Vec<_> = (at..end).step_by(2).map(|at| pair(args, at)).collect();
            let given = ((args.len() - first) / 2, limits);
            cx.db.set_expiring_fields(key, &pairs, (expiry, FieldsWhen::Always), given)?;
            at = end;
            if slice.is_over() && at < args.len() {
                return Ok(false);
            }
        }
        cx.reply.integer(1);
        Ok(true)
    })
}

pub(crate) static HSETEX: Command = Command {
    name: "HSETEX",
    syntax: "key [FNX | FXX] [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
             PXAT unix-time-milliseconds | KEEPTTL] FIELDS numfields field value [field value ...]",
    arity: -6,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "8.0.0",
    notes: Notes::of("O(N), N being the fields"),
    summary: "Sets fields of a hash and their expiry, optionally if they exist or not",
    subcommands: &[],
    run: hsetex,
};
