//! The current listeners, which CONFIG SET changes at runtime.

use crate::net::listener::{Endpoint, Listener, Listeners};
use crate::net::open::{self, OpenError};
use crate::net::protocol::Protocol;
use nagi_commands::{Addresses, Config};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

/// All listeners of a server.
pub(crate) struct Listening(Mutex<Open>);

struct Open {
    listeners: Listeners,
    /// Whether opening listeners is no longer allowed.
    stopped: bool,
}

impl Listening {
    pub(crate) fn new(listeners: Vec<Arc<Listener>>) -> Self {
        Listening(Mutex::new(Open { listeners: listeners.into(), stopped: false }))
    }

    /// The current listeners.
    pub(crate) fn get(&self) -> Listeners {
        Arc::clone(&self.0.lock().listeners)
    }

    /// The addresses that clients can connect to.
    pub(crate) fn endpoints(&self) -> Vec<Endpoint> {
        self.get().iter().map(|listener| listener.endpoint().clone()).collect()
    }

    /// Replaces the ports that were left to the kernel by those that it has chosen.
    pub(crate) fn note_ports(&self, config: &Config) {
        let endpoints = self.endpoints();
        for (name, protocol) in [("port", Protocol::Resp), ("memcached-port", Protocol::Memcached)]
        {
            let mut of_protocol = endpoints.iter().filter(|it| it.protocol == protocol);
            config.found_port(name, of_protocol.find_map(Endpoint::port).unwrap_or(0));
        }
    }

    /// Listens on exactly the addresses in `wanted`. If that fails, the previous listeners stay.
    pub(crate) fn change(&self, wanted: &Addresses, config: &Config) -> Result<(), OpenError> {
        let mut open = self.0.lock();
        if open.stopped {
            return Ok(());
        }
        let before = Arc::clone(&open.listeners);
        let (now, result) = open::change(&before, wanted, config);
        for listener in before.iter() {
            if now.iter().all(|other| !Arc::ptr_eq(other, listener)) {
                listener.stop();
            }
        }
        open.listeners = now.into();
        result
    }

    /// Sets how long connections accepted from now on may be idle before the kernel probes them.
    pub(crate) fn set_keepalive(&self, silence: Duration) {
        self.get().iter().for_each(|listener| listener.set_keepalive(silence));
    }

    /// Refuses new clients.
    pub(crate) fn stop(&self) {
        let mut open = self.0.lock();
        open.stopped = true;
        open.listeners.iter().for_each(|listener| listener.stop());
    }
}
