//! A Lua state with everything that scripts may use, and nothing that one of them could change for
//! the next.

use crate::library;
use crate::state::State;
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};
use std::rc::Rc;

/// The name of the sandbox's own chunk, which no error is told to come from.
pub(crate) const CHUNK: &str = "=nagi";

/// A state, and what it is entered by.
pub(crate) struct Sandbox {
    pub(crate) lua: Lua,
    /// Makes a table of whatever a script raises.
    pub(crate) handler: Function,
    libraries: Libraries,
}

/// What libraries of functions find.
struct Libraries {
    /// Their globals.
    environment: Table,
    /// Its metatable, which says where they are looked for.
    behind: Table,
    /// What there is while a library is loaded.
    first: Table,
}

impl Sandbox {
    /// Makes one.
    ///
    /// # Errors
    /// There is no memory for it.
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

    /// Says whether a library is being loaded, which finds less.
    pub(crate) fn set_loading(&self, is_loading: bool) -> mlua::Result<()> {
        let found = if is_loading { self.libraries.first.clone() } else { self.lua.globals() };
        self.libraries.behind.raw_set("__index", found)
    }
}

/// Makes a table of whatever was raised, with the place where it was.
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

/// What `tostring` says of a value that was raised.
fn text_of(lua: &Lua, value: &Value) -> Vec<u8> {
    match value {
        Value::Error(error) => innermost(error).into_bytes(),
        other => match lua.coerce_string(other.clone()) {
            Ok(Some(text)) => text.as_bytes().to_vec(),
            _ => other.to_string().map_or_else(|_| b"unknown error".to_vec(), String::into_bytes),
        },
    }
}

/// What an error says without the places that it has come through.
pub(crate) fn innermost(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } => innermost(cause),
        mlua::Error::RuntimeError(text) => text.clone(),
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        other => other.to_string(),
    }
}

/// The source and line of the function at a level of the stack, or of its caller if it is one of a
/// library. A handler of errors has been called at level 1.
pub(crate) fn place(lua: &Lua, level: usize) -> Option<(String, usize)> {
    /// Levels that are looked at.
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
