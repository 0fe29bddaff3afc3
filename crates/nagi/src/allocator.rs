//! The allocator of the process. mimalloc returns freed memory to the kernel in whichever thread
//! next needs a page; a worker may hold a latch then, and unmapping takes milliseconds. Therefore a
//! separate thread returns it.

use libmimalloc_sys::{mi_collect, mi_option_set, mi_option_t};
use mimalloc::MiMalloc;
use nagi_server::Counting;
use std::ffi::c_long;
use std::time::Duration;
use std::{io, thread};

/// mimalloc has no locks between workers. It is built without its `secure` feature, whose checks
/// cost a tenth of every allocation.
#[global_allocator]
static ALLOCATOR: Counting<MiMalloc> = Counting(MiMalloc);

/// How often freed memory is returned; also mimalloc's own default.
const PERIOD: Duration = Duration::from_secs(1);
/// How long mimalloc waits before it returns memory itself, in milliseconds: much longer than the
/// period, so that other threads never do.
const PURGE_DELAY_MS: c_long = 3_600_000;
/// `mi_option_purge_delay` of version 3 (`mimalloc.h`), for which the bindings have no name.
const PURGE_DELAY: mi_option_t = 15;

/// Starts the thread that returns freed memory to the kernel.
///
/// # Errors
/// The thread cannot be started; then any thread returns memory.
pub(crate) fn return_memory_in_background() -> io::Result<()> {
    thread::Builder::new().name("trimmer".into()).spawn(|| {
        loop {
            thread::sleep(PERIOD);
            trim();
        }
    })?;
    // SAFETY: this option is read atomically and may be changed at any time.
    unsafe { mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) };
    Ok(())
}

/// Returns memory that is free at present.
fn trim() {
    // SAFETY: may be called by any thread at any time.
    unsafe { mi_collect(true) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory of the process, in bytes.
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn only_the_trimmer_returns_memory() {
        const BLOCKS: usize = 4096;
        const BLOCK_BYTES: usize = 16 * 1024;
        // SAFETY: as above.
        unsafe { mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) };
        let blocks: Vec<_> = (0..BLOCKS).map(|_| vec![1_u8; BLOCK_BYTES]).collect();
        let full = resident();
        drop(blocks);
        // SAFETY: as above.
        unsafe { mi_collect(false) };
        let freed = resident();
        trim();
        let trimmed = resident();
        let half = BLOCKS * BLOCK_BYTES / 2;
        assert!(freed + half > full, "{full} {freed}");
        assert!(trimmed + half < full, "{full} {freed} {trimmed}");
    }
}
