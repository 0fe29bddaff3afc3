//! A file that is written with O_DIRECT if the file system supports it.
//!
//! A saved file is not read again before a restart, so its pages would only evict other files'
//! pages from the page cache. They also cost more than the disk: each must be allocated and
//! cleared, at times by the hypervisor, and kernel threads write them back at arbitrary times. A
//! disk that wrote 1.3 GB/s directly wrote 0.25 through the page cache.

use rustix::fs::{AtFlags, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl, statx};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// The alignment of addresses, offsets and lengths; no disk requires more.
const ALIGNMENT: usize = 4096;
/// The size of a write; larger ones are not faster.
const BUFFER_BYTES: usize = 1 << 20;
/// The number of bytes after which a file in the page cache is synced, so that little is left to do
/// at the end and the kernel never has much to write at once.
const SYNC_BYTES: usize = 16 << 20;

/// The file, and the data to be written next.
#[derive(Debug)]
pub(super) struct DirectFile {
    file: File,
    /// Whether the file bypasses the page cache.
    is_direct: bool,
    /// Large enough to contain an aligned buffer.
    memory: Vec<u8>,
    /// The start of that buffer.
    start: usize,
    /// The number of bytes in the buffer.
    filled: usize,
    /// The number of bytes written.
    written: u64,
    /// The number of bytes written to the page cache since the last sync.
    unsynced: usize,
}

impl DirectFile {
    /// Creates a file, which must not exist; a named pipe may.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let is_pipe = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_fifo());
        let file = match is_pipe {
            true => File::options().write(true).open(path)?,
            false => File::create_new(path)?,
        };
        let is_direct = !is_pipe && can_be_direct(&file) && set_direct(&file, true).is_ok();
        let memory = vec![0; BUFFER_BYTES + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Ok(DirectFile { file, is_direct, memory, start, filled: 0, written: 0, unsynced: 0 })
    }

    /// Returns the file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Waits until all written bytes are on the disk.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let len = self.written + self.filled as u64;
        if self.is_direct {
            // Only whole blocks can be written, so the file is truncated afterwards.
            let from = self.filled;
            self.filled = from.next_multiple_of(ALIGNMENT);
            let missing = self.filled - from;
            self.rest_mut(from).get_mut(..missing).unwrap_or_default().fill(0);
        }
        self.write_out()?;
        if self.written > len {
            self.file.set_len(len)?;
        }
        self.file.sync_data()
    }

    /// Returns the buffer from an offset on.
    fn rest_mut(&mut self, from: usize) -> &mut [u8] {
        self.memory.get_mut(self.start + from..self.start + BUFFER_BYTES).unwrap_or_default()
    }

    /// Writes the contents of the buffer.
    fn write_out(&mut self) -> io::Result<()> {
        let mut done = 0;
        while done < self.filled {
            let rest = self.memory.get(self.start + done..self.start + self.filled);
            match self.file.write(rest.unwrap_or_default()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => done += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if self.is_direct && is_unsupported(&error) => {
                    self.go_through_the_page_cache()?;
                }
                Err(error) => return Err(error),
            }
        }
        self.written += done as u64;
        self.filled = 0;
        self.unsynced += done;
        if !self.is_direct && self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.file.sync_data()?;
        }
        Ok(())
    }

    fn go_through_the_page_cache(&mut self) -> io::Result<()> {
        set_direct(&self.file, false)?;
        self.is_direct = false;
        Ok(())
    }
}

/// Whether a file may be written directly: `false` only if the file system reports that it cannot
/// bypass the page cache, or requires a greater alignment. Some file systems (ext4 that journals
/// data) accept the flag and use the cache anyway; the kernel reports that since 6.1. Other file
/// systems fail only at the first write.
fn can_be_direct(file: &File) -> bool {
    let told = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    let told = told.ok().filter(|it| it.stx_mask & StatxFlags::DIOALIGN.bits() != 0);
    told.is_none_or(|it| (1..=ALIGNMENT as u32).contains(&it.stx_dio_offset_align))
}

fn set_direct(file: &File, is_direct: bool) -> io::Result<()> {
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, is_direct);
    Ok(fcntl_setfl(file, flags)?)
}

fn is_unsupported(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

impl Write for DirectFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.filled == BUFFER_BYTES {
            self.write_out()?;
        }
        let from = self.filled;
        let rest = self.rest_mut(from);
        let taken = rest.len().min(bytes.len());
        let (into, new) = (rest.get_mut(..taken), bytes.get(..taken));
        into.unwrap_or_default().copy_from_slice(new.unwrap_or_default());
        self.filled += taken;
        Ok(taken)
    }

    /// Does nothing: only whole buffers can be written before the end.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::{env, process};

    static FILES: AtomicU32 = AtomicU32::new(0);

    /// Writes pieces of these sizes, all different, and checks the contents of the file. After
    /// `direct_pieces` pieces, it uses the page cache.
    fn writes(pieces: &[usize], direct_pieces: usize) -> io::Result<()> {
        let number = FILES.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("nagi-direct-{}-{number}", process::id()));
        let mut file = DirectFile::create(&path)?;
        let mut expected = Vec::new();
        for (number, &len) in pieces.iter().enumerate() {
            if number == direct_pieces && file.is_direct {
                file.go_through_the_page_cache()?;
            }
            let from = expected.len();
            expected.extend((from..from + len).map(|at| (at ^ at >> 8 ^ at >> 16) as u8));
            file.write_all(&expected[from..])?;
        }
        file.sync()?;
        let found = fs::read(&path)?;
        fs::remove_file(&path)?;
        assert!(found == expected, "{} bytes of {}", found.len(), expected.len());
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn file_contains_the_written_bytes(
            pieces in prop::collection::vec(
                prop_oneof![0..3 * ALIGNMENT, BUFFER_BYTES - 2..BUFFER_BYTES + 2], 0..8),
            direct_pieces in 0..8_usize,
        ) {
            writes(&pieces, direct_pieces).unwrap();
        }
    }

    #[test]
    fn cached_pages_are_flushed_to_disk() {
        writes(&[SYNC_BYTES + BUFFER_BYTES, 1], 0).unwrap();
    }

    #[test]
    fn file_of_whole_blocks_is_not_truncated() {
        writes(&[0], 1).unwrap();
        writes(&[BUFFER_BYTES], 1).unwrap();
        writes(&[ALIGNMENT, ALIGNMENT - 1, 1], 3).unwrap();
    }
}
