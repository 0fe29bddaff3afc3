//! Outputs that a worker reuses, so that sending allocates no memory and their buffers do not count
//! as data.

use crate::net::outgoing::{OUTPUT_ROOM_BYTES, taken_bytes};
use nagi_proto::Output;
use nagi_store::accounting::Overhead;

/// Memory that an output keeps which is used again, and how many of them are kept.
pub(super) const KEPT_OUTPUT_BYTES: usize = OUTPUT_ROOM_BYTES;
const KEPT_OUTPUTS: usize = 64;

/// Empty outputs with some memory.
pub(super) struct SpareOutputs {
    outputs: Vec<Output>,
    /// Their memory.
    bytes: usize,
    /// For that, and for the memory of those that are queued.
    overhead: Overhead,
}

impl SpareOutputs {
    /// With one, for that which is written to while the first is on its way.
    pub(super) fn new() -> Self {
        let outputs = Vec::with_capacity(KEPT_OUTPUTS);
        let mut spare = SpareOutputs { outputs, bytes: 0, overhead: Overhead::default() };
        spare.put(Output::with_room(OUTPUT_ROOM_BYTES));
        spare.measure(0);
        spare
    }

    /// Takes one out.
    pub(super) fn take(&mut self) -> Output {
        let output = self.outputs.pop().unwrap_or_default();
        self.bytes -= taken_bytes(&output);
        output
    }

    /// Takes one in, unless there are enough.
    pub(super) fn put(&mut self, mut output: Output) {
        if self.outputs.len() < KEPT_OUTPUTS {
            output.clear(KEPT_OUTPUT_BYTES);
            self.bytes += taken_bytes(&output);
            self.outputs.push(output);
        }
    }

    /// Notes their memory, with that of those that are queued. One that is used again goes from
    /// here to there and back, which changes nothing.
    pub(super) fn measure(&mut self, queued_bytes: usize) {
        self.overhead.set(self.bytes + queued_bytes);
    }
}
