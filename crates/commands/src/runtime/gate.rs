//! Rare conditions that keep requests from running: loading, a failed save, a save that cannot keep
//! up with writes, or a pause. Each has a bit in [`HookFlags`], so that ordinary requests skip
//! these checks.

use crate::runtime::context::CommandSet;
use crate::runtime::{command_flags, notification, rights};
use crate::state::latency_monitor::EVICTION;
use crate::state::saves::Saves;
use crate::state::scripts::BUSY;
use crate::{
    Access, Client, Config, Context, Error, Flags, HookFlags, Keys, Marks, RequestHooks, Server,
};
use nagi_store::{Intent, Store};
use std::time::{Duration, Instant};

const LOADING: Error = Error::fixed("LOADING Redis is loading the dataset in memory");

const MISCONF: Error = Error::fixed(
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to \
     disk. Commands that may modify the data set are disabled, because this instance is \
     configured to report errors during writes if RDB snapshotting fails \
     (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
     error.",
);

/// The same errors for memcached's protocols. Clients take a SERVER_ERROR as a failure of the
/// server.
const LOADING_WORDS: &str = "SERVER_ERROR loading the data";
const MISCONF_WORDS: &str = "SERVER_ERROR saving has failed, see the log";

/// The use of `snapshot-preimage-limit`, in thousandths, from which writers are delayed, and from
/// which they wait until the use decreases.
const DELAYED: usize = 750;
const FULL: usize = 950;
/// The maximum length of a step of a delay, reached at `FULL`; at `DELAYED`, a step takes 1 ms.
const LONGEST_STEP_MS: usize = 10;
/// How long writes to disk may stall while writers wait, before the save is aborted.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Evicts keys if memory is over the limit; see [`nagi_store::Database::make_room`].
#[cold]
pub(crate) fn make_room(cx: &Context<'_>) -> bool {
    cx.hooks.latency.time(EVICTION, || cx.db.make_room())
}

/// Evicts keys to make room for this many bytes; see [`nagi_store::Database::make_room_for`].
#[cold]
pub(crate) fn make_room_for(cx: &Context<'_>, bytes: usize) -> bool {
    cx.hooks.latency.time(EVICTION, || cx.db.make_room_for(bytes, &[]))
}

/// The error for a command with these flags that must not run now.
pub(crate) fn refusal(reasons: HookFlags, flags: Flags) -> Option<Error> {
    if reasons.contains(HookFlags::UNSAVED) && flags.intersects(Flags::WRITE | Flags::PROBE) {
        return Some(MISCONF);
    }
    if reasons.contains(HookFlags::BUSY) && !flags.contains(Flags::ALLOW_BUSY) {
        return Some(Error::fixed(BUSY));
    }
    let waits = reasons.contains(HookFlags::LOADING);
    (waits && !flags.intersects(Flags::LOADING | Flags::PROBE)).then_some(LOADING)
}

/// Whether a script that started at this time is slow. If so, records that; see
/// [`note_slow_script`]. Called every few microseconds.
pub(crate) fn note_if_slow(server: &dyn Server, started: Instant) -> bool {
    threshold(server).is_some_and(|least| started.elapsed() >= least) && note_slow_script(server)
}

/// Whether the running script is slow. If so, records that: other requests no longer wait for it,
/// and SCRIPT KILL may end it.
///
/// A script checks this itself, except within one long operation. So the housekeeper checks it too,
/// and so do requests that need the script thread.
pub fn note_slow_script(server: &dyn Server) -> bool {
    let Some(least) = threshold(server) else { return false };
    let mut noted = None;
    let is_slow = server.scripts().note_if_slow(least, |took| {
        noted = Some(took);
        if server.config().busy_reply.is_on() {
            server.hooks().set(HookFlags::BUSY, true);
        }
    });
    if let Some(took) = noted {
        server.report_slow_script(took);
    }
    is_slow
}

/// The time after which a script is slow, unless none ever is.
fn threshold(server: &dyn Server) -> Option<Duration> {
    let threshold_ms = server.config().busy_reply_threshold_ms.get();
    (threshold_ms > 0).then(|| Duration::from_millis(threshold_ms))
}

/// The error for a memcached verb with these keys that must not run now.
pub(crate) fn refusal_of_verb(reasons: HookFlags, keys: &Keys) -> Option<&'static str> {
    if keys.is_none() {
        return None;
    }
    if reasons.contains(HookFlags::UNSAVED) && changes(keys) {
        return Some(MISCONF_WORDS);
    }
    reasons.contains(HookFlags::LOADING).then_some(LOADING_WORDS)
}

/// Whether a verb changes keys by its purpose. `mg` may write, but is used to read values.
fn changes(keys: &Keys) -> bool {
    keys.access().intersects(Access::UPDATE | Access::INSERT | Access::DELETE | Access::RM)
}

