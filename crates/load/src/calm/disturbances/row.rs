//! The description of a disturbance.

use nagi_client::Protocol;

use super::super::context::StepContext;
use super::super::scale::Scale;
use super::super::server::Server;

/// An action on a server while other clients are served.
pub(crate) struct Disturbance {
    /// The name for `--only`.
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The memory that it needs, of the server or the tool, in bytes.
    pub(crate) needs_bytes: fn(&Scale) -> u64,
    /// Why it needs `--i-may-destroy-data` even without data.
    pub(crate) danger: Option<&'static str>,
    /// Fails with the reason if it is not applicable to a server.
    pub(crate) can: fn(&Server, &Scale) -> Result<(), String>,
    /// Prepares the server before the probe begins.
    pub(crate) prepare: fn(&mut StepContext<'_>) -> Result<(), String>,
    /// The disturbance itself.
    pub(crate) act: fn(&mut StepContext<'_>) -> Result<(), String>,
    /// Whether to repeat it until the end of the step.
    pub(crate) repeats: bool,
}

pub(super) fn anything(_: &Server, _: &Scale) -> Result<(), String> {
    Ok(())
}

pub(super) fn nothing(_: &mut StepContext<'_>) -> Result<(), String> {
    Ok(())
}

/// Fails unless the server speaks RESP.
pub(super) fn needs_resp(server: &Server, what: &str) -> Result<(), String> {
    match server.target.protocol {
        Protocol::Resp => Ok(()),
        Protocol::Memcached => Err(format!("memcached's protocol has no {what}")),
    }
}
