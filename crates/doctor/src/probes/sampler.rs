//! Samples the host during the run: the server's process often, the table of sockets less often.

use crate::readers::{
    AcceptQueueReader, ConnectionReader, ProcessReader, SocketReader, Sockets, System,
    active_since, devices, disciplines, listeners, losses_since,
};
use nagi_findings::observation::{AcceptQueue, Host, Ports};
use nagi_load::clock::{SECOND, now_ns};
use nagi_load::interrupt::Interrupt;
use std::net::IpAddr;
use std::thread::JoinHandle;

const INTERVAL_NS: u64 = SECOND / 20;
/// Reading the table of sockets takes at most one in this many parts of the time, because a table
/// of many sockets takes long to read.
const TABLE_SHARE: u64 = 10;

/// The objects that are sampled.
#[derive(Debug)]
pub(crate) struct Sampler {
    pub(crate) system: System,
    pub(crate) sockets: Option<SocketReader>,
    pub(crate) process: Option<ProcessReader>,
    /// Whether the server runs on this host.
    pub(crate) has_server: bool,
    /// The address of this host from which the server is reached.
    pub(crate) local: Option<IpAddr>,
    pub(crate) remote: String,
}

/// A thread that samples until it is stopped.
#[derive(Debug)]
pub(crate) struct Sampling {
    end: Interrupt,
    thread: JoinHandle<Host>,
}

/// Starts to sample.
pub(crate) fn start(sampler: Sampler) -> Sampling {
    let end = Interrupt::default();
    let until = end.clone();
    Sampling { end, thread: std::thread::spawn(move || sampler.run(&until)) }
}

impl Sampling {
    /// # Errors
    /// The thread panicked.
    pub(crate) fn stop(self) -> Result<Host, String> {
        self.end.set();
        self.thread.join().map_err(|_| "a probe of nagi doctor failed".to_owned())
    }
}

impl Sampler {
    fn run(mut self, end: &Interrupt) -> Host {
        let start_ns = now_ns();
        let counts_before = self.system.counts();
        let disciplines = disciplines().unwrap_or_default();
        let overflows = self.sockets.as_ref().and_then(SocketReader::listen_overflows);
        let mut most = Most::default();
        let server = self.sockets.as_ref().map(SocketReader::server);
        let mut queue = server.filter(|_| self.has_server).map(AcceptQueueReader::new);
        look_at(&mut queue);
        let mut connections = server.map(|server| ConnectionReader::new(server, self.has_server));
        let devices_before = devices(&self.system.proc());
        let mut table_due_ns = start_ns;
        while end.sleep_until(now_ns() + INTERVAL_NS).is_ok() {
            if let Some(process) = &mut self.process {
                process.look();
            }
            look_at(&mut queue);
            if let Some(reader) = self.sockets.as_ref().filter(|_| now_ns() >= table_due_ns) {
                let before_ns = now_ns();
                most.take(reader.read(), self.local);
                connections.as_mut().into_iter().for_each(ConnectionReader::look);
                let taken_ns = now_ns() - before_ns;
                table_due_ns = before_ns + (taken_ns * TABLE_SHARE).max(SECOND / 5);
            }
        }
        let seconds = (now_ns() - start_ns) as f64 / 1e9;
        let counts = self.system.counts();
        let overflows_now = self.sockets.as_ref().and_then(SocketReader::listen_overflows);
        // The queue is read after the total count, so that its drops include all drops of the
        // total.
        look_at(&mut queue);
        connections.as_mut().into_iter().for_each(ConnectionReader::look);
        let queue = queue.and_then(|queue| queue.finish());
        let grown = |now: Option<u64>, before: Option<u64>| {
            now.zip(before).map(|(now, before)| now.saturating_sub(before))
        };
        Host {
            has_server: self.has_server,
            ports: self.ports(&most),
            listen_overflows: grown(overflows_now, overflows),
            accept_queue: queue.or_else(|| most.accept_queue()),
            process: self.process.as_ref().map(|process| process.finish(seconds)),
            swapped_in: grown(counts.swapped_in, counts_before.swapped_in),
            pressure: counts.pressure_since(&counts_before, seconds),
            huge_pages: self.system.huge_pages(),
            overcommit: self.system.overcommit(),
            disciplines: active_since(&disciplines),
            tcp: connections.and_then(|connections| connections.finish()),
            devices: losses_since(&devices_before, devices(&self.system.proc())),
        }
    }

    fn ports(&self, most: &Most) -> Option<Ports> {
        let (local, reader) = (most.local.or(self.local)?, self.sockets.as_ref()?);
        let (range, reuse) = reader.port_range();
        Some(Ports {
            local: local.to_string(),
            remote: self.remote.clone(),
            range: range?,
            time_wait: most.time_wait,
            used: most.used,
            reuse,
        })
        .filter(|_| most.has_read)
    }
}

/// Samples the accept queue, if it is on this host and the kernel reports it.
fn look_at(queue: &mut Option<AcceptQueueReader>) {
    if let Some(queue) = queue
        && let Some(listeners) = listeners()
    {
        queue.take(&listeners);
    }
}

/// The maximum of each figure over all samples.
#[derive(Debug, Default)]
struct Most {
    has_read: bool,
    local: Option<IpAddr>,
    time_wait: u64,
    used: u64,
    waiting: Option<u64>,
    other_listeners: u64,
}

impl Most {
    /// Adds a sample. Of this host's addresses, the one with the most ports to the server counts.
    fn take(&mut self, sockets: Option<Sockets>, usual: Option<IpAddr>) {
        let Some(sockets) = sockets else { return };
        self.has_read = true;
        self.waiting = self.waiting.max(sockets.waiting);
        self.other_listeners = self.other_listeners.max(sockets.other_listeners);
        let fullest = sockets.towards.iter().max_by_key(|(_, (_, used))| *used);
        if let Some((local, (time_wait, used))) = fullest
            && (*used > self.used || self.local.is_none())
        {
            self.local = Some(*local).or(usual);
            (self.time_wait, self.used) = (*time_wait, *used);
        }
    }

    /// Returns the accept queue as far as the table of sockets shows it.
    fn accept_queue(&self) -> Option<AcceptQueue> {
        let other_listeners = Some(self.other_listeners);
        self.waiting.map(|waiting| AcceptQueue { waiting, other_listeners, ..<_>::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_sample_counts() {
        let [one, other]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|it| it.parse().unwrap());
        let sockets = |towards: &[(IpAddr, (u64, u64))], waiting| {
            let towards = towards.iter().copied().collect();
            Some(Sockets { towards, waiting, other_listeners: 3 })
        };
        let mut most = Most::default();
        most.take(None, None);
        assert!(!most.has_read);
        most.take(sockets(&[(one, (3, 4)), (other, (9, 10))], Some(2)), Some(one));
        most.take(sockets(&[(one, (1, 2))], None), Some(one));
        assert_eq!((most.local, most.time_wait, most.used), (Some(other), 9, 10));
        let queue = most.accept_queue().unwrap();
        assert_eq!((queue.waiting, queue.other_listeners, queue.drops), (2, Some(3), None));
    }
}
