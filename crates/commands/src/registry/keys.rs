//! The keys among the arguments of a request, and how they are accessed: the single source for
//! claims, prefetching and COMMAND.
//!
//! The model is that of Redis' key specifications
//! (<https://redis.io/docs/latest/develop/reference/key-specs/>): groups of keys, each with its own
//! method to find them and its own access.

use nagi_proto::Args;
use nagi_store::{Intent, parse_i64};
use std::borrow::Cow;
use std::iter::StepBy;
use std::ops::Range;

bitflags::bitflags! {
    /// The access to keys, in the terms of Redis' key specifications.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Access: u16 {
        /// Reads and writes the value.
        const RW = 1 << 0;
        /// Reads the value.
        const RO = 1 << 1;
        /// Overwrites the value.
        const OW = 1 << 2;
        /// Removes the value.
        const RM = 1 << 3;
        /// Returns, copies or uses the stored data.
        const ACCESS = 1 << 4;
        /// Changes existing data.
        const UPDATE = 1 << 5;
        /// Adds to existing data.
        const INSERT = 1 << 6;
        /// Removes existing data.
        const DELETE = 1 << 7;
        /// No access: it is not a key, and only determines the slot for cluster clients.
        const NOT_KEY = 1 << 8;
        /// There may be more keys than those found this way.
        const INCOMPLETE = 1 << 9;
        /// The actual access may be less, depending on options.
        const VARIABLE_FLAGS = 1 << 10;
    }
}

