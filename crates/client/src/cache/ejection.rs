//! Ejects failed servers from the ring, and readmits them without reading old values.
//!
//! An ejected server may hold values that this client has since replaced on other servers. It must
//! therefore be empty when it returns: restarted, or flushed. During the ejection, its keys are
//! written to other servers, which would return these old copies at the next ejection. On a ring of
//! unequal weights, keys of servers that are not ejected move as well. Therefore each write to
//! another server than usual is recorded, and the copies are deleted before the ring changes.

use std::time::Instant;

use super::engine::{Engine, Routed};
use super::failure::Reason;
use super::identity::{Identity, starts_empty};
use super::settings::{Ejection, OnFailure};
use super::socket::Socket;
use super::watch::Out;
use crate::ring::Server;
use crate::wire::{Answer, Dialect, Request};

/// The result of trying an ejected server.
enum Visit {
    /// The server does not answer, or refuses to be flushed.
    Failed,
    /// The server answers again, but may still execute earlier requests.
    Settling,
    /// The server has no values written by this client.
    Empty,
}

impl<S: Socket> Engine<S> {
    pub(crate) fn ejected(&self) -> Vec<&Server> {
        let servers = self.ring.servers().iter().enumerate();
        servers.filter(|(place, _)| self.watch.is_out(*place)).map(|(_, server)| server).collect()
    }

    /// Ejects the servers that have failed often enough, and tries to readmit one that is due.
    pub(super) async fn tend(&mut self) {
        let OnFailure::Eject(ejection) = self.settings.on_failure else { return };
        if self.ring.is_ejecting() {
            self.visit_due(&ejection).await;
            self.eject_failing(&ejection).await;
        }
    }

    /// Records that a request may leave a copy of its key on another server than usual, or miss
    /// one.
    ///
    /// # Errors
    /// Too many copies are recorded already.
    pub(super) fn note(
        &mut self,
        master: &[u8],
        server: usize,
        request: &Request<'_>,
    ) -> Result<(), Reason> {
        let OnFailure::Eject(ejection) = self.settings.on_failure else { return Ok(()) };
        let (Some(ring), Some(key)) = (&self.watch.home, written(request)) else { return Ok(()) };
        let home = ring.locate(master).unwrap_or(usize::MAX);
        if home == server {
            return Ok(());
        }
        let copy = (server, key.to_vec());
        if !self.watch.away.contains(&copy) && self.watch.away.len() >= 2 * ejection.keys {
            return Err(Reason::Request(format!(
                "{} has been ejected, and {} keys are on other servers already",
                self.name(home),
                ejection.keys
            )));
        }
        self.watch.away.insert(copy);
        // An ejected server is emptied before it returns, so its copies need not be recorded.
        if !self.watch.is_out(home) {
            self.watch.away.insert((home, key.to_vec()));
        }
        Ok(())
    }

    async fn eject_failing(&mut self, ejection: &Ejection) {
        let connections = self.connections();
        let mut out = self.watch.out.clone();
        out.resize(self.ring.servers().len(), None);
        let mut ejected = Vec::new();
        for (server, of_server) in out.iter_mut().enumerate() {
            let links = || self.links.iter().skip(server * connections).take(connections);
            let failures = links().map(|link| link.failures).max().unwrap_or(0);
            if failures < ejection.failures.max(1) || of_server.is_some() {
                continue;
            }
            let newest = links().filter_map(|link| link.identity.clone()).max_by_key(|(at, _)| *at);
            let earlier = newest.map(|(_, identity)| identity);
            let until = Instant::now() + ejection.duration;
            *of_server = Some(Out { until, earlier, answered: false });
            ejected.push(server);
        }
        // All at once: the copies on one of them could not be deleted while another one is ejected.
        let remain = out.iter().any(Option::is_none);
        if !ejected.is_empty() && remain && self.change(out).await {
            ejected.into_iter().for_each(|server| self.reset_links(server));
        }
    }

