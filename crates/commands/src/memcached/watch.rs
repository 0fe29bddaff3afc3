//! `watch`: a line for each event of some kinds, as memcached 1.6.45 writes it.
//!
//! Requests of memcached clients are reported; those of Redis clients are shown by MONITOR.
//! Evictions and connections of all clients are reported.

use super::{Context, Error, Verb};
use crate::state::watchers::Streams;
use crate::{ClientInfo, JobProgress, Keys, Marks, Server, Suspension};
use nagi_proto::Args;
use nagi_store::types::string::{Condition, Expiry, SetOptions};
use nagi_store::types::versioned::{Mode, Write, Written};
use nagi_store::{EntryView, Evicted, Key, Store};
use std::fmt;
use std::net::SocketAddr;

fn watch<'a>(cx: &mut Context<'a>, args: Args<'a>) -> Result<(), Error> {
    if !cx.server.config().memcached_watch.is_on() {
        return Err(Error("CLIENT_ERROR watch commands not allowed"));
    }
    if cx.reply.waiting() > 0 {
        return Err(Error("ERROR cannot pipeline other commands before watch"));
    }
    let mut streams = Streams::empty();
    for name in args.from(1) {
        streams |= Streams::named(name).ok_or(Error::UNKNOWN)?;
    }
    if streams.is_empty() {
        streams = Streams::FETCHERS;
    }
    let store = cx.db.store();
    let changed = |streams| listen(store, streams);
    if !cx.hooks.watchers.add(&cx.client.info, streams, changed) {
        return Err(Error("WATCHER_TOO_MANY log watcher limit reached"));
    }
    cx.client.info.mark(Marks::WATCHER, true);
    cx.reply.line("OK");
    // Ends the batch: requests after it are not executed, since the session checks the mark before
    // the next request.
    cx.suspension = Some(Suspension::job(Box::new(|_| Ok(JobProgress::Done))));
    Ok(())
}

pub(super) static WATCH: Verb = Verb {
    name: "watch",
    right: "monitor",
    syntax: "[fetchers | mutations | evictions | connevents | deletions]*",
    words: 1,
    keys: Keys::NONE,
    summary: "Shows the connection events from now on, a line each; its requests are ignored",
    run: watch,
};

/// Makes the store report evictions if a client watches them.
fn listen(store: &Store, streams: Streams) {
    store.set_evictions_observed(streams.contains(Streams::EVICTIONS));
}

/// Writes a line for all watchers of `stream`, and makes their workers send it.
#[cold]
fn report(server: &dyn Server, stream: Streams, event: fmt::Arguments<'_>) {
    let workers = server.hooks().watchers.push(stream, event);
    workers.into_iter().for_each(|worker| server.show_watchers(worker));
}

/// The class in reports, where memcached has its size classes, which do not exist here.
const CLASS: u32 = 1;

/// A key in the format of a line: RFC 3986, section 2.3, defines the unescaped characters.
pub(super) struct Escaped<'k>(pub(super) &'k [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|&byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                write!(f, "{}", char::from(byte))
            }
            _ => write!(f, "%{byte:02X}"),
        })
    }
}

/// The result of a lookup: the length of the value, if it was found. The outer `None` means that no
/// client watches lookups.
pub(super) type Seen = Option<Option<usize>>;

/// Returns the result of a lookup for `fetched`. To be called under the latch.
#[inline]
pub(super) fn seen(hooks: &crate::RequestHooks, entry: Option<&EntryView<'_>>) -> Seen {
    let is_watched = hooks.watchers.watches(Streams::FETCHERS);
    is_watched.then(|| entry.map(|entry| entry.value_bytes()))
}

/// Reports a lookup.
#[inline]
pub(super) fn fetched(cx: &Context<'_>, key: Key<'_>, seen: Seen) {
    if let Some(found) = seen {
        report_fetch(cx, key, found);
    }
}

#[cold]
fn report_fetch(cx: &Context<'_>, key: Key<'_>, found: Option<usize>) {
    let (status, class, bytes) = match found {
        Some(bytes) => ("found", CLASS, bytes),
        None => ("not_found", 0, 0),
    };
    let (key, descriptor) = (Escaped(key.bytes()), cx.client.info.descriptor);
    report(
        cx.server,
        Streams::FETCHERS,
        format_args!(
            "type=item_get key={key} status={status} clsid={class} cfd={descriptor} size={bytes}"
        ),
    );
}

