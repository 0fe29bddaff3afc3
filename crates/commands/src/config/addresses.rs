//! The settings that say where a server listens, which are changed together.

use super::current::Config;
use super::kinds::Value;
use super::setting::Setting;
use std::sync::Arc;

/// Where a server listens over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// `bind`: addresses, parted by blanks.
    pub bind: Arc<str>,
    /// `port`, for Redis clients; 0 for none, and beyond all ports for one that the kernel chooses.
    pub port: u64,
    /// `memcached-bind`: addresses with or without a port, instead of those of `bind`.
    pub memcached_bind: Arc<str>,
    /// `memcached-port`, likewise.
    pub memcached_port: u64,
}

impl Addresses {
    /// What a setting is to be changed to, if it is one of these.
    pub(crate) fn change(&mut self, setting: &Setting, value: &Value) {
        match (setting.name, value) {
            ("bind", Value::Text(bind)) => self.bind = Arc::clone(bind),
            ("port", Value::Number(port)) => self.port = *port,
            ("memcached-bind", Value::Text(bind)) => self.memcached_bind = Arc::clone(bind),
            ("memcached-port", Value::Number(port)) => self.memcached_port = *port,
            _ => {}
        }
    }

    /// The port that both protocols are to be spoken on, if there is one.
    #[must_use]
    pub fn shared_port(&self) -> Option<u64> {
        let is_shared = self.port == self.memcached_port && (1..1 << 16).contains(&self.port);
        is_shared.then_some(self.port)
    }
}

impl Config {
    /// Where the settings say to listen.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        Addresses {
            bind: self.bind.get(),
            port: self.port.get(),
            memcached_bind: self.memcached_bind.get(),
            memcached_port: self.memcached_port.get(),
        }
    }
}
