//! Copies on further servers.

use super::engine::{Engine, Routed};
use super::failure::Failure;
use super::socket::Socket;
use crate::wire::Answer;

impl<S: Socket> Engine<S> {
    /// Sends requests to their servers.
    pub(super) async fn perform(
        &mut self,
        requests: &[Routed<'_>],
    ) -> Vec<Result<Answer, Failure>> {
        self.exchange(requests).await
    }
}
