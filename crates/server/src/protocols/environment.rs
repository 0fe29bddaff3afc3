//! The environment in which the requests of a slice are executed.

use crate::state::shared::Shared;
use nagi_commands::admission::Restrictions;
use nagi_commands::memcached;
use nagi_commands::{Client, Context, Marks, Server as _, Tally};
use nagi_proto::{Args, Output};
use nagi_store::{Counters, Database, Key};

/// The environment in which the requests of a slice are executed.
pub(crate) struct RequestEnvironment<'w> {
    pub(crate) shared: &'w Shared,
    /// This worker's counters of keys.
    pub(crate) counters: &'w Counters,
    /// This worker's counters of requests.
    pub(crate) tally: &'w Tally,
    /// The time of the slice, in milliseconds since 1970.
    pub(crate) now_ms: u64,
}

impl RequestEnvironment<'_> {
    /// The context for a command's handler.
    #[inline]
    pub(crate) fn context<'a>(
        &'a self,
        client: &'a mut Client,
        out: &'a mut Output,
        args: Args<'a>,
        prefetched: Option<Key<'a>>,
    ) -> Context<'a> {
        Context {
            db: self.database(client),
            reply: nagi_proto::resp::Writer::new(out, client.version),
            client,
            server: self.shared,
            hooks: &self.shared.hooks,
            tally: self.tally,
            args,
            prefetched,
            suspension: None,
        }
    }

    /// Appends messages published for a client, if it has subscriptions.
    #[inline]
    pub(crate) fn send_messages(&self, client: &mut Client, out: &mut Output) {
        if client.restrictions.contains(Restrictions::SUBSCRIBES) {
            out.append(&client.take_messages());
            out.append(&self.shared.pubsub().messages_of(&client.info));
        }
    }

    /// Appends only those messages that are already encoded in the client's protocol version, which
    /// the next request may change.
    #[inline]
    pub(crate) fn send_encoded_messages(&self, client: &Client, out: &mut Output) {
        if client.restrictions.contains(Restrictions::SUBSCRIBES) {
            out.append(&self.shared.pubsub().encoded_messages_of(&client.info));
        }
    }

    /// A client's database.
    #[inline]
    fn database(&self, client: &Client) -> Database<'_> {
        let db = self.database_at(client.database);
        if client.info.marks().contains(Marks::NO_TOUCH) { db.untouched() } else { db }
    }

    /// A database by its number. While writes are paused, no key in it expires.
    #[inline]
    fn database_at(&self, index: usize) -> Database<'_> {
        let db = self.shared.store.database(index, self.counters, self.now_ms);
        if self.shared.hooks.is_paused(self.now_ms) { db.keeping_expired() } else { db }
    }

    /// The context for a handler of memcached's verbs.
    #[inline]
    pub(crate) fn memcached_context<'a>(
        &'a self,
        client: &'a mut Client,
        out: &'a mut Output,
        args: Args<'a>,
        quiet: bool,
        prefetched: Option<Key<'a>>,
    ) -> memcached::Context<'a> {
        memcached::Context {
            db: self.database_at(0),
            client,
            server: self.shared,
            hooks: &self.shared.hooks,
            tally: self.tally,
            reply: nagi_proto::memcached::Writer::new(out, quiet),
            args,
            prefetched,
            suspension: None,
        }
    }
}
