//! Entries that were delivered to consumers of a group and have not been acknowledged.

use super::reply::{Stride, write_some};
use super::{end_of_interval, no_group, start_of_interval, strict_id, write_id};
use crate::families::elements::{ELEMENTS_PER_HOLD, in_strides, strides};
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::context::Job;
use crate::runtime::multi_key::{self, Claimed, Worked};
use crate::runtime::suspension::Slice;
use crate::{Access, Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::Args;
use nagi_store::types::stream::{
    AutoClaimed, ClaimRules, GroupMember, GroupView, NoGroup, PART_ENTRIES, PendingView,
};
use nagi_store::{Selection, Stream, StreamId};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&XACK, &XAUTOCLAIM, &XCLAIM, &XPENDING];

/// Maximum ids of a request that are looked up per hold of a latch.
const IDS_PER_HOLD: usize = 64;

fn missing(reason: NoGroup, args: Args<'_>) -> Error {
    no_group(reason, args.at(1), args.at(2), "")
}

fn xack<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let is_there = cx.db.read_stream(cx.key(args.at(1)), |stream| {
        stream.is_some_and(|stream| stream.view_group(args.at(2)).is_some())
    })?;
    if !is_there {
        cx.reply.integer(0);
        return Ok(());
    }
    let ids = args.from(3).map(|id| strict_id(id, 0)).collect::<Result<Vec<_>, _>>()?;
    if ids.len() <= IDS_PER_HOLD {
        let done = cx.db.acknowledge(cx.key(args.at(1)), args.at(2), &ids);
        cx.reply.integer(done.unwrap_or(0) as i64);
        return Ok(());
    }
    let (mut at, mut done) = (0, 0);
    multi_key::claimed(cx, Claimed::all(&XACK.keys), move |cx, slice| {
        while at < ids.len() {
            let some = ids.get(at..ids.len().min(at + IDS_PER_HOLD)).unwrap_or_default();
            let args = cx.args;
            done += cx.db.acknowledge(cx.key(args.at(1)), args.at(2), some).unwrap_or(0);
            at += IDS_PER_HOLD;
            if slice.is_over() && at < ids.len() {
                return Ok(false);
            }
        }
        cx.reply.integer(done as i64);
        Ok(true)
    })
}

pub(crate) static XACK: Command = Command {
    name: "XACK",
    syntax: "key group id [id ...]",
    arity: -4,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(N log M), N being the ids and M what is pending for the group"),
    summary: "Acknowledges entries, which are pending no more, and returns how many were",
    subcommands: &[],
    run: xack,
};

/// The filter of XPENDING's detailed form, which returns entries one by one.
struct Detail {
    from: StreamId,
    to: StreamId,
    count: u64,
    min_idle_ms: u64,
    /// Position of the consumer among the arguments.
    consumer_at: Option<usize>,
}

impl Detail {
    fn parse(args: Args<'_>) -> Result<Option<Self>, Error> {
        if args.len() == 3 {
            return Ok(None);
        }
        if args.len() < 6 || args.len() > 9 {
            return Err(Error::SYNTAX);
        }
        let (mut at, mut min_idle_ms) = (3, 0);
        if is(args.at(3), "IDLE") {
            min_idle_ms = u64::try_from(integer(args.at(4))?).unwrap_or(0);
            if args.len() < 8 {
                return Err(Error::SYNTAX);
            }
            at = 5;
        }
        let count = u64::try_from(integer(args.at(at + 2))?).unwrap_or(0);
        let (from, to) = (start_of_interval(args.at(at))?, end_of_interval(args.at(at + 1))?);
        let consumer_at = Some(at + 3).filter(|at| *at < args.len());
        Ok(Some(Detail { from, to, count, min_idle_ms, consumer_at }))
    }
}

