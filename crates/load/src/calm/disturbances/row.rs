//! The description of a disturbance.

use nagi_client::Protocol;

use super::super::context::StepContext;
use super::super::scale::Scale;
use super::super::server::Server;

/// One thing that is done to a server while other clients are served.
pub(crate) struct Disturbance {
    /// As `--only` has it.
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Memory that it takes, in bytes, of the server or the tool.
    pub(crate) needs_bytes: fn(&Scale) -> u64,
    /// Why it needs `--i-may-destroy-data` even where there is no data.
    pub(crate) danger: Option<&'static str>,
    /// The reason why a server cannot do it.
    pub(crate) can: fn(&Server, &Scale) -> Result<(), String>,
    /// What has to be there before the probe begins.
    pub(crate) prepare: fn(&mut StepContext<'_>) -> Result<(), String>,
    /// The disturbance itself.
    pub(crate) act: fn(&mut StepContext<'_>) -> Result<(), String>,
    /// Whether it is done again until the step's time is over.
    pub(crate) repeats: bool,
}

pub(super) fn anything(_: &Server, _: &Scale) -> Result<(), String> {
    Ok(())
}

pub(super) fn nothing(_: &mut StepContext<'_>) -> Result<(), String> {
    Ok(())
}

/// Only RESP has commands for it.
pub(super) fn needs_resp(server: &Server, what: &str) -> Result<(), String> {
    match server.target.protocol {
        Protocol::Resp => Ok(()),
        Protocol::Memcached => Err(format!("memcached's protocol has no {what}")),
    }
}
