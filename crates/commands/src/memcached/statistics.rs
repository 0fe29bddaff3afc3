//! Counting the outcomes of verbs.

use crate::Tally;

/// Counts a lookup of a key.
pub(super) fn count_get(tally: &Tally, found: bool) {
    let verbs = &tally.verbs;
    verbs.get_keys.add(1);
    if found { verbs.get_hits.add(1) } else { verbs.get_misses.add(1) }
}

/// Counts an attempt to change a key's expiry, which may also be a lookup (`gat`): memcached counts
/// that only here.
pub(super) fn count_touch(tally: &Tally, found: bool) {
    let verbs = &tally.verbs;
    verbs.touches.add(1);
    if found { verbs.touch_hits.add(1) } else { verbs.touch_misses.add(1) }
}

/// Counts an attempt to remove a key.
pub(super) fn count_removal(tally: &Tally, found: bool) {
    if found { tally.verbs.delete_hits.add(1) } else { tally.verbs.delete_misses.add(1) }
}
