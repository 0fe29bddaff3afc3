//! The state of a client for handlers, and for other clients in CLIENT LIST.

use crate::state::frozen_time::FrozenTime;
use crate::state::held_messages::HeldMessages;
use crate::state::http_client::{Counted, Counting, HttpClient};
use crate::state::pubsub::{ByKind, Kind};
use crate::state::scripts::Leased;
use crate::state::shown_key::ShownKey;
use crate::state::tracking_options::ClientTracking;
use crate::state::transaction::Transaction;
use crate::state::users::{DEFAULT_USER, Name, User, Users};
use crate::state::watched_keys::{self, Watches};
use nagi_proto::Output;
use nagi_proto::resp::Version;
use nagi_store::Counter;
use parking_lot::{Mutex, MutexGuard};
use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

bitflags::bitflags! {
    /// Conditions under which a client's requests need further checks or other special treatment.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Restrictions: u8 {
        /// A password was required when it connected, and has not been given.
        const NOT_LOGGED_IN = 1 << 0;
        /// `maxclients` had been reached: its connection is reserved for administrators.
        const ADMINISTRATES = 1 << 1;
        /// It speaks one of memcached's protocols, for which there is a file of users, and has not
        /// logged in as one of them.
        const NO_USER_OF_MEMCACHED = 1 << 2;
        /// Its requests are queued for EXEC.
        const IN_TRANSACTION = 1 << 3;
        /// It has subscriptions, which restricts its commands in RESP2.
        const SUBSCRIBES = 1 << 4;
        /// It receives invalidations of keys that it has read.
        const TRACKS = 1 << 5;
        /// A script makes its requests.
        const IN_SCRIPT = 1 << 6;
        /// Its user is not the default one, and may have been removed.
        const NAMED_USER = 1 << 7;
    }
}

/// The state of a connection that commands read and change. It is owned by the connection's worker.
#[derive(Debug)]
pub struct Client {
    /// The database selected by SELECT.
    pub database: usize,
    /// The protocol version chosen by HELLO.
    pub version: Version,
    /// Whether to close the connection once its replies are sent.
    pub closing: bool,
    /// Whether the client has requested that (QUIT).
    pub has_quit: bool,
    /// The conditions that apply to its requests.
    pub restrictions: Restrictions,
    /// The replies that it receives (CLIENT REPLY).
    pub reply_mode: ReplyMode,
    /// Whether EXEC runs its requests, whose replies must not be interrupted.
    pub(crate) is_executing: bool,
    /// The time that its requests see within EXEC, or within a script.
    pub(crate) frozen_time: Option<FrozenTime>,
    /// How long another thread has worked on its request, or how long DEBUG SLEEP has slept; taken
    /// when the request is timed.
    pub worked_elsewhere: Duration,
    /// Messages of other clients, until the current reply is complete.
    messages: HeldMessages,
    /// Whether the current request is answered although replies are off.
    pub is_answered_anyway: bool,
    /// Whether a request was refused before it ran; taken when the request is timed.
    pub was_rejected: bool,
    /// The state visible to other clients.
    pub info: Arc<ClientInfo>,
    /// Called when the wait of the client's request ends.
    pub waker: Waker,
    /// When it began to wait for a save whose images are near their limit, if it waits.
    pub(crate) delayed_since: Option<Box<Instant>>,
    /// The requests queued since MULTI.
    pub(crate) transaction: Option<Box<Transaction>>,
    /// The keys that it watches.
    pub(crate) watches: Watches,
    /// Its tracking of keys, if enabled.
    pub(crate) tracking: Option<Box<ClientTracking>>,
    /// The lease of the script thread, while EXEC runs requests of which some are scripts.
    pub(crate) leased: Option<Box<Leased>>,
    /// Its user; `None` as long as the default user applies and has not been looked up.
    identity: Option<Box<Identity>>,
}

/// A client's user, as of the last lookup.
#[derive(Debug)]
struct Identity {
    name: Name,
    /// `None` if it has been deleted since.
    user: Option<Arc<User>>,
    /// The [`Users::generation`] of that lookup.
    generation: u64,
}

