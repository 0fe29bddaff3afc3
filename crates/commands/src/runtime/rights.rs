//! Permission checks, when there are users with restrictions.
//!
//! Without such users, a request of the default user only reads two bits. Each request compares the
//! generation of the users before it runs: a change of users applies to all requests that begin
//! after it.

use crate::runtime::client_line;
use crate::runtime::context::CommandSet;
use crate::state::access_log::{Reason, Refused};
use crate::state::blocked::{Permission, Waiter};
use crate::state::client::Restrictions;
use crate::state::users::{DEFAULT_USER, Denial, Name, User};
use crate::{Access, ClientInfo, Context, Entry, Error, HookFlags, Keys, Server};
use nagi_proto::{Args, Span};
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;

/// Whether a user may see the server's information about itself and its clients (INFO, CLIENT LIST,
/// SLOWLOG GET). An empty name is the default user.
#[must_use]
pub fn may_observe(server: &dyn Server, user: &[u8]) -> bool {
    let name = if user.is_empty() { DEFAULT_USER } else { user };
    let may_run = |user: &User, command: &[u8]| {
        server.commands().find_own(command).is_some_and(|entry| user.may_run(entry))
    };
    server.config().users().get(name).is_some_and(|user| {
        [&b"info"[..], b"client|list", b"slowlog|get"].into_iter().all(|it| may_run(&user, it))
    })
}

/// Enables permission checks if there are users with restrictions.
pub fn note_users(server: &dyn Server) {
    // Under a lock, so that of two concurrent changes the later one is noted last.
    server.config().users().note_limited(|has_limited| {
        server.hooks().set(HookFlags::LIMITED_USERS, has_limited);
    });
}

/// Checks whether a client's user has the permission to run a request; if not, adds an entry to ACL
/// LOG.
///
/// # Errors
/// The missing permission.
#[inline]
pub(crate) fn check(cx: &mut Context<'_>, entry: &Entry, args: Args<'_>) -> Result<(), Error> {
    check_user(cx, entry, args).map_err(|denial| error(&denial, cx.client.user_name(), entry))
}

/// Whether a client's user may have restrictions. One that was removed may do nothing, even if no
/// other user has any.
#[inline]
fn may_be_limited<C: CommandSet>(cx: &Context<'_, C>) -> bool {
    cx.client.restrictions.contains(Restrictions::NAMED_USER)
        || cx.hooks.reasons().contains(HookFlags::LIMITED_USERS)
}

#[inline]
fn check_user(cx: &mut Context<'_>, entry: &Entry, args: Args<'_>) -> Result<(), Denial> {
    match may_be_limited(cx) {
        true => check_limited_user(cx, entry, args),
        false => Ok(()),
    }
}

#[cold]
fn check_limited_user(cx: &mut Context<'_>, entry: &Entry, args: Args<'_>) -> Result<(), Denial> {
    let config = cx.server.config();
    let denial = match cx.client.user(config.users()) {
        Some(user) => user.denial(entry, args),
        None => Some(Denial::Command),
    };
    let Some(denial) = denial else { return Ok(()) };
    let (reason, object) = match denial {
        Denial::Command => (Reason::Command, entry.full_name.as_bytes()),
        Denial::Key(at) => (Reason::Key, args.at(at)),
        Denial::Channel(at) => (Reason::Channel, args.at(at)),
    };
    note_refusal(cx, reason, object);
    Err(denial)
}

/// Checks a queued request when EXEC is about to run it.
///
/// # Errors
/// The permission that its user now lacks.
pub(crate) fn check_queued(
    cx: &mut Context<'_>,
    entry: &Entry,
    args: Args<'_>,
) -> Result<(), Error> {
    let Err(denial) = check_user(cx, entry, args) else { return Ok(()) };
    let reason = match denial {
        Denial::Command => "no permission to execute the command or subcommand",
        Denial::Key(_) => "no permission to touch the specified keys",
        Denial::Channel(_) => {
            "no permission to access one of the channels used as arguments to the command"
        }
    };
    Err(Error::new(format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and \
         the EXEC call. This command is no longer allowed for the following reason: {reason}"
    )))
}

