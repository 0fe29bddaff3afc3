//! Where things are in the repository.

use std::path::{Path, PathBuf};

/// The folder that holds the workspace's `Cargo.toml`.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// What `cargo xtask setup` brings; ignored by git.
pub(crate) fn setup_folder() -> PathBuf {
    root().join(".setup")
}
