//! The loop of the script thread, which runs one script or function at a time.

use crate::runtime::migration::Migration;
use crate::runtime::{gate, notification};
use crate::scripting::caller::Caller;
use crate::scripting::functions::{self, Loaded};
use crate::scripting::migration::migrate;
use crate::scripting::run::{Run, ThreadContext};
use crate::scripting::server::ScriptingServer;
use crate::state::client::{Client, ClientInfo, Marks, Restrictions, SCRIPT_ADDRESS};
use crate::state::frozen_time::FrozenTime;
use crate::state::held_publications;
use crate::state::libraries::Policy;
use crate::state::libraries::{Libraries, Library};
use crate::state::scripts::{Next, Outcome, Task, TaskKind};
use crate::state::tracking;
use crate::{Context, HookFlags, REDIS_VERSION};
use nagi_persist::payload::{Refusal, restore_libraries};
use nagi_proto::resp::{Version, Writer};
use nagi_proto::{Args, Output};
use nagi_script::{Digest, Engine, Failure, ScriptFlags, Source};
use nagi_store::{Claim, ClaimProgress, Intent, parse_i64};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// Runs scripts until [`Scripts::stop`](crate::Scripts::stop) is called.
pub fn run_scripts<S: ScriptingServer>(server: &Arc<S>) {
    let context = Rc::new(ThreadContext::new(server.store(), &**server));
    let mut thread = ScriptThread {
        server: Arc::clone(server),
        context,
        run: Rc::default(),
        engine: None,
        flushes: 0,
        functions: None,
        loaded: Loaded::default(),
    };
    tracking::begin_publishing(server.process().workers);
    // Claims are announced from the second of several scripts in quick succession on.
    let (mut announced, mut lull) = (None, None);
    loop {
        match server.scripts().next(lull) {
            Next::Stop => return,
            Next::Lull => {
                (announced, lull) = (None, None);
                continue;
            }
            Next::Libraries => thread.load_read(),
            Next::Task(task) => {
                thread.load_read();
                if lull.replace(LULL).is_some() && announced.is_none() {
                    announced = Some(server.store().announce_claims());
                }
                thread.serve(task);
            }
        }
        notification::publish(&**server);
    }
}

/// The time without a script after which claims are no longer announced.
const LULL: Duration = Duration::from_millis(2);

struct ScriptThread<S> {
    server: Arc<S>,
    context: Rc<ThreadContext>,
    /// The running script, shared with the host of the engines.
    run: Rc<RefCell<Option<Run>>>,
    /// The engine for scripts, created for the first script.
    engine: Option<Engine>,
    /// The number of SCRIPT FLUSH requests when the engine was created.
    flushes: u64,
    /// The engine for functions, created for the first library.
    functions: Option<Engine>,
    loaded: Loaded,
}

/// The error for a script that cannot run or has failed, and whether the error was counted.
type ScriptError = (Vec<u8>, bool);

/// A script or function to run.
struct Invocation {
    target: Target,
    flags: ScriptFlags,
}

/// The code to run.
enum Target {
    Script(Digest),
    /// A function, by its library and its name.
    Function(Arc<Library>, String),
}

fn script_error(text: impl AsRef<[u8]>) -> ScriptError {
    ([b"ERR ", text.as_ref()].concat(), false)
}

/// The policy of FUNCTION LOAD: whether a library replaces an existing one of the same name.
fn policy(replaces: bool) -> Policy {
    if replaces { Policy::Replace } else { Policy::New }
}

/// Replies with a name, or with OK if there is none; `done` may also be an error.
fn reply_to(
    task: &Task,
    joint: Option<Claim>,
    done: Result<Option<String>, ScriptError>,
) -> Outcome {
    let mut outcome = Outcome { joint, ..Outcome::default() };
    let mut writer = Writer::new(&mut outcome.reply, task.version);
    match done {
        Ok(Some(name)) => writer.bulk(name.as_bytes()),
        Ok(None) => writer.ok(),
        Err(error) => outcome.error = Some(error),
    }
    outcome
}