fn xpending<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let detail = Detail::parse(args)?;
    let stream = cx.db.stream(cx.key(args.at(1)))?;
    let stream = stream.ok_or_else(|| missing(NoGroup::Key, args))?;
    let group = stream.view_group(args.at(2)).ok_or_else(|| missing(NoGroup::Group, args))?;
    let Some(detail) = detail else { return summary(cx, stream) };
    let consumer = detail.consumer_at.map(|at| args.at(at).to_vec());
    if consumer.as_ref().is_some_and(|name| group.consumer(name).is_none()) {
        cx.reply.array(0);
        return Ok(());
    }
    let name = args.at(2).to_vec();
    cx.start(search(stream, name, consumer, detail))
}

/// Replies with the number of pending entries, the first and the last id, and the consumers that
/// have such entries, each with their number.
fn summary(cx: &mut Context<'_>, stream: Stream) -> Result<(), Error> {
    let name = cx.args.at(2).to_vec();
    let group = stream.view_group(&name);
    let reply = &mut cx.reply;
    reply.array(4);
    reply.integer(group.map_or(0, |group| group.pending_count()) as i64);
    let Some((first, last)) = group.and_then(GroupView::pending_ends) else {
        reply.null();
        reply.null();
        reply.null_array();
        return Ok(());
    };
    write_id(reply, first);
    write_id(reply, last);
    // The consumers are visited twice: how many of them are shown must be known first.
    let (mut visited, mut shown, mut is_counted) = (0, 0, false);
    in_strides(cx, move |reply| {
        let Some(group) = stream.view_group(&name) else { return true };
        let mut stride = Stride::begin(reply);
        let broken = group.walk_consumers(visited, |consumer| {
            visited += 1;
            let pending = consumer.pending_count();
            if pending > 0 && is_counted {
                reply.array(2);
                reply.bulk(consumer.name());
                reply.bulk_integer(pending as i64);
            } else if pending > 0 {
                shown += 1;
            }
            stride.count(reply)
        });
        if broken.is_none() && !is_counted {
            reply.array(shown);
            (visited, is_counted) = (0, true);
            return false;
        }
        broken.is_none()
    })
}

/// A pending entry that was found.
struct Found {
    id: StreamId,
    /// Shared with the group, since the name may be long.
    consumer: Arc<[u8]>,
    idle_ms: u64,
    deliveries: u64,
}

