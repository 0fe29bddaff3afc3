//! Removal of a tree's expired elements.

use super::inner::{Inner, seconds};
use super::layout::Layout;
use super::leaf::LeafPosition;
use super::root::{FoundLeaf, Path, Tree};

impl<L: Layout> Tree<L> {
    /// Removes at most `most` elements that expire by `now_ms`, and passes each to `removed` first.
    /// Returns how many were removed. Fewer than `most` means that no other element is due, to
    /// within a second.
    pub(crate) fn sweep(
        &mut self,
        now_ms: u64,
        most: usize,
        mut removed: impl FnMut(&[u8]),
    ) -> usize {
        let mut count = 0;
        // Leaves without due elements also use up an iteration, so that the loop is bounded.
        for _ in 0..most.saturating_mul(2) {
            let is_due = self.expiring > 0 && u64::from(self.earliest_s()) * 1000 <= now_ms;
            if count == most || !is_due {
                break;
            }
            let FoundLeaf { path, leaf, .. } = self.descend_uncounted(earliest_child);
            let due = (0..leaf.groups()).find_map(|group| {
                let mut start = leaf.group(group).start;
                for (index, element) in leaf.group_elements::<L>(group).enumerate() {
                    if (1..=now_ms).contains(&L::expires_at_ms(element)) {
                        return Some((LeafPosition { group, index, start }, element));
                    }
                    start += element.len();
                }
                None
            });
            if let Some((spot, element)) = due {
                removed(element);
                self.remove(&path, spot);
                count += 1;
            } else if !self.note_earliest(&path) {
                break;
            }
        }
        count
    }

    /// Corrects the earliest expiry in all nodes on the path to the leaf that is recorded as having
    /// the element that expires first. Returns whether the leaf's earliest expiry is later than
    /// recorded.
    fn note_earliest(&mut self, path: &Path) -> bool {
        let before = self.earliest_s();
        let mut leaf = self.own(path, super::root::Change::NONE);
        leaf.recount::<L>();
        let now_s = seconds(leaf.read().earliest_ms());
        let mut earliest_s = now_s;
        for level in (0..self.height).rev() {
            let Some(inner) = self.own_inner(path, level) else { break };
            inner.set_earliest(path.child(level), earliest_s);
            earliest_s = inner.earliest().iter().copied().min().unwrap_or(earliest_s);
        }
        now_s > before
    }
}

/// Returns the child below which an element expires first.
fn earliest_child(inner: &Inner) -> usize {
    let children = inner.earliest().iter().enumerate();
    children.min_by_key(|(_, earliest_s)| **earliest_s).map_or(0, |(child, _)| child)
}