/// Whether a writer has to wait for the current save before it runs; if so, its waker will be
/// called. It waits in steps of a few milliseconds: one step while images are near their limit, and
/// as many as needed while they are at the limit.
pub(crate) fn delays(server: &dyn Server, store: &Store, client: &mut Client, now_ms: u64) -> bool {
    let pressure = store.snapshot_pressure();
    let is_full = pressure >= FULL && !gives_up(server.saves(), store);
    let waits = if client.delayed_since.is_some() { is_full } else { pressure >= DELAYED };
    if !waits {
        end_delay(server.saves(), client);
        return false;
    }
    client.delayed_since.get_or_insert_with(|| Box::new(Instant::now()));
    client.info.mark(Marks::WAITING, true);
    let over = pressure.clamp(DELAYED, FULL) - DELAYED;
    let step_ms = 1 + over * (LONGEST_STEP_MS - 1) / (FULL - DELAYED);
    server.hooks().call_at(now_ms + step_ms as u64, &client.waker);
    server.check_timers();
    true
}

/// Ends a client's delay by a save, if there was one, and counts it.
pub(crate) fn end_delay(saves: &Saves, client: &mut Client) {
    if let Some(since) = client.delayed_since.take() {
        saves.delays.add(since.elapsed());
    }
}

/// Whether a request that has waited in a queue must wait again, since a pause has begun meanwhile;
/// if so, its client's waker will be called.
pub(crate) fn is_held(cx: &Context<'_>, writes: bool) -> bool {
    cx.hooks.holds(cx.hooks.reasons(), writes, cx.client, cx.db.now_ms())
}

/// Ends the wait of a request that was held, if it was.
///
/// # Errors
/// Meanwhile its user has lost the permission for it, or it must not run now.
pub(crate) fn admit_held(cx: &mut Context<'_>) -> Result<(), Error> {
    if !cx.client.info.marks().contains(Marks::WAITING) {
        return Ok(());
    }
    cx.client.info.mark(Marks::WAITING, false);
    let args = cx.args;
    let commands = cx.server.commands();
    let Some(mut entry) = commands.find(args.at(0)) else { return Ok(()) };
    if !entry.command.subcommands.is_empty() {
        let subcommand = args.get(1).and_then(|word| commands.subcommand(entry, word));
        entry = subcommand.unwrap_or(entry);
    }
    rights::check(cx, entry, args)?;
    let flags = command_flags::of(entry, cx, args);
    refusal(cx.hooks.reasons(), flags).map_or(Ok(()), Err)
}

/// Ends the wait of a request that now runs from the start: the client is no longer shown as
/// waiting. If the save has ended, the delay is counted.
pub(crate) fn end_hold<C: CommandSet>(cx: &mut Context<'_, C>) {
    cx.client.info.mark(Marks::WAITING, false);
    if !cx.hooks.reasons().contains(HookFlags::SAVING) {
        end_delay(cx.server.saves(), cx.client);
    }
}

/// Aborts a save if writers wait for it and nothing has been written to disk for a long time.
/// Returns whether it was aborted.
fn gives_up(saves: &Saves, store: &Store) -> bool {
    let is_stuck = saves.is_stuck(STUCK_AFTER);
    if is_stuck {
        store.give_up_snapshot();
    }
    is_stuck
}

/// Refuses write commands if saving has failed and the settings ask for it.
pub fn stop_writes_if_unsaved(saves: &Saves, config: &Config, hooks: &RequestHooks) {
    let is_asked_for = config.stop_writes_on_bgsave_error.is_on() && config.has_save_points();
    hooks.set(HookFlags::UNSAVED, is_asked_for && saves.has_failed());
}

/// Whether a memcached verb may run now.
pub(crate) enum Verdict {
    /// It may run.
    Pass,
    /// It is refused with this text.
    Refuse(&'static str),
    /// It has to wait: its client's waker is called.
    Wait,
}

/// Checks whether a verb with these keys may run.
#[cold]
pub(crate) fn verdict<C: CommandSet>(
    reasons: HookFlags,
    keys: &Keys,
    cx: &mut Context<'_, C>,
) -> Verdict {
    if let Some(words) = refusal_of_verb(reasons, keys) {
        return Verdict::Refuse(words);
    }
    let hooks = cx.hooks;
    if hooks.holds(reasons, changes(keys), cx.client, cx.db.now_ms()) {
        return Verdict::Wait;
    }
    let is_writer = !keys.is_none() && keys.intent() == Intent::Write;
    if reasons.contains(HookFlags::NOTIFIED) && is_writer && notification::holds_up(cx) {
        return Verdict::Wait;
    }
    let is_delayed = reasons.contains(HookFlags::SAVING)
        && is_writer
        && delays(cx.server, cx.db.store(), cx.client, cx.db.now_ms());
    if is_delayed { Verdict::Wait } else { Verdict::Pass }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, START_MS};
    use nagi_store::{Snapshot, WalkProgress, Walker};
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::task::Waker;

    const LIMIT: usize = 1 << 20;
    const KEYS: u32 = 1000;

