//! Compiles and runs scripts and the functions of libraries, within limits of time and memory.

use crate::bounds::{self, Meter};
use crate::convert::Replying;
use crate::error_text;
use crate::functions::{LoadedLibrary, Registered};
use crate::host::Host;
use crate::native::{self, Callee};
use crate::sandbox::{self, Sandbox};
use crate::source::Digest;
use crate::state::{ENDED, State};
use mlua::{Function, HookTriggers, Lua, Table, Value, VmState};
use nagi_proto::Args;
use nagi_proto::resp::{Version, Writer};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Display;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long a library may take to register its functions.
const MAX_LOADING: Duration = Duration::from_millis(500);

/// A function to run: how it gets its arguments, the function, and its name in errors.
type Called<'e> = (Callee, Function, &'e dyn Display);

/// Lua instructions between two checks whether a script must end.
const STRIDE: u32 = 10_000;

/// Lua's default settings of the garbage collector, in percent.
const PAUSE: i32 = 200;
const STEP_MULTIPLIER: i32 = 200;

/// A Lua state with its scripts.
pub struct Engine {
    sandbox: Sandbox,
    state: Rc<State>,
    scripts: HashMap<Digest, Function>,
    libraries: HashMap<String, Vec<Registered>>,
    /// The used memory in bytes above which garbage is collected before a script starts.
    crowded: Cell<usize>,
}

/// Why a script has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error's code and text.
    pub message: Vec<u8>,
    /// Whether the error has already been counted, when a command replied with it.
    pub is_counted: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("scripts", &self.scripts.len()).finish_non_exhaustive()
    }
}