/// A job that searches for pending entries slice by slice, and then replies with them.
fn search(stream: Stream, group: Vec<u8>, consumer: Option<Vec<u8>>, detail: Detail) -> Job {
    const LOOKED_AT: usize = 128;
    let Detail { mut from, to, count, min_idle_ms, .. } = detail;
    let (mut found, mut is_over, mut shown): (Vec<Found>, _, _) = (Vec::new(), count == 0, None);
    let mut now_ms = None;
    Box::new(move |cx| {
        let slice = Slice::begin();
        let now_ms = *now_ms.get_or_insert(cx.db.now_ms());
        while !is_over {
            let (mut looked_at, mut last) = (0, None);
            let visit = |it: PendingView<'_>| {
                if it.id > to || found.len() as u64 == count {
                    return ControlFlow::Break(true);
                }
                if looked_at == LOOKED_AT {
                    return ControlFlow::Break(false);
                }
                looked_at += 1;
                last = Some(it.id);
                let idle_ms = now_ms.saturating_sub(it.delivered_ms);
                if idle_ms >= min_idle_ms {
                    let consumer = Arc::clone(it.consumer);
                    found.push(Found { id: it.id, consumer, idle_ms, deliveries: it.deliveries });
                }
                ControlFlow::Continue(())
            };
            let broken = stream.view_group(&group).and_then(|group| match &consumer {
                None => group.walk_pending(from, visit),
                Some(name) => group.consumer(name).and_then(|it| it.walk_pending(from, visit)),
            });
            match last.and_then(StreamId::next) {
                Some(next) if broken == Some(false) => from = next,
                _ => is_over = true,
            }
            if slice.is_over() && !is_over {
                return Ok(JobProgress::NEXT_TICK);
            }
        }
        let next = shown.get_or_insert_with(|| {
            cx.reply.array(found.len());
            0_usize
        });
        loop {
            let mut stride = Stride::begin(&cx.reply);
            while let Some(it) = found.get(*next) {
                *next += 1;
                cx.reply.array(4);
                write_id(&mut cx.reply, it.id);
                cx.reply.bulk(&it.consumer);
                cx.reply.integer(it.idle_ms as i64);
                cx.reply.integer(it.deliveries as i64);
                if stride.count(&cx.reply).is_break() {
                    break;
                }
            }
            if *next >= found.len() {
                return Ok(JobProgress::Done);
            }
            if slice.is_over() {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
    })
}

pub(crate) static XPENDING: Command = Command {
    name: "XPENDING",
    syntax: "key group [[IDLE min-idle-time] start end count [consumer]]",
    arity: -3,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(N), N being the consumers, or what is pending and looked at")
        .history(&[("6.2.0", "IDLE, and intervals without their ends")])
        .tips(&["nondeterministic_output"]),
    summary: "Returns what is pending for a group: how much, or entry by entry",
    subcommands: &[],
    run: xpending,
};

/// A job that replies with claimed entries, or only with their ids.
fn write_claimed(stream: Option<Stream>, ids: Vec<StreamId>, just_id: bool) -> Job {
    let mut entries =
        stream.filter(|_| !just_id).map(|stream| Selection::of_ids(stream, ids.clone()));
    let mut at = None;
    strides(move |reply| {
        let at = at.get_or_insert_with(|| {
            reply.array(ids.len());
            0
        });
        if let Some(entries) = &mut entries {
            return write_some(reply, entries);
        }
        let some = ids.iter().skip(*at).take(ELEMENTS_PER_HOLD as usize);
        some.for_each(|id| write_id(reply, *id));
        *at += ELEMENTS_PER_HOLD as usize;
        *at >= ids.len()
    })
}

fn xclaim<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let is_there = cx.db.read_stream(cx.key(args.at(1)), |stream| {
        stream.is_some_and(|stream| stream.view_group(args.at(2)).is_some())
    })?;
    if !is_there {
        return Err(missing(NoGroup::Group, args));
    }
    let min_idle = Error::fixed("ERR Invalid min-idle-time argument for XCLAIM");
    let min_idle_ms = min_idle_ms(args.at(4), min_idle)?;
    let ids: Vec<_> = args.from(5).map_while(|id| strict_id(id, 0).ok()).collect();
    let rules = claim_rules(cx, RemainingArguments::from(args, 5 + ids.len()), min_idle_ms)?;
    let (mut at, mut claimed) = (0, Vec::new());
    let mut claim = move |cx: &mut Context<'_>, slice: Option<Slice>| loop {
        let args = cx.args;
        let member = GroupMember { group: args.at(2), consumer: args.at(3) };
        let some = ids.get(at..ids.len().min(at + IDS_PER_HOLD)).unwrap_or_default();
        let more = cx.db.claim_entries(cx.key(args.at(1)), member, some, &rules);
        let (more, stream) = more.map_err(|reason| missing(reason, args))?;
        claimed.extend(more);
        at += IDS_PER_HOLD;
        if at >= ids.len() {
            let claimed = std::mem::take(&mut claimed);
            return Ok(Some(write_claimed(stream, claimed, rules.just_id)));
        }
        if slice.is_some_and(|slice| slice.is_over()) {
            return Ok(None);
        }
    };
    if args.len() - 5 <= IDS_PER_HOLD {
        let reply: Result<Option<Job>, Error> = claim(cx, None);
        return reply?.map_or(Ok(()), |job| cx.start(job));
    }
    multi_key::claimed_then(cx, Claimed::all(&XCLAIM.keys), move |cx, slice| {
        Ok(claim(cx, Some(slice))?.map_or(Worked::Unfinished, Worked::Then))
    })
}

