//! The context of requests.

use super::budget::Budget;
use super::lasting::Lasting;
use super::refusal::{Refused, refuse};
use super::worker_connection::{ConnectionPool, Failure, WorkerConnection};
use crate::guard::Caller;
use crate::response;
use crate::site::{Rule, Site};
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The site, connections to its workers, and the memory budgets of requests.
pub(super) struct Service {
    pub(super) site: Arc<dyn Site>,
    pub(super) pool: Arc<ConnectionPool>,
    pub(super) budget: Budget,
    /// Of buffered arguments. Each may be as long as a value, so they have a budget of their own.
    pub(super) arguments: Budget,
    pub(super) lasting: Lasting,
    pub(super) web_sockets: WebSockets,
}

/// The number of open WebSockets.
#[derive(Clone, Default)]
pub(super) struct WebSockets(Arc<AtomicUsize>);

/// An open WebSocket, counted until it is dropped.
pub(super) struct OpenSocket {
    counted: WebSockets,
    site: Arc<dyn Site>,
}

impl WebSockets {
    /// Counts another one.
    pub(super) fn open(&self, site: &Arc<dyn Site>) -> OpenSocket {
        site.note_web_sockets(self.0.fetch_add(1, Ordering::Relaxed) + 1);
        OpenSocket { counted: self.clone(), site: Arc::clone(site) }
    }
}

impl Drop for OpenSocket {
    fn drop(&mut self) {
        let before = self.counted.0.fetch_sub(1, Ordering::Relaxed);
        self.site.note_web_sockets(before.saturating_sub(1));
    }
}

/// What becomes of messages, which are replies without end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Messages {
    /// The request cannot have any.
    None,
    /// They come until the client disconnects.
    UntilTheEnd,
    /// They come over a WebSocket, on which further commands can end them.
    OnSocket,
}

impl Service {
    /// A worker connection for a client's user; `may_last` if the request may have unlimited
    /// duration.
    pub(super) fn connection(
        &self,
        caller: &Caller,
        may_last: bool,
    ) -> Result<WorkerConnection, Failure> {
        let lasting = match may_last {
            true => Some(self.lasting.begin().ok_or(Failure::TooMany)?),
            false => None,
        };
        let mut connection = self.pool.take(&*self.site, caller)?;
        connection.lasting = lasting;
        Ok(connection)
    }

    /// The rule for a client's command.
    ///
    /// # Errors
    /// It is not allowed, or not by this method.
    pub(super) fn check(
        &self,
        caller: &Caller,
        words: &[Bytes],
        may_write: bool,
        messages: Messages,
    ) -> Result<Rule, Refused> {
        let rule = self.site.rule(words, caller.address.ip());
        match rule {
            Rule::Unknown => Err(refuse(404, "unknown command")),
            Rule::Refused(reason) => Err(refuse(403, reason)),
            Rule::Write if !may_write => {
                let reason = "commands that change data need POST or PUT (see http-writes-by-get)";
                let mut response = response::line(405, reason);
                let allowed = HeaderValue::from_static("POST, PUT");
                response.headers_mut().insert(header::ALLOW, allowed);
                Err(Box::new(response))
            }
            Rule::Stream if messages == Messages::None => {
                Err(refuse(403, "SUBSCRIBE and MONITOR need requests of their own"))
            }
            Rule::StreamEnd if messages != Messages::OnSocket => {
                Err(refuse(403, "only a WebSocket has subscriptions that can be ended"))
            }
            rule => Ok(rule),
        }
    }
}
