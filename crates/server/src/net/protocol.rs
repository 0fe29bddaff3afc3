//! The protocols of listeners.

/// The protocol that a listener's clients use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RESP, the protocol of Redis.
    Resp,
    /// The protocols of memcached.
    Memcached,
}

impl Protocol {
    /// The protocol's name, as in the ports file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Resp => "resp",
            Protocol::Memcached => "memcached",
        }
    }
}
