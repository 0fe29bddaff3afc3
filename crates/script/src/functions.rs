//! Functions that a library registers.

use crate::source::ScriptFlags;

/// A function, as FUNCTION LIST shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionDescription {
    /// Its name.
    pub name: String,
    /// What its library says of it.
    pub description: Option<String>,
    /// What it does and does not.
    pub flags: ScriptFlags,
}

/// One that was registered by the library that is being loaded.
pub(crate) struct Registered {
    pub(crate) described: FunctionDescription,
    pub(crate) function: mlua::Function,
}

/// Whether a library or a function may have a name.
#[must_use]
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
