//! Sample files in place of the kernel's, for tests of faults that cannot be injected into a real
//! host.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that takes the place of `/`, removed on drop.
#[derive(Debug)]
pub(super) struct SampleFiles(PathBuf);

impl SampleFiles {
    /// Creates a root folder with these files.
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nagi-made-up-{}-{count}", std::process::id());
        let root = SampleFiles(std::env::temp_dir().join(name));
        files.iter().for_each(|(path, text)| root.write(path, text));
        root
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SampleFiles {
    fn drop(&mut self) {
        // A folder that remains does not affect tests.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
