//! Standard output, and files that results are written to. These are opened before the run, because
//! the results would be lost if that were impossible after it.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The mode of a file that only its owner may read and write.
const PRIVATE: u32 = 0o600;

/// A file for results.
#[derive(Debug)]
pub struct OutputFile<'a> {
    path: &'a Path,
    file: File,
    is_private: bool,
}

impl<'a> OutputFile<'a> {
    /// Opens the file for a later write. Its contents do not change before that.
    ///
    /// # Errors
    /// The file cannot be opened for writing; the error is one line with the path.
    pub fn open(path: &'a Path) -> io::Result<Self> {
        OutputFile::open_as(path, false)
    }

    /// Like [`OutputFile::open`], for a file that only its owner may read and write.
    ///
    /// # Errors
    /// As for [`OutputFile::open`].
    pub fn open_private(path: &'a Path) -> io::Result<Self> {
        OutputFile::open_as(path, true)
    }

    fn open_as(path: &'a Path, is_private: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        if is_private {
            options.mode(PRIVATE);
        }
        let file = options.open(path).map_err(|error| named(path, &error))?;
        Ok(OutputFile { path, file, is_private })
    }

    /// Replaces the contents of the file.
    ///
    /// # Errors
    /// The file cannot be written; the error is one line with the path.
    pub fn write(mut self, text: &str) -> io::Result<()> {
        self.replace(text).map_err(|error| named(self.path, &error))
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        // A device such as a terminal has no contents to truncate, and its mode must not change.
        if self.file.metadata()?.is_file() {
            if self.is_private {
                // The mode given on opening applies only to a new file.
                self.file.set_permissions(Permissions::from_mode(PRIVATE))?;
            }
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())
    }
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// The result of writing to standard output. It is no error if the reader closes it early, as
/// `head` does.
///
/// # Errors
/// The error of the writing, except of a closed pipe.
pub fn unless_unread(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Writes a text to standard output.
///
/// # Errors
/// The output cannot be written, for example because the disk is full.
pub fn print(text: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    unless_unread(out.write_all(text).and_then(|()| out.flush()))
}

/// Parses the name of an output that cannot be standard output.
///
/// # Errors
/// The name is `-`.
pub fn file_name(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => Err("expected a file: only --json can be standard output".to_owned()),
        name => Ok(name.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_keeps_its_contents_until_it_is_written() {
        let path = std::env::temp_dir().join(format!("nagi-output-{}", std::process::id()));
        let mode_of = || std::fs::metadata(&path).unwrap().mode() & 0o777;
        std::fs::write(&path, "old and longer").unwrap();
        let usual = mode_of();
        let file = OutputFile::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "old and longer");
        file.write("new").unwrap();
        assert_eq!((mode_of(), std::fs::read_to_string(&path).unwrap()), (usual, "new".into()));
        OutputFile::open_private(&path).unwrap().write("own").unwrap();
        assert_eq!((mode_of(), std::fs::read_to_string(&path).unwrap()), (0o600, "own".into()));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let error = OutputFile::open(Path::new("/nonexistent/a.json")).unwrap_err();
        assert!(error.to_string().starts_with("/nonexistent/a.json: No such file"), "{error}");
        assert!(file_name("-").is_err());
        assert_eq!(file_name("a.html"), Ok("a.html".into()));
    }
}
