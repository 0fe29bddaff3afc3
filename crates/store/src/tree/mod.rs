//! Collections that have outgrown a packed form: counted B+trees whose nodes are shared between
//! clones and copied when they are changed.
//!
//! ```text
//!  tree                 inner nodes, 1 KiB             leaves, 4 KiB (a tree of one: 1 or 2)
//!  +-----------+        +------------------------+     +--------------------------------------+
//!  | top, size | -----> | key, count, child  ... | --> | elements ->           <- groups      |
//!  +-----------+        +------------------------+     +--------------------------------------+
//! ```
//!
//! A leaf's elements lie one after the other, in groups of a few; the table of groups at the
//! leaf's end has each one's key and where it begins, so that a search walks along one group and an
//! insertion moves bytes once. There are three orders:
//!
//! - *by hash* (sets, hashes, the member index of sorted sets): a group holds the elements whose
//!   hashes lie between its key and the next one's, in no order. So no element needs its hash
//!   beside it; those of a group are computed when it is split.
//! - *by score*, and by the bytes of members where scores are equal (sorted sets).
//! - *by position* (lists), where keys mean nothing.
//!
//! Inner nodes count the elements below each child, so elements are found by rank in any order.
//!
//! Leaves are kept full: one that overflows shifts groups to a neighbour, and three full ones
//! become four. What is appended at either end fills leaves to the last byte.
//!
//! A clone of a tree is a pointer and a count. Each node has a count of references; a change goes
//! from the top down, edits nodes that have one reference in place, and copies the rest ([`count`]
//! says why that is sound while other threads drop theirs).

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
