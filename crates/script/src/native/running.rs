//! Running a script, or a function of a library.

use super::{hint, push_text};
use mlua::{Function, Lua, Value, ffi};
use nagi_proto::Args;
use std::ffi::c_int;

unsafe extern "C-unwind" {
    /// Makes a table read-only, or writable if `readonly` is 0; in `crates/lua/c/lapi.c`.
    fn lua_setreadonly(lua: *mut ffi::lua_State, index: c_int, readonly: c_int);
}

/// How keys and arguments are passed.
#[derive(Clone, Copy)]
pub(crate) enum Callee {
    /// To a script: as the globals KEYS and ARGV, which exist already.
    Script,
    /// To a function of a library: as its arguments.
    Function,
}

/// Calls a function with keys and arguments. Returns whether it has succeeded, and its result or
/// the value that `handler` has made of its error.
///
/// # Errors
/// Lua lacks memory before the function begins.
pub(crate) fn run(
    lua: &Lua,
    (callee, function): (Callee, &Function),
    (keys, arguments): (Args<'_>, Args<'_>),
    handler: &Function,
) -> mlua::Result<(bool, Value)> {
    // SAFETY: the handler and the function are the only values on the stack of a protected call;
    // the closure's captures need no destructor.
    unsafe {
        lua.exec_raw((handler, function), |lua| {
            // The stack: handler, function; then the function again with its arguments.
            ffi::lua_pushvalue(lua, 2);
            push_words(lua, keys);
            push_words(lua, arguments);
            let passed = match callee {
                Callee::Function => 2,
                Callee::Script => {
                    push_text(lua, b"ARGV");
                    push_text(lua, b"KEYS");
                    // Both exist, so nothing raises an error while globals can be changed.
                    lua_setreadonly(lua, ffi::LUA_GLOBALSINDEX, 0);
                    ffi::lua_pushvalue(lua, -4);
                    ffi::lua_rawset(lua, ffi::LUA_GLOBALSINDEX);
                    ffi::lua_pushvalue(lua, -2);
                    ffi::lua_rawset(lua, ffi::LUA_GLOBALSINDEX);
                    lua_setreadonly(lua, ffi::LUA_GLOBALSINDEX, 1);
                    ffi::lua_pop(lua, 2);
                    0
                }
            };
            let is_done = ffi::lua_pcall(lua, passed, 1, 1) == ffi::LUA_OK;
            ffi::lua_replace(lua, 2);
            ffi::lua_pushboolean(lua, c_int::from(is_done));
            ffi::lua_replace(lua, 1);
        })
    }
}

/// Pushes a table of words. Raises an error if Lua lacks memory.
///
/// # Safety
/// `lua` is a state within a protected call.
unsafe fn push_words(lua: *mut ffi::lua_State, words: Args<'_>) {
    // SAFETY: `luaL_checkstack_` ensures that there is room on the stack; the table is below the
    // word when that is stored.
    unsafe {
        ffi::luaL_checkstack_(lua, 8, c"too many calls".as_ptr());
        ffi::lua_createtable(lua, hint(words.len()), 0);
        for (word, index) in words.from(0).zip(1..) {
            push_text(lua, word);
            ffi::lua_rawseti_(lua, -2, index);
        }
    }
}
