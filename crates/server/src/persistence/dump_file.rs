//! Where the data is saved.

use crate::state::shared::Shared;
use nagi_commands::Server as _;
use std::path::{Path, PathBuf};

/// The file that is written and, at the start, read; `None` if there is to be none.
pub(crate) fn path(shared: &Shared) -> Option<PathBuf> {
    let config = shared.config();
    let name = config.dbfilename.get();
    (!name.is_empty()).then(|| Path::new(&*config.dir.get()).join(&*name))
}
