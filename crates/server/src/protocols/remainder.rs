//! The remaining work of a suspended request.

use crate::protocols::environment::RequestEnvironment;
use nagi_commands::memcached::Memcached;
use nagi_commands::{Client, Suspension, When, go_on};
use nagi_proto::{Args, Output};
use nagi_store::Wait;

/// The remaining work of a request, by its command set.
pub(crate) enum Remainder {
    /// A Redis command.
    Command(Suspension),
    /// A memcached verb; a quiet one gets no reply.
    Verb { suspension: Suspension<Memcached>, is_quiet: bool },
    /// The whole request, with parsing, after its client's waker has been called. Holds its place
    /// in a queue, if it waits in one.
    Unread(Option<Wait>),
}

impl Remainder {
    /// When the request continues.
    pub(crate) fn when(&self) -> When {
        match self {
            Remainder::Command(suspension) => suspension.when,
            Remainder::Verb { suspension, .. } => suspension.when,
            Remainder::Unread(_) => When::Woken,
        }
    }

    /// Whether the request has changed data and must be completed even if its client disconnects.
    pub(crate) fn is_committed(&self) -> bool {
        match self {
            Remainder::Command(suspension) => suspension.is_committed,
            Remainder::Verb { suspension, .. } => suspension.is_committed,
            Remainder::Unread(_) => false,
        }
    }

    /// Runs a slice. Returns the work that is then left.
    pub(crate) fn go_on(
        self,
        args: Args<'_>,
        client: &mut Client,
        environment: &RequestEnvironment<'_>,
        out: &mut Output,
    ) -> Option<Self> {
        match self {
            Remainder::Command(suspension) => {
                let mut cx = environment.context(client, out, args, None);
                go_on(&mut cx, suspension);
                cx.suspension.map(Remainder::Command)
            }
            Remainder::Verb { suspension, is_quiet } => {
                let mut cx = environment.memcached_context(client, out, args, is_quiet, None);
                go_on(&mut cx, suspension);
                cx.suspension.map(|suspension| Remainder::Verb { suspension, is_quiet })
            }
            unread @ Remainder::Unread(_) => Some(unread),
        }
    }
}