fn min_idle_ms(argument: &[u8], wrong: Error) -> Result<u64, Error> {
    let ms = nagi_store::parse_i64(argument).ok_or(wrong)?;
    Ok(u64::try_from(ms).unwrap_or(0))
}

fn claim_rules(
    cx: &Context<'_>,
    mut rest: RemainingArguments<'_>,
    min_idle_ms: u64,
) -> Result<ClaimRules, Error> {
    let now_ms = cx.db.now_ms();
    let mut rules = ClaimRules {
        min_idle_ms,
        delivered_ms: None,
        deliveries: None,
        force: false,
        just_id: false,
        last_id: StreamId::MIN,
    };
    let number = |rest: &mut RemainingArguments<'_>, option: &str| {
        let wrong = || Error::new(format!("ERR Invalid {option} option argument for XCLAIM"));
        nagi_store::parse_i64(rest.value()?).ok_or_else(wrong)
    };
    // An invalid time, or one in the future, is replaced by the current time.
    let time = |ms: Option<i64>| {
        let ms = ms.and_then(|ms| u64::try_from(ms).ok());
        Some(ms.filter(|ms| *ms <= now_ms).unwrap_or(now_ms))
    };
    while let Some(option) = rest.next() {
        let has_more = rest.len() > 0;
        if is(option, "FORCE") {
            rules.force = true;
        } else if is(option, "JUSTID") {
            rules.just_id = true;
        } else if has_more && is(option, "IDLE") {
            let idle_ms = number(&mut rest, "IDLE")?;
            rules.delivered_ms = time(now_ms.cast_signed().checked_sub(idle_ms));
        } else if has_more && is(option, "TIME") {
            rules.delivered_ms = time(Some(number(&mut rest, "TIME")?));
        } else if has_more && is(option, "RETRYCOUNT") {
            rules.deliveries = u64::try_from(number(&mut rest, "RETRYCOUNT")?).ok();
        } else if has_more && is(option, "LASTID") {
            rules.last_id = strict_id(rest.value()?, 0)?;
        } else {
            return Err(Error::quoting("ERR Unrecognized XCLAIM option '", option, "'"));
        }
    }
    Ok(rules)
}

pub(crate) static XCLAIM: Command = Command {
    name: "XCLAIM",
    syntax: "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] \
             [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]",
    arity: -6,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "5.0.0",
    notes: Notes::of("O(N log M), N being the ids and M what is pending for the group")
        .tips(&["nondeterministic_output"]),
    summary: "Assigns pending entries to a consumer, and returns those",
    subcommands: &[],
    run: xclaim,
};

/// A search for pending entries to claim (XAUTOCLAIM).
struct Search {
    from: StreamId,
    /// The number of entries that may still be found, and the number that may still be read.
    left: u64,
    attempts: u64,
    rules: ClaimRules,
    found: AutoClaimed,
}

