//! `redis`: commands and replies.

use super::answer::{Answer, add, as_number, as_text, raised, text};
use super::registration::register;
use crate::convert::single;
use crate::host::LogLevel;
use crate::number;
use crate::source::Digest;
use crate::state::State;
use mlua::{Lua, MultiValue, Table, Value};
use nagi_proto::resp::Version;
use std::rc::Rc;

/// Raises the error for a name that is undefined while a library is being loaded.
fn unknown(lua: &Lua, name: &str) -> Answer {
    text(lua, &format!("Script attempted to access nonexistent global variable '{name}'"))
}

/// Creates the library `redis`.
pub(super) fn open(lua: &Lua, state: &Rc<State>, version: &str) -> mlua::Result<Table> {
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
    if state.has_libraries {
        let shared = Rc::clone(state);
        add(lua, &redis, "register_function", move |lua, arguments| {
            register(lua, &shared, &arguments)
        })?;
    }
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
    add(lua, &redis, "set_repl", |lua, arguments| match (arguments.len(), arguments.front()) {
        (1, Some(flags)) if !(0..4).contains(&int(flags)) => raised(
            lua,
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
        ),
        (1, _) => Ok(Ok(Value::Nil)),
        _ => raised(lua, "ERR redis.set_repl() requires one argument."),
    })?;
    if !state.has_libraries {
        add_for_scripts(lua, &redis)?;
    }
    Ok(redis)
}

/// Adds the functions that scripts have, but functions of libraries lack.
fn add_for_scripts(lua: &Lua, redis: &Table) -> mlua::Result<()> {
    // Effects are always replicated, never the script.
    add(lua, redis, "replicate_commands", |_, _| Ok(Ok(Value::Boolean(true))))?;
    // There is no debugger.
    add(lua, redis, "breakpoint", |_, _| Ok(Ok(Value::Boolean(false))))?;
    add(lua, redis, "debug", |_, _| Ok(Ok(Value::Nil)))
}

/// A version as a number with one byte for each part: 8.0.6 is 0x080006.
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
    state.host.borrow_mut().log(level, &line_of(arguments.iter().skip(1)));
    Ok(Ok(Value::Nil))
}

/// Maximum bytes of a logged line, before escapes are written.
const MAX_LINE_BYTES: usize = 1024;

/// The beginning of the words, as one line: line breaks are escaped, so that no script can make up
/// lines of the server.
fn line_of<'a>(words: impl Iterator<Item = &'a Value>) -> Vec<u8> {
    let mut line = Vec::new();
    let mut left = MAX_LINE_BYTES;
    let mut add = |bytes: &[u8]| {
        let bytes = bytes.get(..left.min(bytes.len())).unwrap_or_default();
        left -= bytes.len();
        for byte in bytes {
            match byte {
                b'\r' => line.extend_from_slice(b"\\r"),
                b'\n' => line.extend_from_slice(b"\\n"),
                byte => line.push(*byte),
            }
        }
        left > 0
    };
    for (place, word) in words.enumerate() {
        let has_room = match word {
            Value::String(word) => (place == 0 || add(b" ")) && add(&word.as_bytes()),
            other => as_text(other).is_none_or(|word| (place == 0 || add(b" ")) && add(&word)),
        };
        if !has_room {
            break;
        }
    }
    line
}

/// `redis.setresp`
fn set_version(lua: &Lua, state: &State, arguments: MultiValue) -> Answer {
    if state.is_loading() {
        return unknown(lua, "setresp");
    }
    if arguments.len() != 1 {
        return raised(lua, "ERR redis.setresp() requires one argument.");
    }
    match arguments.front().map(int) {
        Some(2) => state.version.set(Version::Two),
        Some(3) => state.version.set(Version::Three),
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

/// A value as an integer, as by C: 0 if Lua does not convert it to a number.
fn int(value: &Value) -> i32 {
    as_number(value).map_or(0, number::int)
}

/// The text of an error with its code: the word before the first space, otherwise `ERR`, which is
/// added. Like a string in C, it ends at a zero byte.
fn coded(text: &[u8]) -> Vec<u8> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let space = text.iter().position(|byte| *byte == b' ');
    let (code, rest) = space.map_or((b"ERR".as_slice(), text), |at| {
        let (code, rest) = text.split_at(at);
        (code, rest.get(1..).unwrap_or_default())
    });
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = rest.iter().take_while(|byte| is_break(byte)).count();
    let rest = rest.get(start..).unwrap_or_default();
    let end = rest.len() - rest.iter().rev().take_while(|byte| is_break(byte)).count();
    [code, b" ", rest.get(..end).unwrap_or_default()].concat()
}
