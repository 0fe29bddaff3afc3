//! From the words of a request to its verb, and to the reply.

use super::verb::{Context, Error, KEY_BYTES, Memcached, Verb, must_log_in};
use super::{binary, control, dump, meta, operator, retrieval, storage, watch};
use crate::registry::keys::KeyGroup;
use crate::registry::table::FIRST_VERB;
use crate::runtime::admission;
use crate::runtime::arguments::is;
use crate::runtime::context::{CommandSet, Suspension};
use crate::runtime::dispatch;
use crate::runtime::gate::{self, Verdict};
use crate::runtime::key_costs::{self, Named};
use crate::runtime::multi_key::is_long;
use crate::runtime::rights;
use crate::runtime::shown;
use crate::state::client::Restrictions;
use crate::state::hooks::HookFlags;
use nagi_proto::Args;
use nagi_proto::memcached::Writer;
use nagi_store::Wait;
use std::sync::atomic::Ordering;

/// Every verb, the most frequent ones first.
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

impl CommandSet for Memcached {
    type Writer<'a> = Writer<'a>;
    type Error = Error;

    fn written(replies: &Writer<'_>) -> usize {
        replies.waiting()
    }

    fn execute(cx: &mut Context<'_>) {
        execute(cx, cx.args);
    }

    fn refuse(cx: &mut Context<'_>, error: &Error) {
        refuse(cx, *error);
    }
}

/// Finds the row of a request's verb, and checks the number of words and the keys.
///
/// # Errors
/// The reply to a request with an unknown verb, too few words, or a key that is too long.
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

/// Whether a request must wait before it runs, since one of its keys is claimed; the client's waker
/// is called when it can be tried again.
#[inline]
fn meets_claim(verb: &Verb, cx: &Context<'_>, args: Args<'_>) -> Option<Wait> {
    // While a request with very many keys runs, their claims are checked one by one.
    if !cx.db.looks_for_claims() || is_long(&verb.keys, args) {
        return None;
    }
    let mut room = Vec::new();
    if let Some(key) = meta::spelled_key(args, &mut room) {
        return binary::key_meets_claim(cx, key);
    }
    dispatch::meets_claim(&verb.keys, cx.db, cx.client, args)
}

/// Runs the verb that [`resolve`] found and writes the reply. If `cx.suspension` is set afterwards,
/// the request is not complete: the caller continues it, by [`go_on`](crate::go_on), before the
/// client's next request.
#[inline]
pub fn run<'a>(verb: &'static Verb, cx: &mut Context<'a>, args: Args<'a>) {
    if must_log_in(cx) {
        return log_in(cx, args);
    }
    let reasons = cx.hooks.reasons();
    if !reasons.is_empty() || cx.client.restrictions.contains(Restrictions::NAMED_USER) {
        if !has_right(verb, cx, args) {
            cx.client.was_rejected = true;
            return refuse(cx, Error::NO_RIGHT);
        }
        match gate::verdict(reasons, meta::keys_of(verb, args), cx) {
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
    if reasons.intersects(HookFlags::MONITORED | HookFlags::KEY_COSTS) {
        return run_observed(verb, cx, args, reasons);
    }
    run_now(verb, cx, args);
}

/// Whether the client's user has the permission to run a request.
#[cold]
fn has_right(verb: &'static Verb, cx: &mut Context<'_>, args: Args<'_>) -> bool {
    note_verb(verb, cx);
    let mut room = Vec::new();
    let spelled = meta::spelled_key(args, &mut room);
    let row = meta::keys_of(verb, args);
    let keys = row.all_groups().iter().flat_map(|group| group.of(args));
    match spelled {
        Some(key) => rights::may_run_verb(cx, verb.right, row, std::iter::once(key)),
        None => rights::may_run_verb(cx, verb.right, row, keys),
    }
}

/// Runs a permitted request, shows it to monitors, and counts its cost for its keys.
#[cold]
fn run_observed<'a>(verb: &'static Verb, cx: &mut Context<'a>, args: Args<'a>, reasons: HookFlags) {
    let run = match reasons.contains(HookFlags::MONITORED) {
        true => run_shown,
        false => run_now,
    };
    if !reasons.contains(HookFlags::KEY_COSTS) || verb.keys.is_none() {
        return run(verb, cx, args);
    }
    let mut room = Vec::new();
    let spelled = meta::spelled_key(args, &mut room);
    let named = spelled.map_or(Named::Arguments(&verb.keys), Named::key);
    let bytes = key_costs::request_bytes(args);
    key_costs::measure(named, bytes, cx, |cx| run(verb, cx, args));
}

/// Runs a request, and shows it to monitors.
fn run_shown<'a>(verb: &'static Verb, cx: &mut Context<'a>, args: Args<'a>) {
    let hooks = cx.hooks;
    let _order = hooks.monitors.order();
    let words = shown::plain_words(args);
    run_now(verb, cx, args);
    shown::show(cx.server, cx.client, &words);
}

