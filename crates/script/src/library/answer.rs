//! The calling convention of library functions: each returns an error to raise, or its values.

use crate::convert::single;
use crate::error_text;
use crate::number;
use crate::state::ENDED;
use mlua::{IntoLuaMulti, Lua, MultiValue, Table, Value};

/// The result of a library function: its value, or the error value to raise.
pub(super) type Answer = mlua::Result<Result<Value, Value>>;

/// Raises an error table with this text.
pub(super) fn raised(lua: &Lua, text: &str) -> Answer {
    let text = Value::String(lua.create_string(text)?);
    Ok(Err(single(lua, "err", text)?))
}

/// Adds a function to a table, by the convention of `raising` in `crates/lua`.
pub(super) fn add(
    lua: &Lua,
    table: &Table,
    name: &str,
    function: impl Fn(&Lua, MultiValue) -> Answer + 'static,
) -> mlua::Result<()> {
    add_many(lua, table, name, move |lua, arguments| {
        Ok(function(lua, arguments)?.map(|value| MultiValue::from_iter([value])))
    })
}

/// The result of a library function that may return several values.
pub(super) type Answers = mlua::Result<Result<MultiValue, Value>>;

/// Adds a function that may return several values to a table.
pub(super) fn add_many(
    lua: &Lua,
    table: &Table,
    name: &str,
    function: impl Fn(&Lua, MultiValue) -> Answers + 'static,
) -> mlua::Result<()> {
    let function = lua.create_function(move |lua, arguments| match function(lua, arguments) {
        Ok(Ok(mut values)) => {
            values.push_front(Value::Nil);
            Ok(values)
        }
        Ok(Err(raised)) => raised.into_lua_multi(lua),
        Err(error) => {
            let text = message(error)?;
            (true, lua.create_string(text)?).into_lua_multi(lua)
        }
    })?;
    table.raw_set(name, function)
}

/// The text of an error for a script, which must see it as a string. It is not to see that it is
/// killed; and without memory there is no room for a string.
fn message(error: mlua::Error) -> mlua::Result<String> {
    let text = plain(&error);
    if is_out_of_memory(&error) || text == ENDED { Err(error) } else { Ok(text) }
}

/// The text of an error that Lua has raised within a function.
pub(super) fn plain(error: &mlua::Error) -> String {
    let mut text = error_text::innermost(error);
    // mlua appends the stack.
    if let Some(end) = text.find("\nstack traceback:") {
        text.truncate(end);
    }
    text
}

fn is_out_of_memory(error: &mlua::Error) -> bool {
    match error {
        mlua::Error::CallbackError { cause, .. } => is_out_of_memory(cause),
        error => matches!(error, mlua::Error::MemoryError(_)),
    }
}

/// Raises a text, which gets the place of the caller.
pub(super) fn text(lua: &Lua, text: &str) -> Answer {
    Ok(Err(Value::String(lua.create_string(text)?)))
}

/// A number, or a string that Lua converts to one.
pub(super) fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        Value::String(text) => number::converted(&text.as_bytes_with_nul()),
        _ => None,
    }
}

/// A string, or a number as Lua writes it.
pub(super) fn as_text(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(value) => Some(number::general(*value as f64, 14).into_bytes()),
        Value::Number(value) => Some(number::general(*value, 14).into_bytes()),
        _ => None,
    }
}
