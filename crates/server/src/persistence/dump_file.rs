//! The path of the dump file.

use crate::state::shared::Shared;
use nagi_commands::Server as _;
use std::path::{Path, PathBuf};

/// The file that saves write and the start reads; `None` if the settings disable it.
pub(crate) fn path(shared: &Shared) -> Option<PathBuf> {
    let config = shared.config();
    let name = config.dbfilename.get();
    (!name.is_empty()).then(|| Path::new(&*config.dir.get()).join(&*name))
}
