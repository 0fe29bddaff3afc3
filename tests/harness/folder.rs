//! A folder for the files of a test.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates an empty folder whose name contains `name`.
    ///
    /// # Panics
    /// The system refuses.
    #[must_use]
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nagi-{name}-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        create_empty(&path).expect("a folder");
        Self(path)
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file. Returns its path.
    ///
    /// # Panics
    /// The system refuses.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A program that is about to exit may still write, so errors are ignored.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Creates a folder, and removes one of a process that had the same number and was killed.
pub(crate) fn create_empty(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir_all(path),
    }
}
