//! A Lua state with everything that scripts may use, and nothing that one of them could change for
//! the next.

use crate::error_text::innermost;
use crate::library;
use crate::state::State;
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};
use std::rc::Rc;

/// The name of the chunk `sandbox.lua`, which errors never give as their place.
pub(crate) const CHUNK: &str = "=nagi";

/// A Lua state, its error handler, and the environments of libraries.
pub(crate) struct Sandbox {
    pub(crate) lua: Lua,
    /// Turns any value that a script raises into a table.
    pub(crate) handler: Function,
    libraries: Libraries,
}

/// The tables in which the code of libraries finds its globals.
struct Libraries {
    /// The globals of libraries.
    environment: Table,
    /// The metatable of `environment`, whose `__index` is the table that has the globals.
    behind: Table,
    /// The globals that exist while a library is being loaded.
    first: Table,
}

impl Sandbox {
    /// Creates a sandbox.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn open(state: &Rc<State>, version: &str) -> mlua::Result<Self> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let native = library::native(&lua, state, version)?;
        let handler = lua.create_function(handle)?;
        native.raw_set("has_scripts", !state.has_libraries)?;
        let made: Table = lua.load(include_str!("sandbox.lua")).set_name(CHUNK).call(native)?;
        let libraries = Libraries {
            environment: made.raw_get("environment")?,
            behind: made.raw_get("behind")?,
            first: made.raw_get("first")?,
        };
        Ok(Sandbox { lua, handler, libraries })
    }

    /// Gives a library, and the functions that it registers, the environment of libraries.
    pub(crate) fn confine(&self, library: &Function) -> mlua::Result<()> {
        library.set_environment(self.libraries.environment.clone())?;
        Ok(())
    }

    /// Sets whether a library is being loaded, during which fewer globals exist.
    pub(crate) fn set_loading(&self, is_loading: bool) -> mlua::Result<()> {
        let found = if is_loading { self.libraries.first.clone() } else { self.lua.globals() };
        self.libraries.behind.raw_set("__index", found)
    }
}

/// Turns a raised value into a table with the place of the error.
fn handle(lua: &Lua, raised: Value) -> mlua::Result<Table> {
    let table = match raised {
        Value::Table(table) => table,
        other => {
            let table = lua.create_table()?;
            let text = [b"ERR ".as_slice(), &text_of(lua, &other)].concat();
            table.raw_set("err", lua.create_string(text)?)?;
            table
        }
    };
    if let Some((source, line)) = place(lua, 1) {
        table.raw_set("source", source)?;
        table.raw_set("line", line)?;
    }
    Ok(table)
}

/// The text of a raised value, as by Lua's `tostring`.
fn text_of(lua: &Lua, value: &Value) -> Vec<u8> {
    match value {
        Value::Error(error) => innermost(error).into_bytes(),
        other => match lua.coerce_string(other.clone()) {
            Ok(Some(text)) => text.as_bytes().to_vec(),
            _ => other.to_string().map_or_else(|_| b"unknown error".to_vec(), String::into_bytes),
        },
    }
}

/// The source and line of the function at a level of the stack, or of its closest caller that
/// belongs to a script, if the function is native or in the sandbox's chunk. For an error handler,
/// level 1 is the function that raised the error.
pub(crate) fn place(lua: &Lua, level: usize) -> Option<(String, usize)> {
    /// The number of levels that are examined.
    const LEVELS: usize = 5;
    for level in level..level + LEVELS {
        let found = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let text = source.source.map(|source| source.into_owned()).unwrap_or_default();
            (source.what == "C", text, debug.current_line())
        });
        let (is_native, source, line) = found?;
        if is_native || source == CHUNK {
            continue;
        }
        return Some((source, line.unwrap_or(0)));
    }
    None
}
