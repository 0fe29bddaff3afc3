//! Fields that expire: setting and reading their expiry, and reading and deleting fields at once.

use crate::families::elements::write;
use crate::families::hashes::hash::FIELDS_PER_HOLD;
use crate::runtime::arguments::{Time, integer, invalid_expire_time, is};
use crate::runtime::multi_key::{self, Claimed};
use crate::{Access, Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::types::field_expiry::FieldOutcome;
use nagi_store::types::key::ExpireWhen;
use nagi_store::{Database, Field, Key, Text, WrongType};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[
    &HEXPIRE,
    &HEXPIREAT,
    &HEXPIRETIME,
    &HGETDEL,
    &HGETEX,
    &HPERSIST,
    &HPEXPIRE,
    &HPEXPIREAT,
    &HPEXPIRETIME,
    &HPTTL,
    &HTTL,
];

/// The latest time at which a field may expire, in milliseconds since 1970. This is Redis' limit, a
/// quarter of the range of 48 bits.
const LATEST_MS: u64 = (1 << 46) - 1;

const NO_FIELDS: Error =
    Error::fixed("ERR Mandatory argument FIELDS is missing or not at the right position");
const NOT_POSITIVE: Error = Error::fixed("ERR Number of fields must be a positive integer");
const WRONG_NUMBER: Error =
    Error::fixed("ERR The `numfields` parameter must match the number of arguments");

/// Parses the expiry time of a field, in milliseconds since 1970.
///
/// # Errors
/// It is not an integer, negative, or too late; the text names `command`.
pub(super) fn moment(
    time: Time,
    argument: &[u8],
    now_ms: u64,
    command: &str,
) -> Result<u64, Error> {
    if integer(argument)? < 0 {
        return Err(Error::fixed("ERR invalid expire time, must be >= 0"));
    }
    let at_ms = time.moment(argument, now_ms, command)?;
    if at_ms > LATEST_MS { Err(invalid_expire_time(command)) } else { Ok(at_ms) }
}

/// Checks that the arguments from `at` on are `FIELDS`, a number, and exactly as many names of
/// fields. Returns the position of the first name. `not_positive` is the error for a number below
/// one.
///
/// # Errors
/// FIELDS is missing, or the number is not that of the remaining arguments.
fn fields_at(
    args: Args<'_>,
    at: usize,
    command: &'static Command,
    not_positive: Error,
) -> Result<usize, Error> {
    if !args.get(at).is_some_and(|word| is(word, "FIELDS")) {
        return Err(NO_FIELDS);
    }
    let wrong_arity = || Error::wrong_arity(&command.name.to_lowercase());
    let number = integer(args.get(at + 1).ok_or_else(wrong_arity)?).ok();
    let Some(number) = number.filter(|number| *number > 0) else { return Err(not_positive) };
    let is_right = usize::try_from(number).is_ok_and(|number| number == args.len() - at - 2);
    if is_right { Ok(at + 2) } else { Err(WRONG_NUMBER) }
}

/// Returns `parsed`, or the error of a value of another type, which takes precedence over errors of
/// arguments, as in Redis.
fn unless_other_type<T>(
    cx: &Context<'_>,
    key: Key<'_>,
    parsed: Result<T, Error>,
) -> Result<T, Error> {
    if parsed.is_err() {
        cx.db.untouched().unnoticed().read_hash(key, |_| ())?;
    }
    parsed
}

/// The replies for the fields of a request: an array with one reply per field.
struct FieldReplies<'r, 'w> {
    reply: &'r mut Writer<'w>,
    /// The length of the array, until it is written.
    number: &'r mut Option<usize>,
}

impl<'w> FieldReplies<'_, 'w> {
    fn next(&mut self) -> &mut Writer<'w> {
        if let Some(number) = self.number.take() {
            self.reply.array(number);
        }
        self.reply
    }
}

