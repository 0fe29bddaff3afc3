//! Unused pages or arenas, in the order in which they were freed. Their links are in their regions'
//! notes, so that a list of any length needs no allocation.

use crate::memory::region::REGION_BYTES;
use std::ptr::NonNull;

/// The size of a note for a unit's owner.
pub(crate) const NOTE_BYTES: usize = 24;

/// A page or an arena, by its address.
pub(crate) type Unit = NonNull<u8>;

/// The note on a unit that is in a list.
#[derive(Clone, Copy, Debug)]
struct Links {
    newer: Option<Unit>,
    older: Option<Unit>,
    /// How many bytes at its start have memory.
    bytes: usize,
}

const _: () = assert!(size_of::<Links>() == NOTE_BYTES);

/// A list of units of one size.
#[derive(Debug)]
pub(crate) struct List {
    newest: Option<Unit>,
    oldest: Option<Unit>,
    /// The bytes of all units that have memory.
    bytes: usize,
    /// The number of units of which every byte has memory.
    whole: usize,
    unit_bytes: usize,
}

/// The unused units of one size.
#[derive(Debug)]
pub(crate) struct Idle {
    /// Units with memory.
    warm: List,
    /// Units whose memory has been returned to the kernel.
    cold: List,
    /// Whether a unit was requested since the last check.
    is_requested: bool,
    /// The number of checks since the last request.
    idle_checks: u8,
}

/// After this many checks without a request, none is expected.
const MAX_IDLE_CHECKS: u8 = 10;

/// Returns the note on the unit of `unit_bytes` that contains `address`.
///
/// # Safety
/// `address` is in a region that has its notes at its start.
#[inline]
pub(crate) unsafe fn note(address: NonNull<u8>, unit_bytes: usize) -> NonNull<u8> {
    let offset = address.addr().get() % REGION_BYTES;
    // SAFETY: the region begins `offset` before the address, with a note for each of its units.
    unsafe { address.sub(offset).add(offset / unit_bytes * NOTE_BYTES) }
}

impl List {
    fn new(unit_bytes: usize) -> Self {
        List { newest: None, oldest: None, bytes: 0, whole: 0, unit_bytes }
    }

    /// Adds a unit of which this many bytes have memory.
    ///
    /// # Safety
    /// The unit has this list's size, is in a region that has its notes at its start, and is in no
    /// use and no list.
    unsafe fn push(&mut self, unit: Unit, bytes: usize) {
        let older = self.newest.replace(unit);
        // SAFETY: the caller guarantees it; the older one is in this list.
        unsafe {
            self.write(unit, Links { newer: None, older, bytes });
            match older {
                Some(older) => self.write(older, Links { newer: Some(unit), ..self.links(older) }),
                None => self.oldest = Some(unit),
            }
        }
        self.count(bytes);
    }

    /// Adds a unit as the oldest.
    ///
    /// # Safety
    /// As for [`List::push`].
    unsafe fn push_oldest(&mut self, unit: Unit, bytes: usize) {
        let newer = self.oldest.replace(unit);
        // SAFETY: the caller guarantees it; the newer one is in this list.
        unsafe {
            self.write(unit, Links { newer, older: None, bytes });
            match newer {
                Some(newer) => self.write(newer, Links { older: Some(unit), ..self.links(newer) }),
                None => self.newest = Some(unit),
            }
        }
        self.count(bytes);
    }

    fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.whole += usize::from(bytes == self.unit_bytes);
    }

    fn uncount(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.whole -= usize::from(bytes == self.unit_bytes);
    }

    /// Removes the newest unit. Returns it and how many of its bytes have memory.
    fn pop(&mut self) -> Option<(Unit, usize)> {
        let unit = self.newest?;
        // SAFETY: both are in this list.
        let bytes = unsafe {
            let Links { older, bytes, .. } = self.links(unit);
            self.newest = older;
            match older {
                Some(older) => self.write(older, Links { newer: None, ..self.links(older) }),
                None => self.oldest = None,
            }
            bytes
        };
        self.uncount(bytes);
        Some((unit, bytes))
    }

    /// Removes the oldest unit.
    fn shift(&mut self) -> Option<(Unit, usize)> {
        let unit = self.oldest?;
        // SAFETY: both are in this list.
        let bytes = unsafe {
            let Links { newer, bytes, .. } = self.links(unit);
            self.oldest = newer;
            match newer {
                Some(newer) => self.write(newer, Links { older: None, ..self.links(newer) }),
                None => self.newest = None,
            }
            bytes
        };
        self.uncount(bytes);
        Some((unit, bytes))
    }

    /// # Safety
    /// The unit is in this list.
    unsafe fn links(&self, unit: Unit) -> Links {
        // SAFETY: units in a list are in a region with notes, and their links were written when
        // they were added.
        unsafe { note(unit, self.unit_bytes).cast().read() }
    }

    /// # Safety
    /// The unit is in this list, or about to be.
    unsafe fn write(&self, unit: Unit, links: Links) {
        // SAFETY: as above; the note of an unused unit is used only here.
        unsafe { note(unit, self.unit_bytes).cast().write(links) };
    }
}

impl Idle {
    pub(crate) fn new(unit_bytes: usize) -> Self {
        let [warm, cold] = [(); 2].map(|()| List::new(unit_bytes));
        Idle { warm, cold, is_requested: false, idle_checks: MAX_IDLE_CHECKS }
    }

