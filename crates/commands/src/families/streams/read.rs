//! Reading new entries of streams: by each client on its own, or by the consumers of a group, which
//! share the entries.

use super::reply::write_some;
use super::{no_group, strict_id};
use crate::families::elements::strides;
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::blocking::{Blocking, wait};
use crate::runtime::context::Job;
use crate::runtime::multi_key;
use crate::state::blocked::{
    FirstStep, Name, Step, Steps, StepsOf, Stepwise, Streams, Taken, Wanted, has_other_type,
};
use crate::{Access, Category, Command, Context, Error, Flags, Group, KeyGroup, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::collection::Limits;
use nagi_store::types::stream::{GroupMember, NoGroup, PART_ENTRIES};
use nagi_store::{Database, Kind, Selection, StreamId, Value, WrongType};
use std::ops::Range;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&XREAD, &XREADGROUP];

const NOT_A_TIMEOUT: Error = Error::fixed("ERR timeout is not an integer or out of range");
const NEGATIVE_TIMEOUT: Error = Error::fixed("ERR timeout is negative");
const TIMEOUT_TOO_LONG: Error = Error::fixed("ERR timeout is out of range");

/// The options that XREAD and XREADGROUP share.
struct Request<'a> {
    /// Whether the client waits if there is nothing to read (BLOCK).
    may_wait: bool,
    /// The end of the wait, in milliseconds since 1970; `None` if it does not end.
    until_ms: Option<u64>,
    /// Maximum entries per stream.
    count: Option<u64>,
    group: Option<GroupMember<'a>>,
    no_ack: bool,
    /// The position of the first key; the keys are followed by the same number of ids.
    keys_at: usize,
    keys: usize,
}

impl<'a> Request<'a> {
    fn parse(args: Args<'a>, in_group: bool, now_ms: u64) -> Result<Self, Error> {
        let mut request = Request {
            may_wait: false,
            until_ms: None,
            count: None,
            group: None,
            no_ack: false,
            keys_at: 0,
            keys: 0,
        };
        let (mut rest, mut at) = (RemainingArguments::from(args, 1), 1);
        while let Some(option) = rest.next() {
            let more = rest.len();
            if more > 0 && is(option, "BLOCK") {
                request.may_wait = true;
                request.until_ms = end_of_wait_ms(rest.value()?, now_ms)?;
            } else if more > 0 && is(option, "COUNT") {
                let count = integer(rest.value()?)?;
                request.count = u64::try_from(count).ok().filter(|count| *count > 0);
            } else if more > 0 && is(option, "STREAMS") {
                if more % 2 != 0 {
                    return Err(unbalanced(in_group));
                }
                (request.keys_at, request.keys) = (at + 1, more / 2);
                break;
            } else if more >= 2 && is(option, "GROUP") {
                if !in_group {
                    return Err(only_in_group("GROUP"));
                }
                let (group, consumer) = (rest.value()?, rest.value()?);
                request.group = Some(GroupMember { group, consumer });
            } else if is(option, "NOACK") {
                if !in_group {
                    return Err(only_in_group("NOACK"));
                }
                request.no_ack = true;
            } else {
                return Err(Error::SYNTAX);
            }
            at = args.len() - rest.len();
        }
        if request.keys_at == 0 {
            return Err(Error::SYNTAX);
        }
        if in_group && request.group.is_none() {
            return Err(Error::fixed("ERR Missing GROUP option for XREADGROUP"));
        }
        Ok(request)
    }

    fn names(&self, args: Args<'_>) -> Box<[Name]> {
        args.from(self.keys_at).take(self.keys).map(Name::from).collect()
    }

    /// The keys, each with its id.
    fn ids<'i>(&self, args: Args<'i>) -> impl Iterator<Item = (&'i [u8], &'i [u8])> {
        let keys = args.from(self.keys_at).take(self.keys);
        keys.zip(args.from(self.keys_at + self.keys))
    }
}

/// Parses a timeout in milliseconds. Returns the end of the wait, in milliseconds since 1970, or
/// `None` if it does not end. As in Redis, it is checked before the options that follow it.
fn end_of_wait_ms(argument: &[u8], now_ms: u64) -> Result<Option<u64>, Error> {
    let ms = nagi_store::parse_i64(argument).ok_or(NOT_A_TIMEOUT)?;
    let ms = u64::try_from(ms).map_err(|_| NEGATIVE_TIMEOUT)?;
    if ms == 0 {
        return Ok(None);
    }
    let at_ms = now_ms.checked_add(ms).filter(|at_ms| i64::try_from(*at_ms).is_ok());
    at_ms.map(Some).ok_or(TIMEOUT_TOO_LONG)
}