/// Runs `work` for all fields that a request names from the argument `first` on, a few per hold of
/// a latch.
fn each_field<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    command: &'static Command,
    first: usize,
    mut work: impl FnMut(
        Database<'_>,
        Key<'_>,
        &[Text<'_>],
        &mut FieldReplies<'_, '_>,
    ) -> Result<(), WrongType>
    + Send
    + 'static,
) -> Result<(), Error> {
    let mut number = Some(args.len() - first);
    if args.len() - first <= FIELDS_PER_HOLD {
        let key = cx.key(args.at(1));
        let names: Vec<_> = args.from(first).map(Text::new).collect();
        let mut replies = FieldReplies { reply: &mut cx.reply, number: &mut number };
        return Ok(work(cx.db, key, &names, &mut replies)?);
    }
    let mut at = first;
    multi_key::claimed(cx, Claimed::all(&command.keys), move |cx, slice| {
        let (key, args) = (cx.key(cx.args.at(1)), cx.args);
        while at < args.len() {
            let names: Vec<_> = args.from(at).take(FIELDS_PER_HOLD).map(Text::new).collect();
            let mut replies = FieldReplies { reply: &mut cx.reply, number: &mut number };
            work(cx.db, key, &names, &mut replies)?;
            at += names.len();
            if slice.is_over() && at < args.len() {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// Sets the expiry of fields (HEXPIRE and its variants).
fn expire_fields<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    command: &'static Command,
    time: Time,
) -> Result<(), Error> {
    let parsed = parse_expire(cx, args, command, time);
    let (at_ms, when, first) = unless_other_type(cx, cx.key(args.at(1)), parsed)?;
    each_field(cx, args, command, first, move |db, key, names, replies| {
        db.expire_fields(key, names, at_ms, when, |outcome| {
            replies.next().integer(match outcome {
                FieldOutcome::Missing => -2,
                FieldOutcome::Refused => 0,
                FieldOutcome::Set => 1,
                FieldOutcome::Removed => 2,
            });
        })
    })
}

fn parse_expire(
    cx: &Context<'_>,
    args: Args<'_>,
    command: &'static Command,
    time: Time,
) -> Result<(u64, ExpireWhen, usize), Error> {
    let at_ms = moment(time, args.at(2), cx.db.now_ms(), &command.name.to_lowercase())?;
    let always = ExpireWhen::default();
    let (when, at) = match args.at(3) {
        word if is(word, "NX") => (ExpireWhen { absent: true, ..always }, 4),
        word if is(word, "XX") => (ExpireWhen { present: true, ..always }, 4),
        word if is(word, "GT") => (ExpireWhen { later: true, ..always }, 4),
        word if is(word, "LT") => (ExpireWhen { earlier: true, ..always }, 4),
        _ => (always, 3),
    };
    let not_positive = Error::fixed("ERR Parameter `numFields` should be greater than 0");
    Ok((at_ms, when, fields_at(args, at, command, not_positive)?))
}

fn hexpire<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    expire_fields(cx, args, &HEXPIRE, Time::Seconds)
}

pub(crate) static HEXPIRE: Command = Command {
    name: "HEXPIRE",
    syntax: "key seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
    arity: -6,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "7.4.0",
    notes: Notes::of("O(N), N being the fields"),
    summary: "Sets the expiry of fields of a hash, in seconds from now",
    subcommands: &[],
    run: hexpire,
};

fn hpexpire<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    expire_fields(cx, args, &HPEXPIRE, Time::Milliseconds)
}

pub(crate) static HPEXPIRE: Command = Command {
    name: "HPEXPIRE",
    syntax: "key milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
    arity: -6,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "7.4.0",
    notes: Notes::of("O(N), N being the fields"),
    summary: "Sets the expiry of fields of a hash, in milliseconds from now",
    subcommands: &[],
    run: hpexpire,
};

fn hexpireat<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    expire_fields(cx, args, &HEXPIREAT, Time::UnixSeconds)
}

pub(crate) static HEXPIREAT: Command = Command {
    name: "HEXPIREAT",
    syntax: "key unix-time-seconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
    arity: -6,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "7.4.0",
    notes: Notes::of("O(N), N being the fields"),
    summary: "Sets the expiry of fields of a hash, as a Unix time in seconds",
    subcommands: &[],
    run: hexpireat,
};

fn hpexpireat<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    expire_fields(cx, args, &HPEXPIREAT, Time::UnixMilliseconds)
}