impl Client {
    /// A client that has just connected.
    #[must_use]
    pub fn new(info: Arc<ClientInfo>) -> Self {
        Client {
            database: 0,
            version: Version::Two,
            closing: false,
            has_quit: false,
            restrictions: Restrictions::empty(),
            reply_mode: ReplyMode::default(),
            is_executing: false,
            frozen_time: None,
            worked_elsewhere: Duration::ZERO,
            messages: HeldMessages::default(),
            is_answered_anyway: false,
            was_rejected: false,
            info,
            waker: Waker::noop().clone(),
            delayed_since: None,
            transaction: None,
            watches: Watches::default(),
            tracking: None,
            identity: None,
            leased: None,
        }
    }

    /// The name of its user.
    pub(crate) fn user_name(&self) -> &[u8] {
        self.identity.as_ref().map_or(DEFAULT_USER, |identity| &identity.name)
    }

    /// Changes its user. Returns whether there is such a user.
    pub(crate) fn become_user(&mut self, users: &Users, name: &[u8]) -> bool {
        // Shown before the lookup, so that a removal of the user after it finds this client.
        self.info.names().user = (name != DEFAULT_USER).then(|| name.into());
        let generation = users.generation();
        let identity = Identity { name: name.into(), user: users.get(name), generation };
        let is_known = identity.user.is_some();
        self.restrictions.set(Restrictions::NAMED_USER, name != DEFAULT_USER);
        self.identity = Some(Box::new(identity));
        is_known
    }

    /// Changes its user, if there is such a user. Returns whether there is.
    pub(crate) fn log_in(&mut self, users: &Users, name: &[u8]) -> bool {
        let before = Name::from(self.user_name());
        let is_known = self.become_user(users, name);
        if !is_known {
            // Its earlier user may have been removed while the other one was shown.
            self.closing |= !self.become_user(users, &before);
        }
        is_known
    }

    /// Its current user; `None` if it has been deleted.
    pub(crate) fn user(&mut self, users: &Users) -> Option<Arc<User>> {
        let generation = users.generation();
        let known = self.identity.as_ref().filter(|known| known.generation == generation);
        if known.is_none() {
            let name = Name::from(self.user_name());
            self.become_user(users, &name);
        }
        self.identity.as_ref()?.user.clone()
    }

    /// The generation of users at the last lookup of its user, if there was one.
    pub(crate) fn known_generation(&self) -> Option<u64> {
        self.identity.as_ref().map(|identity| identity.generation)
    }

    /// Closes the connection, as requested by the client.
    pub(crate) fn quit(&mut self) {
        self.closing = true;
        self.has_quit = true;
    }

    /// Selects the database of further requests. The database must exist.
    pub(crate) fn select(&mut self, index: usize) {
        self.database = index;
        self.info.database.store(index, Ordering::Relaxed);
    }

    /// Discards the queued requests and the watched keys, and returns them.
    pub(crate) fn end_transaction(&mut self) -> (Option<Box<Transaction>>, Watches) {
        self.restrictions.remove(Restrictions::IN_TRANSACTION);
        let ended = (self.transaction.take(), std::mem::take(&mut self.watches));
        self.note_transaction();
        ended
    }

    /// Updates the visible numbers of queued requests and watched keys.
    pub(crate) fn note_transaction(&self) {
        let queued = self.transaction.as_ref();
        let info = &self.info;
        let requests = queued.map_or(0, |queued| queued.requests().len() + 1);
        info.queued_requests.store(requests, Ordering::Relaxed);
        info.queued_bytes.store(queued.map_or(0, |it| it.bytes()), Ordering::Relaxed);
        info.watched_keys.store(self.watches.len(), Ordering::Relaxed);
    }

    /// Holds messages of other clients until the current reply is complete.
    pub fn hold_messages(&mut self, messages: &Output) {
        self.messages.push(messages);
    }

