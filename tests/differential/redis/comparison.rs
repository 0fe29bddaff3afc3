//! Ways to compare replies in which not every byte is determined.

use harness::Reply;

/// How replies are compared.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Comparison {
    /// Numbers that differ by at most this, because the servers were queried one after another.
    Near(u64),
    /// Like `Near`, for numbers within lists.
    NearWithin(u64),
    /// Lists in any order, including nested lists.
    Unordered,
    /// Numbers that are equal although they may have different numbers of digits, and lists of such
    /// numbers.
    Numbers,
    /// Like `Numbers`, with lists in any order.
    UnorderedNumbers,
    /// Replies of the same type; maps must have the same keys.
    Kind,
}

/// Whether replies are the same according to `comparison`.
pub(super) fn same(comparison: Comparison, ours: &Reply, theirs: &Reply) -> bool {
    match comparison {
        Comparison::Near(most) => match (ours, theirs) {
            (Reply::Integer(a), Reply::Integer(b)) if *a >= 0 && *b >= 0 => a.abs_diff(*b) <= most,
            _ => ours == theirs,
        },
        Comparison::NearWithin(most) => match (ours, theirs) {
            (Reply::Array(a), Reply::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(comparison, a, b))
            }
            _ => same(Comparison::Near(most), ours, theirs),
        },
        Comparison::Unordered => unordered(ours, theirs, |a, b| a == b),
        Comparison::UnorderedNumbers => unordered(ours, theirs, are_same_numbers),
        Comparison::Numbers => match (ours, theirs) {
            (Reply::Array(a), Reply::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(comparison, a, b))
            }
            _ => are_same_numbers(ours, theirs),
        },
        Comparison::Kind => match (ours, theirs) {
            (Reply::Error(_), _) | (_, Reply::Error(_)) => ours == theirs,
            (Reply::Map(a), Reply::Map(b)) => {
                let has = |list: &[Reply], key| list.iter().step_by(2).any(|other| other == key);
                a.len() == b.len() && a.iter().step_by(2).all(|key| has(b, key))
            }
            _ => std::mem::discriminant(ours) == std::mem::discriminant(theirs),
        },
    }
}

fn unordered(ours: &Reply, theirs: &Reply, are_same: fn(&Reply, &Reply) -> bool) -> bool {
    match (ours, theirs) {
        (Reply::Array(a), Reply::Array(b))
        | (Reply::Map(a), Reply::Map(b))
        | (Reply::Set(a), Reply::Set(b)) => {
            let has = |list: &[Reply], item| list.iter().any(|it| unordered(item, it, are_same));
            a.len() == b.len() && a.iter().all(|item| has(b, item))
        }
        _ => are_same(ours, theirs),
    }
}

/// Whether two replies are the same, or the same number.
fn are_same_numbers(ours: &Reply, theirs: &Reply) -> bool {
    let number = |reply: &Reply| -> Option<f64> {
        match reply {
            Reply::Double(text) => text.parse().ok(),
            Reply::Bulk(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
            _ => None,
        }
    };
    // Redis 7.0 writes seventeen decimals even for very small numbers.
    let is_near = |a: f64, b: f64| a == b || (a - b).abs() < 1e-17;
    ours == theirs
        || number(ours).zip(number(theirs)).is_some_and(|(ours, theirs)| is_near(ours, theirs))
}

/// Whether a text in a reply contains `text`.
pub(super) fn mentions(reply: &Reply, text: &str) -> bool {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).contains(text),
        Reply::Array(items) | Reply::Map(items) | Reply::Set(items) => {
            items.iter().any(|item| mentions(item, text))
        }
        _ => false,
    }
}
