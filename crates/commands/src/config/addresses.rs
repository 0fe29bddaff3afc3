//! The settings of a server's addresses, which are applied together.

use super::current::Config;
use super::kinds::Value;
use super::setting::Setting;
use std::sync::Arc;

/// The TCP addresses that a server listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// `bind`: addresses, separated by blanks.
    pub bind: Arc<str>,
    /// `port`, for Redis clients; 0 for none, and 65536 for a port that the kernel chooses.
    pub port: u64,
    /// `memcached-bind`: addresses with or without a port, instead of those of `bind`.
    pub memcached_bind: Arc<str>,
    /// `memcached-port`, with the same special values.
    pub memcached_port: u64,
}

impl Addresses {
    /// Applies the new value of a setting, if it is one of these.
    pub(crate) fn change(&mut self, setting: &Setting, value: &Value) {
        match (setting.name, value) {
            ("bind", Value::Text(bind)) => self.bind = Arc::clone(bind),
            ("port", Value::Number(port)) => self.port = *port,
            ("memcached-bind", Value::Text(bind)) => self.memcached_bind = Arc::clone(bind),
            ("memcached-port", Value::Number(port)) => self.memcached_port = *port,
            _ => {}
        }
    }

    /// The port of both protocols, if they have the same one.
    #[must_use]
    pub fn shared_port(&self) -> Option<u64> {
        let is_shared = self.port == self.memcached_port && (1..1 << 16).contains(&self.port);
        is_shared.then_some(self.port)
    }
}

impl Config {
    /// The addresses in the settings.
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
