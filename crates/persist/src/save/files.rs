//! A save's file system operations behind a trait, so that tests can make them fail.

use super::direct::DirectFile;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, getpid, test_kill_process};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process;
use std::time::Duration;

/// A file that has not been written to for so long may be abandoned.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// The file system, as far as a save needs it.
pub(super) trait Files {
    /// A file that is being written.
    type File: Write;

    /// Creates a file. If there is one of that name already, that is an error.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Waits until all that was written is on the disk.
    fn sync(&self, file: &mut Self::File) -> io::Result<()>;

    /// Gives a file another name, in place of whatever has that.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Waits until the disk knows what the folder of `path` holds.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Removes what processes that are no more have begun to write beside `path`.
    fn remove_abandoned(&self, path: &Path);
}

/// The one that there is.
pub(super) struct System;

impl Files for System {
    type File = DirectFile;

    fn create(&self, path: &Path) -> io::Result<DirectFile> {
        let file = DirectFile::create(path)?;
        // It only keeps other processes from removing the file; some file systems have no locks.
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
            // Of some file systems a folder has nothing that could be waited for.
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
                // What stays takes room and does no other harm.
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// The name of a file that this process begins to write, and another one each time that the last
/// was taken: where processes in containers share a folder, several may have the same number.
pub(super) fn temporary_name(tries: u32) -> String {
    match tries {
        0 => format!("temp-{}.rdb", process::id()),
        _ => format!("temp-{}-{tries}.rdb", process::id()),
    }
}

/// The process that writes to a file of that name: Redis' are named as nagi's first ones.
fn writer_of(name: &str) -> Option<Pid> {
    let number = name.strip_prefix("temp-")?.strip_suffix(".rdb")?;
    let number = number.split_once('-').map_or(number, |(number, _)| number);
    Pid::from_raw(number.parse().ok()?)
}

/// Whether a file has no writer: its process is gone, or is this one, which has not begun, and no
/// process of that number on another machine that shares the folder holds or changes it.
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
        // No process has a number beyond the kernel's greatest, which is 2 to the 22nd.
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