    /// The number of bytes of messages that are held.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.messages.len()
    }

    /// Removes and returns the messages that were held.
    pub fn take_messages(&mut self) -> Output {
        if self.messages.is_empty() {
            return Output::default();
        }
        let messages = self.messages.take();
        self.note_subscriptions();
        messages
    }

    /// Records whether it has subscriptions, or unsent messages of earlier ones.
    pub(crate) fn note_subscriptions(&mut self) {
        let subscribes = self.info.is_subscriber() || !self.messages.is_empty();
        self.restrictions.set(Restrictions::SUBSCRIBES, subscribes);
        self.info.mark(Marks::PUBSUB, subscribes);
    }

    /// Whether it has subscriptions and speaks RESP2, in which messages look like replies.
    pub(crate) fn receives_messages_only(&self) -> bool {
        self.restrictions.contains(Restrictions::SUBSCRIBES)
            && self.version == Version::Two
            && self.info.is_subscriber()
    }

    /// Sets the protocol version of further replies.
    pub(crate) fn speak(&mut self, version: Version) {
        self.version = version;
        self.info.resp.store(version.number(), Ordering::Relaxed);
    }
}

/// The replies that a client receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// All replies.
    #[default]
    All,
    /// No replies until further notice (CLIENT REPLY OFF).
    Nothing,
    /// No reply to the next request (CLIENT REPLY SKIP).
    AllButNext,
    /// No reply to the current request, the one after CLIENT REPLY SKIP.
    AllButThis,
}

impl ReplyMode {
    /// Returns whether the request that begins now gets a reply.
    #[inline]
    pub fn begin(&mut self) -> bool {
        if *self == ReplyMode::AllButNext {
            *self = ReplyMode::AllButThis;
        }
        *self == ReplyMode::All
    }

    /// Ends the request, and returns whether its reply is sent nevertheless: CLIENT REPLY ON.
    pub fn end(&mut self) -> bool {
        let all = *self == ReplyMode::All;
        if *self == ReplyMode::AllButThis {
            *self = ReplyMode::All;
        }
        all
    }
}

bitflags::bitflags! {
    /// Special properties of a connection.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Marks: u32 {
        /// It is about to be closed, and executes no more requests.
        const KILLED = 1 << 0;
        /// It is shown the requests of all clients (MONITOR).
        const MONITOR = 1 << 1;
        /// It is not closed to save memory (CLIENT NO-EVICT).
        const NO_EVICT = 1 << 2;
        /// Its reads do not count as uses (CLIENT NO-TOUCH).
        const NO_TOUCH = 1 << 3;
        /// Its request waits for something.
        const WAITING = 1 << 4;
        /// It has connected through a Unix socket.
        const UNIX_SOCKET = 1 << 5;
        /// It is shown events, and its requests are no longer read (memcached's `watch`).
        const WATCHER = 1 << 6;
        /// It has subscriptions.
        const PUBSUB = 1 << 7;
        /// It is shared by requests over HTTP.
        const GATEWAY = 1 << 8;
        /// It tracks keys.
        const TRACKING = 1 << 9;
        /// It tracks keys by their prefixes.
        const BROADCAST_TRACKING = 1 << 10;
        /// The client that received its invalidations has disconnected.
        const BROKEN_REDIRECT = 1 << 11;
        /// It is about to be closed to save memory.
        const EVICTED = 1 << 12;
        /// It is moving to another worker.
        const MOVING = 1 << 13;
        /// It waits for a script, whose messages follow its reply.
        const RUNS_SCRIPT = 1 << 14;
    }
}

/// The class of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Requests and their replies.
    Normal,
    /// Messages of other clients.
    PubSub,
    /// Replication, which has no connections.
    Replication,
}

impl Class {
    /// The class of this name.
    pub(crate) fn named(word: &[u8]) -> Option<Self> {
        let names = [
            ("normal", Class::Normal),
            ("pubsub", Class::PubSub),
            ("master", Class::Replication),
            ("replica", Class::Replication),
            ("slave", Class::Replication),
        ];
        names
            .into_iter()
            .find_map(|(name, class)| word.eq_ignore_ascii_case(name.as_bytes()).then_some(class))
    }
}

/// The address of the client of a script, as in Redis.
pub(crate) const SCRIPT_ADDRESS: &str = "lua";

