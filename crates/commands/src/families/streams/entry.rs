//! Adding entries to streams, and removing them.

use super::{ParsedId, limits, parse_id, strict_id, write_id};
use crate::runtime::arguments::{RemainingArguments, integer, is, length};
use crate::runtime::multi_key::{self, Claimed};
use crate::{Access, Category, Command, Context, Error, Flags, Group, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::stream::{Added, Addition, LastId, LastIdSet};
use nagi_store::{AddRefusal, Keep, NewEntry, NewId, StreamId, StreamLimits, Trim};
use std::borrow::Cow;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&XADD, &XDEL, &XSETID, &XTRIM];

const ZERO_ID: Error = Error::fixed("ERR The ID specified in XADD must be greater than 0-0");
const TOO_SMALL: Error = Error::fixed(
    "ERR The ID specified in XADD is equal or smaller than the target stream top item",
);
const EXHAUSTED: Error =
    Error::fixed("ERR The stream has exhausted the last possible ID, unable to add more items");
const TOO_LARGE: Error = Error::fixed("ERR Elements are too large to be stored");
const BOTH: Error =
    Error::fixed("ERR syntax error, MAXLEN and MINID options at the same time are not compatible");

/// Maximum length of an entry, in bytes.
const MAX_BYTES: usize = 1 << 30;
/// Maximum entries that are deleted per hold of a latch; a request with more claims its key.
const ENTRIES_PER_HOLD: usize = 64;

/// The arguments of XADD before the fields, or XTRIM's options.
struct Options {
    id: Option<NewId>,
    /// Position of the id.
    id_at: usize,
    only_existing: bool,
    trim: Option<Trim>,
}

impl Options {
    fn parse(args: Args<'_>, is_add: bool, limits: StreamLimits) -> Result<Self, Error> {
        let mut options = Options { id: None, id_at: args.len(), only_existing: false, trim: None };
        let (mut at, mut limit) = (2, None);
        while let Some(option) = args.get(at) {
            let has_more = at + 1 < args.len();
            if is_add && option == b"*" {
                (options.id, options.id_at) = (Some(NewId::Next), at);
                break;
            } else if has_more && (is(option, "MAXLEN") || is(option, "MINID")) {
                if options.trim.is_some() {
                    return Err(BOTH);
                }
                let has_two_more = at + 2 < args.len();
                let mark = args.get(at + 1).filter(|_| has_two_more);
                let is_approximate = mark == Some(b"~");
                at += if is_approximate || mark == Some(b"=") { 2 } else { 1 };
                let keep = kept(option, args.at(at))?;
                options.trim = Some(Trim { keep, is_approximate, limit: 0 });
            } else if has_more && is(option, "LIMIT") {
                at += 1;
                limit = Some(not_negative(args.at(at), "LIMIT")?);
            } else if is_add && is(option, "NOMKSTREAM") {
                options.only_existing = true;
            } else if is_add {
                options.id = Some(match parse_id(option, 0)? {
                    ParsedId::Whole(id) => NewId::Exact(id),
                    ParsedId::Ms(ms) => NewId::NextOf(ms),
                });
                options.id_at = at;
                break;
            } else {
                return Err(Error::SYNTAX);
            }
            at += 1;
        }
        options.limit(limit, is_add, limits)?;
        Ok(options)
    }

    fn limit(
        &mut self,
        limit: Option<u64>,
        is_add: bool,
        limits: StreamLimits,
    ) -> Result<(), Error> {
        let Some(trim) = &mut self.trim else {
            return match limit {
                Some(1..) => Err(Error::fixed(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                )),
                _ if !is_add => Err(Error::fixed(
                    "ERR syntax error, XTRIM must be called with a trimming strategy",
                )),
                Some(0) => Err(WITHOUT_MARK),
                _ => Ok(()),
            };
        };
        trim.limit = match limit {
            Some(_) if !trim.is_approximate => return Err(WITHOUT_MARK),
            Some(limit) => limit,
            None if trim.is_approximate => match limits.node_entries.saturating_mul(100) {
                0 => 10_000,
                limit => limit.min(1_000_000),
            },
            None => 0,
        };
        Ok(())
    }
}