    /// Rewrites keys until images take this many thousandths of the limit.
    fn fill_images(bench: &mut Bench, next: &mut u32, until: usize) {
        while bench.store.snapshot_pressure() < until {
            bench.expect(&format!("SET key:{next} {}", "w".repeat(5000)), "+OK|");
            *next += 1;
            assert!(*next < KEYS, "the images never take so much");
        }
    }

    fn waits(bench: &mut Bench) -> bool {
        let Bench { process, client, store, .. } = bench;
        delays(process, store, client, START_MS)
    }

    /// The time at which the last waiting client is called.
    fn called_at(bench: &Bench) -> u64 {
        let next = bench.process.hooks.call_due(START_MS);
        bench.process.hooks.call_due(u64::MAX - 1);
        next - START_MS
    }

    fn take_all(snapshot: &mut Snapshot<'_>) {
        while snapshot.take(Duration::ZERO).is_some() {}
    }

    #[test]
    fn writers_wait_in_steps_and_the_limit_is_never_passed() {
        let mut bench = Bench::new();
        for key in 0..KEYS {
            bench.expect(&format!("SET key:{key} {}", "v".repeat(5000)), "+OK|");
        }
        let store = Arc::clone(&bench.store);
        let mut snapshot = store.cut(LIMIT, Waker::noop()).unwrap();
        bench.process.saves.begin(Duration::ZERO, 0);
        let mut next = 0;
        fill_images(&mut bench, &mut next, DELAYED - 10);
        assert!(!waits(&mut bench), "there is room");
        fill_images(&mut bench, &mut next, DELAYED);
        assert!(waits(&mut bench), "it is held up");
        assert!(called_at(&bench) <= 2);
        assert!(!waits(&mut bench), "once");
        fill_images(&mut bench, &mut next, FULL);
        for _ in 0..3 {
            assert!(waits(&mut bench), "until there is room");
            assert_eq!(called_at(&bench), LONGEST_STEP_MS as u64);
        }
        assert!(bench.client.info.marks().contains(Marks::WAITING));
        assert_eq!(bench.process.saves.delays.figures()[0], 1);
        let mut walker = Walker::default();
        while store.walk(&mut walker, || false) != WalkProgress::Done {
            take_all(&mut snapshot);
        }
        take_all(&mut snapshot);
        assert!(!waits(&mut bench), "there is room again");
        let [count, total_us, longest_us] = bench.process.saves.delays.figures();
        assert!(count == 2 && longest_us <= total_us);
        assert!(store.snapshot_memory().pre_image_peak_bytes <= LIMIT);
        assert_eq!(snapshot.finish(), Ok(()));
        assert!(!waits(&mut bench));
    }

    #[test]
    fn only_a_disk_that_writes_nothing_ends_the_save() {
        let saves = Saves::default();
        saves.begin(Duration::ZERO, 0);
        assert!(!saves.is_stuck(Duration::ZERO), "it was not checked before");
        saves.progress.bytes.store(1, Ordering::Relaxed);
        assert!(!saves.is_stuck(Duration::ZERO), "it has grown");
        assert!(!saves.is_stuck(STUCK_AFTER), "not for long");
        assert!(saves.is_stuck(Duration::ZERO));
        saves.begin(Duration::ZERO, 0);
        assert!(!saves.is_stuck(Duration::ZERO), "another save");
    }

    #[test]
    fn writes_are_refused_while_saving_fails() {
        let mut bench = Bench::new();
        bench.process.hooks.set(HookFlags::UNSAVED, true);
        let misconf = String::from_utf8_lossy(&MISCONF.0).into_owned();
        for command in ["SET key value", "PING", "FLUSHALL"] {
            bench.expect(command, &format!("-{misconf}|"));
        }
        bench.expect("GET key", "$-1|");
        bench.expect_memcached("get key", "END|");
        bench.expect_memcached("delete key", "SERVER_ERROR saving has failed, see the log|");
        bench.process.hooks.set(HookFlags::UNSAVED, false);
        bench.expect("SET key value", "+OK|");
    }

    /// A script that is within one long operation cannot report that it is slow.
    #[test]
    fn a_slow_script_need_not_report_itself() {
        let mut bench = Bench::new();
        bench.expect("CONFIG SET busy-reply all", "+OK|");
        let scripts = Arc::clone(bench.process.scripts());
        let not_busy = "-NOTBUSY No scripts in execution right now.|";
        let began = Instant::now().checked_sub(Duration::from_millis(10)).unwrap();
        let number = scripts.begin(1, (START_MS, began), None);
        bench.expect("SCRIPT KILL", not_busy);
        bench.expect("CONFIG SET busy-reply-threshold 1", "+OK|");
        bench.expect("EVAL x 0", &format!("-{BUSY}|"));
        bench.expect("GET k", &format!("-{BUSY}|"));
        assert!(!scripts.is_to_end(number));
        bench.expect("SCRIPT KILL", "+OK|");
        assert!(scripts.is_to_end(number));
        scripts.end(|| bench.process.hooks().set(HookFlags::BUSY, false));
        bench.expect("GET k", "$-1|");
        bench.expect("SCRIPT KILL", not_busy);
    }
}
