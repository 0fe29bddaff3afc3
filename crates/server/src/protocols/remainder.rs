//! The rest of a request that is not complete.

use crate::protocols::environment::RequestEnvironment;
use nagi_commands::memcached::Memcached;
use nagi_commands::{Client, Suspension, When, go_on};
use nagi_proto::{Args, Output};
use nagi_store::Wait;

/// What is left to do of a request, by the set of commands that it is of.
pub(crate) enum Remainder {
    /// Of a command of Redis.
    Command(Suspension),
    /// Of a verb of memcached, whose client wants no reply if it is quiet.
    Verb { suspension: Suspension<Memcached>, is_quiet: bool },
    /// All of it, reading included, once its client's waker has been called; with its place in a
    /// queue, if it waits in one.
    Unread(Option<Wait>),
}

impl Remainder {
    /// When it goes on.
    pub(crate) fn when(&self) -> When {
        match self {
            Remainder::Command(suspension) => suspension.when,
            Remainder::Verb { suspension, .. } => suspension.when,
            Remainder::Unread(_) => When::Woken,
        }
    }

    /// Whether the request has changed something, and must come to its end even without its client.
    pub(crate) fn is_committed(&self) -> bool {
        match self {
            Remainder::Command(suspension) => suspension.is_committed,
            Remainder::Verb { suspension, .. } => suspension.is_committed,
            Remainder::Unread(_) => false,
        }
    }

    /// Goes on for a slice. Returns what is left then.
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