impl<S: ScriptingServer> ScriptThread<S> {
    /// Performs a task and passes the outcome to its client.
    fn serve(&mut self, mut task: Task) {
        let joint = task.joint.take();
        let mut outcome = match task.asked {
            // A script is checked once its keys are claimed.
            TaskKind::LoadLibrary { .. } | TaskKind::RestoreLibraries(_)
                if joint.is_none() && self.is_held(true) =>
            {
                Outcome { is_held: true, ..Outcome::default() }
            }
            TaskKind::Load => self.load(&task, joint),
            TaskKind::Eval | TaskKind::EvalSha | TaskKind::Call => self.eval(&task, joint),
            TaskKind::Migrate => self.migrate(&task, joint),
            TaskKind::LoadLibrary { replaces } => {
                let code = task.args().from(2).last().unwrap_or_default();
                let name = self.load_libraries(&[code], policy(replaces));
                self.count_change(name.is_ok());
                reply_to(&task, joint, name.map(|names| names.into_iter().next()))
            }
            TaskKind::RestoreLibraries(policy) => {
                let restored = self.restore(&task, policy);
                self.count_change(restored.is_ok());
                reply_to(&task, joint, restored.map(|_| None))
            }
        };
        self.note_memory();
        if outcome.reply.is_empty() && outcome.error.is_none() && !outcome.is_held {
            Writer::new(&mut outcome.reply, task.version).null();
        }
        task.finish(outcome);
    }

    /// Records how much memory Lua uses.
    fn note_memory(&mut self) {
        let used = |engine: &Option<Engine>| engine.as_ref().map_or(0, Engine::used_memory);
        let (script_bytes, function_bytes) = (used(&self.engine), used(&self.functions));
        self.context.note_memory(0);
        let scripts = self.server.scripts();
        scripts.script_bytes.store(script_bytes, Ordering::Relaxed);
        scripts.function_bytes.store(function_bytes, Ordering::Relaxed);
    }

    /// Executes SCRIPT LOAD.
    fn load(&mut self, task: &Task, joint: Option<Claim>) -> Outcome {
        let text = task.args().get(2).unwrap_or_default();
        let mut outcome = Outcome { joint, ..Outcome::default() };
        match self.compile(text, true) {
            Ok(invocation) => {
                if let Target::Script(name) = invocation.target {
                    Writer::new(&mut outcome.reply, task.version).bulk(name.as_bytes());
                }
            }
            Err(error) => outcome.error = Some(error),
        }
        outcome
    }

    /// Returns the engine for scripts, which is created anew after SCRIPT FLUSH.
    fn engine(&mut self) -> Result<&mut Engine, ScriptError> {
        let flushes = self.server.scripts().flushes();
        if self.flushes != flushes {
            self.engine = None;
            self.flushes = flushes;
        }
        let limit = self.server.config().script_memory_limit.bytes();
        if self.engine.is_none() {
            self.engine = Some(self.open(false)?);
        }
        let engine = self.engine.as_mut().ok_or_else(|| script_error("there is no Lua"))?;
        engine.limit_memory(limit);
        Ok(engine)
    }

    /// Creates an engine for scripts, or for libraries of functions if `has_libraries`.
    fn open(&self, has_libraries: bool) -> Result<Engine, ScriptError> {
        let host = Caller {
            server: Arc::clone(&self.server),
            context: Rc::clone(&self.context),
            run: Rc::clone(&self.run),
        };
        let limit = self.server.config().script_memory_limit.bytes();
        Engine::new(Box::new(host), REDIS_VERSION, has_libraries, limit).map_err(script_error)
    }

    /// Returns the engine for functions, from which deleted libraries have been removed, and its
    /// loaded libraries.
    fn functions(&mut self) -> Result<(&mut Engine, &mut Loaded), ScriptError> {
        if self.functions.is_none() {
            self.functions = Some(self.open(true)?);
            self.loaded = Loaded::default();
        }
        let engine = self.functions.as_mut().ok_or_else(|| script_error("there is no Lua"))?;
        engine.limit_memory(self.server.config().script_memory_limit.bytes());
        let libraries = self.server.scripts().libraries();
        self.loaded.keep(engine, |name| libraries.iter().any(|library| library.name == name));
        Ok((engine, &mut self.loaded))
    }

