//! Requests of clients that track keys (CLIENT TRACKING).

use crate::runtime::context::{Command, CommandSet, Context, Entry, Job};
use crate::runtime::suspension::JobProgress;
use crate::state::tracking::as_client;
use crate::{Access, Error, Flags, Server};
use nagi_proto::Args;

/// Calls `run`, which runs a request of a client that tracks keys, and tracks the keys that it
/// reads.
#[cold]
pub(crate) fn run<'a>(
    entry: &Entry,
    cx: &mut Context<'a>,
    args: Args<'a>,
    run: impl FnOnce(&mut Context<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    let id = cx.client.info.id;
    let is_remembered = is_remembered(entry.command, cx);
    if is_remembered {
        each_key(entry, args, |key| {
            cx.hooks.tracking.remember(key, id, most(cx.server));
        });
    }
    let outcome = as_client(id, || run(cx));
    let has_ended = cx.suspension.is_none();
    if has_ended && is_remembered {
        invalidate_changed(entry, cx, args);
    }
    if has_ended {
        forget_caching(is_about_clients(entry), cx);
        return outcome;
    }
    let is_about_clients = is_about_clients(entry);
    let keys: Vec<Box<[u8]>> = match is_remembered {
        true => all_keys(entry, args),
        false => Vec::new(),
    };
    let goes_on = move |mut job: Job| -> Job {
        Box::new(move |cx| {
            let progress = as_client(id, || job(cx));
            if !matches!(progress, Ok(JobProgress::Pending { .. })) {
                keys.iter().for_each(|key| invalidate_if_changed(cx, key));
                forget_caching(is_about_clients, cx);
            }
            progress
        })
    };
    cx.suspension = cx.suspension.take().map(|suspension| suspension.map_job(goes_on));
    outcome
}

/// Whether a client tracks the keys that this command reads; of a script, those of the commands
/// that it calls.
pub(crate) fn is_remembered(command: &Command, cx: &Context<'_>) -> bool {
    let Some(tracking) = &cx.client.tracking else { return false };
    let options = &tracking.options;
    command.flags.contains(Flags::READONLY)
        && !command.flags.contains(Flags::RUNS_SCRIPTS)
        && !options.is_broadcast
        && (!options.opts_in || tracking.caching == Some(true))
        && (!options.opts_out || tracking.caching != Some(false))
}

/// Whether a command may be CLIENT CACHING, or may come between CLIENT CACHING and the request to
/// which that applies.
pub(crate) fn is_about_clients(entry: &Entry) -> bool {
    entry.full_name.starts_with("client|")
}

/// Ends the effect of CLIENT CACHING after the next request, which may have been refused, or after
/// its transaction.
pub(crate) fn forget_caching(is_about_clients: bool, cx: &mut Context<'_>) {
    if let Some(tracking) = cx.client.tracking.as_mut().filter(|_| !is_about_clients)
        && cx.client.transaction.is_none()
        && !cx.client.is_executing
    {
        tracking.caching = None;
    }
}

fn each_key(entry: &Entry, args: Args<'_>, mut each: impl FnMut(&[u8])) {
    for group in entry.command.keys.all_groups() {
        if !group.access_in(args).contains(Access::NOT_KEY) {
            group.of(args).for_each(&mut each);
        }
    }
}

fn all_keys(entry: &Entry, args: Args<'_>) -> Vec<Box<[u8]>> {
    let mut keys = Vec::new();
    each_key(entry, args, |key| keys.push(key.into()));
    keys
}

/// Sends invalidations of keys that were changed while they were read.
fn invalidate_changed(entry: &Entry, cx: &Context<'_>, args: Args<'_>) {
    each_key(entry, args, |key| invalidate_if_changed(cx, key));
}

fn invalidate_if_changed<C: CommandSet>(cx: &Context<'_, C>, key: &[u8]) {
    let id = cx.client.info.id;
    if !cx.hooks.tracking.remember(key, id, most(cx.server)) {
        cx.hooks.tracking.invalidate_again(key, id);
    }
}

/// Tracks the keys of a blocked client that is served. The change that serves it is reported like
/// any other change, and the keys cannot change again before this function returns.
pub(crate) fn remember_served<'k>(
    cx: &Context<'_>,
    client: u64,
    keys: impl Iterator<Item = &'k [u8]>,
) {
    for key in keys {
        cx.hooks.tracking.remember(key, client, most(cx.server));
    }
}

fn most(server: &dyn Server) -> usize {
    server.config().tracking_table_max_keys.bytes()
}
