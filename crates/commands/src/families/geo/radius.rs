//! Members within an area: GEOSEARCH, and its predecessors GEORADIUS and GEORADIUSBYMEMBER.

use super::area::{Area, Shape};
use super::geohash::{Position, position_of};
use super::position::{position, unit_m};
use super::search::{Details, Order, Query, Search, StoredSearch};
use crate::families::derived_set::{self, Begin, Plan};
use crate::families::elements::ELEMENTS_PER_HOLD;
use crate::runtime::arguments::{RemainingArguments, integer, is};
use crate::runtime::numbers::double;
use crate::runtime::suspension::Slice;
use crate::{
    Access, Category, Command, Context, Error, Flags, Group, JobProgress, KeyGroup, Keys, Notes,
};
use nagi_proto::Args;
use nagi_store::{Event, Kind, SharedValue, SortedSetRef, Text};
use std::ops::Range;

/// The family's rows.
pub(crate) static ALL: &[&Command] = &[
    &GEORADIUS,
    &GEORADIUSBYMEMBER,
    &GEORADIUSBYMEMBER_RO,
    &GEORADIUS_RO,
    &GEOSEARCH,
    &GEOSEARCHSTORE,
];

const KINDS: &[Kind] = &[Kind::SortedSet];

/// The way in which a command specifies the area, and whether it may store the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A circle around a position (GEORADIUS).
    Around { may_store: bool },
    /// A circle around a member (GEORADIUSBYMEMBER).
    AroundMember { may_store: bool },
    /// Options (GEOSEARCH, GEOSEARCHSTORE).
    Options { stores: bool },
}

impl Form {
    /// Position of the key of the sorted set.
    fn source_at(self) -> usize {
        if self == (Form::Options { stores: true }) { 2 } else { 1 }
    }

    fn is_by_options(self) -> bool {
        matches!(self, Form::Options { .. })
    }

    fn may_store(self) -> bool {
        matches!(self, Form::Around { may_store: true } | Form::AroundMember { may_store: true })
    }
}

/// The key under which the result is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Destination {
    /// Position of the key among the arguments.
    position: usize,
    with_distances: bool,
}

/// A request for the members within an area.
#[derive(Debug)]
struct Request<'a> {
    args: Args<'a>,
    form: Form,
    /// The sorted set, needed to find the center of the area. Even if there is none, an invalid
    /// request gets an error.
    set: Option<SortedSetRef<'a>>,
    center: Option<Position>,
    /// The kind of the center, once an option has given it.
    from: Option<From>,
    shape: Option<(Shape, f64)>,
    details: Details,
    order: Order,
    count: Option<u64>,
    any: bool,
    destination: Option<Destination>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Member,
    Position,
}