/// Reports the lookup of a key that a verb is about to change, which memcached counts as a fetch as
/// well.
#[inline]
pub(super) fn looks_up(cx: &Context<'_>, key: Key<'_>) {
    if cx.hooks.watchers.watches(Streams::FETCHERS) {
        let found = cx.db.inspect(key, |entry| entry.map(|(entry, _)| entry.value_bytes()));
        report_fetch(cx, key, found);
    }
}

/// A value that is about to be stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    /// The name of the verb that stores in this mode.
    command: &'static str,
    expiry: Expiry,
    class: u32,
    bytes: usize,
}

impl Offer {
    /// The value that `write` is about to store.
    pub(super) fn of(write: &Write<'_>) -> Self {
        let command = match (write.mode, write.expected) {
            (Mode::Append, _) => "append",
            (Mode::Prepend, _) => "prepend",
            (_, Some(_)) => "cas",
            (Mode::Set, None) => "set",
            (Mode::Add, None) => "add",
            (Mode::Replace, None) => "replace",
        };
        let adds = matches!(write.mode, Mode::Append | Mode::Prepend);
        let expiry = if adds { Expiry::Keep } else { write.expiry };
        Offer { command, expiry, class: CLASS, bytes: write.value.len() }
    }

    /// The value that a command with these options is about to store.
    pub(super) fn plain(options: SetOptions, bytes: usize) -> Self {
        let command = match options.condition {
            Condition::Always => "set",
            Condition::IfAbsent => "add",
            Condition::IfPresent => "replace",
        };
        Offer { command, expiry: options.expiry, class: CLASS, bytes }
    }

    /// The initial value of a counter that was created.
    pub(super) fn initial(number: u64, expiry: Expiry) -> Self {
        Offer { command: "add", expiry, class: CLASS, bytes: number.to_string().len() }
    }
}

/// Returns the value that is about to be stored, if a client watches mutations.
#[inline]
pub(super) fn offered(cx: &Context<'_>, offer: impl FnOnce() -> Offer) -> Option<Offer> {
    cx.hooks.watchers.watches(Streams::MUTATIONS).then(offer)
}

/// Reports that the offered value was stored, or that it was not.
#[inline]
pub(super) fn stored(cx: &Context<'_>, key: Key<'_>, status: &str, offer: Option<Offer>) {
    if let Some(offer) = offer {
        report_store(cx, key, status, offer);
    }
}

/// Reports the outcome of a write.
#[inline]
pub(super) fn written(cx: &Context<'_>, key: Key<'_>, written: Written, offer: Option<Offer>) {
    if let Some(offer) = offer {
        report_write(cx, key, written, offer);
    }
}

#[cold]
fn report_write(cx: &Context<'_>, key: Key<'_>, written: Written, offer: Offer) {
    let (status, offer) = match written {
        // After appending, the length and the expiry are those of the whole value.
        Written::Done { bytes, .. } => {
            let expire_at_ms = cx.db.inspect(key, |entry| entry?.0.expire_at_ms());
            let expiry = expire_at_ms.map_or(Expiry::Never, Expiry::AtMs);
            let expiry = if offer.expiry == Expiry::Keep { expiry } else { offer.expiry };
            ("stored", Offer { expiry, bytes, ..offer })
        }
        Written::Refused => ("not_stored", offer),
        Written::TooLong => ("too_large", offer),
        Written::Changed => ("exists", offer),
        Written::Missing => ("not_found", offer),
    };
    report_store(cx, key, status, offer);
}

/// Reports a value that was refused before its key was looked up.
#[inline]
pub(super) fn refused(cx: &Context<'_>, key: Key<'_>, status: &str, offer: Option<Offer>) {
    stored(cx, key, status, offer.map(|offer| Offer { class: 0, bytes: 0, ..offer }));
}

