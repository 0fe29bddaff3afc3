//! A connection's line in CLIENT LIST, which ACL LOG shows as well.

use crate::state::pubsub::Kind;
use crate::state::users::DEFAULT_USER;
use crate::{ClientInfo, CommandTable, Marks};
use std::fmt::Write as _;
use std::sync::atomic::Ordering::Relaxed;

/// Appends a connection's line: the fields of Redis with their names. `request_bytes` is the length
/// of the current request, if it is this client's.
pub(crate) fn describe(
    commands: &CommandTable,
    client: &ClientInfo,
    request_bytes: usize,
    now_ms: u64,
    line: &mut String,
) {
    let names = client.names().clone();
    let seconds_since = |ms: u64| now_ms.saturating_sub(ms) / 1000;
    let query_bytes = client.query_bytes.load(Relaxed) + request_bytes;
    let output_bytes = client.output_bytes.load(Relaxed);
    let queued_bytes = client.queued_bytes.load(Relaxed);
    // Writing to a string cannot fail. Requests are executed in the buffers in which they were
    // received, and replies are sent from the buffers into which they were written: the fields for
    // copying buffers are always 0.
    let _ = writeln!(
        line,
        "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db={} sub={} psub={} \
         ssub={} multi={} watch={} qbuf={query_bytes} qbuf-free=0 argv-mem=0 \
         multi-mem={queued_bytes} rbs=0 rbp=0 obl=0 oll={} omem={output_bytes} tot-mem={} \
         events={} cmd={} user={} redir={} resp={} lib-name={} lib-ver={} tot-net-in={} \
         tot-net-out={} tot-cmds={}",
        client.id,
        client.shown_address(),
        client.local_address,
        client.descriptor,
        names.name,
        seconds_since(client.connected_at_ms),
        seconds_since(client.active_at_ms.load(Relaxed)),
        flags(client),
        client.database.load(Relaxed),
        client.subscriptions(Kind::Channel),
        client.subscriptions(Kind::Pattern),
        client.subscriptions(Kind::Shard),
        client.queued_requests.load(Relaxed).cast_signed() - 1,
        client.watched_keys.load(Relaxed),
        u8::from(output_bytes > 0),
        client.total_bytes() + request_bytes,
        if output_bytes > 0 { "rw" } else { "r" },
        commands.label(client.last_command.load(Relaxed)),
        String::from_utf8_lossy(names.user.as_deref().unwrap_or(DEFAULT_USER)),
        redirect(client),
        client.resp.load(Relaxed),
        names.library_name,
        names.library_version,
        client.received_bytes.get(),
        client.sent_bytes.get(),
        client.requests.get(),
    );
}

/// The id of the client that receives this client's invalidations; 0 if there is none, -1 without
/// tracking.
fn redirect(client: &ClientInfo) -> i64 {
    match client.marks().contains(Marks::TRACKING) {
        true => i64::try_from(client.redirect.load(Relaxed)).unwrap_or(i64::MAX),
        false => -1,
    }
}

/// A connection's flags in Redis' letters.
fn flags(client: &ClientInfo) -> String {
    let marks = client.marks();
    let letters = [
        (Marks::MONITOR, 'O'),
        (Marks::PUBSUB, 'P'),
        (Marks::WAITING, 'b'),
        (Marks::KILLED, 'A'),
        (Marks::UNIX_SOCKET, 'U'),
        (Marks::NO_EVICT, 'e'),
        (Marks::NO_TOUCH, 'T'),
        (Marks::TRACKING, 't'),
        (Marks::BROKEN_REDIRECT, 'R'),
        (Marks::BROADCAST_TRACKING, 'B'),
    ];
    let letters = letters.into_iter().filter(|(mark, _)| marks.contains(*mark));
    let is_queueing = client.queued_requests.load(Relaxed) > 0;
    let first = is_queueing.then_some('x').into_iter();
    let letters: String = first.chain(letters.map(|(_, letter)| letter)).collect();
    if letters.is_empty() { "N".to_owned() } else { letters }
}
