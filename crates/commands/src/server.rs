//! What handlers ask of the process that they run in. The server crate implements it; tests use
//! a stand-in.

use crate::ClientInfo;
use std::sync::Arc;

/// The process around the commands.
pub trait Server: Sync {
    /// Every connection of the process, in no particular order.
    fn clients(&self) -> Vec<Arc<ClientInfo>>;

    /// Asks the process to stop, as SIGTERM does.
    fn shut_down(&self);
}