    /// Loads libraries, and makes all of them visible to clients at once. Returns their names.
    fn load_libraries(
        &mut self,
        codes: &[&[u8]],
        policy: Policy,
    ) -> Result<Vec<String>, ScriptError> {
        if matches!(policy, Policy::New | Policy::Append) {
            // Before its code is run, which would replace the state of the existing library.
            let libraries = self.server.scripts().libraries();
            let names = codes.iter().filter_map(|code| functions::name(code));
            for name in names {
                libraries.check_new(&name, policy).map_err(script_error)?;
            }
        }
        let server = Arc::clone(&self.server);
        let (engine, loaded) = self.functions()?;
        let made = codes.iter().map(|code| functions::load(engine, code));
        let made = made.collect::<Result<Vec<_>, _>>().map_err(script_error)?;
        let made = made.into_iter().map(|(library, functions)| (Arc::new(library), functions));
        let made: Vec<_> = made.collect();
        server.scripts().change_libraries(|libraries| {
            let mut changed = match policy {
                Policy::Flush => Libraries::default(),
                Policy::New | Policy::Append | Policy::Replace => libraries.clone(),
            };
            for (library, _) in &made {
                changed.add(Arc::clone(library), policy).map_err(script_error)?;
            }
            *libraries = changed;
            Ok(())
        })?;
        // Until here, the state of the libraries that are replaced has not changed.
        let install = |(library, functions): (Arc<Library>, _)| {
            loaded.install(engine, &library, functions);
            library.name.clone()
        };
        Ok(made.into_iter().map(install).collect())
    }

    /// Counts a change of the libraries, which are saved with the keys.
    fn count_change(&self, is_change: bool) {
        self.context.counters.changes.add(u64::from(is_change));
    }

    /// Executes FUNCTION RESTORE.
    fn restore(&mut self, task: &Task, policy: Policy) -> Result<Vec<String>, ScriptError> {
        let payload = task.args().get(2).unwrap_or_default();
        let codes = restore_libraries(payload, self.server.config().proto_max_bulk_len.get());
        let codes = codes.map_err(|refusal| {
            script_error(match refusal {
                Refusal::Footer => "DUMP payload version or checksum are wrong",
                Refusal::Value => "given type is not a function",
            })
        })?;
        let codes: Vec<&[u8]> = codes.iter().map(Vec::as_slice).collect();
        self.load_libraries(&codes, policy)
    }

    /// Loads the libraries that were read from a file, for the thread that waits for them.
    fn load_read(&mut self) {
        let Some(codes) = self.server.scripts().take_read() else { return };
        let loaded = codes.iter().try_for_each(|code| {
            let loaded = self.load_libraries(&[code], Policy::Replace);
            loaded.map(drop).map_err(|(error, _)| String::from_utf8_lossy(&error).into_owned())
        });
        self.server.scripts().end_read(loaded);
    }

    /// Compiles a script unless the engine has it already, and caches its text.
    fn compile(&mut self, text: &[u8], is_loaded: bool) -> Result<Invocation, ScriptError> {
        let name = Digest::of(text);
        let source = Source::parse(text).map_err(|error| script_error(error.0))?;
        let engine = self.engine()?;
        if !engine.has(&name) {
            engine.compile(name, source.body).map_err(|error| {
                script_error(format!("Error compiling script (new function): {error}"))
            })?;
        }
        let forgotten = self.server.scripts().remember(name, (text, source.flags), is_loaded);
        if let Some(forgotten) = forgotten {
            self.engine()?.forget(&forgotten);
        }
        Ok(Invocation { target: Target::Script(name), flags: source.flags })
    }

    /// Finds or compiles the script or function that a request calls.
    fn invocation(&mut self, task: &Task) -> Result<Invocation, ScriptError> {
        let word = task.args().get(1).unwrap_or_default();
        if task.asked == TaskKind::Call {
            return self.function(word);
        }
        if task.asked == TaskKind::Eval {
            return self.compile(word, false);
        }
        let unknown = || (b"NOSCRIPT No matching script. Please use EVAL.".to_vec(), false);
        let name = Digest::parse(word).ok_or_else(unknown)?;
        let flags = self.server.scripts().flags_of(&name).ok_or_else(unknown)?;
        if self.engine()?.has(&name) {
            return Ok(Invocation { target: Target::Script(name), flags });
        }
        let text = self.server.scripts().find(&name).ok_or_else(unknown)?;
        self.compile(&text, false)
    }

    /// Finds the function with this name, and loads its library if necessary.
    fn function(&mut self, name: &[u8]) -> Result<Invocation, ScriptError> {
        let library = self.server.scripts().library_of(name);
        let library = library.ok_or_else(|| script_error("Function not found"))?;
        let (engine, loaded) = self.functions()?;
        loaded.require(engine, &library).map_err(script_error)?;
        let named = library.functions.iter();
        let mut named = named.filter(|it| it.name.as_bytes().eq_ignore_ascii_case(name));
        let (name, flags) = match named.next() {
            Some(function) => (function.name.clone(), function.flags),
            None => return Err(script_error("Function not found")),
        };
        Ok(Invocation { target: Target::Function(library, name), flags })
    }

