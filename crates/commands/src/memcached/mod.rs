//! memcached's verbs, over the same store as the commands of Redis; they see database 0.

mod arguments;
pub mod binary;
mod control;
mod dump;
#[cfg(test)]
mod keyspace;
mod meta;
mod operation;
mod operator;
mod retrieval;
mod statistics;
mod stats;
mod storage;
#[cfg(test)]
mod tests;
mod watch;

use crate::registry::table::FIRST_VERB;
use crate::runtime::admission;
use crate::runtime::arguments::is;
use crate::runtime::dispatch;
use crate::runtime::gate::{self, Verdict};
use crate::runtime::multi_key::Walk;
use crate::runtime::shown;
use crate::runtime::suspension::Slice;
pub use crate::state::memcached_users::{Users, UsersError};
use crate::{CommandSet, JobProgress, KeyGroup, Keys, Reasons, Suspension};
pub use meta::forget_refused;
use nagi_proto::Args;
use nagi_proto::memcached::Writer;
use nagi_store::{Key, Wait};
use std::sync::atomic::Ordering;
pub use watch::{Parting, tell_of_arrival, tell_of_eviction, tell_of_parting};

/// memcached's verbs, answered in the text protocol; the binary protocol's writer is below it.
#[derive(Debug)]
pub enum Memcached {}

impl CommandSet for Memcached {
    type Writer<'a> = Writer<'a>;
    type Error = Error;

    fn execute(cx: &mut Context<'_>) {
        execute(cx, cx.args);
    }

    fn refuse(cx: &mut Context<'_>, error: &Error) {
        refuse(cx, *error);
    }
}

/// Everything that a verb's handler may use, for the length of one request.
pub type Context<'a> = crate::Context<'a, Memcached>;

/// Work of a verb that goes on over many ticks.
pub type Job = crate::Job<Memcached>;

impl Context<'_> {
    /// Runs `each` for every key and then `last`, in slices if they are many: a client is promised
    /// nothing about several keys at one moment.
    fn each_key(
        &mut self,
        keys: &'static Keys,
        mut each: impl FnMut(&mut Context<'_>, Key<'_>) + Send + 'static,
        last: fn(&mut Context<'_>),
    ) {
        let mut walk = Walk::new(keys);
        let mut go_on = move |cx: &mut Context<'_>| {
            let (before, mut slice) = (cx.reply.waiting(), None);
            let is_over = |cx: &Context<'_>| {
                // Few keys cost no look at the clock.
                let slice = slice.get_or_insert_with(Slice::begin);
                cx.reply.waiting() - before > SLICE_REPLY_BYTES || slice.is_over()
            };
            let done = walk.go_on(cx, is_over, |cx, position, _| {
                let key = cx.key(cx.args.at(position));
                each(cx, key);
            });
            if !done {
                return JobProgress::ROOM_FOR_REPLIES;
            }
            last(cx);
            JobProgress::Done
        };
        let progress = go_on(self);
        if progress != JobProgress::Done {
            self.suspension = Suspension::after(progress, Box::new(move |cx| Ok(go_on(cx))));
        }
    }
}

/// What one slice of a request for many keys may reply before others have their turn.
const SLICE_REPLY_BYTES: usize = 256 << 10;

/// A verb's row.
#[derive(Debug)]
pub struct Verb {
    /// Its name, in the only case that memcached knows.
    pub name: &'static str,
    /// Its arguments as memcached's documentation shows them.
    pub syntax: &'static str,
    /// Fewest words of a request, the verb and a data block included.
    pub words: usize,
    /// Which of them are keys.
    pub keys: Keys,
    /// What it does, in one sentence without a full stop.
    pub summary: &'static str,
    /// Its handler.
    pub run: Handler,
}

/// Runs a verb. The number of words and the length of the keys have been checked.
pub type Handler = for<'a> fn(&mut Context<'a>, Args<'a>) -> Result<(), Error>;

/// The line that answers a request which cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(pub &'static str);

impl Error {
    const UNKNOWN: Error = Error("ERROR");
    const BAD_LINE: Error = Error("CLIENT_ERROR bad command line format");
    const NOT_LOGGED_IN: Error = Error("CLIENT_ERROR unauthenticated");
    const WRONG_LOGIN: Error = Error("CLIENT_ERROR authentication failure");
    /// What a browser sends whose page talks to a local port behind its user's back: no reply
    /// is worth giving.
    const FROM_A_BROWSER: Error = Error("");
    const OUT_OF_MEMORY: Error = Error("SERVER_ERROR out of memory storing object");
    const EXPTIME: Error = Error("CLIENT_ERROR invalid exptime argument");
}

/// Longest key in bytes.
const KEY_BYTES: usize = 250;

/// What `version` answers: the memcached that verbs behave like, which is what clients read off
/// it, and nagi's own version behind it.
const VERSION: &str = concat!("1.6.45-nagi/", env!("CARGO_PKG_VERSION"));

/// Every verb, those that are asked for most at the front.
pub static VERBS: &[&Verb] = &[
    &retrieval::GET,
    &storage::SET,
    &retrieval::GETS,
    &storage::DELETE,
    &storage::INCR,
    &storage::DECR,
    &storage::ADD,
    &storage::CAS,
    &retrieval::TOUCH,
    &storage::REPLACE,
    &storage::APPEND,
    &storage::PREPEND,
    &retrieval::GAT,
    &retrieval::GATS,
    &meta::MG,
    &meta::MS,
    &meta::MD,
    &meta::MA,
    &meta::MN,
    &meta::ME,
    &control::FLUSH_ALL,
    &control::QUIT,
    &control::STATS,
    &control::VERBOSITY,
    &control::VERSION_ROW,
    &dump::LRU_CRAWLER,
    &operator::CACHE_MEMLIMIT,
    &operator::LRU,
    &operator::SHUTDOWN,
    &operator::SLABS,
    &watch::WATCH,
];

