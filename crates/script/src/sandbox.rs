//! A Lua state with what scripts may use, and with nothing that one of them could change for the
//! next.

use crate::library;
use crate::state::State;
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};
use std::rc::Rc;

/// The name of the sandbox's own chunk, which no error is told to come from.
pub(crate) const CHUNK: &str = "=nagi";

/// A state, and the functions that run a script in it and call a function of a library: with that,
/// keys and arguments as arguments, they return what `pcall` does.
pub(crate) fn open(state: &Rc<State>, version: &str) -> mlua::Result<(Lua, Function, Function)> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::new())?;
    let native = library::native(&lua, state, version)?;
    native.raw_set("handler", lua.create_function(handle)?)?;
    let (run, apply) = lua.load(include_str!("sandbox.lua")).set_name(CHUNK).call(native)?;
    Ok((lua, run, apply))
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
    if let Some((source, line)) = place(lua) {
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

/// The source and line of the function that has raised an error, or of its caller if it is one of
/// a library.
fn place(lua: &Lua) -> Option<(String, usize)> {
    /// Levels above the handler that are looked at.
    const LEVELS: usize = 6;
    for level in 1..LEVELS {
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
