//! The calling convention of library functions: each returns an error to raise, or its values.

use crate::convert::single;
use crate::number;
use mlua::{IntoLuaMulti, Lua, MultiValue, Table, Value};

/// The result of a library function: its value, or the error value to raise.
pub(super) type Answer = mlua::Result<Result<Value, Value>>;

/// Raises an error table with this text.
pub(super) fn raised(lua: &Lua, text: &str) -> Answer {
    let text = Value::String(lua.create_string(text)?);
    Ok(Err(single(lua, "err", text)?))
}

/// Adds a function to a table. In Lua, it returns nil and its value, or the error value to raise.
pub(super) fn add(
    lua: &Lua,
    table: &Table,
    name: &str,
    function: impl Fn(&Lua, MultiValue) -> Answer + 'static,
) -> mlua::Result<()> {
    let function = lua.create_function(move |lua, arguments| match function(lua, arguments)? {
        Ok(value) => (Value::Nil, value).into_lua_multi(lua),
        Err(raised) => raised.into_lua_multi(lua),
    })?;
    table.raw_set(name, function)
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
    let function = lua.create_function(move |lua, arguments| match function(lua, arguments)? {
        Ok(mut values) => {
            values.push_front(Value::Nil);
            Ok(values)
        }
        Err(raised) => raised.into_lua_multi(lua),
    })?;
    table.raw_set(name, function)
}

/// Raises a text, which gets the place of the caller.
pub(super) fn text(lua: &Lua, text: &str) -> Answer {
    Ok(Err(Value::String(lua.create_string(text)?)))
}

pub(super) fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        Value::String(text) => std::str::from_utf8(&text.as_bytes()).ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// A string, or a number as Lua writes it.
pub(super) fn as_text(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(value) => Some(value.to_string().into_bytes()),
        Value::Number(value) => Some(number::general(*value, 14).into_bytes()),
        _ => None,
    }
}