#[cold]
fn unbalanced(in_group: bool) -> Error {
    let (name, ids) =
        if in_group { ("xreadgroup", "an ID or '>'") } else { ("xread", "an ID, '+', or '$'") };
    Error::new(format!(
        "ERR Unbalanced '{name}' list of streams: for each stream key {ids} must be specified."
    ))
}

#[cold]
fn only_in_group(option: &str) -> Error {
    Error::new(format!(
        "ERR The {option} option is only supported by XREADGROUP. You called XREAD instead."
    ))
}

/// The position in a stream after which to read.
#[derive(Clone, Copy, Debug)]
enum After {
    Id(StreamId),
    /// The entry before the last one, so that the last one is read.
    LastButOne,
}

/// Entries of several streams after given positions.
#[derive(Debug)]
struct Reading {
    keys: Box<[Name]>,
    after: Vec<After>,
    count: Option<u64>,
}

impl Reading {
    /// Returns the entries of the streams, and whether a value is of another type.
    fn read(&self, db: Database<'_>, may_take: &dyn Fn(&[u8]) -> bool) -> (Streams, bool) {
        let keys: Vec<_> = self.keys.iter().map(|name| db.key(name)).collect();
        let streams = match multi_key::are_long(&keys) {
            // Latches of so many keys would delay all clients. A new request has claimed the keys;
            // that of a blocked client is served with those that have changed.
            true => keys.iter().map(|key| db.stream(*key)).collect(),
            false => db.streams(&keys),
        };
        let (mut read, mut has_wrong_type) = (Streams::new(), false);
        for ((name, after), stream) in self.keys.iter().zip(&self.after).zip(streams) {
            if !may_take(name) {
                has_wrong_type |= has_other_type(db, name, Kind::Stream);
                continue;
            }
            let Ok(stream) = stream else {
                has_wrong_type = true;
                continue;
            };
            let Some(stream) = stream else { continue };
            let after = match after {
                After::Id(id) => *id,
                After::LastButOne => stream.last_entry_id().previous().unwrap_or_default(),
            };
            let Some(from) = after.next() else { continue };
            let entries = Selection::interval(stream, (from, StreamId::MAX), self.count, false);
            if entries.left() > 0 {
                read.push((Name::clone(name), entries));
            }
        }
        (read, has_wrong_type)
    }
}

impl Wanted for Reading {
    fn kind(&self) -> Kind {
        Kind::Stream
    }

    fn destination(&self) -> Option<&Name> {
        None
    }

    fn take(
        &self,
        db: Database<'_>,
        _: &Limits,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Taken> {
        match self.read(db, may_take) {
            (_, true) => Some(Taken::WrongType),
            (streams, false) => (!streams.is_empty()).then_some(Taken::Streams(streams)),
        }
    }

    fn begin_to_take(
        &self,
        db: Database<'_>,
        _: &Limits,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> FirstStep {
        FirstStep::Complete(match self.read(db, may_take) {
            // As in Redis, a key of another type is noticed when a stream gets entries.
            (streams, _) if streams.is_empty() => None,
            (_, true) => Some(Taken::WrongType),
            (streams, false) => Some(Taken::Streams(streams)),
        })
    }
}

/// The entries of a stream that a consumer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    /// Entries that have not been delivered to any consumer of the group.
    New,
    /// The consumer's own pending entries after an id.
    Pending(StreamId),
}

/// Entries of several streams for a consumer of a group.
#[derive(Clone, Debug)]
struct GroupReading {
    keys: Box<[Name]>,
    which: Vec<Which>,
    count: Option<u64>,
    group: Box<[u8]>,
    consumer: Box<[u8]>,
    no_ack: bool,
}

/// The error for a missing group, in the text of XREADGROUP.
#[cold]
fn missing(name: &[u8], group: &[u8]) -> Error {
    no_group(NoGroup::Group, name, group, " in XREADGROUP with GROUP option")
}

fn has_group(db: Database<'_>, key: &[u8], group: &[u8]) -> Result<bool, WrongType> {
    db.read_stream(db.key(key), |stream| {
        stream.is_some_and(|stream| stream.view_group(group).is_some())
    })
}

impl GroupReading {
    fn member(&self) -> GroupMember<'_> {
        GroupMember { group: &self.group, consumer: &self.consumer }
    }

