//! The server's interface to scripts: it runs their commands, writes their log lines and ends them.

use crate::registry::command::Flags;
use crate::runtime::context::{Context, Entry};
use crate::runtime::resume::go_on;
use crate::runtime::spent::Spent;
use crate::runtime::suspension::When;
use crate::runtime::{dispatch, gate, rights, shown};
use crate::scripting::run::{Ended, Run, ThreadContext};
use crate::scripting::server::ScriptingServer;
use crate::state::held_publications;
use crate::{Error, HookFlags};
use nagi_proto::resp::{Version, Writer};
use nagi_proto::{Args, Output, Span};
use nagi_script::{Host, LogLevel, Words};
use nagi_store::accounting;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum capacity of the reply buffer that is kept for the next command, in bytes.
const KEPT_BYTES: usize = 64 * 1024;
/// Maximum bytes of arguments or of a reply for which memory is accounted for only after the
/// command.
const FEW_BYTES: usize = 4096;
/// The interval in which a script that waits for a command checks for its end.
const WAIT: Duration = Duration::from_millis(20);

/// The error of a command during which the script is ended before the command changes data.
const ENDED: Error = Error::fixed("ERR the script was ended during a command");

/// The host of the Lua engines, through which the running script reaches the server. `run` is
/// `None` between two scripts.
pub(super) struct Caller<S> {
    pub(super) server: Arc<S>,
    pub(super) context: Rc<ThreadContext>,
    pub(super) run: Rc<RefCell<Option<Run>>>,
}

impl<S: ScriptingServer> Host for Caller<S> {
    fn call(&mut self, words: &Words, version: Version, reply: &mut Vec<u8>) {
        let mut run = self.run.borrow_mut();
        let Some(run) = run.as_mut() else { return };
        run.client.version = version;
        let mut output = std::mem::take(&mut run.output);
        output.clear(KEPT_BYTES);
        let (server, context) = (&*self.server, &*self.context);
        // A reply may repeat the arguments (ECHO), so the same number of bytes is expected.
        let args_bytes = words.args().bytes().len();
        if args_bytes > FEW_BYTES {
            note_buffers(context, run, (words, &*reply, &output), args_bytes);
        }
        match admitted(server, context, run, words.args()) {
            Ok(entry) => execute(server, context, run, (entry, true), words.args(), &mut output),
            Err((entry, error)) => {
                context.tally.count_error(&error.0);
                if let Some(entry) = entry {
                    context.tally.count_rejection(entry.index);
                }
                Writer::new(&mut output, version).error(&error.0);
            }
        }
        let reply_bytes = output.slices().map(<[u8]>::len).sum();
        if reply_bytes > FEW_BYTES {
            note_buffers(context, run, (words, &*reply, &output), reply_bytes);
        }
        output.slices().for_each(|part| reply.extend_from_slice(part));
        note_buffers(context, run, (words, &*reply, &output), 0);
        run.output = output;
    }

    fn may_call(&mut self, words: &Words) -> Option<bool> {
        let entry = dispatch::find(self.server.commands(), words.args()).ok()?;
        let mut run = self.run.borrow_mut();
        let user = run.as_mut()?.client.user(self.server.config().users());
        Some(user.is_some_and(|user| user.denial(entry, words.args()).is_none()))
    }

    fn note_error(&mut self, text: &[u8], is_counted: bool) {
        if !is_counted {
            self.context.tally.count_error(text);
        }
        if let Some(run) = &mut *self.run.borrow_mut() {
            run.has_failed = true;
        }
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        self.server.log_of_script(level, &String::from_utf8_lossy(text));
    }

    fn is_to_end(&mut self) -> bool {
        let mut run = self.run.borrow_mut();
        let Some(run) = run.as_mut() else { return false };
        self.context.note_growth(run.buffer_bytes);
        run.is_slow = run.is_slow || gate::note_if_slow(&*self.server, run.started);
        self.server.scripts().is_to_end(run.number)
    }
}

/// Accounts for a command's buffers, and for `more_bytes` that are about to be added to them, as
/// overhead: if they counted as data, they would cause evictions.
fn note_buffers(
    context: &ThreadContext,
    run: &mut Run,
    (words, reply, output): (&Words, &Vec<u8>, &Output),
    more_bytes: usize,
) {
    let (bytes, places) = words.capacity();
    run.buffer_bytes = accounting::room_bytes::<Span>(places)
        + [bytes, reply.capacity(), output.own_bytes(), more_bytes]
            .map(accounting::room_bytes::<u8>)
            .iter()
            .sum::<usize>();
    context.note_growth(run.buffer_bytes);
}