impl Search {
    /// Continues the search. Returns a job that replies once the search is over.
    fn go_on(&mut self, cx: &mut Context<'_>, slice: Option<Slice>) -> Result<Option<Job>, Error> {
        let args = cx.args;
        let key = cx.key(args.at(1));
        let member = GroupMember { group: args.at(2), consumer: args.at(3) };
        loop {
            let most = (self.left, self.attempts);
            // A shared stream would be copied when it is changed.
            self.found.stream = None;
            let part = cx.db.claim_pending(key, member, self.from, most, &self.rules);
            let part = part.map_err(|reason| missing(reason, args))?;
            let found = part.claimed.len() + part.deleted.len();
            self.left -= found as u64;
            self.attempts -= part.looked_at;
            (self.from, self.found.next) = (part.next, part.next);
            self.found.claimed.extend(part.claimed);
            self.found.deleted.extend(part.deleted);
            self.found.stream = part.stream;
            if part.next == StreamId::MIN || self.left == 0 || self.attempts == 0 {
                break;
            }
            if slice.is_some_and(|slice| slice.is_over()) {
                return Ok(None);
            }
        }
        let AutoClaimed { next, claimed, deleted, stream, .. } = std::mem::take(&mut self.found);
        let mut entries = write_claimed(stream, claimed, self.rules.just_id);
        let mut ids = write_claimed(None, deleted, true);
        let (mut has_begun, mut is_shown) = (false, false);
        Ok(Some(Box::new(move |cx| {
            if !std::mem::replace(&mut has_begun, true) {
                cx.reply.array(3);
                write_id(&mut cx.reply, next);
            }
            if !is_shown {
                match entries(cx)? {
                    JobProgress::Done => is_shown = true,
                    more => return Ok(more),
                }
            }
            ids(cx)
        })))
    }
}

fn xautoclaim<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    /// The maximum number of pending entries that are read, for each entry that may be found.
    const ATTEMPTS: u64 = 10;
    /// Redis' maximum of COUNT: `LONG_MAX` divided by 16, the larger of the size of an id in bytes
    /// and the number of attempts.
    const MOST: i64 = i64::MAX / 16;
    let min_idle = Error::fixed("ERR Invalid min-idle-time argument for XAUTOCLAIM");
    let min_idle_ms = min_idle_ms(args.at(4), min_idle)?;
    let from = start_of_interval(args.at(5))?;
    let (mut rest, mut count, mut just_id) = (RemainingArguments::from(args, 6), 100, false);
    while let Some(option) = rest.next() {
        if rest.len() > 0 && is(option, "COUNT") {
            let number = nagi_store::parse_i64(rest.value()?);
            let number = number.filter(|count| (1..=MOST).contains(count));
            count = number.ok_or(Error::fixed("ERR COUNT must be > 0"))?.cast_unsigned();
        } else if is(option, "JUSTID") {
            just_id = true;
        } else {
            return Err(Error::SYNTAX);
        }
    }
    let is_there = cx.db.read_stream(cx.key(args.at(1)), |stream| {
        stream.is_some_and(|stream| stream.view_group(args.at(2)).is_some())
    })?;
    if !is_there {
        return Err(missing(NoGroup::Group, args));
    }
    let (delivered_ms, deliveries, force, last_id) = (None, None, false, StreamId::MIN);
    let rules = ClaimRules { min_idle_ms, delivered_ms, deliveries, force, just_id, last_id };
    let attempts = count.saturating_mul(ATTEMPTS);
    let found = AutoClaimed::default();
    let mut search = Search { from, left: count, attempts, rules, found };
    if attempts <= PART_ENTRIES {
        return search.go_on(cx, None)?.map_or(Ok(()), |reply| cx.start(reply));
    }
    multi_key::claimed_then(cx, Claimed::all(&XAUTOCLAIM.keys), move |cx, slice| {
        Ok(search.go_on(cx, Some(slice))?.map_or(Worked::Unfinished, Worked::Then))
    })
}

pub(crate) static XAUTOCLAIM: Command = Command {
    name: "XAUTOCLAIM",
    syntax: "key group consumer min-idle-time start [COUNT count] [JUSTID]",
    arity: -6,
    flags: Flags::WRITE.union(Flags::FAST),
    keys: Keys::one(Access::RW.union(Access::DELETE)),
    categories: Category::STREAM,
    group: Group::Stream,
    since: "6.2.0",
    notes: Notes::of("O(N log M), N being COUNT and M what is pending for the group")
        .history(&[("7.0.0", "What was pending and is no entry any more is returned")])
        .tips(&["nondeterministic_output"]),
    summary: "Looks for pending entries to give them to a consumer, and returns those that it was \
              given",
    subcommands: &[],
    run: xautoclaim,
};
