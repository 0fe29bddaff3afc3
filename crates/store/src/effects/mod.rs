//! Changes by operations, reported to a listener: named events, and effects that replicate them in
//! another store.
//!
//! An operation records its changes in the slots of its keys. When the slot, or the hold that
//! contains it, ends, the records become one [`change::StoreChange`], numbered while all latches of
//! the operation are held: of two changes of a key, the later one has the greater number. Without
//! listeners, nothing is recorded.

pub(crate) mod change;
pub(crate) mod event;
pub(crate) mod hook;
pub(crate) mod record;
