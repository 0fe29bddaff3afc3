//! `redis.call`, `redis.pcall` and `redis.acl_check_cmd`.

use super::push_text;
use super::replies::{Reader, push_single};
use crate::number;
use crate::state::State;
use mlua::{Function, Lua, ffi};
use nagi_proto::decimal;
use std::ffi::c_int;
use std::rc::Rc;

/// A C function whose upvalue is the [`State`].
type Native = unsafe extern "C-unwind" fn(*mut ffi::lua_State) -> c_int;

/// `call`, `pcall` and `acl_check_cmd`, by their names. Lua must not outlive the state.
///
/// # Errors
/// Lua lacks memory.
pub(crate) fn functions(
    lua: &Lua,
    state: &Rc<State>,
) -> mlua::Result<[(&'static str, Function); 3]> {
    let shared = Rc::as_ptr(state);
    let function = |native: Native| {
        // SAFETY: the closure runs within a protected call and pushes the one value that it
        // returns, and its captures need no destructor.
        unsafe {
            lua.exec_raw::<Function>((), |lua| {
                ffi::lua_pushlightuserdata(lua, shared.cast_mut().cast());
                ffi::lua_pushcclosure(lua, native, 1);
            })
        }
    };
    Ok([
        ("call", function(call)?),
        ("pcall", function(pcall)?),
        ("acl_check_cmd", function(acl_check_cmd)?),
    ])
}

/// `redis.call`, which raises an error that a command replies with.
unsafe extern "C-unwind" fn call(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: Lua calls it with a valid state, and `functions` has given it the upvalue.
    unsafe {
        if respond(lua) {
            ffi::lua_error(lua);
        }
    }
    1
}

/// `redis.pcall`, which returns such an error.
unsafe extern "C-unwind" fn pcall(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: as for `call`.
    unsafe { respond(lua) };
    1
}

/// `redis.acl_check_cmd`
unsafe extern "C-unwind" fn acl_check_cmd(lua: *mut ffi::lua_State) -> c_int {
    // SAFETY: as for `call`; the guards of `may_call` end before anything is pushed.
    unsafe {
        let state = state_of(lua);
        let answer = take_words(lua, state).and_then(|()| {
            may_call(state).ok_or("ERR Invalid command passed to redis.acl_check_cmd()")
        });
        match answer {
            Ok(may) => ffi::lua_pushboolean(lua, c_int::from(may)),
            Err(text) => {
                push_single(lua, c"err", text.as_bytes());
                ffi::lua_error(lua);
            }
        }
    }
    1
}

fn may_call(state: &State) -> Option<bool> {
    let (words, _) = &*state.room.borrow();
    state.host.borrow_mut().may_call(words)
}

/// # Safety
/// A function of this module runs, whose upvalue is a state that outlives `lua`.
unsafe fn state_of<'a>(lua: *mut ffi::lua_State) -> &'a State {
    // SAFETY: as the caller promises.
    unsafe { &*ffi::lua_touserdata(lua, ffi::lua_upvalueindex(1)).cast::<State>() }
}

/// Executes the command on the stack and pushes the value of its reply. Returns whether the reply
/// is an error.
///
/// # Safety
/// As for [`state_of`].
unsafe fn respond(lua: *mut ffi::lua_State) -> bool {
    // SAFETY: the reply stays where it is until the next command, which no conversion runs; no
    // guard of the state is held while something is pushed.
    unsafe {
        let state = state_of(lua);
        if state.is_loading() {
            ffi::luaL_where(lua, 1);
            push_text(lua, b"Script attempted to access nonexistent global variable 'call'");
            ffi::lua_concat(lua, 2);
            ffi::lua_error(lua);
        }
        if let Err(text) = take_words(lua, state) {
            push_single(lua, c"err", text.as_bytes());
            return true;
        }
        let reply = &*execute(state);
        Reader::new(reply).push(lua);
        let is_error = reply.first() == Some(&b'-');
        shrink(state);
        is_error
    }
}

/// Executes the command in the state's buffer. The reply stays in the state.
fn execute(state: &State) -> *const [u8] {
    let (words, reply) = &mut *state.room.borrow_mut();
    reply.clear();
    state.host.borrow_mut().call(words, state.version.get(), reply);
    &raw const **reply
}

/// Frees the buffer of a large reply.
fn shrink(state: &State) {
    let (words, reply) = &mut *state.room.borrow_mut();
    if reply.capacity() > words.args().bytes().len().max(1 << 20) {
        *reply = Vec::new();
    }
}

/// Copies the words of a command from the stack into the state's buffer. Never raises an error.
///
/// # Safety
/// `lua` is the state of a C function that was called with these words.
unsafe fn take_words(lua: *mut ffi::lua_State, state: &State) -> Result<(), &'static str> {
    let (words, _) = &mut *state.room.borrow_mut();
    words.clear();
    // SAFETY: the height of the stack, and the type and content of slots below it, may be read; a
    // string does not move while it is on the stack, and for a string `lua_tolstring` allocates
    // nothing.
    unsafe {
        let count = ffi::lua_gettop(lua);
        if count == 0 {
            return Err("ERR Please specify at least one argument for this redis lib call");
        }
        for index in 1..=count {
            if words.len() > state.most_bytes.get() {
                return Err("ERR not enough memory");
            }
            let fits = match ffi::lua_type(lua, index) {
                ffi::LUA_TSTRING => {
                    let mut len = 0;
                    let start = ffi::lua_tolstring(lua, index, &raw mut len);
                    words.push(std::slice::from_raw_parts(start.cast(), len))
                }
                ffi::LUA_TNUMBER => {
                    let value = ffi::lua_tonumber(lua, index);
                    match number::integer(value) {
                        Some(value) => words.push(itoa::Buffer::new().format(value).as_bytes()),
                        None => words.push(decimal::argument(value).as_bytes()),
                    }
                }
                _ => {
                    return Err("ERR Lua redis lib command arguments must be strings or integers");
                }
            };
            if !fits {
                return Err("ERR too many bytes for a command");
            }
        }
    }
    Ok(())
}
