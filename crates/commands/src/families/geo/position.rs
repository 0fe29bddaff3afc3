//! Positions: added, read, and measured.

use super::geohash::{Extent, Position, meters_between, position_of, score_of, standard_geohash};
use super::search::{write_distance, write_position};
use crate::families::sorted_sets::member::limits;
use crate::runtime::arguments::is;
use crate::runtime::multi_key::{self, Claimed};
use crate::runtime::numbers::double;
use crate::runtime::suspension::Slice;
use crate::{Access, Category, Command, Context, Error, Flags, Group, JobProgress, Keys, Notes};
use nagi_proto::Args;
use nagi_proto::resp::Writer;
use nagi_store::types::sorted_set::{Placed, ScoreCondition, Scored};
use nagi_store::{Event, Kind, SortedSetRef, Text};

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[&GEOADD, &GEODIST, &GEOHASH, &GEOPOS];

/// Maximum members that a request adds or reads while a latch is held.
const MEMBERS_PER_HOLD: usize = 64;

/// Parses a longitude and a latitude, which must be within Web Mercator's extents.
pub(super) fn position(longitude: &[u8], latitude: &[u8]) -> Result<Position, Error> {
    let read = |text| double(text).ok_or(Error::fixed("ERR value is not a valid float"));
    let (longitude, latitude) = (read(longitude)?, read(latitude)?);
    if !Extent::LONGITUDES.contains(longitude) || !Extent::LATITUDES.contains(latitude) {
        let pair = format!("{longitude:.6},{latitude:.6}");
        return Err(Error::new(format!("ERR invalid longitude,latitude pair {pair}")));
    }
    Ok(Position { longitude, latitude })
}

/// Parses a unit, and returns its length in meters.
pub(super) fn unit_m(word: &[u8]) -> Result<f64, Error> {
    let units = [("M", 1.0), ("KM", 1000.0), ("FT", 0.3048), ("MI", 1609.34)];
    let found = units.into_iter().find_map(|(name, meters)| is(word, name).then_some(meters));
    found.ok_or(Error::fixed("ERR unsupported unit provided. please use M, KM, FT, MI"))
}

/// The options of GEOADD, and the position of its first longitude.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    condition: ScoreCondition,
    counts_changed: bool,
    positions_at: usize,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, Error> {
        let mut options = Options { positions_at: 2, ..Options::default() };
        for option in args.from(2) {
            let flag = match option {
                it if is(it, "NX") => &mut options.condition.new_only,
                it if is(it, "XX") => &mut options.condition.existing_only,
                it if is(it, "CH") => &mut options.counts_changed,
                _ => break,
            };
            *flag = true;
            options.positions_at += 1;
        }
        let words = args.len() - options.positions_at;
        let is_contradictory = options.condition.new_only && options.condition.existing_only;
        let fits = words > 0 && words.is_multiple_of(3) && !is_contradictory;
        fits.then_some(options).ok_or(Error::SYNTAX)
    }
}

fn placed(args: Args<'_>, at: usize) -> Result<Scored<'_>, Error> {
    let score = score_of(position(args.at(at), args.at(at + 1))?);
    Ok((Text::to_store(args.at(at + 2)), score))
}

fn geoadd<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let options = Options::parse(args)?;
    let members = (args.len() - options.positions_at) / 3;
    let reply = move |reply: &mut Writer<'_>, placed: Placed| {
        let changed = if options.counts_changed { placed.changed } else { 0 };
        reply.integer((placed.added + changed) as i64);
    };
    if members <= MEMBERS_PER_HOLD {
        let places = (options.positions_at..args.len()).step_by(3);
        let some = places.map(|at| placed(args, at)).collect::<Result<Vec<_>, _>>()?;
        let (key, limits) = (cx.key(args.at(1)), limits(cx));
        let placed = cx.db.place_members(
            key,
            &some,
            options.condition,
            (members, limits),
            Some(Event::ZAdd),
        )?;
        reply(&mut cx.reply, placed);
        return Ok(());
    }
    // All positions are checked before any member is added.
    let (mut checked, mut at) = (options.positions_at, options.positions_at);
    let mut sum = Placed::default();
    multi_key::claimed(cx, Claimed::all(&GEOADD.keys), move |cx, slice| {
        let (key, limits, args) = (cx.key(cx.args.at(1)), limits(cx), cx.args);
        while at < args.len() {
            let is_checked = checked >= args.len();
            let begin = if is_checked { at } else { checked };
            let end = args.len().min(begin + 3 * MEMBERS_PER_HOLD);
            let some = (begin..end).step_by(3).map(|at| placed(args, at));
            let some = some.collect::<Result<Vec<_>, _>>()?;
            if is_checked {
                let event = (sum == Placed::default()).then_some(Event::ZAdd);
                let sizes = (members, limits);
                let some = cx.db.place_members(key, &some, options.condition, sizes, event)?;
                sum.added += some.added;
                sum.changed += some.changed;
                at = end;
            } else {
                checked = end;
            }
            if slice.is_over() && at < args.len() {
                return Ok(false);
            }
        }
        reply(&mut cx.reply, sum);
        Ok(true)
    })
}

