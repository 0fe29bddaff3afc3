//! Messages of other clients that wait until a reply has been written.
//!
//! A long reply is written over many ticks, and what is sent between two of them would land in its
//! middle. So it is held back, in order, until the reply is over. The worker counts it among what
//! the client leaves unread, and closes the client when that is too much.

use nagi_proto::Output;
use nagi_store::accounting::Charge;

/// What is sent after the reply. Few connections ever have some.
#[derive(Debug, Default)]
pub(super) struct Held(Option<Box<Charged>>);

#[derive(Debug, Default)]
struct Charged {
    output: Output,
    charge: Charge,
}

impl Held {
    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |held| held.output.len())
    }

    pub(super) fn push(&mut self, output: &Output) {
        let held = self.0.get_or_insert_default();
        held.output.append(output);
        held.charge.set(held.output.own_bytes());
    }

    /// Appends all of it to `out`, now that the reply is over.
    pub(super) fn release(&mut self, out: &mut Output) {
        if let Some(held) = self.0.take() {
            out.append(&held.output);
        }
    }
}