    /// Takes a unit with memory, or else one without. Returns it and how many of its bytes have
    /// memory.
    pub(crate) fn take(&mut self) -> Option<(Unit, usize)> {
        self.note_request();
        self.warm.pop().or_else(|| self.cold.pop())
    }

    /// Takes a unit whose memory has been returned to the kernel.
    pub(crate) fn take_cold(&mut self) -> Option<(Unit, usize)> {
        self.note_request();
        self.cold.pop()
    }

    /// Adds a unit of which this many bytes have memory.
    ///
    /// # Safety
    /// The unit has the size that was passed to [`Idle::new`], is in a region that has its notes at
    /// its start, and is no longer referenced.
    pub(crate) unsafe fn free(&mut self, unit: Unit, bytes: usize) {
        let list = if bytes == 0 { &mut self.cold } else { &mut self.warm };
        // SAFETY: the caller guarantees it.
        unsafe { list.push(unit, bytes) };
    }

    /// Adds a unit that is taken after all others.
    ///
    /// # Safety
    /// As for [`Idle::free`].
    pub(crate) unsafe fn free_last(&mut self, unit: Unit, bytes: usize) {
        let list = if bytes == 0 { &mut self.cold } else { &mut self.warm };
        // SAFETY: the caller guarantees it.
        unsafe { list.push_oldest(unit, bytes) };
    }

    /// Records that units are requested.
    pub(crate) fn note_request(&mut self) {
        self.is_requested = true;
    }

    /// Records whether a unit was requested since the last check.
    pub(crate) fn check(&mut self) {
        let is_requested = std::mem::take(&mut self.is_requested);
        self.idle_checks = if is_requested { 0 } else { self.idle_checks.saturating_add(1) };
    }

    /// Whether requests are expected, according to the last checks.
    pub(crate) fn expects_requests(&self) -> bool {
        self.is_requested || self.idle_checks < MAX_IDLE_CHECKS
    }

    /// Returns the bytes of the units that have all of their memory.
    pub(crate) fn ready_bytes(&self) -> usize {
        self.warm.whole * self.warm.unit_bytes
    }

    /// Whether there is a unit without all of its memory.
    pub(crate) fn has_unready(&self) -> bool {
        self.cold.newest.is_some() || self.has_part()
    }

    fn has_part(&self) -> bool {
        // SAFETY: it is in that list.
        let bytes = |oldest| unsafe { self.warm.links(oldest) }.bytes;
        self.warm.oldest.is_some_and(|oldest| bytes(oldest) < self.warm.unit_bytes)
    }

    /// Takes a unit without all of its memory. Returns it and how many bytes have memory.
    pub(crate) fn take_unready(&mut self) -> Option<(Unit, usize)> {
        if self.has_part() { self.warm.shift() } else { self.cold.pop() }
    }

    /// Moves the units that have been warm for longest into `taken`: about `slice_bytes` of those
    /// beyond `keep_bytes`.
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
    use crate::memory::pages::{ARENA_BYTES, PagePool};
    use crate::memory::region::PAGE_BYTES;

    #[test]
    fn unit_with_partial_memory_is_taken_last_and_completed_first() {
        let pool = PagePool::default();
        let units: Vec<Unit> = (0..5).map(|_| pool.take_arena().0).collect();
        let mut idle = Idle::new(ARENA_BYTES);
        for (unit, bytes) in units.iter().zip([ARENA_BYTES, 0, PAGE_BYTES, 0, ARENA_BYTES]) {
            let is_part = bytes == PAGE_BYTES;
            // SAFETY: the pool allocated it, and nothing else uses it.
            unsafe { if is_part { idle.free_last(*unit, bytes) } else { idle.free(*unit, bytes) } }
        }
        assert_eq!(idle.ready_bytes(), 2 * ARENA_BYTES);
        assert_eq!(idle.take_unready(), Some((units[2], PAGE_BYTES)));
        assert_eq!(idle.take_unready(), Some((units[3], 0)));
        // SAFETY: as above.
        unsafe { idle.free_last(units[2], PAGE_BYTES) };
        for (index, bytes) in [(4, ARENA_BYTES), (0, ARENA_BYTES), (2, PAGE_BYTES), (1, 0)] {
            assert_eq!(idle.take(), Some((units[index], bytes)));
        }
        assert_eq!((idle.take(), idle.ready_bytes(), idle.has_unready()), (None, 0, false));
    }

    #[test]
    fn newest_is_taken_first_and_oldest_is_returned_first() {
        let pool = PagePool::default();
        let units: Vec<Unit> = (0..4).map(|_| pool.take()).collect();
        let mut idle = Idle::new(PAGE_BYTES);
        for (bytes, unit) in units.iter().enumerate() {
            // SAFETY: the pool allocated it, and nothing else uses it.
            unsafe { idle.warm.push(*unit, bytes) };
        }
        assert_eq!(idle.warm.pop(), Some((units[3], 3)));
        let mut taken = Vec::with_capacity(4);
        idle.take_warm(2, 100, &mut taken);
        assert_eq!(taken, [(units[0], 0), (units[1], 1)]);
        // SAFETY: as above.
        unsafe { idle.warm.push(units[1], 5) };
        assert_eq!((idle.warm.pop(), idle.warm.pop()), (Some((units[1], 5)), Some((units[2], 2))));
        assert_eq!((idle.warm.pop(), idle.warm.bytes), (None, 0));
    }
}