    /// Executes EVAL, its variants, or FCALL.
    fn eval(&mut self, task: &Task, joint: Option<Claim>) -> Outcome {
        let is_leased = joint.is_some();
        let invocation = match self.invocation(task) {
            Ok(invocation) => invocation,
            Err(error) => {
                return Outcome { error: Some(error), joint, ..Outcome::default() };
            }
        };
        let flags = invocation.flags;
        let is_declared = !flags.contains(ScriptFlags::UNDECLARED);
        let says_it_reads = flags.contains(ScriptFlags::NO_WRITES);
        if task.is_read_only && is_declared && !says_it_reads {
            let error =
                script_error("Can not execute a script with write flag using *_ro command.");
            return Outcome { error: Some(error), joint, ..Outcome::default() };
        }
        let is_read_only = task.is_read_only || says_it_reads;
        let args = task.args();
        let count = args.get(2).and_then(parse_i64).and_then(|count| usize::try_from(count).ok());
        let keys = args.skip(3).take(count.unwrap_or(0));
        // Within a transaction, a later script may change the keys that this one reads, and a
        // shared claim for reading cannot be upgraded to one for writing.
        let only_reads = is_read_only && !is_leased;
        let intent = if only_reads { Intent::Read } else { Intent::Write };
        let claim = joint.unwrap_or_else(|| self.claim(keys, intent));
        if !is_leased && self.is_held(!is_read_only) {
            return Outcome { is_held: true, ..Outcome::default() };
        }
        let mut run = self.begin(task, (claim, is_leased), keys, intent);
        let function = match &invocation.target {
            Target::Script(_) => None,
            Target::Function(_, name) => {
                Some((name.clone(), args.from(0).map(<[u8]>::to_vec).collect()))
            }
        };
        let began = (run.now_ms, run.started);
        run.number = self.server.scripts().begin(task.client, began, function);
        run.is_read_only = is_read_only;
        run.intent = intent;
        let lacks_memory = self.lacks_memory(&mut run);
        self.context.note_growth(0);
        let may_lack = flags.contains(ScriptFlags::ALLOW_OOM);
        let error = (lacks_memory && is_declared && !may_lack && !is_read_only).then(|| {
            let text = "OOM allow-oom flag is not set on the script, can not run it when used \
                        memory > 'maxmemory'";
            (text.as_bytes().to_vec(), false)
        });
        run.lacks_memory = lacks_memory && !may_lack;
        let mut outcome = Outcome { error, ..Outcome::default() };
        if outcome.error.is_none() {
            *self.run.borrow_mut() = Some(run);
            outcome = self.execute(task, &invocation, keys, args.skip(3 + keys.len()));
            let Some(ended) = self.run.borrow_mut().take() else { return outcome };
            run = ended;
        }
        self.end(run, is_leased, &mut outcome);
        outcome
    }

    /// Executes MIGRATE.
    fn migrate(&mut self, task: &Task, joint: Option<Claim>) -> Outcome {
        let migration = match Migration::parse(task.args()) {
            Ok(migration) => migration,
            Err(error) => {
                let error = Some((error.0.to_vec(), false));
                return Outcome { error, joint, ..Outcome::default() };
            }
        };
        let is_leased = joint.is_some();
        let keys = task.args().skip(migration.keys.start).take(migration.keys.len());
        let claim = joint.unwrap_or_else(|| self.claim(keys, Intent::Write));
        if !is_leased && self.is_held(true) {
            return Outcome { is_held: true, ..Outcome::default() };
        }
        let mut run = self.begin(task, (claim, is_leased), keys, Intent::Write);
        // The client does not track the keys whose values are read for the other server.
        run.client.tracking = None;
        run.number = self.server.scripts().begin(task.client, (run.now_ms, run.started), None);
        let mut outcome = Outcome::default();
        match migrate(&*self.server, &self.context, &mut run, &migration, keys) {
            Ok(has_keys) => {
                let text = if has_keys { "OK" } else { "NOKEY" };
                Writer::new(&mut outcome.reply, task.version).simple(text);
            }
            Err(error) => outcome.error = Some((error, false)),
        }
        self.end(run, is_leased, &mut outcome);
        outcome
    }

    /// Whether a pause has begun while a request waited for this thread or for its keys.
    fn is_held(&self, writes: bool) -> bool {
        self.server.hooks().are_held(writes, self.server.store().now_ms())
    }

