//! Replies as Lua values, by Redis' rules.

use super::{hint, push_text};
use mlua::ffi;
use std::ffi::CStr;

/// Slots of the stack that one level of a reply takes at most.
const SLOTS: i32 = 4;
/// Maximum nesting of a reply; replies of commands have a few levels.
const MAX_DEPTH: u32 = 100;

/// Reads a reply, which is complete, since it comes from the server itself.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    depth: u32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(reply: &'a [u8]) -> Self {
        Reader { rest: reply, depth: 0 }
    }

    /// Pushes the value of the next element. Raises an error if Lua lacks memory, or
    /// if elements are nested too deeply.
    ///
    /// # Safety
    /// `lua` is a state within a protected call.
    pub(super) unsafe fn push(&mut self, lua: *mut ffi::lua_State) {
        let (kind, line) = self.line();
        let number = integer(line);
        let len = number.and_then(|number| usize::try_from(number).ok());
        // SAFETY: `luaL_checkstack_` ensures that there is room for everything that is pushed;
        // nothing here has a destructor.
        unsafe {
            ffi::luaL_checkstack_(lua, SLOTS, c"a reply".as_ptr());
            if self.depth > MAX_DEPTH {
                push_text(lua, b"ERR a reply is nested too deeply");
                ffi::lua_error(lua);
            }
            self.depth += 1;
            match (kind, len) {
                (b':', _) => ffi::lua_pushnumber(lua, number.unwrap_or(0) as f64),
                (b'$', Some(len)) => push_text(lua, self.bytes(len)),
                (b'*' | b'>', Some(len)) => self.push_array(lua, len),
                (b'$' | b'*' | b'>', None) => ffi::lua_pushboolean(lua, 0),
                (b'+', _) => push_single(lua, c"ok", line),
                (b'-', _) => {
                    push_single(lua, c"err", line);
                    ffi::lua_pushboolean(lua, 1);
                    ffi::lua_setfield(lua, -2, c"ignore_error_stats_update".as_ptr());
                }
                (b'%' | b'~', _) => {
                    ffi::lua_createtable(lua, 0, 1);
                    self.push_pairs(lua, kind == b'%', len.unwrap_or(0));
                    let name = if kind == b'%' { c"map" } else { c"set" };
                    ffi::lua_setfield(lua, -2, name.as_ptr());
                }
                // Scripts do not see attributes, which precede the value.
                (b'|', _) => {
                    self.push_pairs(lua, true, len.unwrap_or(0));
                    ffi::lua_pop(lua, 1);
                    self.push(lua);
                }
                (b'#', _) => ffi::lua_pushboolean(lua, i32::from(line == b"t")),
                (b',', _) => {
                    ffi::lua_createtable(lua, 0, 1);
                    ffi::lua_pushnumber(lua, decimal(line));
                    ffi::lua_setfield(lua, -2, c"double".as_ptr());
                }
                (b'(', _) => push_single(lua, c"big_number", line),
                (b'=', _) => self.push_verbatim(lua, len.unwrap_or(0)),
                _ => ffi::lua_pushnil(lua),
            }
        }
        self.depth -= 1;
    }

    /// # Safety
    /// As for [`Reader::push`], with room on the stack.
    unsafe fn push_array(&mut self, lua: *mut ffi::lua_State, len: usize) {
        // SAFETY: as the caller promises; the table is below the value when that is stored.
        unsafe {
            ffi::lua_createtable(lua, hint(len), 0);
            for index in 1..=i32::try_from(len).unwrap_or(i32::MAX) {
                self.push(lua);
                ffi::lua_rawseti_(lua, -2, index);
            }
        }
    }

    /// Pushes a table of a map's pairs or a set's members. Lua has no nil keys: they are left out.
    ///
    /// # Safety
    /// As for [`Reader::push`], with room on the stack.
    unsafe fn push_pairs(&mut self, lua: *mut ffi::lua_State, is_map: bool, len: usize) {
        // SAFETY: as the caller promises; the table is below key and value when they are stored.
        unsafe {
            ffi::lua_createtable(lua, 0, hint(len));
            for _ in 0..len {
                self.push(lua);
                if is_map {
                    self.push(lua);
                } else {
                    ffi::lua_pushboolean(lua, 1);
                }
                if ffi::lua_isnil(lua, -2) == 0 {
                    ffi::lua_rawset(lua, -3);
                } else {
                    ffi::lua_pop(lua, 2);
                }
            }
        }
    }

    /// # Safety
    /// As for [`Reader::push`], with room on the stack.
    unsafe fn push_verbatim(&mut self, lua: *mut ffi::lua_State, len: usize) {
        let bytes = self.bytes(len);
        let (format, string) = bytes.split_at(bytes.len().min(4));
        // SAFETY: as the caller promises; the tables are below what is stored in them.
        unsafe {
            ffi::lua_createtable(lua, 0, 1);
            ffi::lua_createtable(lua, 0, 2);
            push_text(lua, format.get(..3).unwrap_or_default());
            ffi::lua_setfield(lua, -2, c"format".as_ptr());
            push_text(lua, string);
            ffi::lua_setfield(lua, -2, c"string".as_ptr());
            ffi::lua_setfield(lua, -2, c"verbatim_string".as_ptr());
        }
    }

    /// Reads the first line of the next element: its kind, and the rest of the line.
    fn line(&mut self) -> (u8, &'a [u8]) {
        let end = self.rest.windows(2).position(|pair| pair == b"\r\n").unwrap_or(self.rest.len());
        let (line, rest) = self.rest.split_at(end);
        self.rest = rest.get(2..).unwrap_or_default();
        line.split_first().map_or((0, b"".as_slice()), |(kind, line)| (*kind, line))
    }

    /// Reads the content of a string, and skips the line break after it.
    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest.get(2..).unwrap_or_default();
        bytes
    }
}

/// Pushes a table with one text.
///
/// # Safety
/// As for [`Reader::push`], with room for two on the stack.
pub(super) unsafe fn push_single(lua: *mut ffi::lua_State, name: &CStr, text: &[u8]) {
    // SAFETY: as the caller promises; the table is below the text when that is stored.
    unsafe {
        ffi::lua_createtable(lua, 0, 1);
        push_text(lua, text);
        ffi::lua_setfield(lua, -2, name.as_ptr());
    }
}

fn integer(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

fn decimal(line: &[u8]) -> f64 {
    std::str::from_utf8(line).ok().and_then(|line| line.parse().ok()).unwrap_or(f64::NAN)
}
