//! The functions that scripts call, as the sandbox gets them: each returns what is to be raised, or
//! nothing and its value.

use crate::convert::{self, single};
use crate::host::LogLevel;
use crate::number;
use crate::source::Digest;
use crate::state::State;
use mlua::{IntoLuaMulti, Lua, MultiValue, Table, Value};
use nagi_proto::resp::Version;
use std::rc::Rc;
use std::time::Instant;

/// What a function answers: its value, or what is to be raised.
pub(crate) type Answer = mlua::Result<Result<Value, Value>>;

/// A table of an error's text.
pub(crate) fn raised(lua: &Lua, text: &str) -> Answer {
    let text = Value::String(lua.create_string(text)?);
    Ok(Err(single(lua, "err", text)?))
}

/// Puts a function into a table.
pub(crate) fn add(
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

/// Everything that the sandbox is made of.
pub(crate) fn native(lua: &Lua, state: &Rc<State>, version: &str) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    let started = Instant::now();
    native
        .raw_set("clock", lua.create_function(move |_, ()| Ok(started.elapsed().as_secs_f64()))?)?;
    native.raw_set("redis", redis(lua, state, version)?)?;
    native.raw_set("random", random(lua, state)?)?;
    native.raw_set("libraries", lua.create_table()?)?;
    Ok(native)
}

/// Puts the words of a command together.
fn take_words(lua: &Lua, state: &State, arguments: &MultiValue) -> mlua::Result<Result<(), Value>> {
    let (words, _) = &mut *state.room.borrow_mut();
    words.clear();
    if arguments.is_empty() {
        let text = "ERR Please specify at least one argument for this redis lib call";
        return Ok(raised(lua, text)?.map(|_| ()));
    }
    for argument in arguments {
        let fits = match argument {
            Value::String(text) => words.push(&text.as_bytes()),
            Value::Integer(value) => words.push(value.to_string().as_bytes()),
            Value::Number(value) => match number::integer(*value) {
                Some(value) => words.push(value.to_string().as_bytes()),
                None => words.push(number::general(*value, 17).as_bytes()),
            },
            _ => {
                let text = "ERR Lua redis lib command arguments must be strings or integers";
                return Ok(raised(lua, text)?.map(|_| ()));
            }
        };
        if !fits {
            return Ok(raised(lua, "ERR too many bytes for a command")?.map(|_| ()));
        }
    }
    Ok(Ok(()))
}

/// `redis.call`, which raises an error that a command replies with.
fn call(lua: &Lua, state: &State, arguments: MultiValue) -> Answer {
    if let Err(raised) = take_words(lua, state, &arguments)? {
        return Ok(Err(raised));
    }
    let (words, reply) = &mut *state.room.borrow_mut();
    reply.clear();
    state.host.borrow_mut().call(words, state.version.get(), reply);
    let value = convert::to_lua(lua, reply)?;
    if reply.capacity() > words.args().bytes().len().max(1 << 20) {
        *reply = Vec::new();
    }
    Ok(if reply.first() == Some(&b'-') { Err(value) } else { Ok(value) })
}

/// `redis.acl_check_cmd`
fn accepts(lua: &Lua, state: &State, arguments: MultiValue) -> Answer {
    if let Err(raised) = take_words(lua, state, &arguments)? {
        return Ok(Err(raised));
    }
    let (words, _) = &*state.room.borrow();
    match state.host.borrow_mut().may_call(words) {
        Some(may) => Ok(Ok(Value::Boolean(may))),
        None => raised(lua, "ERR Invalid command passed to redis.acl_check_cmd()"),
    }
}

/// The library `redis`.
fn redis(lua: &Lua, state: &Rc<State>, version: &str) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    for (name, value) in [
        ("LOG_DEBUG", 0),
        ("LOG_VERBOSE", 1),
        ("LOG_NOTICE", 2),
        ("LOG_WARNING", 3),
        ("REPL_NONE", 0),
        ("REPL_AOF", 1),
        ("REPL_SLAVE", 2),
        ("REPL_REPLICA", 2),
        ("REPL_ALL", 3),
    ] {
        redis.raw_set(name, value)?;
    }
    redis.raw_set("REDIS_VERSION", version)?;
    redis.raw_set("REDIS_VERSION_NUM", numbered(version))?;
    let shared = Rc::clone(state);
    add(lua, &redis, "call", move |lua, arguments| call(lua, &shared, arguments))?;
    let shared = Rc::clone(state);
    add(
        lua,
        &redis,
        "pcall",
        move |lua, arguments| Ok(call(lua, &shared, arguments)?.or_else(Ok)),
    )?;
    let shared = Rc::clone(state);
    add(lua, &redis, "acl_check_cmd", move |lua, arguments| accepts(lua, &shared, arguments))?;
    let shared = Rc::clone(state);
    add(lua, &redis, "log", move |lua, arguments| log(lua, &shared, arguments))?;
    let shared = Rc::clone(state);
    add(lua, &redis, "setresp", move |lua, arguments| set_version(lua, &shared, arguments))?;
    add(lua, &redis, "sha1hex", |lua, arguments| {
        if arguments.len() != 1 {
            return raised(lua, "ERR wrong number of arguments");
        }
        let text = arguments.front().and_then(as_text);
        let digest = Digest::of(text.as_deref().unwrap_or_default());
        Ok(Ok(Value::String(lua.create_string(digest.as_bytes())?)))
    })?;
    add(lua, &redis, "error_reply", |lua, arguments| reply_table(lua, arguments, "err"))?;
    add(lua, &redis, "status_reply", |lua, arguments| reply_table(lua, arguments, "ok"))?;
    add(lua, &redis, "set_repl", |lua, arguments| {
        let flags = arguments.front().and_then(as_number);
        match (arguments.len(), flags) {
            (1, Some(flags)) if (0.0..4.0).contains(&flags) => Ok(Ok(Value::Nil)),
            (1, _) => raised(
                lua,
                "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
            ),
            _ => raised(lua, "ERR redis.set_repl() requires two arguments."),
        }
    })?;
    // Effects are what is replicated, always.
    add(lua, &redis, "replicate_commands", |_, _| Ok(Ok(Value::Boolean(true))))?;
    // There is no debugger.
    add(lua, &redis, "breakpoint", |_, _| Ok(Ok(Value::Boolean(false))))?;
    add(lua, &redis, "debug", |_, _| Ok(Ok(Value::Nil)))?;
    Ok(redis)
}