    async fn visit_due(&mut self, ejection: &Ejection) {
        let now = Instant::now();
        // Only one server is tried at a time, so that servers that still do not answer cost one
        // timeout.
        let due = |out: &Option<Out>| out.as_ref().is_some_and(|out| out.until <= now);
        let Some(server) = self.watch.out.iter().position(due) else { return };
        let Some(Some(mut out)) = self.watch.out.get(server).cloned() else { return };
        match self.visit(server, &out).await {
            Visit::Failed => {
                self.reset_links(server);
                out.answered = false;
                out.until = Instant::now() + ejection.duration;
            }
            Visit::Settling => {
                out.answered = true;
                out.until = Instant::now() + ejection.settling;
            }
            Visit::Empty => {
                let mut others = self.watch.out.clone();
                if let Some(of_server) = others.get_mut(server) {
                    *of_server = None;
                }
                if self.change(others).await {
                    return;
                }
                out.until = Instant::now() + ejection.settling;
            }
        }
        if let Some(of_server) = self.watch.out.get_mut(server) {
            *of_server = Some(out);
        }
    }

    /// Checks whether a server answers again and was restarted empty; otherwise flushes it.
    async fn visit(&mut self, server: usize, out: &Out) -> Visit {
        let connections = self.connections();
        let Some(link) = self.links.get_mut(server * connections) else { return Visit::Failed };
        let statistics = |answer| match answer {
            Ok(Answer::Pairs(pairs)) => Ok(pairs),
            Ok(_) => Ok(Vec::new()),
            Err(reason) => Err::<_, Reason>(reason),
        };
        let answer = link.ask(&self.settings, &Request::Stats { section: "" }).await;
        let Ok(pairs) = statistics(answer) else { return Visit::Failed };
        let process = Identity::read(&pairs).zip(out.earlier.as_ref());
        if process.is_some_and(|(process, earlier)| process.is_newer_than(earlier)) {
            let section = match self.settings.dialect {
                Dialect::Resp => "persistence",
                Dialect::Text | Dialect::Meta | Dialect::Binary => "settings",
            };
            let answer = link.ask(&self.settings, &Request::Stats { section }).await;
            match statistics(answer) {
                Ok(pairs) if starts_empty(&pairs) => return Visit::Empty,
                Ok(_) => {}
                Err(_) => return Visit::Failed,
            }
        }
        if !out.answered {
            return Visit::Settling;
        }
        match link.ask(&self.settings, &Request::Flush).await {
            Ok(Answer::Done) => Visit::Empty,
            _ => Visit::Failed,
        }
    }

    /// Makes `out` the ejected servers, after deleting the copies that would then be stale. Returns
    /// `false`, without changing the ring, if a copy could not be deleted.
    async fn change(&mut self, out: Vec<Option<Out>>) -> bool {
        let is_out = |server: usize| matches!(out.get(server), Some(Some(_)));
        // An ejected server is emptied before it returns, so its copies need not be deleted.
        let copies = self.watch.away.iter().filter(|(server, _)| !is_out(*server));
        let copies: Vec<(usize, Vec<u8>)> = copies.cloned().collect();
        let deletions: Vec<Routed<'_>> =
            copies.iter().map(|(server, key)| (*server, Request::Delete { key })).collect();
        let results = self.exchange_once(&deletions).await;
        let is_clean = results.iter().all(Result::is_ok);
        for (copy, result) in copies.iter().zip(results) {
            if result.is_ok() {
                self.watch.away.remove(copy);
            }
        }
        if !is_clean {
            return false;
        }
        self.watch.away.clear();
        let home = self.watch.home.take().unwrap_or_else(|| self.ring.clone());
        let places: Vec<bool> = out.iter().map(Option::is_some).collect();
        self.ring.eject(&places);
        self.watch.home = places.contains(&true).then_some(home);
        self.watch.out = out;
        true
    }

    fn reset_links(&mut self, server: usize) {
        let connections = self.connections();
        for link in self.links.iter_mut().skip(server * connections).take(connections) {
            link.reset(&self.settings);
        }
    }
}

/// Returns the key that a request changes.
fn written<'a>(request: &Request<'a>) -> Option<&'a [u8]> {
    match request {
        Request::Store { key, .. } | Request::Delete { key } | Request::Count { key, .. } => {
            Some(key)
        }
        _ => None,
    }
}