/// The method by which the keys of a group are found among the arguments. The command's name is
/// argument 0.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyFinder {
    /// From one position to another (negative: counted from the end, -1 being the last argument)
    /// in steps.
    Range { first: u8, last: i8, step: u8 },
    /// The argument at this position is the number of keys, which follow it.
    Counted { at: u8 },
    /// After the first argument from a position on that equals this word, in any case.
    AfterWord { word: &'static str, from: u8, extent: Extent },
    /// All arguments after the last one that equals this word, in any case, and is followed by
    /// another.
    AfterLast { word: &'static str },
    /// By the command's own grammar, which COMMAND INFO does not show.
    Grammar(fn(Args<'_>) -> Range<usize>),
}

/// The number of arguments after a word that are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The next argument.
    One,
    /// The first half of the remaining arguments.
    FirstHalf,
}

/// Keys of a request that are found by one method and accessed in one way.
#[derive(Clone, Copy, Debug)]
pub struct KeyGroup {
    pub(crate) finder: KeyFinder,
    access: Access,
    by_options: Option<fn(Args<'_>) -> Access>,
    /// The method that COMMAND shows, if it differs from `finder`.
    shown: Option<KeyFinder>,
    /// Whether the command changes data attached to the keys (a stream's groups), although it only
    /// reads their values.
    is_changed: bool,
    /// Whether a request uses keys that its arguments do not name.
    is_unnamed: Option<fn(Args<'_>) -> bool>,
}

impl KeyGroup {
    const fn new(finder: KeyFinder, access: Access) -> Self {
        KeyGroup {
            finder,
            access,
            by_options: None,
            shown: None,
            is_changed: false,
            is_unnamed: None,
        }
    }

    /// The argument at a position.
    #[must_use]
    pub const fn at(position: u8, access: Access) -> Self {
        // Rows are constants: a position beyond 127 does not compile.
        assert!(position < 128, "a key is at one of the first positions");
        KeyGroup::range(position, position as i8, 1, access)
    }

    /// The arguments from `first` to `last` (-1: to the last argument), `step` apart.
    #[must_use]
    pub const fn range(first: u8, last: i8, step: u8, access: Access) -> Self {
        assert!(first > 0 && step > 0, "the name is no key");
        KeyGroup::new(KeyFinder::Range { first, last, step }, access)
    }

    /// As many arguments as the number at `at`, which they follow: ZUNIONSTORE, LMPOP, EVAL.
    #[must_use]
    pub const fn counted(at: u8, access: Access) -> Self {
        KeyGroup::new(KeyFinder::Counted { at }, access)
    }

    /// The argument after a word, which is searched from `from` on.
    #[must_use]
    pub const fn after_word(word: &'static str, from: u8, access: Access) -> Self {
        KeyGroup::new(KeyFinder::AfterWord { word, from, extent: Extent::One }, access)
    }

    /// The first half of the arguments after a word: XREAD's STREAMS.
    #[must_use]
    pub const fn half_after_word(word: &'static str, from: u8, access: Access) -> Self {
        KeyGroup::new(KeyFinder::AfterWord { word, from, extent: Extent::FirstHalf }, access)
    }

    /// The arguments that a function finds: SORT's STORE, whose word may also be another option's
    /// value.
    #[must_use]
    pub const fn by_grammar(positions: fn(Args<'_>) -> Range<usize>, access: Access) -> Self {
        KeyGroup::new(KeyFinder::Grammar(positions), access)
    }

    /// Makes COMMAND show the keys as the argument at a position.
    #[must_use]
    pub const fn shown_at(self, position: u8) -> Self {
        let shown = KeyGroup::at(position, self.access).finder;
        KeyGroup { shown: Some(shown), ..self }
    }

    /// Makes COMMAND show the keys as the argument after a word, which is searched from `from` on.
    #[must_use]
    pub const fn shown_after_word(self, word: &'static str, from: u8) -> Self {
        let shown = KeyFinder::AfterWord { word, from, extent: Extent::One };
        KeyGroup { shown: Some(shown), ..self }
    }

    /// Makes COMMAND show the keys as the first half of the arguments after a word, which is
    /// searched from `from` on.
    #[must_use]
    pub const fn shown_half_after_word(self, word: &'static str, from: u8) -> Self {
        let shown = KeyFinder::AfterWord { word, from, extent: Extent::FirstHalf };
        KeyGroup { shown: Some(shown), ..self }
    }

    /// Makes COMMAND show the keys as all arguments after the last one that equals this word.
    #[must_use]
    pub const fn shown_after_last(self, word: &'static str) -> Self {
        KeyGroup { shown: Some(KeyFinder::AfterLast { word }), ..self }
    }

    /// Marks data attached to the keys as changed, although their values are only read.
    #[must_use]
    pub const fn changed(self) -> Self {
        KeyGroup { is_changed: true, ..self }
    }

    /// Makes a request for which `is_unnamed` returns true use keys that its arguments do not name.
    #[must_use]
    pub const fn unnamed_if(self, is_unnamed: fn(Args<'_>) -> bool) -> Self {
        KeyGroup { is_unnamed: Some(is_unnamed), ..self }
    }

    /// The method to find the keys that COMMAND shows.
    pub(crate) fn shown(&self) -> KeyFinder {
        self.shown.unwrap_or(self.finder)
    }

    /// Makes the access depend on the request. The access returned by `access` must be at most the
    /// group's own.
    #[must_use]
    pub const fn depending_on_options(self, access: fn(Args<'_>) -> Access) -> Self {
        KeyGroup { by_options: Some(access), ..self }
    }

    /// The maximum access to the keys.
    #[must_use]
    pub fn access(&self) -> Access {
        match self.by_options {
            Some(_) => self.access | Access::VARIABLE_FLAGS,
            None => self.access,
        }
    }

    /// The access of a request to the keys.
    #[must_use]
    pub fn access_in(&self, args: Args<'_>) -> Access {
        let own = self.access.difference(Access::INCOMPLETE);
        self.by_options.map_or(own, |access| access(args))
    }

    /// Whether the keys are changed or only read.
    #[must_use]
    pub fn intent(&self) -> Intent {
        let is_read = self.access.contains(Access::RO) && !self.is_changed;
        if is_read { Intent::Read } else { Intent::Write }
    }

    /// The position of the first key if that is the same in every request, or 0.
    fn first(&self) -> usize {
        match self.finder {
            KeyFinder::Range { first, .. } => first.into(),
            // With a count of zero there is none.
            KeyFinder::Counted { .. }
            | KeyFinder::AfterWord { .. }
            | KeyFinder::AfterLast { .. }
            | KeyFinder::Grammar(_) => 0,
        }
    }

    /// The positions of the keys in a request: none if the request's arguments contradict each
    /// other. If the last step is incomplete, a position may be beyond the last argument.
    #[inline]
    pub(crate) fn positions(&self, args: Args<'_>) -> StepBy<Range<usize>> {
        match self.finder {
            KeyFinder::Range { first, last, step } => {
                let last = usize::try_from(last).unwrap_or_else(|_| {
                    args.len().saturating_sub(usize::from(last.unsigned_abs()))
                });
                (first.into()..last + 1).step_by(step.into())
            }
            KeyFinder::Counted { at } => counted(args, at.into()).step_by(1),
            KeyFinder::AfterWord { word, from, extent } => {
                after_word(args, word, from.into(), extent).step_by(1)
            }
            KeyFinder::AfterLast { word } => after_last(args, word).step_by(1),
            KeyFinder::Grammar(positions) => positions(args).step_by(1),
        }
    }

    /// The keys in a request, in order.
    #[inline]
    pub(crate) fn of<'a>(
        &self,
        args: Args<'a>,
    ) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        self.positions(args).map_while(move |position| args.get(position))
    }
}

#[cold]
fn counted(args: Args<'_>, at: usize) -> Range<usize> {
    let count = args.get(at).and_then(parse_i64).and_then(|count| usize::try_from(count).ok());
    let first = at + 1;
    let room = args.len().saturating_sub(first);
    first..first + count.filter(|count| *count <= room).unwrap_or(0)
}

#[cold]
fn after_word(args: Args<'_>, word: &str, from: usize, extent: Extent) -> Range<usize> {
    let is_word = |at: &usize| {
        args.get(*at).is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    };
    let Some(at) = (from..args.len()).find(is_word) else { return 0..0 };
    let first = at + 1;
    let rest = args.len() - first;
    let count = match extent {
        Extent::One => rest.min(1),
        Extent::FirstHalf if rest.is_multiple_of(2) => rest / 2,
        Extent::FirstHalf => 0,
    };
    first..first + count
}

#[cold]
fn after_last(args: Args<'_>, word: &str) -> Range<usize> {
    let is_word = |at: &usize| {
        args.get(*at).is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    };
    let last = (1..args.len().saturating_sub(1)).rev().find(is_word);
    last.map_or(0..0, |at| at + 1..args.len())
}

/// The keys of a command's requests.
#[derive(Clone, Copy, Debug)]
pub struct Keys(Scope);

#[derive(Clone, Copy, Debug)]
enum Scope {
    None,
    Any,
    Databases,
    /// One group, as nearly all commands with keys have: the row needs no additional memory.
    One(KeyGroup),
    Groups(&'static [KeyGroup]),
    /// Channels of shards, whose positions are found like those of keys.
    Channels(KeyGroup),
}

impl Keys {
    /// No keys.
    pub const NONE: Keys = Keys(Scope::None);

    /// Any keys of a database, which the command finds itself (KEYS, DBSIZE). It claims none; but a
    /// transaction or a script with such a command claims all keys, so that it does not see other
    /// requests half done.
    pub const ANY: Keys = Keys(Scope::Any);

    /// Whole databases, which are emptied or exchanged, rather than single keys.
    pub const WHOLE: Keys = Keys(Scope::Databases);

    /// The first argument is the only key.
    #[must_use]
    pub const fn one(access: Access) -> Keys {
        Keys::only(KeyGroup::at(1, access))
    }

    /// Every argument is a key.
    #[must_use]
    pub const fn all(access: Access) -> Keys {
        Keys::only(KeyGroup::range(1, -1, 1, access))
    }

    /// Keys and values alternate.
    #[must_use]
    pub const fn pairs(access: Access) -> Keys {
        Keys::only(KeyGroup::range(1, -1, 2, access))
    }

    /// The keys of one group.
    #[must_use]
    pub const fn only(group: KeyGroup) -> Keys {
        Keys(Scope::One(group))
    }

    /// Several groups, in the order in which COMMAND shows them.
    #[must_use]
    pub const fn groups(groups: &'static [KeyGroup]) -> Keys {
        Keys(Scope::Groups(groups))
    }

    /// The arguments up to `last` are channels of shards: clients of a cluster find slots by them,
    /// but they are not keys.
    #[must_use]
    pub const fn channels(last: i8) -> Keys {
        Keys(Scope::Channels(KeyGroup::range(1, last, 1, Access::NOT_KEY)))
    }

    /// The groups as COMMAND shows them, including those that are not keys.
    #[must_use]
    pub fn specifications(&self) -> &[KeyGroup] {
        match &self.0 {
            Scope::Channels(group) => std::slice::from_ref(group),
            _ => self.all_groups(),
        }
    }

    /// The groups of keys.
    #[must_use]
    #[inline]
    pub fn all_groups(&self) -> &[KeyGroup] {
        match &self.0 {
            Scope::None | Scope::Any | Scope::Databases | Scope::Channels(_) => &[],
            Scope::One(group) => std::slice::from_ref(group),
            Scope::Groups(groups) => groups,
        }
    }

    /// Whether a request affects neither single keys nor whole databases.
    #[must_use]
    #[inline]
    pub fn is_none(&self) -> bool {
        matches!(self.0, Scope::None | Scope::Any | Scope::Channels(_))
    }

    /// Whether a transaction or a script claims all keys for a request.
    #[must_use]
    pub fn claims_everything(&self, args: Args<'_>) -> bool {
        let is_unnamed = |group: &KeyGroup| group.is_unnamed.is_some_and(|is| is(args));
        matches!(self.0, Scope::Any | Scope::Databases) || self.all_groups().iter().any(is_unnamed)
    }

    /// Whether a request affects whole databases.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self.0, Scope::Databases)
    }

    /// The strongest intent of all groups.
    #[must_use]
    pub fn intent(&self) -> Intent {
        let writes = self.all_groups().iter().any(|group| group.intent() == Intent::Write);
        if writes || self.is_whole() { Intent::Write } else { Intent::Read }
    }

    /// The union of the accesses to all keys.
    pub(crate) fn access(&self) -> Access {
        let databases = if self.is_whole() { Access::RM } else { Access::empty() };
        self.all_groups().iter().fold(databases, |all, group| all | group.access)
    }

    /// The position of the first key if that is the same in every request, or 0.
    #[must_use]
    #[inline]
    pub fn first(&self) -> usize {
        self.all_groups().first().map_or(0, KeyGroup::first)
    }

    /// The first key of a request, if its position is the same in all.
    #[must_use]
    #[inline]
    pub fn first_of<'a>(&self, args: Args<'a>) -> Option<&'a [u8]> {
        match self.first() {
            0 => None,
            first => args.get(first),
        }
    }

    /// The positions of the keys in a request, group by group.
    pub(crate) fn positions(&self, args: Args<'_>) -> impl Iterator<Item = usize> {
        self.all_groups().iter().flat_map(move |group| group.positions(args))
    }

    /// The keys of a request, group by group.
    #[inline]
    pub fn of<'a>(&self, args: Args<'a>) -> impl Iterator<Item = &'a [u8]> {
        self.all_groups().iter().flat_map(move |group| group.of(args))
    }

    /// The maximum number of keys in a request.
    pub(crate) fn count(&self, args: Args<'_>) -> usize {
        self.all_groups().iter().map(|group| group.positions(args).len()).sum()
    }

    /// The start of a request's first key that is not empty, at most `most` bytes; empty if there
    /// is none.
    #[must_use]
    #[cold]
    pub fn start_of_first<'a>(&self, most: usize, args: Args<'a>) -> Cow<'a, [u8]> {
        let starts = self.positions(args).map(|position| args.start_of(position, most));
        starts.into_iter().find(|start| !start.is_empty()).unwrap_or_default()
    }

    /// Whether each request has exactly one key.
    #[must_use]
    #[inline]
    pub fn is_one(&self) -> bool {
        match self.0 {
            Scope::One(KeyGroup { finder: KeyFinder::Range { first, last, .. }, .. }) => {
                i16::from(first) == i16::from(last)
            }
            _ => false,
        }
    }

    /// The contiguous keys of a request: of more than `most`, every n-th of each group, from a
    /// random one on, so that each is as likely as the others.
    #[must_use]
    pub fn sample<'a>(&self, most: usize, random: u64, args: Args<'a>) -> Vec<&'a [u8]> {
        let step = self.count(args).div_ceil(most).max(1);
        let first = usize::try_from(random % step as u64).unwrap_or(0);
        let groups = self.all_groups().iter();
        let positions = groups.flat_map(|group| group.positions(args).skip(first).step_by(step));
        let is_contiguous =
            |at: &usize| args.large(*at).is_none_or(|argument| argument.is_joined());
        positions.filter(is_contiguous).filter_map(|at| args.get(at)).collect()
    }

    /// At most `most` keys of a request, evenly distributed, except keys longer than `longest`
    /// bytes, which may not be in one piece.
    #[must_use]
    pub fn some_of<'a>(&self, most: usize, longest: usize, args: Args<'a>) -> Vec<&'a [u8]> {
        let step = self.count(args).div_ceil(most.max(1)).max(1);
        let places = self.positions(args).step_by(step);
        let short = places.filter(|place| args.len_of(*place) <= longest);
        short.filter_map(|place| args.get(place)).collect()
    }

    /// The first position, the last position and the step of the keys, as COMMAND showed them
    /// before Redis 7; and whether there are keys that this range does not include.
    pub(crate) fn as_one_range(&self) -> ([i64; 3], bool) {
        let groups = self.specifications();
        if let [group] = groups
            && let KeyFinder::Range { first, last, step } = group.shown()
        {
            return ([first.into(), last.into(), step.into()], false);
        }
        let mut whole: Option<(u8, i8)> = None;
        let mut has_more = false;
        for group in groups {
            match (group.shown(), whole) {
                (KeyFinder::Range { first, last, step: 1 }, None) => whole = Some((first, last)),
                (KeyFinder::Range { first, last, step: 1 }, Some((start, end)))
                    if i16::from(end) + 1 == i16::from(first) =>
                {
                    whole = Some((start, last));
                }
                _ => has_more = true,
            }
        }
        match whole {
            Some((first, last)) => ([first.into(), last.into(), 1], has_more),
            None => ([0; 3], has_more),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nagi_proto::Span;

    const READ: Access = Access::RO.union(Access::ACCESS);
    const WRITE: Access = Access::OW.union(Access::UPDATE);

    /// The destination, then a number of sources.
    const ZUNIONSTORE: Keys = Keys::groups(&[KeyGroup::at(1, WRITE), KeyGroup::counted(2, READ)]);
    const BITOP: Keys = Keys::groups(&[KeyGroup::at(2, WRITE), KeyGroup::range(3, -1, 1, READ)]);
    const LMPOP: Keys = Keys::only(KeyGroup::counted(1, Access::RW));
    const XREAD: Keys = Keys::only(KeyGroup::half_after_word("STREAMS", 1, READ));
    const GEORADIUS: Keys =
        Keys::groups(&[KeyGroup::at(1, READ), KeyGroup::after_word("STORE", 6, WRITE)]);
    const SORT: Keys = Keys::groups(&[KeyGroup::at(1, READ), KeyGroup::by_grammar(store, WRITE)]);

    /// The argument after the last STORE option.
    fn store(args: Args<'_>) -> Range<usize> {
        let (mut at, mut found) = (2, 0..0);
        while let Some(word) = args.get(at) {
            if word.eq_ignore_ascii_case(b"STORE") && at + 1 < args.len() {
                found = at + 1..at + 2;
            }
            at += if word.eq_ignore_ascii_case(b"BY") { 2 } else { 1 };
        }
        found
    }

    /// The keys of a request, each with the intent of its claim.
    fn found(keys: Keys, request: &str) -> Vec<(String, Intent)> {
        let (mut spans, mut start) = (Vec::new(), 0);
        for word in request.split(' ') {
            spans.push(Span { start, len: word.len() as u32 });
            start += word.len() as u32 + 1;
        }
        let args = Args::new(request.as_bytes(), &spans);
        let mut found = Vec::new();
        for group in keys.all_groups() {
            let key = |key: &[u8]| (String::from_utf8(key.to_vec()).unwrap(), group.intent());
            found.extend(group.of(args).map(key));
        }
        let all = keys.of(args).map(|key| String::from_utf8(key.to_vec()).unwrap());
        assert!(all.eq(found.iter().map(|(key, _)| key.clone())), "{request}");
        let first = keys.first_of(args).map(|key| String::from_utf8(key.to_vec()).unwrap());
        if let Some((first, (found, _))) = first.as_ref().zip(found.first()) {
            assert_eq!(first, found, "{request}");
        }
        found
    }

    fn names(keys: Keys, request: &str) -> Vec<String> {
        found(keys, request).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn ranges_go_to_the_end_in_steps() {
        assert_eq!(names(Keys::one(READ), "GET a"), ["a"]);
        assert_eq!(names(Keys::all(READ), "MGET a b c"), ["a", "b", "c"]);
        assert_eq!(names(Keys::pairs(WRITE), "MSET a 1 b 2"), ["a", "b"]);
        assert_eq!(names(Keys::pairs(WRITE), "MSET a 1 b"), ["a", "b"]);
        assert_eq!(names(Keys::only(KeyGroup::range(1, -2, 1, READ)), "BLPOP a b 0"), ["a", "b"]);
        assert_eq!(names(Keys::all(READ), "MGET"), [""; 0]);
        assert!(names(Keys::NONE, "PING a").is_empty() && names(Keys::WHOLE, "X a").is_empty());
    }

    #[test]
    fn a_count_says_how_many_keys_follow_it() {
        let found = found(ZUNIONSTORE, "ZUNIONSTORE d 2 a b WEIGHTS 1 2");
        let sources = [("a".to_owned(), Intent::Read), ("b".to_owned(), Intent::Read)];
        assert_eq!(found[0], ("d".to_owned(), Intent::Write));
        assert_eq!(found[1..], sources);
        assert_eq!(ZUNIONSTORE.intent(), Intent::Write);
        assert_eq!(names(LMPOP, "LMPOP 2 a b LEFT"), ["a", "b"]);
        for wrong in ["LMPOP", "LMPOP x a", "LMPOP -1 a", "LMPOP 0 LEFT", "LMPOP 3 a b"] {
            assert_eq!(names(LMPOP, wrong), [""; 0], "{wrong}");
        }
        let most = format!("LMPOP {} a", u64::MAX);
        assert_eq!(names(LMPOP, &most), [""; 0]);
    }

    #[test]
    fn a_word_says_where_keys_begin() {
        assert_eq!(names(XREAD, "XREAD COUNT 2 streams a b 0 0"), ["a", "b"]);
        for wrong in ["XREAD", "XREAD COUNT 2", "XREAD STREAMS", "XREAD STREAMS a b 0"] {
            assert_eq!(names(XREAD, wrong), [""; 0], "{wrong}");
        }
        assert_eq!(names(GEORADIUS, "GEORADIUS a 1 2 3 m STORE b"), ["a", "b"]);
        assert_eq!(names(GEORADIUS, "GEORADIUS STORE 1 2 3 m COUNT 1"), ["STORE"]);
        assert_eq!(names(GEORADIUS, "GEORADIUS a 1 2 3 m STORE"), ["a"]);
    }

    #[test]
    fn a_grammar_distinguishes_an_option_from_a_value() {
        assert_eq!(names(SORT, "SORT a BY store STORE b"), ["a", "b"]);
        assert_eq!(names(SORT, "SORT a BY store"), ["a"]);
    }

    #[test]
    fn keys_may_be_found_otherwise_than_is_shown() {
        let last = Keys::only(LAST);
        assert_eq!(names(last, "X KEYS a keys b c"), ["b", "c"]);
        for none in ["X", "X KEYS", "KEYS a"] {
            assert_eq!(names(last, none), [""; 0], "{none}");
        }
        assert_eq!(names(SHOWN_OTHERWISE, "X a b c keys d"), ["a", "d"]);
        assert_eq!(SHOWN_OTHERWISE.as_one_range(), ([3, 3, 1], true));
    }

    const LAST: KeyGroup = KeyGroup::new(KeyFinder::AfterLast { word: "KEYS" }, READ);
    const SHOWN_OTHERWISE: Keys =
        Keys::groups(&[KeyGroup::by_grammar(first_argument, READ).shown_at(3), LAST]);

    fn first_argument(_: Args<'_>) -> Range<usize> {
        1..2
    }

    #[test]
    fn properties_of_a_key_that_is_read_may_be_changed() {
        let group = KeyGroup::at(1, READ).changed();
        assert_eq!((group.access(), group.intent()), (READ, Intent::Write));
    }

    #[test]
    fn older_clients_are_shown_ranges_only() {
        for (keys, range, has_more) in [
            (Keys::NONE, [0, 0, 0], false),
            (Keys::pairs(WRITE), [1, -1, 2], false),
            (BITOP, [2, -1, 1], false),
            (ZUNIONSTORE, [1, 1, 1], true),
            (LMPOP, [0, 0, 0], true),
            (XREAD, [0, 0, 0], true),
            (SORT, [1, 1, 1], true),
        ] {
            assert_eq!(keys.as_one_range(), (range, has_more), "{keys:?}");
        }
    }

    #[test]
    fn options_change_the_access_of_a_key() {
        let by_length = |args: Args<'_>| if args.len() > 2 { Access::RW } else { Access::RO };
        let group = KeyGroup::at(1, Access::RW).depending_on_options(by_length);
        assert_eq!(group.access(), Access::RW | Access::VARIABLE_FLAGS);
        let spans = [Span { start: 0, len: 1 }; 3];
        assert_eq!(group.access_in(Args::new(b"a", &spans)), Access::RW);
        assert_eq!(group.access_in(Args::new(b"a", &spans[..2])), Access::RO);
    }
}