/// A version in a number, a byte for each of its parts.
fn numbered(version: &str) -> u32 {
    let parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    parts.fold(0, |number, part: u32| number << 8 | part)
}

/// `redis.log`
fn log(lua: &Lua, state: &State, arguments: MultiValue) -> Answer {
    if arguments.len() < 2 {
        return raised(lua, "ERR redis.log() requires two arguments or more.");
    }
    let Some(level) = arguments.front().and_then(as_number) else {
        return raised(lua, "ERR First argument must be a number (log level).");
    };
    let level = match level as i64 {
        0 => LogLevel::Debug,
        1 => LogLevel::Verbose,
        2 => LogLevel::Notice,
        3 => LogLevel::Warning,
        _ => return raised(lua, "ERR Invalid log level."),
    };
    let words: Vec<_> = arguments.iter().skip(1).filter_map(as_text).collect();
    state.host.borrow_mut().log(level, &words.join(b" ".as_slice()));
    Ok(Ok(Value::Nil))
}

/// `redis.setresp`
fn set_version(lua: &Lua, state: &State, arguments: MultiValue) -> Answer {
    if arguments.len() != 1 {
        return raised(lua, "ERR redis.setresp() requires one argument.");
    }
    match arguments.front().and_then(as_number) {
        Some(2.0) => state.version.set(Version::Two),
        Some(3.0) => state.version.set(Version::Three),
        _ => return raised(lua, "ERR RESP version must be 2 or 3."),
    }
    Ok(Ok(Value::Nil))
}

/// `redis.error_reply` and `redis.status_reply`
fn reply_table(lua: &Lua, arguments: MultiValue, field: &str) -> Answer {
    let text = match (arguments.len(), arguments.front()) {
        (1, Some(Value::String(text))) => text.as_bytes().to_vec(),
        _ => {
            let text = lua.create_string("ERR wrong number or type of arguments")?;
            return Ok(Ok(single(lua, "err", Value::String(text))?));
        }
    };
    let text = if field == "err" { coded(&text) } else { text };
    Ok(Ok(single(lua, field, Value::String(lua.create_string(text)?))?))
}

/// An error's text with a code, which is the first of several words; `ERR` stands before one.
fn coded(text: &[u8]) -> Vec<u8> {
    let trimmed = |text: &[u8]| text.trim_ascii_end().to_vec();
    match text.strip_prefix(b"-").unwrap_or(text) {
        text if text.contains(&b' ') => trimmed(text),
        text => [b"ERR ".as_slice(), &trimmed(text)].concat(),
    }
}

/// `math.random` and `math.randomseed`, which no other part of the process shares.
fn random(lua: &Lua, state: &Rc<State>) -> mlua::Result<Table> {
    let random = lua.create_table()?;
    let shared = Rc::clone(state);
    add(lua, &random, "random", move |lua, arguments| {
        let mut bounds = arguments.iter().map(as_number);
        let (least, most) = match (bounds.next(), bounds.next(), bounds.next()) {
            (None, ..) => return Ok(Ok(Value::Number(shared.random.borrow_mut().f64()))),
            (Some(Some(most)), None, _) => (1.0, most.floor()),
            (Some(Some(least)), Some(Some(most)), None) => (least.floor(), most.floor()),
            _ => return text(lua, "wrong number of arguments"),
        };
        if least > most || least.is_nan() || most.is_nan() {
            let place = if arguments.len() == 1 { 1 } else { 2 };
            return text(lua, &format!("bad argument #{place} to 'random' (interval is empty)"));
        }
        let share = shared.random.borrow_mut().f64();
        Ok(Ok(Value::Number((share * (most - least + 1.0)).floor() + least)))
    })?;
    let shared = Rc::clone(state);
    add(lua, &random, "randomseed", move |lua, arguments| {
        let Some(seed) = arguments.front().and_then(as_number) else {
            return text(lua, "bad argument #1 to 'randomseed' (number expected, got no value)");
        };
        shared.random.borrow_mut().seed((seed as i64).cast_unsigned());
        Ok(Ok(Value::Nil))
    })?;
    Ok(random)
}

/// A text that is raised with the place of the caller.
pub(crate) fn text(lua: &Lua, text: &str) -> Answer {
    Ok(Err(Value::String(lua.create_string(text)?)))
}

pub(crate) fn as_number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(value) => Some(*value as f64),
        Value::Number(value) => Some(*value),
        Value::String(text) => std::str::from_utf8(&text.as_bytes()).ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// A string, or a number as Lua writes it.
pub(crate) fn as_text(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(value) => Some(value.to_string().into_bytes()),
        Value::Number(value) => Some(number::general(*value, 14).into_bytes()),
        _ => None,
    }
}
