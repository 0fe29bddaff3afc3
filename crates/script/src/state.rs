//! What the functions that scripts call have in common.

use crate::host::{Host, Words};
use nagi_proto::resp::Version;
use std::cell::{Cell, RefCell};

/// What the functions of the sandbox share.
pub(crate) struct State {
    pub(crate) host: RefCell<Box<dyn Host>>,
    /// The version of RESP in which the script sees replies.
    pub(crate) version: Cell<Version>,
    /// Room for a command and its reply.
    pub(crate) room: RefCell<(Words, Vec<u8>)>,
    pub(crate) random: RefCell<fastrand::Rng>,
    /// Whether the script was ended.
    pub(crate) has_ended: Cell<bool>,
}