    /// Whether a client that waits, which reads only new entries, would be served now: with entries
    /// of any of its streams, or with an error.
    fn would_serve(&self, db: Database<'_>, may_take: &dyn Fn(&[u8]) -> bool) -> bool {
        let would_serve = |name: &Name| {
            db.inspect(db.key(name), |entry| match entry.map(|(entry, _)| entry.value()) {
                Some(Value::Stream(stream)) => {
                    stream.view_group(&self.group).is_none_or(|group| group.has_new_entries())
                }
                _ => true,
            })
        };
        self.keys.iter().any(|name| may_take(name) && would_serve(name))
    }

    /// Delivers some entries that are new to a stream's group. Returns `None` until all are
    /// delivered; then the entries, or `Some(None)` if there are none.
    fn read_new(
        &self,
        db: Database<'_>,
        name: &Name,
        delivered: &mut Delivered,
    ) -> Result<Option<Option<Selection>>, NoGroup> {
        let key = db.key(name);
        let left = self.count.unwrap_or(u64::MAX) - delivered.count;
        let part = db.deliver(key, self.member(), left, !self.no_ack)?;
        if let Some((first, last)) = part.ids {
            delivered.ends = Some((delivered.ends.map_or(first, |ends| ends.0), last));
        }
        delivered.count += part.count;
        if part.count == PART_ENTRIES && left > part.count {
            return Ok(None);
        }
        let Some(ends) = delivered.ends else { return Ok(Some(None)) };
        let stream = match part.stream {
            // It is as it was when all of them were delivered.
            Some(stream) if delivered.count == part.count => {
                return Ok(Some(Some(Selection::counted(stream, ends, part.count))));
            }
            Some(stream) => stream,
            // The last part may have been empty, and without the stream.
            None => db.stream(key)?.ok_or(NoGroup::Key)?,
        };
        Ok(Some(Some(Selection::interval(stream, ends, None, false))))
    }

    /// Delivers some of the consumer's pending entries after an id again. Returns the entries once
    /// all are delivered.
    fn read_pending(
        &self,
        db: Database<'_>,
        name: &Name,
        after: StreamId,
        delivered: &mut Delivered,
    ) -> Result<Option<Selection>, NoGroup> {
        let (key, member) = (db.key(name), self.member());
        let ids = &mut delivered.ids;
        if ids.is_empty() {
            db.note_consumer(key, member)?;
        }
        let left = self.count.unwrap_or(u64::MAX) - ids.len() as u64;
        if let Some(from) = ids.last().unwrap_or(&after).next() {
            let more = db.deliver_again(key, member, from, left)?;
            let count = more.len() as u64;
            ids.extend(more);
            if count == PART_ENTRIES && left > count {
                return Ok(None);
            }
        }
        let stream = db.stream(key)?.ok_or(NoGroup::Key)?;
        Ok(Some(Selection::of_ids(stream, std::mem::take(ids))))
    }
}

impl Wanted for GroupReading {
    fn kind(&self) -> Kind {
        Kind::Stream
    }

    fn destination(&self) -> Option<&Name> {
        None
    }

    fn wakes_on_any_change(&self) -> bool {
        true
    }

    fn steps(&self) -> Option<Box<dyn Steps>> {
        let are_several =
            self.keys.len() > 1 || self.count.is_none_or(|count| count > PART_ENTRIES);
        are_several.then(|| StepsOf::begin(self.clone()))
    }