const WITHOUT_MARK: Error =
    Error::fixed("ERR syntax error, LIMIT cannot be used without the special ~ option");

fn not_negative(argument: &[u8], option: &str) -> Result<u64, Error> {
    u64::try_from(integer(argument)?)
        .map_err(|_| Error::new(format!("ERR The {option} argument must be >= 0.")))
}

/// Parses the limit of MAXLEN or MINID.
fn kept(option: &[u8], argument: &[u8]) -> Result<Keep, Error> {
    Ok(if is(option, "MAXLEN") {
        Keep::Last(not_negative(argument, "MAXLEN")?)
    } else {
        Keep::From(strict_id(argument, 0)?)
    })
}

/// The argument at a position, copied if it is not in one piece.
fn in_one_piece(args: Args<'_>, at: usize) -> Cow<'_, [u8]> {
    match args.large(at) {
        None => Cow::Borrowed(args.at(at)),
        Some(large) => {
            let mut bytes = Vec::with_capacity(large.len());
            large.chunks().iter().for_each(|chunk| bytes.extend_from_slice(chunk));
            Cow::Owned(bytes)
        }
    }
}

fn xadd<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let limits = limits(cx);
    let Options { id, id_at, only_existing, trim } = Options::parse(args, true, limits)?;
    let first = id_at + 1;
    let Some(id) = id.filter(|_| first + 2 <= args.len() && (args.len() - first).is_multiple_of(2))
    else {
        return Err(Error::wrong_arity("xadd"));
    };
    if id == NewId::Exact(StreamId::MIN) {
        return Err(ZERO_ID);
    }
    if (first..args.len()).map(|at| length(args, at)).sum::<usize>() > MAX_BYTES {
        return Err(TOO_LARGE);
    }
    let texts: Vec<_> = (first..args.len()).map(|at| in_one_piece(args, at)).collect();
    let fields: Vec<&[u8]> = texts.iter().map(|text| &**text).collect();
    let entry = NewEntry::new(&fields);
    let addition = Addition { id, entry: &entry, only_existing, trim, limits };
    match cx.db.add_to_stream(cx.key(args.at(1)), &addition)? {
        Added::As(id) => write_id(&mut cx.reply, id),
        Added::NoStream => cx.reply.null(),
        Added::Refused(AddRefusal::TooSmall) => return Err(TOO_SMALL),
        Added::Refused(AddRefusal::Exhausted) => return Err(EXHAUSTED),
    }
    Ok(())
}

pub(crate) static XADD: Command = Command {
    name: "XADD",
    syntax: "key [NOMKSTREAM] [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field \
             value [field value ...]",
    arity: -5,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(log N), N being the entries of the stream")
        .history(&[
            ("6.2.0", "NOMKSTREAM, MINID and LIMIT"),
            ("7.0.0", "Ids of which only the time is given"),
        ])
        .tips(&["nondeterministic_output"]),
    summary: "Adds an entry to a stream, which is created if there is none, and returns its id",
    subcommands: &[],
    run: xadd,
};