/// Creates a check, evaluated later, of whether the client's user may still run its request. The
/// arguments are copied, since the request may wait for a long time.
pub(crate) fn permission(cx: &Context<'_>) -> Permission {
    let user = Name::from(cx.client.user_name());
    let (mut bytes, mut spans) = (Vec::new(), Vec::with_capacity(cx.args.len()));
    for at in 0..cx.args.len() {
        let (start, word) = (bytes.len() as u32, cx.args.at(at));
        spans.push(Span { start, len: word.len() as u32 });
        bytes.extend_from_slice(word);
    }
    let (bytes, spans) = (bytes.into_boxed_slice(), spans.into_boxed_slice());
    // If the length exceeds 32 bits, the spans would refer to other words.
    let are_spans_right = u32::try_from(bytes.len()).is_ok();
    let commands = cx.server.commands();
    Permission::new(move |users| {
        let args = Args::new(&bytes, &spans);
        let entry = commands.find(args.at(0)).filter(|_| are_spans_right);
        entry.is_some_and(|entry| {
            users.get(&user).is_some_and(|user| user.denial(entry, args).is_none())
        })
    })
}

/// The error for a client whose user has lost the permission for its blocked request.
pub(crate) fn refusal(cx: &mut Context<'_>) -> Error {
    const NO_KEY: Error = Error::fixed("NOPERM No permissions to access a key");
    let (commands, args) = (cx.server.commands(), cx.args);
    let lacked = commands.find(args.at(0)).and_then(|entry| check(cx, entry, args).err());
    // The permission may have been restored meanwhile.
    lacked.unwrap_or(NO_KEY)
}

/// Whether a waiting client must not be served, because its user has lost the permission.
pub(crate) fn is_refused(cx: &Context<'_>, waiter: &Waiter) -> bool {
    let may_be_limited = waiter.is_named() || cx.hooks.reasons().contains(HookFlags::LIMITED_USERS);
    may_be_limited && waiter.refuse(cx.server.config().users())
}

/// Checks a command that a script runs on behalf of its client's user.
///
/// # Errors
/// The permission that its user lacks.
pub(crate) fn check_in_script(
    cx: &mut Context<'_>,
    entry: &Entry,
    args: Args<'_>,
) -> Result<(), Error> {
    let failure = |what: &str| Error::new(format!("ERR ACL failure in script: {what}"));
    if let Some(client) = &cx.client.info.http_client {
        let refusal = cx.server.http_refusal(entry, client.address().ip());
        refusal.map_or(Ok(()), |reason| Err(failure(reason)))?;
    }
    check(cx, entry, args).map_err(|error| {
        let text = String::from_utf8_lossy(&error.0);
        failure(text.strip_prefix("NOPERM ").unwrap_or(&text))
    })
}

/// Whether a client's user may read all keys with a request's command.
pub(crate) fn reads_all_keys(cx: &mut Context<'_>, args: Args<'_>) -> bool {
    if !may_be_limited(cx) {
        return true;
    }
    let user = cx.client.user(cx.server.config().users());
    let entry = cx.server.commands().find(args.at(0));
    entry.is_some_and(|entry| user.is_some_and(|user| user.reads_all_keys(entry, args)))
}

/// Records a failed login in ACL LOG.
pub(crate) fn note_failed_login<C: CommandSet>(cx: &Context<'_, C>, command: &[u8], user: &[u8]) {
    note(cx, Reason::Login, command, user);
}

/// Records in ACL LOG a failed login over HTTP, which no worker has seen; an empty name is the
/// default user.
pub fn note_failed_http_login(server: &dyn Server, address: SocketAddr, user: &[u8], now_ms: u64) {
    let user = if user.is_empty() { DEFAULT_USER } else { user };
    let client = ClientInfo {
        address: address.to_string(),
        connected_at_ms: now_ms,
        active_at_ms: AtomicU64::new(now_ms),
        ..ClientInfo::default()
    };
    let refused = Refused { reason: Reason::Login, context: "toplevel", object: b"http", user };
    add(server, refused, (&client, 0), now_ms);
}