/// The state of a connection that is visible to all workers. Its worker writes, any thread reads.
#[derive(Debug, Default)]
pub struct ClientInfo {
    /// Unique and ascending over the life of the process.
    pub id: u64,
    /// The peer's address, as in `127.0.0.1:50412`; [`ClientInfo::shown_address`] is the displayed
    /// one.
    pub address: String,
    /// The address that it connected to.
    pub local_address: String,
    /// The client of its current request, if it is shared by requests over HTTP; also of a script.
    pub http_client: Option<Arc<HttpClient>>,
    /// Its descriptor.
    pub descriptor: i32,
    /// The worker that owns it, which changes when the connection moves.
    pub worker: AtomicUsize,
    /// Its slot in that worker, for tasks that other threads post to the worker.
    pub connection_token: AtomicU64,
    /// [`Marks`], as bits.
    pub marks: AtomicU32,
    /// When it connected, in milliseconds since 1970.
    pub connected_at_ms: u64,
    /// When it last sent something, or received a message unasked, in milliseconds since 1970.
    pub active_at_ms: AtomicU64,
    /// Its database.
    pub database: AtomicUsize,
    /// 2 or 3; 0 if it speaks memcached's protocol.
    pub resp: AtomicU32,
    /// Bytes received and not yet executed.
    pub query_bytes: AtomicUsize,
    /// Bytes of replies not yet sent.
    pub output_bytes: AtomicUsize,
    /// Queued requests plus one since MULTI; 0 without a transaction.
    pub queued_requests: AtomicUsize,
    /// Memory of the queued requests, in bytes.
    pub queued_bytes: AtomicUsize,
    /// The number of keys that it watches.
    pub watched_keys: AtomicUsize,
    /// The number of key prefixes whose invalidations it receives.
    pub tracked_prefixes: AtomicUsize,
    /// Memory of unsent replies, in bytes, updated at least every tenth of a second. Of large
    /// values that other clients hold as well, only a share counts.
    pub kept_output_bytes: AtomicUsize,
    /// Bytes that it has sent.
    pub received_bytes: Counter,
    /// Bytes of replies and messages to it, sent or about to be.
    pub sent_bytes: Counter,
    /// Its requests that have been read.
    pub requests: Counter,
    /// The time for which its worker was busy with it, from receiving to sending, in ticks.
    pub busy_ticks: Counter,
    /// The number of the last command, even if it was refused or queued, for
    /// [`crate::CommandTable::label`]; 0 for none and for unknown ones.
    pub last_command: AtomicU32,
    /// Whether its request is executed in slices, for pages. A request that waits for its script is
    /// waiting here.
    pub is_executing: AtomicBool,
    /// Whether its request waits to be woken, for pages: also for keys that another request has
    /// claimed, which does not make it a blocked client of INFO.
    pub is_waiting: AtomicBool,
    /// The key of the current or last request, for pages.
    pub shown_key: ShownKey,
    /// The client that receives its invalidations; 0 for none.
    pub redirect: AtomicU64,
    /// The numbers of its subscriptions.
    pub subscriptions: ByKind<AtomicUsize>,
    /// The names that it has set.
    pub names: Mutex<ClientNames>,
}

impl Counting for ClientInfo {
    fn counted(&self) -> Counted {
        Counted {
            received_bytes: self.received_bytes.get(),
            sent_bytes: self.sent_bytes.get(),
            requests: self.requests.get(),
            busy_ticks: self.busy_ticks.get(),
            since_ms: self.connected_at_ms,
        }
    }
}

impl ClientInfo {
    /// The counters of the current HTTP client, or of the connection.
    pub(crate) fn shown_counters(&self) -> Counted {
        let counted = self.counted();
        self.http_client.as_ref().map_or(counted, |client| client.since(counted))
    }

    /// Makes CLIENT LIST and ACL LOG show a command, by its index among the entries, as the last
    /// one; `None` is an unknown command.
    #[inline]
    pub fn note_command(&self, index: Option<usize>) {
        let number = index.and_then(|index| u32::try_from(index + 1).ok()).unwrap_or(0);
        self.last_command.store(number, Ordering::Relaxed);
    }

    /// Makes pages show whether the current request is suspended, and if so, whether it `waits` to
    /// be woken.
    #[inline]
    pub fn note_suspended(&self, waits: Option<bool>) {
        self.is_executing.store(waits == Some(false), Ordering::Relaxed);
        self.is_waiting.store(waits == Some(true), Ordering::Relaxed);
    }

    /// The name that the client gave itself.
    #[must_use]
    pub fn name(&self) -> String {
        self.names().name.clone()
    }

