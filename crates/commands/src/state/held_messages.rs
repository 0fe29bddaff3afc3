//! Messages of other clients that wait until a reply has been written.
//!
//! A long reply is written over many ticks, and EXEC's by several commands. Messages sent in
//! between would end up inside it, so they are held until the reply is complete, in the order in
//! which they were published. The worker counts them as unread, and closes the client when there
//! are too many.

use nagi_proto::Output;
use nagi_store::accounting::Charge;

/// Messages to send after the reply. Few connections ever have some.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages(Option<Box<Charged>>);

#[derive(Debug, Default)]
struct Charged {
    output: Output,
    charge: Charge,
}

impl HeldMessages {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The length of all messages in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |held| held.output.len())
    }

    pub(crate) fn push(&mut self, output: &Output) {
        if output.is_empty() {
            return;
        }
        let held = self.0.get_or_insert_default();
        held.output.append(output);
        held.charge.set(held.output.own_bytes());
    }

    /// Removes and returns all messages.
    pub(crate) fn take(&mut self) -> Output {
        self.0.take().map_or_else(Output::default, |held| held.output)
    }
}
