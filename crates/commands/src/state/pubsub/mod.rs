//! Publish and subscribe.
//!
//! A publisher looks up a channel in the map of all channels, and adds one entry to the inbox of
//! each worker with subscribers; the worker distributes it to them. Ten thousand subscribers
//! therefore cost a publisher no more than one on each worker, and a message can be published while
//! a shard's latch is held.
//!
//! All subscribers see the messages of a channel in the same order, since a publisher holds the
//! stripe of the channel while it fills all inboxes. Likewise, all subscribers of a pattern see the
//! messages of different channels in the same order. The messages of one publisher arrive in the
//! order in which they were sent, on any channels, since an inbox is read from the start.
//!
//! Locks are taken in this order: a stripe, the patterns, the order of patterns, a worker's table,
//! an inbox.

mod counts;
mod inbox;
mod kind;
mod message;
mod table;
#[cfg(test)]
mod tests;

use self::counts::Counts;
use self::inbox::{Inbox, Publishers};
use self::kind::Name;
use self::message::Publication;
use self::table::Table;
use crate::glob::Pattern;
use crate::state::client::ClientInfo;
pub use kind::{ByKind, Kind};
pub use message::Message;
use nagi_proto::Output;
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

/// Parts of the map of channels, each with its own lock. Even with a million channels, a part has
/// only some thousand, during whose listing PUBSUB CHANNELS holds the lock.
const STRIPES: usize = 256;
/// Approximate memory of a name in the maps, besides its bytes.
const NAME_BYTES: usize = 256;
/// Subscriptions of disconnected clients that are removed in one call.
const DEPARTED: usize = 1024;

type Names = HashMap<Name, Counts>;

/// Subscriptions, and pending messages for subscribers.
pub struct PubSub {
    stripes: Box<[Mutex<Stripe>]>,
    stripe_of: RandomState,
    patterns: RwLock<Names>,
    /// Held while a message for subscribers of patterns is put into inboxes.
    pattern_order: Mutex<()>,
    /// The number of names of each kind.
    names: ByKind<AtomicUsize>,
    /// The number of clients with subscriptions.
    clients: AtomicUsize,
    workers: Box<[Worker]>,
    publishers: Publishers,
}

/// A part of the channels, by their names.
#[derive(Default)]
struct Stripe {
    channels: Names,
    shards: Names,
}

/// The subscribers and the inbox of a worker.
#[derive(Default)]
struct Worker {
    table: Mutex<Table>,
    inbox: Inbox,
}

/// The result of publishing a message.
#[derive(Debug, Default)]
#[must_use]
pub struct Published {
    /// The number of receivers; a client counts once for each matching subscription.
    pub receivers: usize,
    /// The workers to wake, so that they send the message; to be woken once no latch is held.
    pub workers: Vec<usize>,
}

impl Stripe {
    fn names(&mut self, kind: Kind) -> &mut Names {
        if kind == Kind::Shard { &mut self.shards } else { &mut self.channels }
    }
}

impl Worker {
    /// Distributes the contents of the inbox to the current subscribers.
    fn distribute(&self, publishers: &Publishers) -> MutexGuard<'_, Table> {
        let mut table = self.table.lock();
        for publication in self.inbox.take() {
            table.distribute(&publication);
        }
        self.inbox.note_distributed(table.due_bytes(), publishers);
        table
    }

    /// Takes the pending messages of a client.
    fn take(&self, table: &mut Table, client: &ClientInfo, publishers: &Publishers) -> Output {
        let messages = table.take(client);
        self.inbox.note_distributed(table.due_bytes(), publishers);
        messages
    }
}

