//! The calling convention of library functions: each returns an error to raise, or its values.

use crate::convert::single;
use crate::number;
use mlua::{IntoLuaMulti, Lua, MultiValue, Table, Value};

/// What a function answers: its value, or what is to be raised.
pub(super) type Answer = mlua::Result<Result<Value, Value>>;

/// A table of an error's text.
pub(super) fn raised(lua: &Lua, text: &str) -> Answer {
    let text = Value::String(lua.create_string(text)?);
    Ok(Err(single(lua, "err", text)?))
}

/// Puts a function into a table.
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

/// What a function answers that may have several values.
pub(super) type Answers = mlua::Result<Result<MultiValue, Value>>;

/// Puts a function with several values into a table.
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

/// A text that is raised with the place of the caller.
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
