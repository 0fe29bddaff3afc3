//! Functions that a library registers.

use crate::held_bytes::Held;
use crate::source::ScriptFlags;
use std::fmt;
use std::sync::Arc;

/// A function, as FUNCTION LIST shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionDescription {
    /// The function's name.
    pub name: String,
    /// The description that the library registered, if any.
    pub description: Option<Arc<str>>,
    /// The flags that the library registered.
    pub flags: ScriptFlags,
}

/// A function that a library has registered.
pub(crate) struct Registered {
    pub(crate) described: FunctionDescription,
    pub(crate) function: mlua::Function,
    /// Counts the name and the description.
    pub(crate) _held: Held,
}

/// A library whose code has run, until it is installed.
pub struct LoadedLibrary(pub(crate) Vec<Registered>);

impl LoadedLibrary {
    /// The functions that its code has registered.
    pub fn functions(&self) -> impl Iterator<Item = &FunctionDescription> {
        self.0.iter().map(|registered| &registered.described)
    }
}

impl fmt::Debug for LoadedLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.functions()).finish()
    }
}

/// Whether a library or a function may have this name.
#[must_use]
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
}
