//! The protocols of servers under load.

use serde::Serialize;

/// The protocol of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// RESP, the protocol of Redis.
    #[default]
    Resp,
    /// memcached's text protocol.
    Memcached,
    /// HTTP, for nagi's gateway.
    Http,
}

impl Protocol {
    /// Returns the port that servers of the protocol usually listen on.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Protocol::Resp => 6379,
            Protocol::Memcached => 11211,
            Protocol::Http => 7379,
        }
    }
}

impl From<Protocol> for nagi_client::Framing {
    fn from(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Resp => nagi_client::Framing::Resp,
            Protocol::Memcached => nagi_client::Framing::Memcached,
            Protocol::Http => nagi_client::Framing::Http,
        }
    }
}

impl Protocol {
    /// Returns the protocol's name for display.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Resp => "RESP",
            Protocol::Memcached => "memcached text",
            Protocol::Http => "HTTP",
        }
    }
}
