//! Changes by operations, reported to a listener: named events, and effects that replicate them in
//! another store.
//!
//! An operation notes in its slots what it does to their keys. Where a slot closes, or where the
//! hold ends of which it is part, this becomes one [`change::StoreChange`], numbered while all
//! latches of the operation are held: of two changes of a key the later one has the greater number.
//! While nothing listens, a slot notes nothing.

pub(crate) mod change;
pub(crate) mod event;
pub(crate) mod hook;
pub(crate) mod record;
