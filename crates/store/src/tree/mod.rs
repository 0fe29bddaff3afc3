//! Collections that have outgrown the packed form: counted B+trees whose nodes are shared between
//! clones and copied on write.
//!
//! ```text
//!  tree                 inner nodes, 1 KiB             leaves, 4 KiB (a tree of one: 1 or 2)
//!  +-----------+        +------------------------+     +--------------------------------------+
//!  | top, size | -----> | key, count, child  ... | --> | elements ->           <- groups      |
//!  +-----------+        +------------------------+     +--------------------------------------+
//! ```
//!
//! A leaf's elements are stored one after the other, in groups of a few; the table at the leaf's
//! end has each group's key and start, so that a search scans one group and an insertion moves
//! bytes once. There are three orders:
//!
//! - *by hash* (sets, hashes, the member index of sorted sets): a group holds the elements whose
//!   hashes are between its key and the next group's, unsorted. Elements therefore need no stored
//!   hash; the hashes of a group are computed when it is split.
//! - *by score*, and by the bytes of members where scores are equal (sorted sets).
//! - *by position* (lists), where keys have no meaning.
//!
//! Inner nodes count the elements below each child, so elements are found by rank in any order.
//!
//! Leaves are kept full: one that overflows shifts groups to neighbours, and eight full ones become
//! nine. Elements appended at either end fill leaves completely.
//!
//! A clone of a tree costs one pointer copy and one increment. Each node has a reference count; a
//! modification descends from the root, edits nodes with a count of one in place, and copies the
//! others ([`count`] explains why that is sound while other threads drop their references).

pub(crate) mod blocks;
mod count;
pub(crate) mod cut;
mod edit;
mod expiry;
mod header;
mod inner;
pub(crate) mod keyed;
pub(crate) mod layout;
pub(crate) mod leaf;
mod node;
mod rebalance;
pub(crate) mod root;
pub(crate) mod scored;
mod walk;

#[cfg(test)]
pub(crate) mod tests;
