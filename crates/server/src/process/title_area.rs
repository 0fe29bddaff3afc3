//! The memory that the kernel shows as the command line of the process.
//!
//! The arguments of a process are on its stack, with no room for a longer title, followed by the
//! environment, which other code reads. The kernel is therefore told to show an area on the heap
//! instead, by prctl(2), PR_SET_MM_MAP, which needs no privilege. It shows only anonymous memory: a
//! static may share its page with data mapped from the program's file, and the command line would
//! be empty. The area's bytes are atomic, since the kernel may read them at any time.

use rustix::process::{PrctlMmMap, configure_virtual_memory_map};
use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// The maximum length of a title, with the NUL after it.
const AREA_BYTES: usize = 256;

static AREA: LazyLock<Box<[AtomicU8; AREA_BYTES]>> =
    LazyLock::new(|| Box::new([const { AtomicU8::new(0) }; AREA_BYTES]));
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// Makes the kernel show `title` now, and later the titles passed to [`set`]. Must be called before
/// other threads exist: the call includes the end of the heap, which a thread could move meanwhile.
///
/// # Errors
/// The kernel's error; it may be built without this feature.
pub fn show(title: &str) -> io::Result<()> {
    write(title);
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let map = map(&stat).ok_or(io::ErrorKind::InvalidData)?;
    // SAFETY: the map equals the kernel's current one except for the command line, which is never
    // freed and stays mapped as long as the process lives. The end of the heap has not changed,
    // since no other thread runs.
    unsafe { configure_virtual_memory_map(&map) }?;
    IS_SHOWN.store(true, Relaxed);
    Ok(())
}

/// Whether the kernel shows titles passed to [`set`].
pub(super) fn is_shown() -> bool {
    IS_SHOWN.load(Relaxed)
}

/// Changes the title; a long one is truncated.
pub(super) fn set(title: &str) {
    if is_shown() {
        write(title);
    }
}

fn write(title: &str) {
    let title = title.as_bytes().iter().take(AREA_BYTES - 1);
    for (place, byte) in AREA.iter().zip(title.chain(std::iter::repeat(&0))) {
        place.store(*byte, Relaxed);
    }
}

/// The addresses of the process, by proc(5), `/proc/pid/stat`, with the area as its command line.
fn map(stat: &str) -> Option<PrctlMmMap> {
    // The fields after the name, which may hold anything, are counted from the third on.
    let (_, rest) = stat.trim_end().rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let arg_start = AREA.as_ptr().addr() as u64;
    // SAFETY: with 0, the call changes nothing and returns the end of the heap.
    let brk = unsafe { libc::sbrk(0) };
    Some(PrctlMmMap {
        start_code: field(26)?,
        end_code: field(27)?,
        start_stack: field(28)?,
        start_data: field(45)?,
        end_data: field(46)?,
        start_brk: field(47)?,
        brk: brk.addr() as u64,
        arg_start,
        arg_end: arg_start + AREA_BYTES as u64,
        env_start: field(50)?,
        env_end: field(51)?,
        auxv: std::ptr::null_mut(),
        auxv_size: 0,
        exe_fd: -1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_titles_are_cut_and_short_ones_leave_nothing_of_longer_ones() {
        let text = || AREA.iter().map(|byte| char::from(byte.load(Relaxed))).collect::<String>();
        write(&"x".repeat(AREA_BYTES * 2));
        assert_eq!(text(), format!("{}\0", "x".repeat(AREA_BYTES - 1)));
        write("nagi");
        assert_eq!(text(), format!("nagi{}", "\0".repeat(AREA_BYTES - 4)));
    }

    #[test]
    fn the_area_is_in_memory_that_the_kernel_shows() {
        let place = AREA.as_ptr().addr();
        let mappings = std::fs::read_to_string("/proc/self/maps").unwrap();
        let has_area = |line: &&str| {
            let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let address = |digits| usize::from_str_radix(digits, 16).unwrap();
            (address(start)..address(end)).contains(&place)
        };
        let mapping = mappings.lines().find(has_area).unwrap();
        // The fifth word is the inode, which is 0 for anonymous memory.
        assert_eq!(mapping.split_whitespace().nth(4), Some("0"), "{mapping}");
    }

    #[test]
    fn a_name_that_looks_like_fields_is_not_read() {
        let numbers: Vec<String> = (3..=52).map(|number| number.to_string()).collect();
        let map = map(&format!("7 (a) b) {}\n", numbers.join(" "))).unwrap();
        assert_eq!((map.start_code, map.start_stack, map.env_end), (26, 28, 51));
    }
}