/// Finds the row that a request is for, and checks its words and keys.
///
/// # Errors
/// The reply to a request that that names no verb, has too few words or too long a key.
#[inline]
pub fn resolve(args: Args<'_>) -> Result<&'static Verb, Error> {
    let name = args.get(0).ok_or(Error::UNKNOWN)?;
    let verb = VERBS.iter().find(|verb| verb.name.as_bytes() == name);
    let verb = verb.ok_or_else(|| unknown(name, args))?;
    if args.len() < verb.words {
        return Err(Error::BAD_LINE);
    }
    let is_too_long = |group: &KeyGroup| group.of(args).any(|key| key.len() > KEY_BYTES);
    if verb.keys.all_groups().iter().any(is_too_long) {
        return Err(Error::BAD_LINE);
    }
    Ok(verb)
}

#[cold]
fn unknown(name: &[u8], args: Args<'_>) -> Error {
    let last = args.get(args.len().saturating_sub(1)).unwrap_or_default();
    let from_a_browser = is(name, "POST") || is(name, "Host:") || last.starts_with(b"HTTP/");
    if from_a_browser { Error::FROM_A_BROWSER } else { Error::UNKNOWN }
}

/// Whether a verb must wait before it runs, since one of its keys is claimed; the client's waker
/// is called when it is worth another try.
#[inline]
fn meets_claim(verb: &Verb, cx: &Context<'_>, args: Args<'_>) -> Option<Wait> {
    if !cx.db.looks_for_claims() {
        return None;
    }
    let mut room = Vec::new();
    if let Some(key) = meta::spelled_key(args, &mut room) {
        return binary::meets_claim(cx, key);
    }
    dispatch::meets_claim(&verb.keys, cx.db, cx.client, args)
}

/// Runs what [`resolve`] found and writes the reply. If `cx.suspension` is set afterwards, the
/// request is not over: the caller goes on with it, by [`go_on`](crate::go_on), before the client's
/// next request.
#[inline]
pub fn run<'a>(verb: &'static Verb, cx: &mut Context<'a>, args: Args<'a>) {
    if must_log_in(cx) {
        return log_in(verb, cx, args);
    }
    let reasons = cx.attention.reasons();
    if !reasons.is_empty() {
        match gate::verdict(reasons, &verb.keys, cx) {
            Verdict::Pass => {}
            Verdict::Refuse(line) => return cx.reply.line(line),
            Verdict::Wait => {
                cx.suspension = Some(Suspension::restart(None));
                return;
            }
        }
    }
    if let Some(wait) = meets_claim(verb, cx, args) {
        cx.suspension = Some(Suspension::restart(Some(wait)));
        return;
    }
    if reasons.contains(Reasons::MONITORED) {
        return run_shown(verb, cx, args);
    }
    run_now(verb, cx, args);
}

/// Runs what nothing keeps from running, and shows it to monitors.
#[cold]
fn run_shown<'a>(verb: &'static Verb, cx: &mut Context<'a>, args: Args<'a>) {
    let attention = cx.attention;
    let _order = attention.monitors.order();
    let words = shown::plain_words(args);
    run_now(verb, cx, args);
    shown::show(cx.server, cx.client, &words);
}

#[inline]
fn run_now<'a>(verb: &'static Verb, cx: &mut Context<'a>, args: Args<'a>) {
    cx.tally.verbs.calls.add(1);
    let place = VERBS.iter().position(|row| std::ptr::eq(*row, verb)).unwrap_or(0);
    let number = u32::try_from(place).map_or(0, |place| FIRST_VERB + place);
    cx.client.info.last_command.store(number, Ordering::Relaxed);
    if let Err(error) = (verb.run)(cx, args) {
        refuse(cx, error);
    }
}

/// Whether the client has to give a password before anything else.
#[inline]
fn must_log_in(cx: &Context<'_>) -> bool {
    !cx.client.restrictions.is_empty() && admission::must_log_in(cx.client, cx.server.config())
}

/// Takes what a client says that has not logged in: a `set` of any key, whose data block is a
/// user and a password (memcached's doc/protocol.txt, "Authentication").
#[cold]
fn log_in<'a>(verb: &'static Verb, cx: &mut Context<'a>, args: Args<'a>) {
    if !std::ptr::eq(verb, &raw const storage::SET) {
        return refuse(cx, Error::NOT_LOGGED_IN);
    }
    cx.tally.verbs.logins.add(1);
    let mut words = args.at(5).splitn(2, |byte| *byte == b' ');
    let (user, password) = (words.next().unwrap_or_default(), words.next());
    let config = cx.server.config();
    let logs_in = |password| admission::log_in_to_memcached(cx.client, config, user, password);
    if !password.is_some_and(logs_in) {
        cx.tally.verbs.failed_logins.add(1);
        cx.reply.line(Error::WRONG_LOGIN.0);
        return;
    }
    cx.reply.line("STORED");
}

/// Runs a request from lookup to reply.
#[inline]
pub fn execute<'a>(cx: &mut Context<'a>, args: Args<'a>) {
    match resolve(args) {
        Ok(verb) => run(verb, cx, args),
        Err(error) => refuse(cx, error),
    }
}

/// Answers with an error.
#[cold]
pub fn refuse(cx: &mut Context<'_>, error: Error) {
    if error == Error::FROM_A_BROWSER {
        cx.client.closing = true;
        return;
    }
    let error = if must_log_in(cx) { Error::NOT_LOGGED_IN } else { error };
    cx.reply.line(error.0);
}