    /// Creates the client of a script, whose keys are claimed: by its transaction if `is_leased`.
    fn begin(
        &self,
        task: &Task,
        (claim, is_leased): (Claim, bool),
        keys: Args<'_>,
        intent: Intent,
    ) -> Run {
        held_publications::begin();
        let store = self.server.store();
        let time = task.time.unwrap_or_else(|| FrozenTime::at(store.now_ms()));
        let info = ClientInfo {
            id: task.client,
            address: SCRIPT_ADDRESS.to_owned(),
            http_client: task.http_client.clone(),
            connected_at_ms: time.now_ms,
            active_at_ms: time.now_ms.into(),
            ..ClientInfo::default()
        };
        info.mark(Marks::NO_TOUCH, !task.touches);
        let mut client = Client::new(Arc::new(info));
        client.tracking = task.tracking.clone();
        client.restrictions.set(Restrictions::TRACKS, client.tracking.is_some());
        client.restrictions.insert(Restrictions::IN_SCRIPT);
        client.waker = self.context.waker.clone();
        client.is_executing = true;
        client.frozen_time = Some(time);
        client.select(task.database);
        client.become_user(self.server.config().users(), &task.user);
        let mut run = Run::new(client, claim, time.now_ms);
        if !is_leased {
            keys.from(0).for_each(|key| run.held.add(store.key(key), intent));
        }
        run
    }

    /// Claims keys, and blocks until they are claimed.
    fn claim(&self, keys: Args<'_>, intent: Intent) -> Claim {
        let store = self.server.store();
        let db = store.database(0, &self.context.counters, store.now_ms());
        let mut claiming = store.claiming();
        keys.from(0).for_each(|key| claiming.add(db.key(key), intent));
        loop {
            match db.take_claims(&mut claiming, &self.context.waker, || false) {
                ClaimProgress::Held(claim) => return claim,
                ClaimProgress::More => thread::yield_now(),
                ClaimProgress::Wait => thread::park(),
            }
        }
    }

    /// Whether memory is exhausted and no key can be evicted.
    fn lacks_memory(&self, run: &mut Run) -> bool {
        let store = self.server.store();
        if !store.is_over_limit() {
            return false;
        }
        let (server, context) = (&*self.server, &*self.context);
        let _batch = store.batch(&context.counters);
        let mut unread = Output::default();
        let cx = Context {
            db: context.database((store, server), run.client.database, run.now_ms),
            reply: Writer::new(&mut unread, Version::Two),
            client: &mut run.client,
            server,
            hooks: server.hooks(),
            tally: &context.tally,
            args: Args::new(&[], &[]),
            prefetched: None,
            suspension: None,
        };
        cx.hooks.is_paused(run.now_ms) || !gate::make_room(&cx)
    }

    /// Runs the script or function in its engine.
    fn execute(
        &mut self,
        task: &Task,
        invocation: &Invocation,
        keys: Args<'_>,
        arguments: Args<'_>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let mut writer = Writer::new(&mut outcome.reply, task.version);
        let (words, reply) = ((keys, arguments), (task.version, &mut writer));
        let ran = match (&invocation.target, &mut self.engine, &mut self.functions) {
            (Target::Script(name), Some(engine), _) => engine.run(name, words, reply),
            (Target::Function(library, name), _, Some(engine)) => {
                engine.call((&library.name, name), words, reply)
            }
            _ => Ok(()),
        };
        if let Err(Failure { message, is_counted }) = ran {
            outcome.reply = Output::default();
            outcome.error = Some((message, is_counted));
        }
        outcome
    }

    /// Serves clients that are blocked on keys that the script has changed, and releases its
    /// claims.
    fn end(&self, mut run: Run, is_leased: bool, outcome: &mut Outcome) {
        outcome.ran = run.started.elapsed();
        outcome.has_failed = run.has_failed;
        let (server, context) = (&*self.server, &*self.context);
        let blocked = &server.hooks().blocked;
        let (awaited, written) = run.awaited(server.store(), context, blocked);
        if is_leased {
            outcome.written = run.ready.followed_by(written);
            outcome.joint = Some(run.claim);
        } else {
            let ready = std::mem::take(&mut run.ready);
            run.serve(server.store(), server, context, (awaited, ready));
        }
        // Published while the keys are claimed: a subscriber that reads them sees the script's
        // changes, and later changes are published after these.
        notification::end_holding(server);
        server.scripts().end(|| server.hooks().set(HookFlags::BUSY, false));
    }
}