/// The reason for which a script's command is refused; with the command's row, if it exists.
type Refused = (Option<&'static Entry>, Error);

/// Checks whether a script may run a command now, claims the command's keys and returns its row.
fn admitted(
    server: &impl ScriptingServer,
    context: &ThreadContext,
    run: &mut Run,
    args: Args<'_>,
) -> Result<&'static Entry, Refused> {
    let entry = found(server, args)?;
    let refused = |error| (Some(entry), error);
    let flags = entry.command.flags;
    if flags.contains(Flags::NOSCRIPT) && !is_for_tests(server, entry) {
        return Err(refused(Error::fixed("ERR This Redis command is not allowed from script")));
    }
    // Commands such as PUBLISH write no keys here, but would have an effect on replicas.
    let is_write = flags.intersects(Flags::WRITE | Flags::PAUSED_AS_WRITE);
    if is_write && run.is_read_only {
        let text = "ERR Write commands are not allowed from read-only scripts.";
        return Err(refused(Error::fixed(text)));
    }
    // The command's messages and events are held in memory until the script ends.
    let limit = server.config().script_memory_limit.bytes();
    if is_write && limit > 0 && held_publications::bytes() >= limit {
        return Err(refused(Error::fixed("ERR not enough memory")));
    }
    if flags.contains(Flags::DENYOOM) && run.lacks_memory && !run.has_written {
        return Err(refused(Error::OUT_OF_MEMORY));
    }
    let mut reasons = server.hooks().reasons().difference(HookFlags::BUSY);
    if run.has_written || !flags.contains(Flags::WRITE) {
        // As in Redis, a save that fails meanwhile does not stop a script half-way.
        reasons.remove(HookFlags::UNSAVED);
    }
    if let Some(error) = gate::refusal(reasons, flags) {
        return Err(refused(error));
    }
    claim(server, context, run, entry, args).map_err(|Ended| refused(ENDED))?;
    Ok(entry)
}

