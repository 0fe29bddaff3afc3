//! Messages of other clients that wait until a reply has been written.
//!
//! A long reply is written over many ticks, and messages sent in between would end up inside it.
//! They are therefore held, in order, until the reply is complete. The worker counts them as
//! unread, and closes the client when there are too many.

use nagi_proto::Output;
use nagi_store::accounting::Charge;

/// Messages to send after the reply. Few connections ever have some.
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

    /// Appends all messages to `out`, after the reply is complete.
    pub(super) fn release(&mut self, out: &mut Output) {
        if let Some(held) = self.0.take() {
            out.append(&held.output);
        }
    }
}
