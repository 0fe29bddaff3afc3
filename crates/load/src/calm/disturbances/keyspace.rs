//! Disturbances with many keys: listed, flushed, expired, written beyond the memory limit, and
//! growing in number.

use nagi_client::Protocol;

use super::super::context::{SMALL_KEY_BYTES, StepContext};
use super::super::probe::{LOST_NS, PREFIX};
use super::super::scale::Scale;
use super::super::server::Server;
use super::super::settings::whole_megabytes;
use super::row::{Disturbance, anything, needs_resp, nothing};
use crate::clock::{SECOND, now_ns, unix_ms};

/// Bytes of each value written beyond the server's memory limit.
const PUSH_BYTES: usize = 1000;

/// The minimum rate of writes expected of a server, in keys per second.
const SLOW_FILL: u64 = 20_000;

pub(super) const ALL: &[Disturbance] = &[
    Disturbance {
        name: "keys",
        what: "KEYS * of a million keys",
        needs_bytes: |scale| scale.keys * SMALL_KEY_BYTES,
        danger: None,
        can: |server, _| needs_resp(server, "KEYS").and_then(|()| server.require_command("KEYS")),
        prepare: |context| context.fill(0..context.scale.keys, 32),
        act: |context| context.patient()?.run("KEYS *").map(drop),
        repeats: true,
    },
    Disturbance {
        name: "flushall",
        what: "millions of keys are flushed",
        needs_bytes: |scale| scale.flushed_keys * SMALL_KEY_BYTES,
        danger: None,
        can: anything,
        prepare: |context| {
            context.fill(0..context.scale.flushed_keys, 32)?;
            context.check_own()
        },
        act: flush,
        repeats: false,
    },
    Disturbance {
        name: "expiry",
        what: "a million keys expire within one second",
        needs_bytes: |scale| scale.keys * SMALL_KEY_BYTES,
        danger: None,
        can: can_expire,
        prepare: fill_to_expire,
        act: watch_expiry,
        repeats: false,
    },
    Disturbance {
        name: "maxmemory",
        what: "the server is pushed over its limit of memory",
        needs_bytes: |scale| 2 * scale.limit_bytes,
        danger: Some("CONFIG SET changes the server's settings for a while"),
        can: |server, scale| match server.target.protocol {
            Protocol::Resp => used_bytes(server).and_then(|_| server.require_command("CONFIG")),
            Protocol::Memcached => can_lower_limit(server, scale),
        },
        prepare: limit_memory,
        act: |context| {
            context.fill(0..3 * context.scale.limit_bytes / PUSH_BYTES as u64, PUSH_BYTES)
        },
        repeats: false,
    },
    Disturbance {
        name: "growth",
        what: "keys are added, from 1 to 16 million",
        needs_bytes: |scale| scale.growth.1 * SMALL_KEY_BYTES,
        danger: None,
        can: anything,
        prepare: |context| context.fill(0..context.scale.growth.0, 32),
        act: |context| context.fill(context.scale.growth.0..context.scale.growth.1, 32),
        repeats: false,
    },
    Disturbance {
        name: "monitor",
        what: "MONITOR shows every request to a client",
        needs_bytes: |_| 0,
        danger: None,
        can: |server, _| {
            needs_resp(server, "MONITOR").and_then(|()| server.require_command("MONITOR extra"))
        },
        prepare: nothing,
        act: monitor,
        repeats: false,
    },
];

fn flush(context: &mut StepContext<'_>) -> Result<(), String> {
    let mut wire = context.server.connect()?;
    context.check_unchanged(&mut wire)?;
    if context.speaks(Protocol::Memcached) {
        return match wire.lines("flush_all")?.concat().as_str() {
            "OK" => Ok(()),
            text => Err(format!("flush_all: {text}")),
        };
    }
    wire.run("FLUSHALL").map(drop)
}

fn fill_to_expire(context: &mut StepContext<'_>) -> Result<(), String> {
    let keys = context.scale.keys;
    let started_ns = now_ns();
    // The time that these keys take serves to estimate the time for all keys.
    let first = (keys / 20).max(1);
    context.fill_until(0..first, 32, |_| Some(unix_ms() + 600_000))?;
    let took_ms = (now_ns() - started_ns) / 1_000_000;
    let rest_ms = (took_ms * keys / first * 3 / 2).min(keys * 1000 / SLOW_FILL) + 1500;
    let due_ms = (unix_ms() + rest_ms).div_ceil(1000) * 1000;
    context.due_unix_ms = due_ms;
    let at = |number| Some(due_ms + number % 1000);
    context.fill_until(0..keys, 32, at)?;
    if unix_ms() > due_ms {
        return Err("writing the keys took longer than they were to last".to_owned());
    }
    let left_ms = due_ms.saturating_sub(unix_ms()).saturating_sub(300);
    context.server.interrupt.sleep_until(now_ns() + left_ms * 1_000_000)
}

fn watch_expiry(context: &mut StepContext<'_>) -> Result<(), String> {
    let left_ms = (context.due_unix_ms + 1000).saturating_sub(unix_ms());
    context.server.interrupt.sleep_until(now_ns() + left_ms * 1_000_000)?;
    // memcached removes an expired item only when a request or the crawler finds it, so there is
    // nothing to wait for.
    if context.speaks(Protocol::Memcached) { Ok(()) } else { context.wait_for_few_keys(10) }
}

/// Returns the memory that a RESP server uses, in bytes.
fn used_bytes(server: &Server) -> Result<u64, String> {
    let info = server.info(&mut server.connect()?, "memory")?;
    let used = info.get("used_memory").and_then(|used| used.parse().ok());
    used.ok_or_else(|| "INFO does not say how much memory is used".to_owned())
}

/// Checks that the server supports expiry at a given time (PXAT), with a key that has expired
/// already.
fn can_expire(server: &Server, _: &Scale) -> Result<(), String> {
    if server.target.protocol == Protocol::Memcached {
        return Ok(());
    }
    let mut wire = server.connect()?;
    wire.run(&format!("SET {PREFIX}expired x PXAT 1"))?;
    // A server with lazy expiry counts the key until it is accessed.
    wire.command(&[b"DEL", format!("{PREFIX}expired").as_bytes()]).map(drop)
}

fn can_lower_limit(server: &Server, scale: &Scale) -> Result<(), String> {
    let limit = server.limit_bytes()?.ok_or("it has no limit of memory that could be restored")?;
    if limit < scale.limit_bytes {
        return Err(format!("its limit of {} MB is below the one to set", limit >> 20));
    }
    whole_megabytes(limit).map(drop)
}

fn limit_memory(context: &mut StepContext<'_>) -> Result<(), String> {
    let bytes = context.scale.limit_bytes;
    if context.speaks(Protocol::Memcached) {
        return context.settings.set_memlimit(bytes >> 20);
    }
    let limit = used_bytes(context.server)? + bytes;
    context.settings.set("maxmemory-policy", "allkeys-lru")?;
    context.settings.set("maxmemory", &limit.to_string())
}

fn monitor(context: &mut StepContext<'_>) -> Result<(), String> {
    let mut wire = context.server.connect()?;
    wire.run("MONITOR")?;
    // A server that shows no request would otherwise be waited for as for a long answer.
    wire.set_answer_timeout(LOST_NS);
    let end_ns = now_ns() + (context.scale.step_seconds * SECOND as f64) as u64;
    let mut shown = 0;
    while now_ns() < end_ns {
        shown += u64::from(wire.line()?.contains(PREFIX));
    }
    if shown > 0 { Ok(()) } else { Err("MONITOR showed no request".to_owned()) }
}