    /// The address of the current HTTP client, or of the peer. Scripts are shown as such.
    #[must_use]
    pub fn shown_address(&self) -> Cow<'_, str> {
        match &self.http_client {
            Some(client) if self.address != SCRIPT_ADDRESS => {
                Cow::Owned(client.address().to_string())
            }
            _ => Cow::Borrowed(&self.address),
        }
    }

    /// The worker that owns it, or to which it is moving.
    #[must_use]
    pub fn worker(&self) -> usize {
        self.worker.load(Ordering::SeqCst)
    }

    /// Its slot in its worker.
    #[must_use]
    pub fn connection_token(&self) -> u64 {
        self.connection_token.load(Ordering::Relaxed)
    }

    /// Its special properties.
    #[must_use]
    pub fn marks(&self) -> Marks {
        Marks::from_bits_truncate(self.marks.load(Ordering::Relaxed))
    }

    /// Sets or clears marks.
    pub fn mark(&self, marks: Marks, set: bool) {
        if set {
            self.marks.fetch_or(marks.bits(), Ordering::Relaxed);
        } else {
            self.marks.fetch_and(!marks.bits(), Ordering::Relaxed);
        }
    }

    /// The names that the client has set.
    pub(crate) fn names(&self) -> MutexGuard<'_, ClientNames> {
        self.names.lock()
    }

    /// The number of its subscriptions of a kind.
    pub(crate) fn subscriptions(&self, kind: Kind) -> usize {
        self.subscriptions.of(kind).load(Ordering::Relaxed)
    }

    /// Whether it has any subscription.
    pub(crate) fn is_subscriber(&self) -> bool {
        self.subscriptions.iter().any(|names| names.load(Ordering::Relaxed) > 0)
    }

    /// Its class, which determines limits.
    #[must_use]
    pub fn class(&self) -> Class {
        if self.marks().contains(Marks::PUBSUB) { Class::PubSub } else { Class::Normal }
    }

    /// Whether it has connected from this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let address: Option<SocketAddr> = self.address.parse().ok();
        address.is_none_or(|address| address.ip().to_canonical().is_loopback())
    }

    /// Memory of the connection in bytes, including pending requests and unsent replies. A large
    /// value held by several connections counts with a share for each, so that the sum over all
    /// connections never exceeds the actual memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.input_bytes() + self.kept_output_bytes.load(Ordering::Relaxed)
    }

    /// The memory of the connection as Redis counts and shows it: with all unsent replies in full.
    #[must_use]
    pub fn total_bytes(&self) -> usize {
        let unsent = self.output_bytes.load(Ordering::Relaxed);
        self.input_bytes() + unsent.max(self.kept_output_bytes.load(Ordering::Relaxed))
    }

    /// The memory without unsent replies.
    fn input_bytes(&self) -> usize {
        /// Total memory of an idle connection.
        const IDLE_BYTES: usize = 1600;
        /// Approximate memory of a subscription or a prefix.
        const SUBSCRIPTION_BYTES: usize = 160;
        let names = self.subscriptions.iter().chain([&self.tracked_prefixes]);
        let names = names.map(|names| names.load(Ordering::Relaxed)).sum::<usize>();
        let watched = self.watched_keys.load(Ordering::Relaxed);
        let queued = self.queued_bytes.load(Ordering::Relaxed);
        let listed = names * SUBSCRIPTION_BYTES + watched * watched_keys::KEY_BYTES;
        IDLE_BYTES + listed + self.query_bytes.load(Ordering::Relaxed) + queued
    }

    /// The name of its user.
    pub(crate) fn user(&self) -> Name {
        self.names().user.clone().unwrap_or_else(|| DEFAULT_USER.into())
    }

    /// Sets the client's name; an empty one removes it.
    pub(crate) fn rename(&self, name: String) {
        self.names().name = name;
    }
}

/// The names that a client sets with CLIENT SETNAME and SETINFO.
#[derive(Clone, Debug, Default)]
pub struct ClientNames {
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO LIB-NAME.
    pub library_name: String,
    /// CLIENT SETINFO LIB-VER.
    pub library_version: String,
    /// The name of its user; `None` for the default one.
    pub(crate) user: Option<Name>,
}
