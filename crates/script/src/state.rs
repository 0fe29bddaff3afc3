//! The state that functions called by scripts share.

use crate::functions::Registered;
use crate::generator::Generator;
use crate::host::{Host, Words};
use nagi_proto::resp::Version;
use std::cell::{Cell, RefCell};
use std::time::Instant;

/// What the functions of the sandbox share.
pub(crate) struct State {
    pub(crate) host: RefCell<Box<dyn Host>>,
    /// The version of RESP in which the script sees replies.
    pub(crate) version: Cell<Version>,
    /// Room for a command and its reply.
    pub(crate) room: RefCell<(Words, Vec<u8>)>,
    /// Most bytes of each thing that is made of Lua's values outside of Lua.
    pub(crate) most_bytes: Cell<usize>,
    pub(crate) random: RefCell<Generator>,
    /// What the library has registered that is being loaded, if one is.
    pub(crate) registering: RefCell<Option<Vec<Registered>>>,
    /// Whether scripts are functions of libraries.
    pub(crate) has_libraries: bool,
    /// When the library began that is being loaded.
    pub(crate) began: Cell<Instant>,
    /// Why the script was ended, if it was.
    pub(crate) ended: Cell<Option<&'static str>>,
    /// Whether the hook is in place that asks at intervals whether a script is to end.
    pub(crate) is_watched: Cell<bool>,
    /// The source and line at which it was ended last, since it may catch that.
    pub(crate) ended_at: RefCell<Option<(String, usize)>>,
}

/// The error of a script that is killed.
pub(crate) const ENDED: &str = "Script killed by user with SCRIPT KILL...";

impl State {
    /// The text of an error if the script is to end.
    pub(crate) fn go_on(&self) -> Result<(), &'static str> {
        // While a command runs there is nothing to ask.
        let Ok(mut host) = self.host.try_borrow_mut() else { return Ok(()) };
        if !host.is_to_end() {
            return Ok(());
        }
        self.ended.set(Some(ENDED));
        Err(ENDED)
    }

    /// Gives back the room for commands and replies, unless it is so little that it is worth
    /// keeping for the next script.
    pub(crate) fn shed_room(&self) {
        const KEPT_BYTES: usize = 1024;
        let mut room = self.room.borrow_mut();
        let (bytes, words) = room.0.capacity();
        if bytes + words * size_of::<nagi_proto::Span>() + room.1.capacity() > KEPT_BYTES {
            *room = Default::default();
        }
    }

    /// Whether a library is being loaded, which may call no command.
    pub(crate) fn is_loading(&self) -> bool {
        self.registering.borrow().is_some()
    }
}