impl Engine {
    /// Creates an engine without scripts, for libraries of functions if `has_libraries`. Scripts
    /// call commands of `host`, which they see as a Redis of this version. Lua uses at most
    /// `memory_limit_bytes`; 0 means no limit.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(
        host: Box<dyn Host>,
        version: &str,
        has_libraries: bool,
        memory_limit_bytes: usize,
    ) -> Result<Self, String> {
        let state = Rc::new(State {
            host: RefCell::new(host),
            version: Cell::new(Version::Two),
            room: RefCell::default(),
            most_bytes: Cell::new(usize::MAX),
            held_bytes: Rc::default(),
            random: RefCell::default(),
            registering: RefCell::default(),
            has_libraries,
            began: Cell::new(Instant::now()),
            ended: Cell::new(None),
            is_watched: Cell::new(false),
            ended_at: RefCell::default(),
        });
        let sandbox = Sandbox::open(&state, version).map_err(|error| error.to_string())?;
        bounds::prepare(&sandbox.lua, &state);
        let (scripts, libraries) = (HashMap::new(), HashMap::new());
        let crowded = Cell::new(usize::MAX);
        let engine = Engine { sandbox, state, scripts, libraries, crowded };
        engine.limit_memory(memory_limit_bytes);
        Ok(engine)
    }

    /// Changes the limit of Lua's memory, and of each object that is built from Lua values outside
    /// of Lua, in bytes; 0 means no limit.
    pub fn limit_memory(&self, bytes: usize) {
        // This fails only for a Lua state with a foreign allocator, which this one does not have.
        let _ = self.sandbox.lua.set_memory_limit(bytes);
        let most = if bytes == 0 { usize::MAX } else { bytes };
        if self.state.most_bytes.replace(most) != most {
            self.note_room();
        }
    }

    /// Collects garbage if the next script might otherwise lack memory. Lua itself collects only
    /// when its memory has doubled, which may be beyond the limit.
    fn make_room(&self) {
        if self.used_memory() > self.crowded.get() {
            self.collect();
        }
    }

    /// Collects all garbage.
    fn collect(&self) {
        let lua = &self.sandbox.lua;
        // To shrink its tables, Lua allocates the smaller ones first: the limit is suspended.
        let limit = lua.set_memory_limit(0);
        let collected = lua.gc_collect();
        let restored = limit.and_then(|limit| lua.set_memory_limit(limit));
        debug_assert!(collected.is_ok() && restored.is_ok(), "{collected:?} {restored:?}");
        self.note_room();
    }

    /// Undoes what a script has set with `collectgarbage`. Returns whether it has set a pause.
    fn reset_collector(&self) -> bool {
        let lua = &self.sandbox.lua;
        lua.gc_restart();
        lua.gc_set_step_multiplier(STEP_MULTIPLIER);
        lua.gc_set_pause(PAUSE) != PAUSE
    }

    /// Delays the next collection until an eighth of the memory that is free now has been used.
    fn note_room(&self) {
        let (used, most) = (self.used_memory(), self.state.most_bytes.get());
        self.crowded.set(used + most.saturating_sub(used) / 8);
    }

    /// The memory that Lua uses, in bytes.
    #[must_use]
    pub fn used_memory(&self) -> usize {
        self.sandbox.lua.used_memory()
    }

    /// Whether this script has been compiled.
    #[must_use]
    pub fn has(&self, script: &Digest) -> bool {
        self.scripts.contains_key(script)
    }

    /// Compiles a script's body under a name.
    ///
    /// # Errors
    /// The compiler's message.
    pub fn compile(&mut self, name: Digest, body: &[u8]) -> Result<(), String> {
        self.make_room();
        self.scripts.insert(name, self.function(body, "@user_script")?);
        Ok(())
    }

    /// Compiles Lua code; `name` identifies it in error messages.
    fn function(&self, body: &[u8], name: &str) -> Result<Function, String> {
        self.sandbox.lua.load(body).set_name(name).into_function().map_err(|error| match error {
            mlua::Error::SyntaxError { message, .. } => message,
            other => error_text::innermost(&other),
        })
    }

    /// Forgets a script.
    pub fn forget(&mut self, script: &Digest) {
        self.scripts.remove(script);
    }

    /// Runs a script, and writes its result to `out` in the protocol version `client`.
    ///
    /// # Errors
    /// There is no such script, or the script has raised this error.
    pub fn run(
        &mut self,
        script: &Digest,
        (keys, arguments): (Args<'_>, Args<'_>),
        (client, out): (Version, &mut Writer<'_>),
    ) -> Result<(), Failure> {
        let Some(function) = self.scripts.get(script).cloned() else {
            let message = b"NOSCRIPT No matching script. Please use EVAL.".to_vec();
            return Err(Failure { message, is_counted: false });
        };
        let called: Called<'_> = (Callee::Script, function, script);
        self.reply(called, (keys, arguments), (client, out))
    }

    /// Runs the code of a library, which registers its functions. They cannot be called before
    /// [`Engine::install_library`].
    ///
    /// # Errors
    /// The compiler's message, or the error that the library has raised.
    pub fn load_library(&mut self, body: &[u8]) -> Result<LoadedLibrary, String> {
        self.make_room();
        let function = self.function(body, "@user_function");
        let function = function.map_err(|error| format!("Error compiling function: {error}"))?;
        let prepared =
            self.sandbox.confine(&function).and_then(|()| self.sandbox.set_loading(true));
        prepared.map_err(|error| error_text::innermost(&error))?;
        *self.state.registering.borrow_mut() = Some(Vec::new());
        self.state.ended.set(None);
        self.state.began.set(Instant::now());
        let nothing = Args::new(&[], &[]);
        let loaded = self.execute(&(Callee::Function, function, &""), (nothing, nothing));
        let registered = self.state.registering.borrow_mut().take().unwrap_or_default();
        self.sandbox.set_loading(false).map_err(|error| error_text::innermost(&error))?;
        if let Err(failure) = loaded {
            let text = String::from_utf8_lossy(&failure.message).into_owned();
            // Removes the place that `failure` has appended: the raised text includes one.
            let text = text.split(" script: ").next().unwrap_or(&text);
            return Err(format!("Error registering functions: {text}"));
        }
        if registered.is_empty() {
            return Err("No functions registered".to_owned());
        }
        Ok(LoadedLibrary(registered))
    }

    /// Makes the functions of a library callable. They replace those of the library that had this
    /// name.
    pub fn install_library(&mut self, name: &str, library: LoadedLibrary) {
        self.libraries.insert(name.to_owned(), library.0);
    }

    /// Removes all libraries except those for which `is_kept` returns `true`, and their memory.
    pub fn retain_libraries(&mut self, mut is_kept: impl FnMut(&str) -> bool) {
        let before = self.libraries.len();
        self.libraries.retain(|name, _| is_kept(name));
        if self.libraries.len() < before {
            self.collect();
        }
    }

    /// Calls a function of a library, and writes its result to `out` in the protocol version
    /// `client`.
    ///
    /// # Errors
    /// There is no such function, or the function has raised this error.
    pub fn call(
        &mut self,
        (library, name): (&str, &str),
        (keys, arguments): (Args<'_>, Args<'_>),
        (client, out): (Version, &mut Writer<'_>),
    ) -> Result<(), Failure> {
        let registered = self.libraries.get(library).into_iter().flatten();
        let mut named = registered.filter(|it| it.described.name == name);
        let Some(function) = named.next().map(|it| it.function.clone()) else {
            let message = b"ERR Function not found".to_vec();
            return Err(Failure { message, is_counted: false });
        };
        let called: Called<'_> = (Callee::Function, function, &name);
        self.reply(called, (keys, arguments), (client, out))
    }

    fn reply(
        &self,
        called: Called<'_>,
        (keys, arguments): (Args<'_>, Args<'_>),
        (client, out): (Version, &mut Writer<'_>),
    ) -> Result<(), Failure> {
        self.make_room();
        self.state.version.set(Version::Two);
        self.state.ended.set(None);
        *self.state.ended_at.borrow_mut() = None;
        let done = self.execute(&called, (keys, arguments)).and_then(|returned| {
            let (script, host) = (self.state.version.get(), &self.state.host);
            let (lua, meter) = (&self.sandbox.lua, Meter::new(&self.sandbox.lua));
            let mut replying = Replying { lua, out, client, script, meter, host };
            replying.value(&returned, 0).map_err(|error| self.unplaced(&error))
        });
        let had_pause = self.reset_collector();
        self.state.shed_room();
        if done.is_err() || had_pause {
            // The script may have filled the memory up to the limit, and has left only garbage; or
            // its pause may delay the next collection.
            self.collect();
        }
        done.map_err(|failure| self.ended(called.2).unwrap_or(failure))
    }

    /// The error of a script that was ended, if its place is known: the error handler may not have
    /// been called.
    fn ended(&self, name: &dyn Display) -> Option<Failure> {
        let why = self.state.ended.get()?;
        let place = self.state.ended_at.borrow();
        let (source, line) = place.as_ref()?;
        let message = format!("ERR {why} script: {name}, on {source}:{line}.").into_bytes();
        Some(Failure { message, is_counted: false })
    }

    fn execute(
        &self,
        (callee, function, name): &Called<'_>,
        (keys, arguments): (Args<'_>, Args<'_>),
    ) -> Result<Value, Failure> {
        self.watch(STRIDE).map_err(|error| self.unplaced(&error))?;
        let Sandbox { lua, handler, .. } = &self.sandbox;
        let called = native::run(lua, (*callee, function), (keys, arguments), handler);
        match called.map_err(|error| self.unplaced(&error))? {
            (true, returned) => Ok(returned),
            (false, Value::Table(raised)) => {
                Err(self.failure(*name, &raised).unwrap_or_else(|error| self.unplaced(&error)))
            }
            // Out of memory, Lua calls no error handler, which would turn the error into a table.
            (false, Value::Error(error)) => Err(self.unplaced(&error)),
            (false, other) => {
                let text = other.to_string().unwrap_or_default();
                Err(self.unplaced(&mlua::Error::RuntimeError(text)))
            }
        }
    }

    /// Installs a hook that asks the host every `stride` instructions whether the script must end.
    /// The hook stays installed for later scripts, until it ends one.
    fn watch(&self, stride: u32) -> mlua::Result<()> {
        if self.state.is_watched.replace(true) {
            return Ok(());
        }
        let state = Rc::clone(&self.state);
        let triggers = HookTriggers::new().every_nth_instruction(stride);
        self.sandbox.lua.set_global_hook(triggers, move |lua, _| {
            // While a command runs, the host is in use and cannot be asked.
            let Ok(mut host) = state.host.try_borrow_mut() else { return Ok(VmState::Continue) };
            let (is_to_end, why) = match state.is_loading() {
                true => (state.began.get().elapsed() > MAX_LOADING, LOADED_TOO_LONG),
                false => (host.is_to_end(), ENDED),
            };
            if !is_to_end {
                return Ok(VmState::Continue);
            }
            state.ended.set(Some(why));
            state.is_watched.set(false);
            end_at_each(&state, lua, why)
        })
    }

    /// The failure that a raised table describes, with its place.
    fn failure(&self, name: &dyn Display, raised: &Table) -> mlua::Result<Failure> {
        let mut message = match raised.raw_get("err")? {
            Value::String(text) => text.as_bytes().to_vec(),
            number @ (Value::Integer(_) | Value::Number(_)) => {
                let text = self.sandbox.lua.coerce_string(number)?;
                text.map_or_else(Vec::new, |text| text.as_bytes().to_vec())
            }
            _ => b"ERR unknown error".to_vec(),
        };
        if let Some(why) = self.state.ended.get() {
            message = [b"ERR ", why.as_bytes()].concat();
        }
        if let (Value::String(source), Some(line)) =
            (raised.raw_get("source")?, raised.raw_get::<Option<usize>>("line")?)
        {
            let place = format!(" script: {name}, on ");
            message.extend([place.as_bytes(), &source.as_bytes()].concat());
            message.extend(format!(":{line}.").into_bytes());
        }
        let is_counted = raised.raw_get("ignore_error_stats_update").unwrap_or(false);
        Ok(Failure { message, is_counted })
    }

    /// The failure for an error that does not come from a place in the script.
    fn unplaced(&self, error: &mlua::Error) -> Failure {
        let text = error_text::innermost(error);
        let text = self.state.ended.get().unwrap_or(&text);
        Failure { message: format!("ERR {text}").into_bytes(), is_counted: false }
    }
}

/// Ends a script at this instruction and at each further one: it may catch the error by `pcall` in
/// a loop, but not at every instruction. Each coroutine counts its own instructions, so the hook
/// makes each one in which it is called count by one.
fn end_at_each(state: &Rc<State>, lua: &Lua, why: &'static str) -> mlua::Result<VmState> {
    note_end(state, lua);
    let at_each = HookTriggers::new().every_nth_instruction(1);
    let shared = Rc::clone(state);
    lua.set_global_hook(at_each, move |lua, _| end_at_each(&shared, lua, why))?;
    Err(mlua::Error::runtime(why))
}

/// Records the place of the function in which a script is ended.
fn note_end(state: &State, lua: &Lua) {
    if let Some(place) = sandbox::place(lua, 0) {
        *state.ended_at.borrow_mut() = Some(place);
    }
}

/// The error of a library that takes too long to register its functions.
const LOADED_TOO_LONG: &str = "FUNCTION LOAD timeout";

#[cfg(test)]
mod tests;