pub(crate) static GEOADD: Command = Command {
    name: "GEOADD",
    syntax: "key [NX | XX] [CH] longitude latitude member [longitude latitude member ...]",
    arity: -5,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::one(Access::RW.union(Access::UPDATE)),
    categories: Category::GEO,
    group: Group::Geo,
    since: "3.2.0",
    notes: Notes::of("O(M log(N)), M being the members given, N those of the sorted set")
        .history(&[("6.2.0", "CH, NX and XX")]),
    summary: "Adds members with their positions to a sorted set, whose scores are geohashes",
    subcommands: &[],
    run: geoadd,
};

/// Replies for each member of a request.
fn show_each<'a>(
    cx: &mut Context<'a>,
    args: Args<'a>,
    show: fn(&mut Writer<'_>, Option<f64>),
) -> Result<(), Error> {
    let score = |set: Option<SortedSetRef<'_>>, member: &[u8]| {
        set.and_then(|set| set.score(&Text::new(member)))
    };
    let (key, members) = (cx.key(args.at(1)), args.len() - 2);
    if members <= MEMBERS_PER_HOLD {
        let Context { db, reply, .. } = cx;
        return Ok(db.read_sorted_set(key, |set| {
            reply.array(members);
            args.from(2).for_each(|member| show(reply, score(set, member)));
        })?);
    }
    let shared = cx.db.share_as(key, &[Kind::SortedSet])?;
    cx.reply.array(members);
    let mut at = 2;
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        let set = shared.as_ref().and_then(|shared| shared.read().sorted_set().ok());
        while at < cx.args.len() {
            for member in cx.args.from(at).take(MEMBERS_PER_HOLD) {
                show(&mut cx.reply, score(set, member));
                at += 1;
            }
            if slice.is_over() && at < cx.args.len() {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
        Ok(JobProgress::Done)
    }))
}

fn geopos<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    show_each(cx, args, |reply, score| match score {
        Some(score) => write_position(reply, position_of(score)),
        None => reply.null_array(),
    })
}

pub(crate) static GEOPOS: Command = Command {
    name: "GEOPOS",
    syntax: "key [member [member ...]]",
    arity: -2,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::GEO,
    group: Group::Geo,
    since: "3.2.0",
    notes: Notes::of("O(N), N being the members asked for"),
    summary: "Returns the positions of members",
    subcommands: &[],
    run: geopos,
};

fn geohash<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    show_each(cx, args, |reply, score| match score {
        Some(score) => reply.bulk(standard_geohash(position_of(score)).as_bytes()),
        None => reply.null(),
    })
}

pub(crate) static GEOHASH: Command = Command {
    name: "GEOHASH",
    syntax: "key [member [member ...]]",
    arity: -2,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::GEO,
    group: Group::Geo,
    since: "3.2.0",
    notes: Notes::of("O(N), N being the members asked for"),
    summary: "Returns the geohashes of members as eleven letters each",
    subcommands: &[],
    run: geohash,
};

fn geodist<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    let unit_m = match args.get(4) {
        None => 1.0,
        Some(unit) if args.len() == 5 => unit_m(unit)?,
        Some(_) => return Err(Error::SYNTAX),
    };
    let (first, second) = (Text::new(args.at(2)), Text::new(args.at(3)));
    let scores = cx.db.read_sorted_set(cx.key(args.at(1)), |set| {
        set.and_then(|set| set.score(&first).zip(set.score(&second)))
    })?;
    match scores {
        Some((first, second)) => {
            let meters = meters_between(position_of(first), position_of(second));
            write_distance(&mut cx.reply, meters / unit_m);
        }
        None => cx.reply.null(),
    }
    Ok(())
}

pub(crate) static GEODIST: Command = Command {
    name: "GEODIST",
    syntax: "key member1 member2 [M | KM | FT | MI]",
    arity: -4,
    flags: Flags::READONLY,
    keys: Keys::one(Access::RO.union(Access::ACCESS)),
    categories: Category::GEO,
    group: Group::Geo,
    since: "3.2.0",
    notes: Notes::of("O(1)"),
    summary: "Returns the distance between two members",
    subcommands: &[],
    run: geodist,
};
