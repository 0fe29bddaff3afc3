//! The path of every script and of every command that it calls, in Lua's own C interface.
//!
//! mlua makes a protected call and garbage for each value that it passes. For small scripts that
//! costs more than their commands. Here a script is one protected call, and a command is none.
//!
//! Lua raises errors with `longjmp`, which runs no destructors. So each function here either raises
//! nothing, or owns nothing that has a destructor at the points where Lua may raise: values are
//! borrowed, and guards of a `RefCell` end before anything is pushed.

mod calls;
mod replies;
mod running;

pub(crate) use calls::functions;
pub(crate) use running::{Callee, run};

use mlua::ffi;
use std::ffi::c_int;

/// Pushes a string. Raises an error if Lua lacks memory.
///
/// # Safety
/// `lua` is a state with a free slot on its stack, called from a protected call.
unsafe fn push_text(lua: *mut ffi::lua_State, text: &[u8]) {
    // SAFETY: as the caller promises; Lua copies the bytes.
    unsafe { ffi::lua_pushlstring_(lua, text.as_ptr().cast(), text.len()) };
}

/// A length as Lua counts, for the size of a table that is only a hint.
fn hint(len: usize) -> c_int {
    const MOST: usize = 1 << 20;
    c_int::try_from(len.min(MOST)).unwrap_or(0)
}
