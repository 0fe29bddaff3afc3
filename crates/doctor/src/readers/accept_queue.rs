//! Samples of a server's accept queue.

use super::listeners::Listener;
use nagi_findings::observation::AcceptQueue;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Combines samples of a server's listening sockets.
#[derive(Debug)]
pub(crate) struct AcceptQueueReader {
    server: SocketAddr,
    queue: AcceptQueue,
    /// Number of connections dropped at each socket, by its cookie: before the run, and until the
    /// last sample.
    drops: BTreeMap<u64, (u64, u64)>,
    looks: u64,
}

impl AcceptQueueReader {
    pub(crate) fn new(server: SocketAddr) -> Self {
        let (queue, drops) = (AcceptQueue::default(), BTreeMap::new());
        AcceptQueueReader { server, queue, drops, looks: 0 }
    }

    /// Adds a sample, which contains all listening sockets of the network namespace.
    pub(crate) fn take(&mut self, listeners: &[Listener]) {
        let (own, foreign): (Vec<&Listener>, Vec<&Listener>) =
            listeners.iter().partition(|it| is_servers(self.server, it.address));
        let foreign = foreign.len() as u64;
        self.queue.other_listeners = self.queue.other_listeners.max(Some(foreign));
        for listener in own {
            if listener.waiting >= self.queue.waiting {
                self.queue.waiting = listener.waiting;
                self.queue.length = Some(listener.length);
            }
            self.queue.was_full |= listener.waiting > 0 && listener.waiting >= listener.length;
            if let Some(drops) = listener.drops {
                // A socket that was opened within the run has no drops from before the run.
                let before = if self.looks == 0 { drops } else { 0 };
                self.drops.entry(listener.cookie).or_insert((before, drops)).1 = drops;
            }
        }
        self.looks += 1;
    }

    /// Returns the combined samples; `None` if there were none.
    pub(crate) fn finish(&self) -> Option<AcceptQueue> {
        let grown = self.drops.values().map(|(before, now)| now.saturating_sub(*before));
        let drops = (!self.drops.is_empty()).then(|| grown.sum());
        (self.looks > 0).then(|| AcceptQueue { drops, ..self.queue.clone() })
    }
}

/// Whether connections to the address `server` arrive at a socket that listens on `local`.
pub(super) fn is_servers(server: SocketAddr, local: SocketAddr) -> bool {
    local.port() == server.port() && (local.ip().is_unspecified() || local.ip() == server.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str, cookie: u64, waiting: u64, drops: u64) -> Listener {
        let address = address.parse().unwrap();
        Listener { address, cookie, waiting, length: 5, drops: Some(drops) }
    }

    #[test]
    fn drops_are_those_of_the_servers_sockets_within_the_run() {
        let mut reader = AcceptQueueReader::new("10.0.0.5:6379".parse().unwrap());
        assert_eq!(reader.finish(), None);
        let foreign = |drops| listener("10.0.0.5:80", 9, 0, drops);
        reader.take(&[listener("0.0.0.0:6379", 1, 2, 100), foreign(7)]);
        reader.take(&[
            listener("0.0.0.0:6379", 1, 1, 103),
            listener("10.0.0.5:6379", 2, 0, 4),
            foreign(70),
        ]);
        let queue = reader.finish().unwrap();
        assert_eq!((queue.drops, queue.waiting, queue.length), (Some(7), 2, Some(5)));
        assert_eq!((queue.was_full, queue.other_listeners), (false, Some(1)));
        reader.take(&[listener("[::]:6379", 3, 5, 0)]);
        assert!(reader.finish().unwrap().was_full);
    }
}
