//! The protocols that listeners are opened for.

/// Which protocol a listener's clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Redis'.
    Resp,
    /// memcached's.
    Memcached,
}

impl Protocol {
    /// Its name, as in the ports file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Resp => "resp",
            Protocol::Memcached => "memcached",
        }
    }
}
