//! SORT and SORT_RO: return or store the elements of a list, a set or a sorted set in another
//! order.
//!
//! The value is read as of one moment. With STORE, its key is claimed together with the
//! destination. The keys of BY and GET depend on the elements and cannot be claimed in advance, so
//! each is looked up when it is needed; transactions and scripts claim all keys.

mod merge;
mod pattern;
mod request;
mod work;

use self::request::{Request, destination, looks_up_keys};
use self::work::{Sorting, Stored};
use crate::runtime::multi_key::{self, Claimed};
use crate::runtime::rights;
use crate::runtime::suspension::Slice;
use crate::state::client::Restrictions;
use crate::{
    Access, Category, Command, Context, Error, Flags, Group, JobProgress, KeyGroup, Keys, Notes,
};
use nagi_proto::Args;
use nagi_store::{Event, Kind};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&SORT, &SORT_RO];

const KINDS: &[Kind] = &[Kind::List, Kind::Set, Kind::SortedSet];

/// Replies with the sorted elements.
fn show(cx: &mut Context<'_>, request: Request) -> Result<(), Error> {
    let source = cx.db.share_as(cx.key(cx.args.at(1)), KINDS)?;
    let (mut sorting, mut shown) = (Sorting::new(request, source), None);
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        if shown.is_none() {
            if !sorting.go_on(cx, slice)? {
                return Ok(JobProgress::NEXT_TICK);
            }
            cx.reply.array(sorting.len());
        }
        let shown = shown.get_or_insert(0);
        while *shown < sorting.len() {
            *shown += sorting.show(cx, *shown, |cx, kept| match kept {
                Some(kept) => kept.write(&mut cx.reply),
                None => cx.reply.null(),
            });
            if slice.is_over() && *shown < sorting.len() {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
        Ok(JobProgress::Done)
    }))
}

/// Stores the sorted elements as a list, and replies with its length.
fn store(cx: &mut Context<'_>, request: Request, to: usize) -> Result<(), Error> {
    let (mut sorting, mut stored) = (None, None);
    multi_key::claimed(cx, Claimed::all(&SORT.keys), move |cx, slice| {
        let sorting = match &mut sorting {
            Some(sorting) => sorting,
            None => {
                let source = cx.db.share_as(cx.key(cx.args.at(1)), KINDS)?;
                sorting.insert(Sorting::new(request.clone(), source))
            }
        };
        if stored.is_none() && !sorting.go_on(cx, slice)? {
            return Ok(false);
        }
        let stored = stored.get_or_insert_with(|| Stored::new(cx));
        let Some(list) = stored.go_on(cx, sorting, slice) else { return Ok(false) };
        let len = cx.db.store_collection(cx.key(cx.args.at(to)), list, Event::SortStore);
        cx.reply.integer(len as i64);
        Ok(true)
    })
}

const SOURCE: KeyGroup = KeyGroup::at(1, Access::RO.union(Access::ACCESS));
/// The keys of BY and GET, which depend on the elements.
const PATTERNS: KeyGroup =
    KeyGroup::by_grammar(|_| 0..0, Access::RO.union(Access::ACCESS)).unnamed_if(looks_up_keys);
const DESTINATION: KeyGroup = KeyGroup::by_grammar(destination, Access::OW.union(Access::UPDATE));

const CATEGORIES: Category =
    Category::SET.union(Category::SORTEDSET).union(Category::LIST).union(Category::DANGEROUS);
const COMPLEXITY: &str = "O(N*log(N) + M), N being the elements, M those that are returned; O(M) \
                          where nothing is sorted";

/// Parses a request. Keys that depend on elements cannot be checked individually, so a request with
/// such keys needs the permission to read all keys.
fn permitted(cx: &mut Context<'_>, args: Args<'_>, may_store: bool) -> Result<Request, Error> {
    let mut request = Request::parse(args, may_store)?;
    request.is_in_script = cx.client.restrictions.contains(Restrictions::IN_SCRIPT);
    let lookups = [
        (request.by.is_some() && !request.is_unsorted, BY_DENIED),
        (!request.get.is_empty(), GET_DENIED),
    ];
    let denied = lookups.into_iter().find(|(looks_up, _)| *looks_up);
    match denied.filter(|_| !rights::reads_all_keys(cx, args)) {
        Some((_, error)) => Err(error),
        None => Ok(request),
    }
}

const BY_DENIED: Error =
    Error::fixed("ERR BY option of SORT denied due to insufficient ACL permissions.");
const GET_DENIED: Error =
    Error::fixed("ERR GET option of SORT denied due to insufficient ACL permissions.");

fn sort<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let request = permitted(cx, args, true)?;
    match request.destination {
        Some(to) => store(cx, request, to),
        None => show(cx, request),
    }
}

pub(crate) static SORT: Command = Command {
    name: "SORT",
    syntax: "key [BY by-pattern] [LIMIT offset count] [GET get-pattern [GET get-pattern ...]] \
             [ASC | DESC] [ALPHA] [STORE destination]",
    arity: -2,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[SOURCE, PATTERNS, DESTINATION]),
    categories: CATEGORIES,
    group: Group::Generic,
    since: "1.0.0",
    notes: Notes::of(COMPLEXITY),
    summary: "Returns or stores the elements of a list, a set or a sorted set in order, by \
              themselves or by what stands under other keys",
    subcommands: &[],
    run: sort,
};

fn sort_ro<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let request = permitted(cx, args, false)?;
    show(cx, request)
}

pub(crate) static SORT_RO: Command = Command {
    name: "SORT_RO",
    syntax: "key [BY by-pattern] [LIMIT offset count] [GET get-pattern [GET get-pattern ...]] \
             [ASC | DESC] [ALPHA]",
    arity: -2,
    flags: Flags::READONLY,
    keys: Keys::groups(&[SOURCE, PATTERNS]),
    categories: CATEGORIES,
    group: Group::Generic,
    since: "7.0.0",
    notes: Notes::of(COMPLEXITY),
    summary: "Returns the elements of a list, a set or a sorted set in order, as SORT does",
    subcommands: &[],
    run: sort_ro,
};
