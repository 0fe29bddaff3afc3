//! Pages or arenas that nobody uses, in the order in which they were given back. What links them
//! stands in their regions' notes, so that a list of any length costs no allocation, under a latch
//! or elsewhere.

use crate::pages::NOTE_BYTES;
use crate::region::REGION_BYTES;
use std::ptr::NonNull;

/// A page or an arena, by its address.
pub(crate) type Unit = NonNull<u8>;

/// In the note about a unit that is in a list.
#[derive(Clone, Copy, Debug)]
struct Links {
    newer: Option<Unit>,
    older: Option<Unit>,
    /// Bytes from its start on that have memory.
    bytes: usize,
}

const _: () = assert!(size_of::<Links>() == NOTE_BYTES);

/// A list of units of one size.
#[derive(Debug)]
pub(crate) struct List {
    newest: Option<Unit>,
    oldest: Option<Unit>,
    /// Bytes of all of them that have memory.
    bytes: usize,
    unit_bytes: usize,
}

/// Units that nobody uses now.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Those that have memory.
    pub(crate) warm: List,
    /// Those whose memory went back to the kernel.
    pub(crate) cold: List,
    /// Whether anyone has asked for a unit since the last look.
    pub(crate) asked: bool,
}

/// The note about the unit of `unit_bytes` that `address` lies in.
///
/// # Safety
/// `address` lies in a region that has its notes at its start.
#[inline]
pub(crate) unsafe fn note(address: NonNull<u8>, unit_bytes: usize) -> NonNull<u8> {
    let offset = address.addr().get() % REGION_BYTES;
    // SAFETY: the region begins `offset` before the address, with a note for each of its units.
    unsafe { address.sub(offset).add(offset / unit_bytes * NOTE_BYTES) }
}

impl List {
    fn new(unit_bytes: usize) -> Self {
        List { newest: None, oldest: None, bytes: 0, unit_bytes }
    }

    /// Adds a unit of which so many bytes have memory.
    pub(crate) fn push(&mut self, unit: Unit, bytes: usize) {
        let older = self.newest.replace(unit);
        self.write(unit, Links { newer: None, older, bytes });
        match older {
            Some(older) => self.write(older, Links { newer: Some(unit), ..self.links(older) }),
            None => self.oldest = Some(unit),
        }
        self.bytes += bytes;
    }

    /// Takes the newest, with how many of its bytes have memory.
    pub(crate) fn pop(&mut self) -> Option<(Unit, usize)> {
        let unit = self.newest?;
        let Links { older, bytes, .. } = self.links(unit);
        self.newest = older;
        match older {
            Some(older) => self.write(older, Links { newer: None, ..self.links(older) }),
            None => self.oldest = None,
        }
        self.bytes -= bytes;
        Some((unit, bytes))
    }

    /// Takes the oldest.
    fn shift(&mut self) -> Option<(Unit, usize)> {
        let unit = self.oldest?;
        let Links { newer, bytes, .. } = self.links(unit);
        self.oldest = newer;
        match newer {
            Some(newer) => self.write(newer, Links { older: None, ..self.links(newer) }),
            None => self.newest = None,
        }
        self.bytes -= bytes;
        Some((unit, bytes))
    }

    fn links(&self, unit: Unit) -> Links {
        // SAFETY: units in a list lie in regions with notes, and were linked when they came.
        unsafe { note(unit, self.unit_bytes).cast().read() }
    }

    fn write(&self, unit: Unit, links: Links) {
        // SAFETY: as above; nobody else uses the note of a unit that is in no use.
        unsafe { note(unit, self.unit_bytes).cast().write(links) };
    }
}

impl Idle {
    pub(crate) fn new(unit_bytes: usize) -> Self {
        Idle { warm: List::new(unit_bytes), cold: List::new(unit_bytes), asked: false }
    }

    /// Moves what has been warm for longest into `taken`, about `slice_bytes` of what is beyond
    /// `keep_bytes`.
    pub(crate) fn take_warm(
        &mut self,
        keep_bytes: usize,
        slice_bytes: usize,
        taken: &mut Vec<(Unit, usize)>,
    ) {
        let least = self.warm.bytes.saturating_sub(slice_bytes).max(keep_bytes);
        while self.warm.bytes > least && taken.len() < taken.capacity() {
            taken.extend(self.warm.shift());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{PAGE_BYTES, PagePool};

    #[test]
    fn the_newest_is_taken_first_and_the_oldest_goes_back_first() {
        let pool = PagePool::default();
        let units: Vec<Unit> = (0..4).map(|_| pool.take()).collect();
        let mut idle = Idle::new(PAGE_BYTES);
        for (bytes, unit) in units.iter().enumerate() {
            idle.warm.push(*unit, bytes);
        }
        assert_eq!(idle.warm.pop(), Some((units[3], 3)));
        let mut taken = Vec::with_capacity(4);
        idle.take_warm(2, 100, &mut taken);
        assert_eq!(taken, [(units[0], 0), (units[1], 1)]);
        idle.warm.push(units[1], 5);
        assert_eq!((idle.warm.pop(), idle.warm.pop()), (Some((units[1], 5)), Some((units[2], 2))));
        assert_eq!((idle.warm.pop(), idle.warm.bytes), (None, 0));
    }
}
