//! The report: the verdict first, then its evidence, what was found healthy, and what could not be
//! evaluated.

mod differences;
mod json;
mod outcome;
mod page;
mod text;

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(crate) use outcome::Report;
pub(crate) use text::list;

/// Writes a file that only its owner may read.
///
/// # Errors
/// It cannot be written; one line with its path.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut options = OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).open(path).map_err(wrong)?;
    // An existing file keeps its mode when it is opened.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    file.set_permissions(mode).map_err(wrong)?;
    file.write_all(text.as_bytes()).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_file_is_readable_by_its_owner_only() {
        let path = std::env::temp_dir().join(format!("nagi-doctor-{}", std::process::id()));
        std::fs::write(&path, "old and longer").unwrap();
        write_private(&path, "new").unwrap();
        let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&path).unwrap());
        assert_eq!((mode & 0o777, std::fs::read_to_string(&path).unwrap()), (0o600, "new".into()));
        std::fs::remove_file(&path).unwrap();
    }
}
