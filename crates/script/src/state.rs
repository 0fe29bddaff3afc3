//! The state that functions called by scripts share.

use crate::functions::Registered;
use crate::generator::Generator;
use crate::host::{Host, Words};
use nagi_proto::resp::Version;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

/// State shared by an engine and the functions of its sandbox.
pub(crate) struct State {
    pub(crate) host: RefCell<Box<dyn Host>>,
    /// The version of RESP in which the script sees replies.
    pub(crate) version: Cell<Version>,
    /// Buffers for a command and its reply, which later commands reuse.
    pub(crate) room: RefCell<(Words, Vec<u8>)>,
    /// Maximum bytes of each object that is built from Lua values outside of Lua.
    pub(crate) most_bytes: Cell<usize>,
    /// Bytes outside of Lua that loaded libraries hold.
    pub(crate) held_bytes: Rc<Cell<usize>>,
    pub(crate) random: RefCell<Generator>,
    /// The functions registered so far by the library that is being loaded, if there is one.
    pub(crate) registering: RefCell<Option<Vec<Registered>>>,
    /// Whether the engine runs functions of libraries instead of scripts.
    pub(crate) has_libraries: bool,
    /// When the library that is being loaded started.
    pub(crate) began: Cell<Instant>,
    /// Why the script was ended, if it was.
    pub(crate) ended: Cell<Option<&'static str>>,
    /// Whether the hook that asks at intervals whether a script must end is installed.
    pub(crate) is_watched: Cell<bool>,
    /// The source and line at which the script was last ended: it may catch the error and continue.
    pub(crate) ended_at: RefCell<Option<(String, usize)>>,
}

/// The error of a script that is killed.
pub(crate) const ENDED: &str = "Script killed by user with SCRIPT KILL...";

impl State {
    /// Checks whether the script may continue. If it must end, records the reason and returns it as
    /// the text of the error.
    pub(crate) fn go_on(&self) -> Result<(), &'static str> {
        // While a command runs, the host is in use and cannot be asked.
        let Ok(mut host) = self.host.try_borrow_mut() else { return Ok(()) };
        if !host.is_to_end() {
            return Ok(());
        }
        self.ended.set(Some(ENDED));
        Err(ENDED)
    }

    /// Frees the buffers for commands and replies, unless they are small enough to be kept for the
    /// next script.
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
