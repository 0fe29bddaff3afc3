//! The report: the verdict first, then its evidence, the findings without a fault, and those that
//! could not be evaluated.

mod differences;
mod json;
mod outcome;
mod page;
mod text;

use std::fs::{File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

pub(crate) use outcome::Report;
pub(crate) use text::list;

/// A file that only its owner may read and write.
#[derive(Debug)]
pub(crate) struct PrivateFile<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> PrivateFile<'a> {
    /// Opens the file for a later write. Its contents do not change before that.
    ///
    /// # Errors
    /// The file cannot be opened for writing; the error is one line with the path.
    pub(crate) fn open(path: &'a Path) -> Result<Self, String> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(path);
        let file = file.map_err(|error| wrong(path, &error))?;
        Ok(PrivateFile { path, file })
    }

    /// Replaces the contents of the file.
    ///
    /// # Errors
    /// The file cannot be written; the error is one line with the path.
    pub(crate) fn write(mut self, text: &str) -> Result<(), String> {
        self.replace(text).map_err(|error| wrong(self.path, &error))
    }

    fn replace(&mut self, text: &str) -> std::io::Result<()> {
        // A device such as a terminal has no contents to truncate, and its mode must not change.
        if self.file.metadata()?.is_file() {
            // The mode given on opening applies only to a new file.
            self.file.set_permissions(Permissions::from_mode(0o600))?;
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())
    }
}

fn wrong(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_file_is_readable_by_its_owner_only() {
        let path = std::env::temp_dir().join(format!("nagi-doctor-{}", std::process::id()));
        std::fs::write(&path, "old and longer").unwrap();
        let file = PrivateFile::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old and longer");
        file.write("new").unwrap();
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!((mode & 0o777, std::fs::read_to_string(&path).unwrap()), (0o600, "new".into()));
        std::fs::remove_file(&path).unwrap();
    }
}
