//! The description of a disturbance.

use nagi_client::Protocol;

use super::super::context::StepContext;
use super::super::scale::Scale;
use super::super::server::Server;

/// An action on a server while the probe measures its latency.
pub(crate) struct Disturbance {
    /// The name of the disturbance for `--only`.
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The memory, in bytes, that the disturbance needs in the server or in the tool.
    pub(crate) needs_bytes: fn(&Scale) -> u64,
    /// Why the disturbance needs `--i-may-destroy-data` even on an empty server.
    pub(crate) danger: Option<&'static str>,
    /// Fails with the reason if the disturbance is not applicable to a server.
    pub(crate) can: fn(&Server, &Scale) -> Result<(), String>,
    /// Prepares the server before the probe begins.
    pub(crate) prepare: fn(&mut StepContext<'_>) -> Result<(), String>,
    /// Disturbs the server.
    pub(crate) act: fn(&mut StepContext<'_>) -> Result<(), String>,
    /// Whether `act` is repeated until the end of the step.
    pub(crate) repeats: bool,
}

pub(super) fn anything(_: &Server, _: &Scale) -> Result<(), String> {
    Ok(())
}

pub(super) fn nothing(_: &mut StepContext<'_>) -> Result<(), String> {
    Ok(())
}

/// Fails unless the server speaks RESP; `what` is the missing feature.
pub(super) fn needs_resp(server: &Server, what: &str) -> Result<(), String> {
    match server.target.protocol {
        Protocol::Resp => Ok(()),
        Protocol::Memcached => Err(format!("memcached's protocol has no {what}")),
    }
}