impl PubSub {
    /// Creates the state, without subscriptions.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        PubSub {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            stripe_of: RandomState::new(),
            patterns: RwLock::default(),
            pattern_order: Mutex::default(),
            names: ByKind::default(),
            clients: AtomicUsize::new(0),
            workers: (0..workers).map(|_| Worker::default()).collect(),
            publishers: Publishers::default(),
        }
    }

    /// Publishes a message to the subscribers of a channel or of a shard's channel. Any thread may
    /// call this, even with a shard's latch held. Without subscriptions, it costs a load and a
    /// branch.
    #[inline]
    pub fn publish<M: Into<Message>>(
        &self,
        kind: Kind,
        channel: &[u8],
        message: impl FnOnce() -> M,
    ) -> Published {
        let has_patterns = kind == Kind::Channel && self.count(Kind::Pattern) > 0;
        if !has_patterns && self.count(kind) == 0 {
            return Published::default();
        }
        self.enter(kind, channel, || message().into(), has_patterns)
    }

    #[inline(never)]
    fn enter(
        &self,
        kind: Kind,
        channel: &[u8],
        message: impl FnOnce() -> Message,
        has_patterns: bool,
    ) -> Published {
        let Some(mut stripe) = self.stripe(channel) else { return Published::default() };
        let own = stripe.names(kind).get_key_value(channel);
        let patterns = has_patterns.then(|| self.patterns.read());
        let fits = |(pattern, _): &(&Name, &Counts)| Pattern::new(pattern).matches(channel);
        let fitting: Vec<_> = patterns.iter().flat_map(|it| it.iter()).filter(fits).collect();
        let mut all = Counts::default();
        let counts = match own {
            None if fitting.is_empty() => return Published::default(),
            Some((_, counts)) if fitting.is_empty() => counts,
            own => {
                let of_patterns = fitting.iter().map(|(_, counts)| *counts);
                let of_channel = own.map(|(_, counts)| counts);
                of_patterns.chain(of_channel).for_each(|counts| all.merge(counts));
                &all
            }
        };
        let name = own.map_or_else(|| Name::from(channel), |(name, _)| Arc::clone(name));
        let _order = (!fitting.is_empty()).then(|| self.pattern_order.lock());
        let fitting = fitting.into_iter().map(|(pattern, _)| Arc::clone(pattern)).collect();
        let publication = Arc::new(Publication::new(kind, name, fitting, message()));
        let mut published = Published { receivers: counts.total(), workers: Vec::new() };
        for (index, count) in counts.iter() {
            let Some(worker) = self.workers.get(index) else { continue };
            if worker.inbox.push(Arc::clone(&publication), count, &self.publishers) {
                published.workers.push(index);
            }
        }
        published
    }

    /// The number of receivers that a message would have if it were published now.
    pub(crate) fn receivers(&self, kind: Kind, channel: &[u8]) -> usize {
        let own = self.subscribers(kind, channel);
        if kind != Kind::Channel || self.count(Kind::Pattern) == 0 {
            return own;
        }
        let patterns = self.patterns.read();
        let fitting = patterns.iter().filter(|(pattern, _)| Pattern::new(pattern).matches(channel));
        own + fitting.map(|(_, counts)| counts.total()).sum::<usize>()
    }

    /// Whether a publisher has to wait because workers are behind with earlier messages; if so, its
    /// waker will be called.
    #[inline]
    pub(crate) fn holds_up(&self, waker: &Waker) -> bool {
        self.publishers.wait(waker)
    }

    /// Whether workers are behind with earlier messages.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.publishers.is_any_full()
    }

    /// Adds a subscription of a client, if it does not exist. Called by its worker. Returns the
    /// client's earlier messages.
    pub(crate) fn subscribe(&self, client: &Arc<ClientInfo>, kind: Kind, name: &[u8]) -> Output {
        self.change(client, |worker| {
            self.with_names(kind, name, |names| {
                let mut table = worker.distribute(&self.publishers);
                let known = names.get_key_value(name).map(|(name, _)| Arc::clone(name));
                let name = known.unwrap_or_else(|| name.into());
                if table.add(client, kind, &name) {
                    let counts = names.entry(Arc::clone(&name)).or_default();
                    counts.charge.set(NAME_BYTES + name.len());
                    counts.add(client.worker(), 1);
                }
                worker.take(&mut table, client, &self.publishers)
            })
        })
    }

    /// Removes the subscription, if it exists.
    pub(crate) fn unsubscribe(&self, client: &ClientInfo, kind: Kind, name: &[u8]) -> Output {
        self.change(client, |worker| {
            self.with_names(kind, name, |names| {
                let mut table = worker.distribute(&self.publishers);
                let messages = worker.take(&mut table, client, &self.publishers);
                if table.remove(client, kind, name) {
                    forget(names, name, client.worker());
                }
                messages
            })
        })
    }

    /// Changes a client's subscriptions with `change`, and updates the number of clients with
    /// subscriptions.
    fn change(&self, client: &ClientInfo, change: impl FnOnce(&Worker) -> Output) -> Output {
        let Some(worker) = self.workers.get(client.worker()) else { return Output::default() };
        let before = client.is_subscriber();
        let messages = change(worker);
        count(&self.clients, before.into(), client.is_subscriber().into());
        messages
    }

    /// The names to which a client subscribes.
    pub(crate) fn names_of(&self, client: &ClientInfo, kind: Kind) -> Vec<Name> {
        let worker = self.workers.get(client.worker());
        worker.map_or_else(Vec::new, |worker| worker.table.lock().names_of(client, kind))
    }

    /// Removes all subscriptions of a client: when it disconnects, or sends RESET. If there are
    /// very many, [`PubSub::forget_departed`] removes the rest later.
    pub fn leave(&self, client: &ClientInfo) -> Output {
        if !client.is_subscriber() {
            return Output::default();
        }
        let messages = self.change(client, |worker| {
            let mut table = worker.distribute(&self.publishers);
            let messages = worker.take(&mut table, client, &self.publishers);
            table.depart(client);
            messages
        });
        self.forget_departed(client.worker());
        messages
    }

    /// Removes some subscriptions of a worker's disconnected clients. Returns whether there are
    /// more.
    pub fn forget_departed(&self, index: usize) -> bool {
        let Some(worker) = self.workers.get(index) else { return false };
        for _ in 0..DEPARTED {
            let Some((kind, name)) = worker.table.lock().next_departed() else { return false };
            self.with_names(kind, &name, |names| forget(names, &name, index));
        }
        true
    }

    /// The pending messages of one of a worker's subscribers, with its connection slot; `None` if
    /// there are none.
    pub fn next_messages(&self, worker: usize) -> Option<(u64, Output)> {
        let worker = self.workers.get(worker)?;
        let mut table = worker.table.lock();
        let next = match table.next() {
            Some(next) => Some(next),
            None => {
                drop(table);
                table = worker.distribute(&self.publishers);
                table.next()
            }
        };
        worker.inbox.note_distributed(table.due_bytes(), &self.publishers);
        next
    }

    /// The pending messages of a client that have already been encoded.
    pub fn encoded_messages_of(&self, client: &ClientInfo) -> Output {
        let Some(worker) = self.workers.get(client.worker()) else { return Output::default() };
        worker.take(&mut worker.table.lock(), client, &self.publishers)
    }

    /// All pending messages of a client.
    pub fn messages_of(&self, client: &ClientInfo) -> Output {
        let Some(worker) = self.workers.get(client.worker()) else { return Output::default() };
        worker.take(&mut worker.distribute(&self.publishers), client, &self.publishers)
    }

    /// The number of names of a kind with subscribers.
    #[inline]
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.names.of(kind).load(Ordering::Acquire)
    }

    /// The number of clients with subscriptions.
    pub(crate) fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// The number of subscribers to a name.
    pub(crate) fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        self.with_names(kind, name, |names| names.get(name).map_or(0, Counts::total))
    }

    /// The channels of one part that match a pattern; `None` after the last part.
    pub(crate) fn channels(
        &self,
        kind: Kind,
        part: usize,
        pattern: &Pattern<'_>,
    ) -> Option<Vec<Name>> {
        let mut stripe = self.stripes.get(part)?.lock();
        let fitting = stripe.names(kind).keys().filter(|name| pattern.matches(name));
        Some(fitting.cloned().collect())
    }

    /// Calls `change` with the map that contains a name, and updates the number of names. No
    /// message is published to the name meanwhile.
    fn with_names<R: Default>(
        &self,
        kind: Kind,
        name: &[u8],
        change: impl FnOnce(&mut Names) -> R,
    ) -> R {
        let counted = |names: &mut Names| {
            let before = names.len();
            let result = change(names);
            count(self.names.of(kind), before, names.len());
            result
        };
        if kind == Kind::Pattern {
            return counted(&mut self.patterns.write());
        }
        self.stripe(name).map_or_else(R::default, |mut stripe| counted(stripe.names(kind)))
    }

    fn stripe(&self, name: &[u8]) -> Option<MutexGuard<'_, Stripe>> {
        let hash = self.stripe_of.hash_one(name) as usize;
        self.stripes.get(hash % STRIPES).map(Mutex::lock)
    }
}

impl fmt::Debug for PubSub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PubSub").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Removes one of a worker's subscribers to a name, and the name with its last subscriber.
fn forget(names: &mut Names, name: &[u8], worker: usize) {
    let Some(counts) = names.get_mut(name) else { return };
    counts.remove(worker);
    if counts.total() == 0 {
        names.remove(name);
    }
}

/// Updates a count after items were added or removed.
fn count(counted: &AtomicUsize, before: usize, after: usize) {
    if after > before {
        counted.fetch_add(after - before, Ordering::AcqRel);
    } else if before > after {
        counted.fetch_sub(before - after, Ordering::AcqRel);
    }
}