pub(crate) static HPEXPIREAT: Command = Command {
    name: "HPEXPIREAT",
    syntax: "key unix-time-milliseconds [NX | XX | GT | LT] FIELDS numfields field [field ...]",
    arity: -6,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "7.4.0",
    notes: Notes::of("O(N), N being the fields"),
    summary: "Sets the expiry of fields of a hash, as a Unix time in milliseconds",
    subcommands: &[],
    run: hpexpireat,
};

/// Replies with the expiry of fields. `show` computes each reply from the expiry and the time of
/// the request, both in milliseconds since 1970.
fn show_expiry<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    command: &'static Command,
    show: fn(u64, u64) -> u64,
) -> Result<(), Error> {
    let first =
        unless_other_type(cx, cx.key(args.at(1)), fields_at(args, 2, command, NOT_POSITIVE))?;
    each_field(cx, args, command, first, move |db, key, names, replies| {
        let now_ms = db.now_ms();
        db.read_hash(key, |hash| {
            for name in names {
                let field = hash.and_then(|hash| hash.get(name, now_ms));
                replies.next().integer(match field.map(|field| field.expires_at_ms) {
                    None => -2,
                    Some(None) => -1,
                    Some(Some(at_ms)) => show(at_ms, now_ms).cast_signed(),
                });
            }
        })
    })
}

fn httl<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    show_expiry(cx, args, &HTTL, |at_ms, now_ms| (at_ms - now_ms).div_ceil(1000))
}

pub(crate) static HTTL: Command = Command {
    name: "HTTL",
    syntax: "key FIELDS numfields field [field ...]",
    arity: -5,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "7.4.0",
    notes: Notes::of("O(N), N being the fields").tips(&["nondeterministic_output"]),
    summary: "Returns the seconds until fields of a hash expire",
    subcommands: &[],
    run: httl,
};

fn hpttl<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    show_expiry(cx, args, &HPTTL, |at_ms, now_ms| at_ms - now_ms)
}

pub(crate) static HPTTL: Command = Command {
    name: "HPTTL",
    syntax: "key FIELDS numfields field [field ...]",
    arity: -5,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "7.4.0",
    notes: Notes::of("O(N), N being the fields").tips(&["nondeterministic_output"]),
    summary: "Returns the milliseconds until fields of a hash expire",
    subcommands: &[],
    run: hpttl,
};

fn hexpiretime<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    show_expiry(cx, args, &HEXPIRETIME, |at_ms, _| at_ms.div_ceil(1000))
}

pub(crate) static HEXPIRETIME: Command = Command {
    name: "HEXPIRETIME",
    syntax: "key FIELDS numfields field [field ...]",
    arity: -5,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "7.4.0",
    notes: Notes::of("O(N), N being the fields"),
    summary: "Returns when fields of a hash expire, as a Unix time in seconds",
    subcommands: &[],
    run: hexpiretime,
};

fn hpexpiretime<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    show_expiry(cx, args, &HPEXPIRETIME, |at_ms, _| at_ms)
}

pub(crate) static HPEXPIRETIME: Command = Command {
    name: "HPEXPIRETIME",
    syntax: "key FIELDS numfields field [field ...]",
    arity: -5,
    flags: Flags::READONLY.union(Flags::FAST),
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "7.4.0",
    notes: Notes::of("O(N), N being the fields"),
    summary: "Returns when fields of a hash expire, as a Unix time in milliseconds",
    subcommands: &[],
    run: hpexpiretime,
};

