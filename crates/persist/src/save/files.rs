//! A save's file system operations behind a trait, so that tests can make them fail.

use super::direct::DirectFile;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, getpid, test_kill_process};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process;
use std::time::Duration;

/// A file that has not been modified for this long may be abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// The file system operations of a save.
pub(super) trait Files {
    /// A file that is being written.
    type File: Write;

    /// Creates a file. It is an error if one with that name exists.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Waits until all written bytes are on the disk.
    fn sync(&self, file: &mut Self::File) -> io::Result<()>;

    /// Renames a file, replacing any file with the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Waits until the folder of `path` is on the disk.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes the temporary files of dead processes beside `path`.
    fn remove_abandoned(&self, path: &Path);
}

/// The real file system.
pub(super) struct System;

impl Files for System {
    type File = DirectFile;

    fn create(&self, path: &Path) -> io::Result<DirectFile> {
        let file = DirectFile::create(path)?;
        // The lock only keeps other processes from removing the file; some file systems have no
        // locks.
        let _ = flock(file.file(), FlockOperation::NonBlockingLockExclusive);
        Ok(file)
    }

    fn sync(&self, file: &mut DirectFile) -> io::Result<()> {
        file.sync()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        match File::open(folder_of(path))?.sync_all() {
            // Some file systems cannot sync folders.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_abandoned(&self, path: &Path) {
        let entries = fs::read_dir(folder_of(path)).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name();
            let Some(process) = name.to_str().and_then(writer_of) else { continue };
            let path = entry.path();
            if is_abandoned(&path, process).unwrap_or(false) {
                // A file that remains takes space but is otherwise harmless.
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Returns the name of a temporary file of this process, a different one for each try: if processes
/// in containers share a folder, several may have the same id.
pub(super) fn temporary_name(tries: u32) -> String {
    match tries {
        0 => format!("temp-{}.rdb", process::id()),
        _ => format!("temp-{}-{tries}.rdb", process::id()),
    }
}

/// Returns the process that writes a file with this name: names of Redis' files have the same form
/// as nagi's first try.
fn writer_of(name: &str) -> Option<Pid> {
    let number = name.strip_prefix("temp-")?.strip_suffix(".rdb")?;
    let number = number.split_once('-').map_or(number, |(number, _)| number);
    Pid::from_raw(number.parse().ok()?)
}

/// Whether a file has no writer: its process does not exist, or is this one, which has not begun to
/// write; and no process with the same id on another machine that shares the folder has it locked
/// or modifies it.
fn is_abandoned(path: &Path, process: Pid) -> io::Result<bool> {
    let metadata = fs::symlink_metadata(path)?;
    let is_old = metadata.modified()?.elapsed().is_ok_and(|age| age > ABANDONED_AFTER);
    let may_live = process != getpid() && test_kill_process(process).is_ok();
    if !metadata.is_file() || !is_old || may_live {
        return Ok(false);
    }
    let file = File::open(path)?;
    Ok(flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getppid;
    use std::time::SystemTime;

    #[test]
    fn only_abandoned_files_are_removed() {
        let folder = std::env::temp_dir().join(format!("nagi-abandoned-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let old = SystemTime::now() - 2 * ABANDONED_AFTER;
        let put = |name: &str, at: SystemTime| {
            let file = File::create(folder.join(name)).unwrap();
            file.set_modified(at).unwrap();
            file
        };
        // No process has an id above the kernel's maximum, which is 2 to the 22nd.
        put("temp-99999999.rdb", old);
        put("temp-99999998.rdb", SystemTime::now());
        put(&temporary_name(0), old);
        put(&temporary_name(7), old);
        put(&temporary_name(8), SystemTime::now());
        let parents = format!("temp-{}.rdb", getppid().unwrap().as_raw_pid());
        put(&parents, old);
        put("temp-12x.rdb", old);
        put("temp-99999997.aof", old);
        put("dump.rdb", old);
        let held = System.create(&folder.join("temp-99999996.rdb")).unwrap();
        held.file().set_modified(old).unwrap();
        System.remove_abandoned(&folder.join("dump.rdb"));
        let mut names: Vec<String> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        let own = temporary_name(8);
        let mut kept = vec![
            "dump.rdb",
            "temp-12x.rdb",
            "temp-99999996.rdb",
            "temp-99999997.aof",
            "temp-99999998.rdb",
            &own,
            &parents,
        ];
        kept.sort_unstable();
        assert_eq!(names, kept);
        fs::remove_dir_all(&folder).unwrap();
    }
}