fn xdel<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if !cx.db.read_stream(cx.key(args.at(1)), |stream| stream.is_some())? {
        cx.reply.integer(0);
        return Ok(());
    }
    let ids = args.from(2).map(|id| strict_id(id, 0)).collect::<Result<Vec<_>, _>>()?;
    if ids.len() <= ENTRIES_PER_HOLD {
        let deleted = cx.db.delete_from_stream(cx.key(args.at(1)), &ids, true)?;
        cx.reply.integer(deleted as i64);
        return Ok(());
    }
    let (mut at, mut deleted) = (0, 0);
    multi_key::claimed(cx, Claimed::all(&XDEL.keys), move |cx, slice| {
        let key = cx.key(cx.args.at(1));
        while at < ids.len() {
            let end = ids.len().min(at + ENTRIES_PER_HOLD);
            let some = ids.get(at..end).unwrap_or_default();
            deleted += cx.db.delete_from_stream(key, some, false)?;
            at = end;
            if slice.is_over() && at < ids.len() {
                return Ok(false);
            }
        }
        if deleted > 0 {
            cx.db.note_deleted_from_stream(key);
        }
        cx.reply.integer(deleted as i64);
        Ok(true)
    })
}

pub(crate) static XDEL: Command = Command {
    name: "XDEL",
    syntax: "key id [id ...]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::DELETE)),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(N log M), N being the ids and M the entries of the stream"),
    summary: "Deletes entries of a stream, and returns how many there were",
    subcommands: &[],
    run: xdel,
};

fn xtrim<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let options = Options::parse(args, false, limits(cx))?;
    // Parsing has refused a request without a limit.
    let trim = options.trim.ok_or(Error::SYNTAX)?;
    let removed = cx.db.trim_stream(cx.key(args.at(1)), &trim)?;
    cx.reply.integer(removed as i64);
    Ok(())
}

pub(crate) static XTRIM: Command = Command {
    name: "XTRIM",
    syntax: "key <<MAXLEN | MINID> [= | ~] threshold [LIMIT count]>",
    arity: -4,
    flags: Flags::WRITE,
    keys: Keys::one(Access::RW.union(Access::DELETE)),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(log N), N being the entries of the stream; those removed are freed later")
        .history(&[("6.2.0", "MINID and LIMIT")])
        .tips(&["nondeterministic_output"]),
    summary: "Removes the first entries of a stream, and returns how many",
    subcommands: &[],
    run: xtrim,
};

fn xsetid<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let id = strict_id(args.at(2), 0)?;
    let mut new = LastId { id, entries_added: None, max_deleted_id: None };
    let mut rest = RemainingArguments::from(args, 3);
    while let Some(option) = rest.next() {
        if is(option, "ENTRIESADDED") {
            let added = u64::try_from(integer(rest.value()?)?);
            let wrong = Error::fixed("ERR entries_added must be positive");
            new.entries_added = Some(added.map_err(|_| wrong)?);
        } else if is(option, "MAXDELETEDID") {
            let deleted = strict_id(rest.value()?, 0)?;
            if id < deleted {
                return Err(Error::fixed(
                    "ERR The ID specified in XSETID is smaller than the provided \
                     max_deleted_entry_id",
                ));
            }
            new.max_deleted_id = Some(deleted).filter(|it| *it != StreamId::MIN);
        } else {
            return Err(Error::SYNTAX);
        }
    }
    match cx.db.set_last_id(cx.key(args.at(1)), new)? {
        LastIdSet::Done => cx.reply.ok(),
        LastIdSet::NoStream => return Err(Error::fixed("ERR no such key")),
        LastIdSet::BelowDeleted => {
            return Err(Error::fixed(
                "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id",
            ));
        }
        LastIdSet::BelowLast => {
            return Err(Error::fixed(
                "ERR The ID specified in XSETID is smaller than the target stream top item",
            ));
        }
        LastIdSet::TooFew => {
            return Err(Error::fixed(
                "ERR The entries_added specified in XSETID is smaller than the target stream \
                 length",
            ));
        }
    }
    Ok(())
}

pub(crate) static XSETID: Command = Command {
    name: "XSETID",
    syntax: "key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
    arity: -3,
    flags: Flags::WRITE.union(Flags::DENYOOM).union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(1)").history(&[("7.0.0", "ENTRIESADDED and MAXDELETEDID")]),
    summary: "Sets the last id that a stream has given, for tools that restore streams",
    subcommands: &[],
    run: xsetid,
};