impl<'a> Request<'a> {
    fn parse(
        args: Args<'a>,
        form: Form,
        set: Option<SortedSetRef<'a>>,
    ) -> Result<Request<'a>, Error> {
        let mut request = Request {
            args,
            form,
            set,
            center: None,
            from: None,
            shape: None,
            details: Details::default(),
            order: Order::Found,
            count: None,
            any: false,
            destination: None,
        };
        let options_at = request.parse_place()?;
        let mut rest = RemainingArguments::from(args, options_at);
        while let Some(option) = rest.next() {
            let is_known = request.parse_flag(option)
                || request.parse_value(option, &mut rest)?
                || form.is_by_options() && request.parse_area(option, &mut rest)?;
            if !is_known {
                return Err(Error::SYNTAX);
            }
        }
        request.check()?;
        Ok(request)
    }

    /// Parses the center of a command with a fixed position for it. Returns the position of the
    /// options.
    fn parse_place(&mut self) -> Result<usize, Error> {
        let args = self.args;
        match self.form {
            Form::Around { .. } => {
                self.center = Some(position(args.at(2), args.at(3))?);
                self.shape = Some(circle(args.at(4), args.at(5))?);
                Ok(6)
            }
            Form::AroundMember { .. } => {
                if self.set.is_some() {
                    self.center = self.position_of(args.at(2))?;
                    self.shape = Some(circle(args.at(3), args.at(4))?);
                }
                Ok(5)
            }
            Form::Options { stores } => {
                self.destination =
                    stores.then_some(Destination { position: 1, with_distances: false });
                Ok(self.form.source_at() + 1)
            }
        }
    }

    /// The position of a member; `None` if the sorted set does not exist.
    fn position_of(&self, member: &[u8]) -> Result<Option<Position>, Error> {
        let Some(set) = self.set else { return Ok(None) };
        let score = set.score(&Text::new(member));
        let score = score.ok_or(Error::fixed("ERR could not decode requested zset member"))?;
        Ok(Some(position_of(score)))
    }

    /// Parses an option without a value. Returns whether it was one.
    fn parse_flag(&mut self, option: &[u8]) -> bool {
        match option {
            it if is(it, "WITHDIST") => self.details.distance = true,
            it if is(it, "WITHHASH") => self.details.hash = true,
            it if is(it, "WITHCOORD") => self.details.position = true,
            it if is(it, "ANY") => self.any = true,
            it if is(it, "ASC") => self.order = Order::NearestFirst,
            it if is(it, "DESC") => self.order = Order::FarthestFirst,
            it if is(it, "STOREDIST") && self.form == Form::Options { stores: true } => {
                self.destination.iter_mut().for_each(|it| it.with_distances = true);
            }
            _ => return false,
        }
        true
    }

    /// Parses COUNT, STORE or STOREDIST with its value. Returns whether it was one of them.
    fn parse_value(
        &mut self,
        option: &[u8],
        rest: &mut RemainingArguments<'a>,
    ) -> Result<bool, Error> {
        if rest.len() == 0 {
            return Ok(false);
        }
        if is(option, "COUNT") {
            let count = u64::try_from(integer(rest.value()?)?).ok().filter(|count| *count > 0);
            self.count = Some(count.ok_or(Error::fixed("ERR COUNT must be > 0"))?);
            return Ok(true);
        }
        let with_distances = is(option, "STOREDIST");
        if !self.form.may_store() || !(with_distances || is(option, "STORE")) {
            return Ok(false);
        }
        let position = self.args.len() - rest.len();
        rest.value()?;
        self.destination = Some(Destination { position, with_distances });
        Ok(true)
    }

    /// Parses an option that gives the area, with its values. Returns whether it was one.
    fn parse_area(
        &mut self,
        option: &[u8],
        rest: &mut RemainingArguments<'a>,
    ) -> Result<bool, Error> {
        let is_box = self.shape.is_some_and(|(shape, _)| matches!(shape, Shape::Box { .. }));
        let is_circle = self.shape.is_some() && !is_box;
        let left = rest.len();
        if is(option, "FROMMEMBER") && left >= 1 && self.from != Some(From::Position) {
            self.center = self.position_of(rest.value()?)?;
            self.from = Some(From::Member);
        } else if is(option, "FROMLONLAT") && left >= 2 && self.from != Some(From::Member) {
            self.center = Some(position(rest.value()?, rest.value()?)?);
            self.from = Some(From::Position);
        } else if is(option, "BYRADIUS") && left >= 2 && !is_box {
            self.shape = Some(circle(rest.value()?, rest.value()?)?);
        } else if is(option, "BYBOX") && left >= 3 && !is_circle {
            self.shape = Some(rectangle(rest.value()?, rest.value()?, rest.value()?)?);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Refuses contradictory or missing options.
    fn check(&self) -> Result<(), Error> {
        let Details { distance, hash, position } = self.details;
        if self.destination.is_some() && (distance || hash || position) {
            let what = match self.form {
                Form::Options { .. } => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            return Err(Error::new(format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        let said = self.args.at(0);
        if self.form.is_by_options() && self.from.is_none() {
            let text = "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for ";
            return Err(Error::quoting(text, said, ""));
        }
        if self.form.is_by_options() && self.shape.is_none() {
            let text = "ERR exactly one of BYRADIUS and BYBOX can be specified for ";
            return Err(Error::quoting(text, said, ""));
        }
        if self.any && self.count.is_none() {
            return Err(Error::fixed("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    fn query(&self) -> Query {
        let area = self.center.zip(self.shape);
        let area = area.map(|(center, (shape, unit_m))| Area { center, shape, unit_m });
        // Without an order, a count selects the nearest members, unless ANY is given.
        let order = match self.order {
            Order::Found if self.count.is_some() && !self.any => Order::NearestFirst,
            order => order,
        };
        Query { area, order, most: self.count, any: self.any }
    }
}

fn circle(radius: &[u8], unit: &[u8]) -> Result<(Shape, f64), Error> {
    let radius = double(radius).ok_or(Error::fixed("ERR need numeric radius"))?;
    if radius < 0.0 {
        return Err(Error::fixed("ERR radius cannot be negative"));
    }
    Ok((Shape::Circle { radius }, unit_m(unit)?))
}

fn rectangle(width: &[u8], height: &[u8], unit: &[u8]) -> Result<(Shape, f64), Error> {
    let width = double(width).ok_or(Error::fixed("ERR need numeric width"))?;
    let height = double(height).ok_or(Error::fixed("ERR need numeric height"))?;
    if height < 0.0 || width < 0.0 {
        return Err(Error::fixed("ERR height or width cannot be negative"));
    }
    Ok((Shape::Box { width, height }, unit_m(unit)?))
}

/// Begins a search whose members are to be stored.
fn begin(
    cx: &Context<'_>,
    mut values: Vec<Option<SharedValue>>,
    form: Form,
) -> Result<StoredSearch, Error> {
    let value = values.pop().flatten();
    let set = value.as_ref().and_then(|value| value.read().sorted_set().ok());
    let request = Request::parse(cx.args, form, set)?;
    let with_distances = request.destination.is_some_and(|it| it.with_distances);
    let query = request.query();
    Ok(StoredSearch::new(Search::new(value, query), with_distances, cx.db.store()))
}

/// Replies with the members within the area of a request, or stores them if it has STORE or
/// STOREDIST.
fn search(
    cx: &mut Context<'_>,
    form: Form,
    (keys, event): (&'static Keys, Event),
    begin: Begin<StoredSearch>,
) -> Result<(), Error> {
    let value = cx.db.share_as(cx.key(cx.args.at(form.source_at())), KINDS)?;
    let set = value.as_ref().and_then(|value| value.read().sorted_set().ok());
    let request = Request::parse(cx.args, form, set)?;
    if let Some(Destination { position, .. }) = request.destination {
        let sources = if form.source_at() == 1 { &FIRST } else { &SECOND };
        let plan = Plan { keys, sources, kinds: KINDS, begin };
        // The lookup of the sorted set has already been counted.
        cx.db = cx.db.unnoticed();
        return derived_set::store(cx, plan, position, event);
    }
    let (details, query) = (request.details, request.query());
    let (mut search, mut is_begun) = (Search::new(value, query), false);
    cx.start(Box::new(move |cx| {
        let slice = Slice::begin();
        if !search.go_on(|| slice.is_over()) {
            return Ok(JobProgress::NEXT_TICK);
        }
        if !is_begun {
            cx.reply.array(search.len());
            is_begun = true;
        }
        while search.len() > 0 {
            search.take_some(ELEMENTS_PER_HOLD, |member, distance| {
                details.write(&mut cx.reply, member, distance);
            });
            if slice.is_over() {
                return Ok(JobProgress::ROOM_FOR_REPLIES);
            }
        }
        Ok(JobProgress::Done)
    }))
}

const SOURCE: KeyGroup = KeyGroup::at(1, Access::RO.union(Access::ACCESS));
const SECOND_SOURCE: KeyGroup = KeyGroup::at(2, Access::RO.union(Access::ACCESS));
static FIRST: Keys = Keys::only(SOURCE);
static SECOND: Keys = Keys::only(SECOND_SOURCE);
const STORED: Access = Access::OW.union(Access::UPDATE);

const COMPLEXITY: &str = "O(N + M log(M)), N being the members of the cells that cover the area, M \
                          those within it";

/// The destination of a request whose options begin at `first`: the value of the last option STORE
/// or STOREDIST.
fn destination(args: Args<'_>, first: usize) -> Range<usize> {
    let (mut at, mut found) = (first, 0..0);
    while let Some(word) = args.get(at) {
        let stores = is(word, "STORE") || is(word, "STOREDIST");
        if stores && at + 1 < args.len() {
            found = at + 1..at + 2;
        }
        at += if stores || is(word, "COUNT") { 2 } else { 1 };
    }
    found
}

fn georadius<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    const FORM: Form = Form::Around { may_store: true };
    search(cx, FORM, (&GEORADIUS.keys, Event::GeoRadiusStore), |cx, values| begin(cx, values, FORM))
}

pub(crate) static GEORADIUS: Command = Command {
    name: "GEORADIUS",
    syntax: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] \
             [COUNT count [ANY]] [ASC | DESC] [STORE storekey | STOREDIST storedistkey]",
    arity: -6,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[
        SOURCE,
        KeyGroup::by_grammar(|args| destination(args, 6), STORED).shown_after_word("STORE", 6),
        KeyGroup::by_grammar(|_| 0..0, STORED).shown_after_word("STOREDIST", 6),
    ]),
    categories: Category::GEO,
    group: Group::Geo,
    since: "3.2.0",
    notes: Notes::of(COMPLEXITY)
        .history(&[("6.2.0", "ANY for COUNT"), ("7.0.0", "units in capitals")])
        .replaced("6.2.0", "GEOSEARCH and GEOSEARCHSTORE with BYRADIUS"),
    summary: "Returns or stores the members within a circle around a position",
    subcommands: &[],
    run: georadius,
};

fn georadius_ro<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    const FORM: Form = Form::Around { may_store: false };
    search(cx, FORM, (&GEORADIUS_RO.keys, Event::GeoRadiusStore), |cx, values| {
        begin(cx, values, FORM)
    })
}

pub(crate) static GEORADIUS_RO: Command = Command {
    name: "GEORADIUS_RO",
    syntax: "key longitude latitude radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] \
             [COUNT count [ANY]] [ASC | DESC]",
    arity: -6,
    flags: Flags::READONLY,
    keys: Keys::only(SOURCE),
    categories: Category::GEO,
    group: Group::Geo,
    since: "3.2.10",
    notes: Notes::of(COMPLEXITY)
        .history(&[("6.2.0", "ANY for COUNT"), ("7.0.0", "units in capitals")])
        .replaced("6.2.0", "GEOSEARCH with BYRADIUS"),
    summary: "Returns the members within a circle around a position",
    subcommands: &[],
    run: georadius_ro,
};

fn georadiusbymember<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    const FORM: Form = Form::AroundMember { may_store: true };
    search(cx, FORM, (&GEORADIUSBYMEMBER.keys, Event::GeoRadiusStore), |cx, values| {
        begin(cx, values, FORM)
    })
}

pub(crate) static GEORADIUSBYMEMBER: Command = Command {
    name: "GEORADIUSBYMEMBER",
    syntax: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count \
             [ANY]] [ASC | DESC] [STORE storekey | STOREDIST storedistkey]",
    arity: -5,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[
        SOURCE,
        KeyGroup::by_grammar(|args| destination(args, 5), STORED).shown_after_word("STORE", 5),
        KeyGroup::by_grammar(|_| 0..0, STORED).shown_after_word("STOREDIST", 5),
    ]),
    categories: Category::GEO,
    group: Group::Geo,
    since: "3.2.0",
    notes: Notes::of(COMPLEXITY)
        .history(&[("6.2.0", "ANY for COUNT"), ("7.0.0", "units in capitals")])
        .replaced("6.2.0", "GEOSEARCH and GEOSEARCHSTORE with BYRADIUS and FROMMEMBER"),
    summary: "Returns or stores the members within a circle around one",
    subcommands: &[],
    run: georadiusbymember,
};

fn georadiusbymember_ro<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    const FORM: Form = Form::AroundMember { may_store: false };
    search(cx, FORM, (&GEORADIUSBYMEMBER_RO.keys, Event::GeoRadiusStore), |cx, values| {
        begin(cx, values, FORM)
    })
}

pub(crate) static GEORADIUSBYMEMBER_RO: Command = Command {
    name: "GEORADIUSBYMEMBER_RO",
    syntax: "key member radius <M | KM | FT | MI> [WITHCOORD] [WITHDIST] [WITHHASH] [COUNT count \
             [ANY]] [ASC | DESC]",
    arity: -5,
    flags: Flags::READONLY,
    keys: Keys::only(SOURCE),
    categories: Category::GEO,
    group: Group::Geo,
    since: "3.2.10",
    notes: Notes::of(COMPLEXITY)
        .history(&[("6.2.0", "ANY for COUNT"), ("7.0.0", "units in capitals")])
        .replaced("6.2.0", "GEOSEARCH with BYRADIUS and FROMMEMBER"),
    summary: "Returns the members within a circle around one",
    subcommands: &[],
    run: georadiusbymember_ro,
};

fn geosearch<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    const FORM: Form = Form::Options { stores: false };
    search(cx, FORM, (&GEOSEARCH.keys, Event::GeoSearchStore), |cx, values| begin(cx, values, FORM))
}

