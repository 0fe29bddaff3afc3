//! The functions that scripts call, as the sandbox gets them.

mod answer;
mod bit;
mod json;
mod json_reader;
mod msgpack;
mod packing;
mod random;
mod redis;
mod registration;

use crate::native::functions;
use crate::state::State;
use mlua::{Lua, Table};
use std::rc::Rc;
use std::time::Instant;

/// Creates the table of native functions from which `sandbox.lua` builds the sandbox.
pub(crate) fn native(lua: &Lua, state: &Rc<State>, version: &str) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    let started = Instant::now();
    native
        .raw_set("clock", lua.create_function(move |_, ()| Ok(started.elapsed().as_secs_f64()))?)?;
    native.raw_set("redis", redis::open(lua, state, version)?)?;
    let calls = lua.create_table()?;
    for (name, function) in functions(lua, state)? {
        calls.raw_set(name, function)?;
    }
    native.raw_set("calls", calls)?;
    native.raw_set("random", random::open(lua, state)?)?;
    let libraries = lua.create_table()?;
    libraries.raw_set("bit", bit::open(lua)?)?;
    libraries.raw_set("cjson", json::open(lua)?)?;
    libraries.raw_set("cmsgpack", msgpack::open(lua)?)?;
    libraries.raw_set("struct", packing::open(lua)?)?;
    native.raw_set("libraries", libraries)?;
    Ok(native)
}