/// Records in ACL LOG the permission that a client's user lacks.
fn note_refusal<C: CommandSet>(cx: &Context<'_, C>, reason: Reason, object: &[u8]) {
    note(cx, reason, object, cx.client.user_name());
}

fn note<C: CommandSet>(cx: &Context<'_, C>, reason: Reason, object: &[u8], user: &[u8]) {
    let is_in_script = cx.client.restrictions.contains(Restrictions::IN_SCRIPT);
    let is_in_transaction = cx.client.is_executing || cx.client.transaction.is_some();
    let context = match is_in_transaction {
        _ if is_in_script => "lua",
        true => "multi",
        false => "toplevel",
    };
    let refused = Refused { reason, context, object, user };
    // As in Redis, the entry of a script shows the client that has called it; that may be gone.
    let id = cx.client.info.id;
    let caller = if is_in_script { cx.server.client(id) } else { None };
    let client = match &caller {
        Some(caller) => (&**caller, 0),
        None => (&*cx.client.info, cx.args.bytes().len()),
    };
    add(cx.server, refused, client, cx.db.now_ms());
}

/// Adds an entry to ACL LOG for a client with a request of this length.
fn add(
    server: &dyn Server,
    refused: Refused<'_>,
    (client, request_bytes): (&ClientInfo, usize),
    now_ms: u64,
) {
    let mut line = String::new();
    client_line::describe(server.commands(), client, request_bytes, now_ms, &mut line);
    let most = server.config().acllog_max_len.bytes();
    server.hooks().access_log.add(refused, line.trim_end().to_owned(), now_ms, most);
}

/// The error of ACL DRYRUN, for an administrator: it names the missing permission of the user.
pub(crate) fn explain(denial: &Denial, user: &[u8], entry: &Entry, args: Args<'_>) -> Vec<u8> {
    let user = String::from_utf8_lossy(user);
    let text = |at: usize| String::from_utf8_lossy(args.at(at)).into_owned();
    let text = match *denial {
        Denial::Command => {
            format!("User {user} has no permissions to run the '{}' command", entry.full_name)
        }
        Denial::Key(at) => {
            format!("User {user} has no permissions to access the '{}' key", text(at))
        }
        Denial::Channel(at) => {
            format!("User {user} has no permissions to access the '{}' channel", text(at))
        }
    };
    text.into_bytes()
}

/// The error for the client itself: it names the missing permission of the client's user.
fn error(denial: &Denial, user: &[u8], entry: &Entry) -> Error {
    match denial {
        Denial::Command => Error::new(format!(
            "NOPERM User {} has no permissions to run the '{}' command",
            String::from_utf8_lossy(user),
            entry.full_name
        )),
        Denial::Key(_) => Error::fixed("NOPERM No permissions to access a key"),
        Denial::Channel(_) => Error::fixed("NOPERM No permissions to access a channel"),
    }
}

/// Whether a client's user may run a memcached verb with these keys, to which the Redis command
/// `command` corresponds. If not, ACL LOG gets an entry.
pub(crate) fn may_run_verb<'k, C: CommandSet>(
    cx: &mut Context<'_, C>,
    command: &str,
    row: &Keys,
    keys: impl Iterator<Item = &'k [u8]> + Clone,
) -> bool {
    if !may_be_limited(cx) || command.is_empty() {
        return true;
    }
    let entry = cx.server.commands().find_own(command.as_bytes());
    let (Some(user), Some(entry)) = (cx.client.user(cx.server.config().users()), entry) else {
        return false;
    };
    let access = row.access();
    let reads = access.contains(Access::ACCESS);
    let writes = access.intersects(Access::INSERT | Access::DELETE | Access::UPDATE);
    match user.check_verb(entry, [reads, writes], keys) {
        Ok(()) => return true,
        Err(Some(key)) => note_refusal(cx, Reason::Key, key),
        Err(None) => note_refusal(cx, Reason::Command, command.as_bytes()),
    }
    false
}