pub(crate) static GEOSEARCH: Command = Command {
    name: "GEOSEARCH",
    syntax: "key <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS radius <M | KM | \
             FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] [COUNT count [ANY]] \
             [WITHCOORD] [WITHDIST] [WITHHASH]",
    arity: -7,
    flags: Flags::READONLY,
    keys: Keys::only(SOURCE),
    categories: Category::GEO,
    group: Group::Geo,
    since: "6.2.0",
    notes: Notes::of(COMPLEXITY).history(&[("7.0.0", "units in capitals")]),
    summary: "Returns the members within a circle or a box",
    subcommands: &[],
    run: geosearch,
};

fn geosearchstore<'a>(cx: &mut Context<'a>, _: Args<'a>) -> Result<(), Error> {
    const FORM: Form = Form::Options { stores: true };
    search(cx, FORM, (&GEOSEARCHSTORE.keys, Event::GeoSearchStore), |cx, values| {
        begin(cx, values, FORM)
    })
}

pub(crate) static GEOSEARCHSTORE: Command = Command {
    name: "GEOSEARCHSTORE",
    syntax: "destination source <FROMMEMBER member | FROMLONLAT longitude latitude> <BYRADIUS \
             radius <M | KM | FT | MI> | BYBOX width height <M | KM | FT | MI>> [ASC | DESC] \
             [COUNT count [ANY]] [STOREDIST]",
    arity: -8,
    flags: Flags::WRITE.union(Flags::DENYOOM),
    keys: Keys::groups(&[KeyGroup::at(1, STORED), SECOND_SOURCE]),
    categories: Category::GEO,
    group: Group::Geo,
    since: "6.2.0",
    notes: Notes::of(COMPLEXITY).history(&[("7.0.0", "units in capitals")]),
    summary: "Stores the members within a circle or a box, and returns how many there are",
    subcommands: &[],
    run: geosearchstore,
};
