//! Memory outside of Lua that lasts as long as a library's functions, and counts against the limit
//! of scripts.

use std::cell::Cell;
use std::rc::Rc;

/// Bytes that are counted for as long as this lives.
pub(crate) struct Held {
    all: Rc<Cell<usize>>,
    bytes: usize,
}

impl Held {
    /// Adds bytes to the count of all that are held; `None` if that would be more than `most`.
    pub(crate) fn new(all: &Rc<Cell<usize>>, most: usize, bytes: usize) -> Option<Self> {
        let held = all.get().saturating_add(bytes);
        if held > most {
            return None;
        }
        all.set(held);
        Some(Held { all: Rc::clone(all), bytes })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.all.set(self.all.get().saturating_sub(self.bytes));
    }
}
