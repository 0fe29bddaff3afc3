//! All rows together, found by name in any case.

use crate::{Command, string};

/// Every command's row.
pub static ALL: &[&Command] = &[&string::GET];

/// The row of the command called `name`.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    ALL.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name)).copied()
}
