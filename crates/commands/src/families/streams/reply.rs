//! Writing entries into a reply, some at a time.

use super::{write_entry, write_id};
use crate::families::elements::ELEMENTS_PER_HOLD;
use nagi_proto::resp::Writer;
use nagi_store::Selection;

/// Writes some of the entries. Returns whether these were the last. An entry that was deleted
/// meanwhile has null in place of its fields.
pub(super) fn write_some(reply: &mut Writer<'_>, entries: &mut Selection) -> bool {
    entries.show(ELEMENTS_PER_HOLD, |id, entry| match entry {
        Some(entry) => write_entry(reply, &entry),
        None => {
            reply.array(2);
            write_id(reply, id);
            reply.null_array();
        }
    });
    entries.left() == 0
}
