//! Writing elements of streams into a reply, some at a time.

use super::{write_entry, write_id};
use crate::families::elements::ELEMENTS_PER_HOLD;
use nagi_proto::resp::Writer;
use nagi_store::Selection;
use std::ops::ControlFlow;

/// The length of replies after which the clock is read before another element is written.
const BYTES_PER_STRIDE: usize = 64 * 1024;

/// Limits what is written between two readings of the clock: to a number of elements, and to fewer
/// if these are long.
pub(super) struct Stride {
    left: u64,
    /// The length of the output with which the stride ends.
    end: usize,
}

impl Stride {
    pub(super) fn begin(reply: &Writer<'_>) -> Self {
        Stride { left: ELEMENTS_PER_HOLD, end: reply.len().saturating_add(BYTES_PER_STRIDE) }
    }

    /// Counts an element that was written or skipped. Breaks if the stride ends with it.
    pub(super) fn count(&mut self, reply: &Writer<'_>) -> ControlFlow<()> {
        self.left = self.left.saturating_sub(1);
        let is_over = self.left == 0 || reply.len() >= self.end;
        if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Writes some of the entries. Returns whether these were the last. An entry that was deleted
/// meanwhile has null in place of its fields.
pub(super) fn write_some(reply: &mut Writer<'_>, entries: &mut Selection) -> bool {
    let mut stride = Stride::begin(reply);
    entries.show(|id, entry| {
        match entry {
            Some(entry) => write_entry(reply, &entry),
            None => {
                reply.array(2);
                write_id(reply, id);
                reply.null_array();
            }
        }
        stride.count(reply)
    });
    entries.left() == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, START_MS};
    use nagi_proto::Output;
    use nagi_proto::resp::Version;
    use nagi_store::StreamId;

    #[test]
    fn long_entries_are_written_one_at_a_time() {
        let mut bench = Bench::new();
        let text = "x".repeat(BYTES_PER_STRIDE);
        let long = text.as_str();
        for (at, value) in [long, long, "short", "short", long].into_iter().enumerate() {
            bench.call(&["XADD", "s", &format!("{}-1", at + 1), "f", value]);
        }
        let db = bench.store.database(0, &bench.counters, START_MS);
        let stream = db.stream(db.key(b"s")).unwrap().unwrap();
        let all = (StreamId::MIN, StreamId::MAX);
        for (backwards, expected) in [(false, [4, 3, 0]), (true, [4, 1, 0])] {
            let mut entries = Selection::interval(stream.clone(), all, None, backwards);
            let (mut output, mut left) = (Output::default(), Vec::new());
            let mut reply = Writer::new(&mut output, Version::Two);
            loop {
                let is_over = write_some(&mut reply, &mut entries);
                left.push(entries.left());
                if is_over {
                    break;
                }
            }
            assert_eq!(left, expected);
        }
    }
}
