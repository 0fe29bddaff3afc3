//! `redis.register_function`, by which a library registers its functions.

use super::answer::{Answer, as_text, raised};
use crate::bounds::LACKING;
use crate::functions::{FunctionDescription, Registered, is_name};
use crate::held_bytes::Held;
use crate::source::ScriptFlags;
use crate::state::State;
use mlua::{Lua, MultiValue, Table, Value};
use std::sync::Arc;

/// Registers a function with the library that is being loaded.
pub(super) fn register(lua: &Lua, state: &State, arguments: &MultiValue) -> Answer {
    let mut registering = state.registering.borrow_mut();
    let Some(registered) = registering.as_mut() else {
        let text = "ERR redis.register_function can only be called on FUNCTION LOAD command";
        return raised(lua, text);
    };
    let function = match read(state, arguments) {
        Ok(function) => function,
        Err(error) => return raised(lua, &format!("ERR {error}")),
    };
    let name = &function.described.name;
    if !is_name(name.as_bytes()) {
        let text = "ERR Library names can only contain letters, numbers, or underscores(_) and \
                    must be at least one character long";
        return raised(lua, text);
    }
    if registered.iter().any(|it| it.described.name == *name) {
        return raised(lua, "ERR Function already exists in the library");
    }
    registered.push(function);
    Ok(Ok(Value::Nil))
}

fn read(state: &State, arguments: &MultiValue) -> Result<Registered, String> {
    let name = || arguments.front().and_then(as_name);
    match (arguments.len(), arguments.front(), arguments.get(1)) {
        (1, Some(Value::Table(named)), _) => read_named(state, named),
        (1, ..) => {
            Err("calling redis.register_function with a single argument is only applicable \
                        to Lua table (representing named arguments)."
                .to_owned())
        }
        (2, _, Some(Value::Function(function))) => {
            let name = name();
            let name = name.ok_or("first argument to redis.register_function must be a string")?;
            let _held = hold(state, name.len())?;
            let flags = ScriptFlags::empty();
            let described = FunctionDescription { name, description: None, flags };
            Ok(Registered { described, function: function.clone(), _held })
        }
        (2, ..) if name().is_none() => {
            Err("first argument to redis.register_function must be a string".to_owned())
        }
        (2, ..) => Err("second argument to redis.register_function must be a function".to_owned()),
        _ => Err("wrong number of arguments to redis.register_function".to_owned()),
    }
}

/// A string, or a number as Lua writes it.
fn as_name(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(String::from_utf8_lossy(&text.as_bytes()).into_owned()),
        other => as_text(other).map(|text| String::from_utf8_lossy(&text).into_owned()),
    }
}

fn read_named(state: &State, named: &Table) -> Result<Registered, String> {
    let (mut name, mut description, mut function) = (None, None, None);
    let mut flags = ScriptFlags::empty();
    let must = |field: &str, kind: &str| {
        format!("{field} argument given to redis.register_function must be a {kind}")
    };
    for pair in named.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| error.to_string())?;
        let Some(key) = as_name(&key) else {
            let text = "named argument key given to redis.register_function is not a string";
            return Err(text.to_owned());
        };
        match (&*key, value) {
            ("function_name", value) => {
                name = Some(as_name(&value).ok_or_else(|| must("function_name", "string"))?);
            }
            ("description", value) => {
                description = Some(as_name(&value).ok_or_else(|| must("description", "string"))?);
            }
            ("callback", Value::Function(callback)) => function = Some(callback),
            ("callback", _) => return Err(must("callback", "function")),
            ("flags", Value::Table(table)) => flags = read_flags(&table)?,
            ("flags", _) => {
                let text = "flags argument to redis.register_function must be a table representing \
                            function flags";
                return Err(text.to_owned());
            }
            _ => return Err("unknown argument given to redis.register_function".to_owned()),
        }
    }
    let name = name.ok_or("redis.register_function must get a function name argument")?;
    let function = function.ok_or("redis.register_function must get a callback argument")?;
    let _held = hold(state, name.len() + description.as_deref().map_or(0, str::len))?;
    let description = description.map(Arc::from);
    Ok(Registered { described: FunctionDescription { name, description, flags }, function, _held })
}

fn read_flags(table: &Table) -> Result<ScriptFlags, String> {
    let mut flags = ScriptFlags::empty();
    for flag in table.sequence_values::<Value>() {
        let flag = match flag.map_err(|error| error.to_string())? {
            Value::String(name) => ScriptFlags::named(&name.as_bytes()),
            _ => None,
        };
        flags |= flag.ok_or("unknown flag given")?;
    }
    Ok(flags)
}

/// Counts bytes of a function's name and description, together with those of all libraries.
fn hold(state: &State, bytes: usize) -> Result<Held, &'static str> {
    Held::new(&state.held_bytes, state.most_bytes.get(), bytes).ok_or(LACKING)
}
