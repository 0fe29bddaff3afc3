//! The rows of the settings of scripts.

use super::kinds::Kind;
use super::setting::{Place, Setting};

pub(super) const BUSY_REPLY: Setting = Setting {
    name: "busy-reply",
    aliases: &[],
    kind: Kind::Choice(&["scripts", "all"]),
    default: "scripts",
    changeable: true,
    place: Place::Number(|values| &values.busy_reply),
    summary: "Which requests are answered BUSY while a script is slow: other scripts, or all",
};

pub(super) const BUSY_REPLY_THRESHOLD: Setting = Setting {
    name: "busy-reply-threshold",
    aliases: &["lua-time-limit"],
    kind: Kind::Integer(0..=i64::MAX),
    default: "5000",
    changeable: true,
    place: Place::Number(|values| &values.busy_reply_threshold_ms),
    summary: "Milliseconds after which a script counts as slow and can be killed; 0 for never",
};

pub(super) const SCRIPT_MEMORY_LIMIT: Setting = Setting {
    name: "script-memory-limit",
    aliases: &[],
    kind: Kind::Memory(0..=i64::MAX as u64),
    default: "256mb",
    changeable: true,
    place: Place::Number(|values| &values.script_memory_limit),
    summary: "Maximum memory for scripts in Lua; 0 for no limit",
};
