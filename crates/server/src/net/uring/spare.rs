//! Outputs that a worker reuses, so that sending allocates no memory and their buffers do not count
//! as data.

use crate::net::outgoing::{OUTPUT_ROOM_BYTES, taken_bytes};
use nagi_proto::Output;
use nagi_store::accounting::Overhead;

/// Capacity that a reused output retains, and the number of outputs kept.
pub(super) const KEPT_OUTPUT_BYTES: usize = OUTPUT_ROOM_BYTES;
const KEPT_OUTPUTS: usize = 64;

/// Empty outputs with some capacity.
pub(super) struct SpareOutputs {
    outputs: Vec<Output>,
    /// Memory of `outputs`, in bytes.
    bytes: usize,
    /// Accounts for the memory of the spare and of the queued outputs.
    overhead: Overhead,
}

impl SpareOutputs {
    /// Starts with one output, which the worker fills while its first output is being sent.
    pub(super) fn new() -> Self {
        let outputs = Vec::with_capacity(KEPT_OUTPUTS);
        let mut spare = SpareOutputs { outputs, bytes: 0, overhead: Overhead::default() };
        spare.put(Output::with_room(OUTPUT_ROOM_BYTES));
        spare.measure(0);
        spare
    }

    /// Takes an output.
    pub(super) fn take(&mut self) -> Output {
        let output = self.outputs.pop().unwrap_or_default();
        self.bytes -= taken_bytes(&output);
        output
    }

    /// Puts an output back, unless there are enough.
    pub(super) fn put(&mut self, mut output: Output) {
        if self.outputs.len() < KEPT_OUTPUTS {
            output.clear(KEPT_OUTPUT_BYTES);
            self.bytes += taken_bytes(&output);
            self.outputs.push(output);
        }
    }

    /// Records the memory of the spare outputs together with `queued_bytes`, that of the queued
    /// ones. A reused output moves between the two, which does not change the sum.
    pub(super) fn measure(&mut self, queued_bytes: usize) {
        self.overhead.set(self.bytes + queued_bytes);
    }
}
