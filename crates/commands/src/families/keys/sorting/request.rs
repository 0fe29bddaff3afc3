//! The arguments of SORT.

use crate::Error;
use crate::families::keys::sorting::pattern::has_asterisk;
use crate::runtime::arguments::{integer, is};
use nagi_proto::Args;
use std::ops::Range;

/// The options of a request. Patterns are given by their positions among the arguments.
#[derive(Clone, Debug, Default)]
pub(super) struct Request {
    pub(super) descends: bool,
    pub(super) is_alphabetic: bool,
    /// The number of elements to skip, and the number to return; a negative number means all.
    limit: Option<(i64, i64)>,
    /// The pattern by which elements are sorted.
    pub(super) by: Option<usize>,
    /// Whether the elements keep their order.
    pub(super) is_unsorted: bool,
    /// Whether it comes from a script.
    pub(super) is_in_script: bool,
    pub(super) get: Vec<usize>,
    /// Position of the destination.
    pub(super) destination: Option<usize>,
}

impl Request {
    pub(super) fn parse(args: Args<'_>, may_store: bool) -> Result<Self, Error> {
        let (mut request, mut at) = (Request::default(), 2);
        while let Some(option) = args.get(at) {
            let left = args.len() - at - 1;
            at += 1;
            if is(option, "ASC") {
                request.descends = false;
            } else if is(option, "DESC") {
                request.descends = true;
            } else if is(option, "ALPHA") {
                request.is_alphabetic = true;
            } else if is(option, "LIMIT") && left >= 2 {
                request.limit = Some((integer(args.at(at))?, integer(args.at(at + 1))?));
                at += 2;
            } else if may_store && is(option, "STORE") && left >= 1 {
                request.destination = Some(at);
                at += 1;
            } else if is(option, "BY") && left >= 1 {
                request.by = Some(at);
                // If any of several BY patterns has no asterisk, the elements are not sorted.
                request.is_unsorted |= !has_asterisk(args.at(at));
                at += 1;
            } else if is(option, "GET") && left >= 1 {
                request.get.push(at);
                at += 1;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(request)
    }

    /// The range of the elements to return, given their number.
    pub(super) fn range(&self, elements: u64) -> Range<u64> {
        let Some((start, count)) = self.limit else { return 0..elements };
        let start = u64::try_from(start).unwrap_or(0).min(elements);
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        start..start.saturating_add(count).min(elements)
    }
}

/// The position of the argument after the last STORE option. Unlike in Redis, a destination that is
/// called like an option is not taken for one: this key is checked and claimed.
pub(super) fn destination(args: Args<'_>) -> Range<usize> {
    let (mut at, mut found) = (2, 0..0);
    while let Some(word) = args.get(at) {
        if is(word, "STORE") && at + 1 < args.len() {
            found = at + 1..at + 2;
        }
        at += match word {
            word if is(word, "LIMIT") => 3,
            word if is(word, "GET") || is(word, "BY") || is(word, "STORE") => 2,
            _ => 1,
        };
    }
    found
}

/// Whether a request may look up keys that depend on elements. A destination called BY or GET may
/// be taken for an option here.
pub(super) fn looks_up_keys(args: Args<'_>) -> bool {
    (2..args.len()).any(|at| {
        let has_pattern = is(args.at(at), "BY") || is(args.at(at), "GET");
        has_pattern && args.get(at + 1).is_some_and(has_asterisk)
    })
}