/// Finds the row of a command that a script calls.
fn found(server: &impl ScriptingServer, args: Args<'_>) -> Result<&'static Entry, Refused> {
    let commands = server.commands();
    dispatch::resolve(commands, args).map_err(|_| {
        let entry = commands.find(args.at(0));
        let entry = entry.and_then(|entry| match entry.command.subcommands {
            [] => Some(entry),
            // Without an argument, the subcommand is missing: an error in the number of arguments.
            _ => args.get(1).map_or(Some(entry), |name| commands.subcommand(entry, name)),
        });
        let text = match entry {
            Some(_) => "ERR Wrong number of args calling Redis command from script",
            None => "ERR Unknown Redis command called from script",
        };
        (entry, Error::fixed(text))
    })
}

/// Whether a script may call this command although the command forbids scripts: DEBUG permits that
/// for Redis' tests.
fn is_for_tests(server: &impl ScriptingServer, entry: &Entry) -> bool {
    let name = &*entry.full_name;
    server.hooks().scripts_may_debug() && (name == "debug" || name.starts_with("client|"))
}

/// Claims those keys of a command that the script has not claimed yet.
fn claim(
    server: &impl ScriptingServer,
    context: &ThreadContext,
    run: &mut Run,
    entry: &Entry,
    args: Args<'_>,
) -> Result<(), Ended> {
    let (keys, number) = (&entry.command.keys, run.number);
    let (intent, writes) = (run.intent, entry.command.flags.contains(Flags::WRITE));
    let is_to_end = || server.scripts().is_to_end(number);
    if keys.claims_everything(args) {
        run.claim_everything(server.store(), context, is_to_end)?;
        run.may_change_everything |= writes;
        return Ok(());
    }
    keys.of(args).try_for_each(|key| {
        let key = server.store().key(key);
        run.claim(server.store(), context, key, intent, is_to_end)?;
        if writes {
            run.note_changed(key);
        }
        Ok(())
    })
}

/// Executes a command on behalf of the server, such as the DUMP of MIGRATE. Its keys have been
/// claimed. The user's permissions are not checked, and monitors do not see the command.
pub(super) fn execute_unchecked(
    server: &impl ScriptingServer,
    context: &ThreadContext,
    run: &mut Run,
    words: &[&[u8]],
    output: &mut Output,
) {
    let (mut bytes, mut spans) = (Vec::new(), Vec::with_capacity(words.len()));
    for word in words {
        let place = (u32::try_from(bytes.len()), u32::try_from(word.len()));
        let (Ok(start), Ok(len)) = place else { return };
        spans.push(Span { start, len });
        bytes.extend_from_slice(word);
    }
    let args = Args::new(&bytes, &spans);
    if let Some(entry) = words.first().and_then(|name| server.commands().find_own(name)) {
        execute(server, context, run, (entry, false), args, output);
    }
}

/// Executes a command until it is complete. `is_of_script` is whether the script called it: then
/// the permissions of the script's user apply, and the command ends with the script unless it may
/// have changed data.
fn execute(
    server: &impl ScriptingServer,
    context: &ThreadContext,
    run: &mut Run,
    (entry, is_of_script): (&'static Entry, bool),
    args: Args<'_>,
    output: &mut Output,
) {
    let store = server.store();
    let writes = entry.command.flags.contains(Flags::WRITE);
    let is_first_write = writes && !run.has_written;
    let mut began = Instant::now();
    let (mut suspension, mut spent) = (None, Spent::since(began));
    loop {
        let batch = store.batch(&context.counters);
        let db = context.database_of((store, server), &run.client, run.now_ms);
        let mut cx = Context {
            db: db.claimed_by(&run.claim),
            reply: Writer::new(output, run.client.version),
            client: &mut run.client,
            server,
            hooks: server.hooks(),
            tally: &context.tally,
            args,
            prefetched: None,
            suspension: None,
        };
        let runs = match suspension.take() {
            Some(suspended) => {
                go_on(&mut cx, suspended);
                true
            }
            None => begin(&mut cx, (entry, is_of_script), args, is_first_write),
        };
        suspension = cx.suspension.take();
        let ended = Instant::now();
        spent.executed += ended.duration_since(began);
        spent.executed += std::mem::take(&mut cx.client.worked_elsewhere);
        if suspension.is_none() && runs && is_of_script {
            spent.reply_bytes = cx.reply.len();
            spent.report(&cx, (entry.index, args), ended);
        }
        // A command that the user may not run has not written.
        run.has_written |= is_first_write && runs;
        drop(batch);
        let Some(suspended) = &suspension else {
            if runs && writes {
                let (blocked, db) = (&server.hooks().blocked, db.claimed_by(&run.claim));
                run.ready.note(blocked, db, &entry.command.keys, args);
            }
            return;
        };
        if is_of_script && !suspended.is_committed && server.scripts().is_to_end(run.number) {
            return give_up(context, run, entry, output);
        }
        match suspended.when {
            When::NextTick | When::RoomForReplies => {}
            When::Woken | When::Served => thread::park_timeout(WAIT),
        }
        began = Instant::now();
    }
}

/// Replies with an error to a command that ends with its script. It may have written a part of its
/// reply.
fn give_up(context: &ThreadContext, run: &Run, entry: &Entry, output: &mut Output) {
    output.clear(KEPT_BYTES);
    context.tally.count_failure(entry.index);
    context.tally.count_error(&ENDED.0);
    Writer::new(output, run.client.version).error(&ENDED.0);
}

/// Starts a command, unless the user lacks the permission for it. Returns whether it was started.
fn begin<'a>(
    cx: &mut Context<'a>,
    (entry, is_of_script): (&'static Entry, bool),
    args: Args<'a>,
    is_first_write: bool,
) -> bool {
    if is_of_script && let Err(error) = rights::check_in_script(cx, entry, args) {
        cx.tally.count_rejection(entry.index);
        dispatch::refuse(cx, &error);
        return false;
    }
    let is_shown = is_of_script
        && cx.hooks.reasons().contains(HookFlags::MONITORED)
        && !entry.command.flags.contains(Flags::ADMIN);
    let words = is_shown.then(|| shown::words(entry.command, args));
    if is_first_write {
        cx.server.scripts().note_write();
    }
    dispatch::run_claimed(entry, cx, args);
    // In the database that the command may have selected, as in Redis.
    words.into_iter().for_each(|words| shown::show(cx.server, cx.client, &words));
    true
}