    fn take(
        &self,
        db: Database<'_>,
        _: &Limits,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> Option<Taken> {
        self.take_all(db, may_take)
    }

    fn begin_to_take(
        &self,
        db: Database<'_>,
        _: &Limits,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> FirstStep {
        // Any change of a stream leads here. An attempt to read that finds nothing would create a
        // consumer that was deleted, and set the time at which it was last seen.
        if self.would_serve(db, may_take) {
            StepsOf::first(self, db, may_take)
        } else {
            FirstStep::Complete(None)
        }
    }
}

/// The entries that were delivered so far.
#[derive(Default)]
struct Delivery {
    /// The number of streams in which the group was found, before anything is delivered.
    checked: usize,
    /// The number of streams whose entries were delivered.
    read: usize,
    streams: Streams,
    current: Delivered,
}

/// The entries of the current stream that were delivered so far: ends and number of new ones, or
/// the ids of pending ones.
#[derive(Default)]
struct Delivered {
    ends: Option<(StreamId, StreamId)>,
    count: u64,
    ids: Vec<StreamId>,
}

impl Stepwise for GroupReading {
    type Progress = Delivery;

    fn has_taken(progress: &Delivery) -> bool {
        let Delivery { streams, current, .. } = progress;
        !streams.is_empty() || current.count > 0 || !current.ids.is_empty()
    }

    fn take_some(
        &self,
        progress: &mut Delivery,
        db: Database<'_>,
        may_take: &dyn Fn(&[u8]) -> bool,
    ) -> Step {
        let Delivery { checked, read, streams, current } = progress;
        let missing = |name| Step::Complete(Some(Taken::NoGroup(Name::clone(name))));
        // For a single stream, reading it reports the same errors. The change of a stream that may
        // not be read now will make the client check again.
        if let Some(name) = self.keys.get(*checked).filter(|_| self.keys.len() > 1) {
            *checked += 1;
            if !may_take(name) {
                return Step::Unfinished;
            }
            return match has_group(db, name, &self.group) {
                Ok(true) => Step::Unfinished,
                Ok(false) => missing(name),
                Err(WrongType) => Step::Complete(Some(Taken::WrongType)),
            };
        }
        let Some((name, which)) = self.keys.get(*read).zip(self.which.get(*read)) else {
            let streams = std::mem::take(streams);
            return Step::Complete((!streams.is_empty()).then_some(Taken::Streams(streams)));
        };
        let entries = match which {
            _ if !may_take(name) => Ok(Some(None)),
            Which::New => self.read_new(db, name, current),
            Which::Pending(after) => {
                self.read_pending(db, name, *after, current).map(|it| it.map(Some))
            }
        };
        match entries {
            Err(NoGroup::WrongType) => return Step::Complete(Some(Taken::WrongType)),
            Err(_) => return missing(name),
            Ok(None) => {}
            Ok(Some(entries)) => {
                streams.extend(entries.map(|it| (Name::clone(name), it)));
                (*read, *current) = (*read + 1, Delivered::default());
            }
        }
        Step::Unfinished
    }
}

/// Replies with the entries that a blocked client was served.
fn reply(cx: &mut Context<'_>, taken: Taken) -> Result<Option<Job>, Error> {
    let streams = match taken {
        Taken::WrongType => return Err(Error::WRONG_TYPE),
        Taken::NoGroup(name) => {
            // At this time any timeout is in range; it was checked before the client waited.
            let group = Request::parse(cx.args, true, 0)?.group.map_or(&b""[..], |it| it.group);
            return Err(missing(&name, group));
        }
        Taken::Streams(streams) => streams,
        // A client that is blocked on streams is not served values of other types.
        Taken::Element(..) | Taken::Elements(..) | Taken::Moved(_) | Taken::Members(..) => {
            cx.reply.null_array();
            return Ok(None);
        }
    };
    cx.reply.nested_map(streams.len());
    let mut left = streams.into_iter();
    let mut current: Option<Selection> = None;
    Ok(Some(strides(move |reply| {
        let entries = match &mut current {
            Some(entries) => entries,
            None => {
                let Some((name, entries)) = left.next() else { return true };
                reply.nested_pair();
                reply.bulk(&name);
                reply.array(entries.left() as usize);
                current.insert(entries)
            }
        };
        if write_some(reply, entries) {
            current = None;
        }
        current.is_none() && left.len() == 0
    })))
}

/// Reads entries. If there are none, blocks if the request has BLOCK.
fn read(
    cx: &mut Context<'_>,
    command: &'static Command,
    request: &Request<'_>,
    wanted: Box<dyn Wanted>,
    keys: Box<[Name]>,
) -> Result<(), Error> {
    let Request { may_wait, until_ms, .. } = *request;
    let nothing = |reply: &mut nagi_proto::resp::Writer<'_>| reply.null_array();
    wait(cx, command, Blocking { keys, wanted, until_ms, may_wait, nothing, reply })
}

fn xread<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let request = Request::parse(args, false, cx.db.now_ms())?;
    let mut after = Vec::new();
    for (key, id) in request.ids(args) {
        let last = cx.db.read_stream(cx.key(key), |stream| stream.map(|it| it.last_id()))?;
        after.push(match id {
            b"$" => After::Id(last.unwrap_or_default()),
            b"+" => After::LastButOne,
            b">" => {
                return Err(Error::fixed(
                    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP \
                     <group> <consumer> option.",
                ));
            }
            id => After::Id(strict_id(id, 0)?),
        });
    }
    let keys = request.names(args);
    let wanted = Box::new(Reading { keys: keys.clone(), after, count: request.count });
    read(cx, &XREAD, &request, wanted, keys)
}

pub(crate) static XREAD: Command = Command {
    name: "XREAD",
    syntax: "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
    arity: -4,
    flags: Flags::READONLY.union(Flags::BLOCKING),
    keys: Keys::only(KeyGroup::half_after_word("STREAMS", 1, Access::RO.union(Access::ACCESS))),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(N log M), N being the streams and M their entries, and those returned"),
    summary: "Returns the entries of streams after given ids; waits for one if there is none and \
              BLOCK says so",
    subcommands: &[],
    run: xread,
};

/// Parses the id after which a consumer reads.
fn which(id: &[u8]) -> Result<Which, Error> {
    let meaningless = |id: char, without: &str| {
        Error::new(format!(
            "ERR The {id} ID is meaningless in the context of XREADGROUP: you want to read the \
             history of this consumer by specifying a proper ID, or use the > ID to get new \
             messages. The {id} ID would just return an empty result set.{without}"
        ))
    };
    match id {
        b">" => Ok(Which::New),
        b"$" => Err(meaningless('$', "")),
        b"+" => Err(meaningless('+', "")),
        id => Ok(match strict_id(id, 0)? {
            // Redis represents `>` by the greatest id.
            StreamId::MAX => Which::New,
            id => Which::Pending(id),
        }),
    }
}

/// The positions of the keys of XREADGROUP, whose group or consumer may be called STREAMS.
fn streams(args: Args<'_>) -> Range<usize> {
    let mut at = 1;
    while let Some(option) = args.get(at) {
        if is(option, "STREAMS") {
            let first = at + 1;
            let rest = args.len() - first;
            return if rest.is_multiple_of(2) { first..first + rest / 2 } else { 0..0 };
        }
        at += match option {
            option if is(option, "GROUP") => 3,
            option if is(option, "BLOCK") || is(option, "COUNT") => 2,
            _ => 1,
        };
    }
    0..0
}

fn xreadgroup<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let request = Request::parse(args, true, cx.db.now_ms())?;
    // Parsing has refused a request without a group.
    let GroupMember { group, consumer } = request.group.ok_or(Error::SYNTAX)?;
    let keys = request.names(args);
    let mut wanted = GroupReading {
        keys: keys.clone(),
        which: Vec::new(),
        count: request.count,
        group: group.into(),
        consumer: consumer.into(),
        no_ack: request.no_ack,
    };
    for (_, id) in request.ids(args) {
        match which(id) {
            Ok(which) => wanted.which.push(which),
            // A missing group of an earlier stream takes precedence over the error of this id.
            Err(error) => {
                for name in keys.iter().take(wanted.which.len() + 1) {
                    if !has_group(cx.db, name, group)? {
                        return Err(missing(name, group));
                    }
                }
                return Err(error);
            }
        }
    }
    read(cx, &XREADGROUP, &request, Box::new(wanted), keys)
}

pub(crate) static XREADGROUP: Command = Command {
    name: "XREADGROUP",
    syntax: "GROUP group consumer [COUNT count] [BLOCK milliseconds] [NOACK] STREAMS key \
             [key ...] id [id ...]",
    arity: -7,
    flags: Flags::WRITE.union(Flags::BLOCKING),
    // Reading changes the group, not the stream's entries.
    keys: Keys::only(
        KeyGroup::by_grammar(streams, Access::RO.union(Access::ACCESS))
            .shown_half_after_word("STREAMS", 4)
            .changed(),
    ),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(N log M), N being the entries returned and M those of the stream"),
    summary: "Returns entries of streams that no consumer of a group has read, or those that are \
              pending for one; waits for new ones if BLOCK says so",
    subcommands: &[],
    run: xreadgroup,
};