#[cold]
fn report_store(cx: &Context<'_>, key: Key<'_>, status: &str, offer: Offer) {
    let ttl_s = match offer.expiry {
        Expiry::AtMs(at_ms) => at_ms.saturating_sub(cx.db.now_ms()).div_ceil(1000),
        Expiry::Never | Expiry::Keep => 0,
    };
    let Offer { command, class, bytes, .. } = offer;
    let (key, descriptor) = (Escaped(key.bytes()), cx.client.info.descriptor);
    report(
        cx.server,
        Streams::MUTATIONS,
        format_args!(
            "type=item_store key={key} status={status} cmd={command} ttl={ttl_s} clsid={class} \
             cfd={descriptor} size={bytes}"
        ),
    );
}

/// The length of the value that is about to be deleted; `None` if no client watches deletions, or
/// if there is no value.
#[inline]
pub(super) fn to_be_deleted(cx: &Context<'_>, key: Key<'_>) -> Option<usize> {
    if !cx.hooks.watchers.watches(Streams::DELETIONS) {
        return None;
    }
    cx.db.inspect(key, |entry| entry.map(|(entry, _)| entry.value_bytes()))
}

/// Reports a deletion.
#[inline]
pub(super) fn deleted(cx: &Context<'_>, key: Key<'_>, command: &str, bytes: Option<usize>) {
    if let Some(bytes) = bytes {
        report_deletion(cx, key, command, bytes);
    }
}

#[cold]
fn report_deletion(cx: &Context<'_>, key: Key<'_>, command: &str, bytes: usize) {
    let key = Escaped(key.bytes());
    let event = format_args!("type=deleted key={key} cmd={command} clsid={CLASS} size={bytes}");
    report(cx.server, Streams::DELETIONS, event);
}

/// Reports an entry that eviction has removed.
#[cold]
pub fn report_eviction(server: &dyn Server, evicted: &Evicted, now_ms: u64) {
    let ttl_s = evicted.expire_at_ms.map(|at_ms| at_ms.saturating_sub(now_ms) / 1000);
    report(
        server,
        Streams::EVICTIONS,
        format_args!(
            "type=eviction key={} fetch={} ttl={} la={} clsid={CLASS} size={}",
            Escaped(&evicted.key),
            if evicted.fetched { "yes" } else { "no" },
            ttl_s.map_or(-1, |seconds| i64::try_from(seconds).unwrap_or(i64::MAX)),
            evicted.idle_ms / 1000,
            evicted.value_bytes,
        ),
    );
}

/// The reason for closing a connection, by memcached's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client has closed it, or has received its last reply.
    Normal,
    /// A network error, or the server has closed the connection.
    Error,
    /// It was idle for longer than `timeout`.
    Idle,
    /// The server is shutting down.
    Shutdown,
}

impl CloseReason {
    fn name(self) -> &'static str {
        match self {
            CloseReason::Normal => "normal",
            CloseReason::Error => "error",
            CloseReason::Idle => "idle_timeout",
            CloseReason::Shutdown => "shutdown",
        }
    }
}

/// Reports a new connection, of any protocol.
#[inline]
pub fn report_connection(server: &dyn Server, client: &ClientInfo) {
    if server.hooks().watchers.watches(Streams::CONNECTIONS) {
        let (peer, descriptor) = (Peer(client), client.descriptor);
        let event = format_args!("type=conn_new {peer} cfd={descriptor}");
        report(server, Streams::CONNECTIONS, event);
    }
}

/// Ends the client's watching, if any, and reports to watchers of connections that the connection
/// was closed.
pub fn report_disconnection(
    server: &dyn Server,
    store: &Store,
    client: &ClientInfo,
    why: CloseReason,
) {
    if client.marks().contains(Marks::WATCHER) {
        let changed = |streams| listen(store, streams);
        server.hooks().watchers.remove(client.id, changed);
    }
    if server.hooks().watchers.watches(Streams::CONNECTIONS) {
        let (peer, descriptor, why) = (Peer(client), client.descriptor, why.name());
        let event = format_args!("type=conn_close {peer} reason={why} cfd={descriptor}");
        report(server, Streams::CONNECTIONS, event);
    }
}

/// The address of a client.
struct Peer<'c>(&'c ClientInfo);

impl fmt::Display for Peer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.address.parse::<SocketAddr>() {
            Ok(address) => {
                let (host, port) = (address.ip().to_canonical(), address.port());
                write!(f, "rip={host} rport={port} transport=tcp")
            }
            Err(_) => f.write_str("rip=unix rport=0 transport=local"),
        }
    }
}