fn hpersist<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let first =
        unless_other_type(cx, cx.key(args.at(1)), fields_at(args, 2, &HPERSIST, NOT_POSITIVE))?;
    each_field(cx, args, &HPERSIST, first, |db, key, names, replies| {
        db.persist_fields(key, names, |had_expiry| {
            replies.next().integer(match had_expiry {
                None => -2,
                Some(false) => -1,
                Some(true) => 1,
            });
        })
    })
}

pub(crate) static HPERSIST: Command = Command {
    name: "HPERSIST",
    syntax: "key FIELDS numfields field [field ...]",
    arity: -5,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "7.4.0",
    notes: Notes::of("O(N), N being the fields"),
    summary: "Removes the expiry of fields of a hash",
    subcommands: &[],
    run: hpersist,
};

fn hgetex<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let parsed = parse_getex(cx, args);
    let (change, first) = unless_other_type(cx, cx.key(args.at(1)), parsed)?;
    each_field(cx, args, &HGETEX, first, move |db, key, names, replies| {
        let show = |field: Option<Field<'_>>| match field {
            Some(field) => write(replies.next(), field.value),
            None => replies.next().null(),
        };
        match change {
            Some(at_ms) => db.read_and_expire_fields(key, names, at_ms, show),
            None => {
                let now_ms = db.now_ms();
                db.read_hash(key, |hash| {
                    let fields = names.iter().map(|name| hash?.get(name, now_ms));
                    fields.for_each(show);
                })
            }
        }
    })
}

/// Parses the options of HGETEX: the new expiry of the fields, if any, where the inner `None`
/// removes the expiry; and the position of the fields' names.
fn parse_getex(cx: &Context<'_>, args: Args<'_>) -> Result<(Option<Option<u64>>, usize), Error> {
    let option = args.at(2);
    if is(option, "PERSIST") {
        return Ok((Some(None), fields_at(args, 3, &HGETEX, NOT_POSITIVE)?));
    }
    let Some(time) = Time::of_option(option) else {
        return Ok((None, fields_at(args, 2, &HGETEX, NOT_POSITIVE)?));
    };
    let at_ms = moment(time, args.at(3), cx.db.now_ms(), "hgetex")?;
    Ok((Some(Some(at_ms)), fields_at(args, 4, &HGETEX, NOT_POSITIVE)?))
}

pub(crate) static HGETEX: Command = Command {
    name: "HGETEX",
    syntax: "key [EX seconds | PX milliseconds | EXAT unix-time-seconds | \
             PXAT unix-time-milliseconds | PERSIST] FIELDS numfields field [field ...]",
    arity: -5,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::UPDATE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "8.0.0",
    notes: Notes::of("O(N), N being the fields"),
    summary: "Returns fields of a hash, and may change when they expire",
    subcommands: &[],
    run: hgetex,
};

fn hgetdel<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let first =
        unless_other_type(cx, cx.key(args.at(1)), fields_at(args, 2, &HGETDEL, NOT_POSITIVE))?;
    each_field(cx, args, &HGETDEL, first, |db, key, names, replies| {
        db.read_and_remove_fields(key, names, |field| match field {
            Some(field) => write(replies.next(), field.value),
            None => replies.next().null(),
        })
    })
}

pub(crate) static HGETDEL: Command = Command {
    name: "HGETDEL",
    syntax: "key FIELDS numfields field [field ...]",
    arity: -5,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::ACCESS).union(Access::DELETE)),
    categories: Category::HASH,
    group: Group::Hash,
    since: "8.0.0",
    notes: Notes::of("O(N), N being the fields"),
    summary: "Returns fields of a hash and removes them, and the hash with its last one",
    subcommands: &[],
    run: hgetdel,
};
