//! The memory that the kernel shows as the command line of the process.
//!
//! The words that a process was started with lie on its stack, with no room for a longer title,
//! and the environment after them, which other code reads. So the kernel is told to show an area on
//! the heap instead: prctl(2), PR_SET_MM_MAP, which takes no privilege. It shows anonymous memory
//! only, nothing of a page that is mapped from a file: a static may share its page with data of the
//! program's file, and the command line would be empty. The area's bytes are atomic, since the
//! kernel reads them at any time.

use rustix::process::{PrctlMmMap, configure_virtual_memory_map};
use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

/// The longest title, and the NUL after it.
const AREA_BYTES: usize = 256;

static AREA: LazyLock<Box<[AtomicU8; AREA_BYTES]>> =
    LazyLock::new(|| Box::new([const { AtomicU8::new(0) }; AREA_BYTES]));
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// Makes the kernel show `title` from now on, and what [`set`] is given later. To be called before
/// there are threads: the kernel is told where the heap ends, which one could move meanwhile.
///
/// # Errors
/// What the kernel says: it may be built without this.
pub fn show(title: &str) -> io::Result<()> {
    write(title);
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let map = map(&stat).ok_or(io::ErrorKind::InvalidData)?;
    // SAFETY: the map is the one that the kernel has already, but for the command line, which is
    // never freed: it stays mapped as long as the process lives. The heap ends where it did, since
    // no other thread runs.
    unsafe { configure_virtual_memory_map(&map) }?;
    IS_SHOWN.store(true, Relaxed);
    Ok(())
}

/// Whether the kernel shows what [`set`] is given.
pub(super) fn is_shown() -> bool {
    IS_SHOWN.load(Relaxed)
}

/// Changes the title; of a long one the end is left out.
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
    // SAFETY: with 0 it changes nothing and says where the heap ends.
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
        // The fifth word is the number of the file, of which anonymous memory has none.
        assert_eq!(mapping.split_whitespace().nth(4), Some("0"), "{mapping}");
    }

    #[test]
    fn a_name_that_looks_like_fields_is_not_read() {
        let numbers: Vec<String> = (3..=52).map(|number| number.to_string()).collect();
        let map = map(&format!("7 (a) b) {}\n", numbers.join(" "))).unwrap();
        assert_eq!((map.start_code, map.start_stack, map.env_end), (26, 28, 51));
    }
}