#[inline]
fn run_now<'a>(verb: &'static Verb, cx: &mut Context<'a>, args: Args<'a>) {
    cx.tally.verbs.calls.add(1);
    note_verb(verb, cx);
    if let Err(error) = (verb.run)(cx, args) {
        refuse(cx, error);
    }
}

/// Makes CLIENT LIST and ACL LOG show a verb as the client's last one.
#[inline]
fn note_verb(verb: &'static Verb, cx: &Context<'_>) {
    let place = VERBS.iter().position(|row| std::ptr::eq(*row, verb)).unwrap_or(0);
    let number = u32::try_from(place).map_or(0, |place| FIRST_VERB + place);
    cx.client.info.last_command.store(number, Ordering::Relaxed);
}

/// Logs a client in: by a `set` of any key, whose data block has a user and a password (memcached's
/// doc/protocol.txt, "Authentication"). Its other words are ignored.
#[cold]
fn log_in(cx: &mut Context<'_>, args: Args<'_>) {
    if matches!(resolve(args), Err(Error::FROM_A_BROWSER)) {
        return refuse(cx, Error::FROM_A_BROWSER);
    }
    let token = args.get(5).filter(|_| args.get(0) == Some(b"set"));
    let Some(token) = token else { return cx.reply.line(Error::NOT_LOGGED_IN.0) };
    cx.tally.verbs.logins.add(1);
    if let Err(error) = check_login(cx, token) {
        cx.tally.verbs.failed_logins.add(1);
        if error == Error::WRONG_LOGIN {
            // Any other text may be a password or data.
            let user = token.split(|byte| *byte == b' ').next().unwrap_or_default();
            rights::note_failed_login(cx, b"set", user);
        }
        return cx.reply.line(error.0);
    }
    cx.reply.line("STORED");
}

/// Logs a client in by a user and a password with a space between them.
fn check_login(cx: &mut Context<'_>, token: &[u8]) -> Result<(), Error> {
    let mut words = token.splitn(2, |byte| *byte == b' ');
    let (user, password) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if password.is_empty() {
        return Err(Error::BAD_LOGIN);
    }
    let is_known = admission::log_in_to_memcached(cx.client, cx.server.config(), user, password);
    if is_known { Ok(()) } else { Err(Error::WRONG_LOGIN) }
}

/// Runs a request from lookup to reply.
#[inline]
pub fn execute<'a>(cx: &mut Context<'a>, args: Args<'a>) {
    if must_log_in(cx) {
        return log_in(cx, args);
    }
    match resolve(args) {
        Ok(verb) => run(verb, cx, args),
        Err(error) => refuse(cx, error),
    }
}

/// Replies with an error.
#[cold]
pub fn refuse(cx: &mut Context<'_>, error: Error) {
    if error == Error::FROM_A_BROWSER {
        cx.client.closing = true;
        return;
    }
    let error = if must_log_in(cx) { Error::NOT_LOGGED_IN } else { error };
    cx.reply.line(error.0);
}
