//! A script's limits outside of Lua, for each object that is built from Lua values: a reply or an
//! encoding. A table with the same string a thousand times costs Lua almost nothing, but a reply or
//! an encoding a thousand times the string's length, and nested tables can take unbounded time.

use crate::state::State;
use mlua::Lua;
use std::rc::Rc;

/// The error of a script that needs more memory.
pub(crate) const LACKING: &str = "not enough memory";

/// Elements between two checks whether the script must end.
const STRIDE: u32 = 1024;

/// Sets the limits for meters of this Lua state.
pub(crate) fn prepare(lua: &Lua, state: &Rc<State>) {
    lua.set_app_data(Rc::clone(state));
}

/// The limits that are left for one object.
pub(crate) struct Meter {
    left: usize,
    elements: u32,
    state: Option<Rc<State>>,
}

impl Meter {
    /// Creates the meter of a new object.
    pub(crate) fn new(lua: &Lua) -> Self {
        let state = lua.app_data_ref::<Rc<State>>().map(|state| Rc::clone(&state));
        let left = state.as_ref().map_or(usize::MAX, |state| state.most_bytes.get());
        Meter { left, elements: 0, state }
    }

    /// Counts an element of about this many bytes. Returns the text of the script's error if there
    /// is no room for the element, or if the script must end.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), &'static str> {
        self.left = self.left.checked_sub(bytes).ok_or(LACKING)?;
        self.elements = self.elements.wrapping_add(1);
        match &self.state {
            Some(state) if self.elements.is_multiple_of(STRIDE) => state.go_on(),
            _ => Ok(()),
        }
    }
}
