//! Memory for a table's larger entries: blocks of any length, in arenas of 128 KiB.
//!
//! Pages with blocks of one size, as in [`crate::memory::slab`], would leave a half-empty page for
//! each of many sizes in each shard. Instead, pieces of all sizes share arenas. Free pieces, called
//! holes, are found by length in one of 64 bins, as in TLSF (Masmano et al., ECRTS 2004), and merge
//! with adjacent holes. If holes are more than an eighth of the memory, the emptiest arena is
//! closed and its entries are moved, so that memory is freed when the sizes of values change. In a
//! small store, the memory after the last piece counts as holes too.
//!
//! ```text
//!  arena, aligned to its size                     end         touched
//!  +--------+------+-------+------+------+------+------+-------+-------+
//!  | header | head | entry | head | hole | head | entry| dirty | unused|
//!  +--------+------+-------+------+------+------+------+-------+-------+
//!  head = length of the piece (32 bits, lowest two: hole, listed) | length of the previous one
//! ```
//!
//! An entry takes its size plus a head of 8 bytes, rounded up by at most a 32nd. Everything here
//! happens under the shard's latch.

use crate::memory::pages::{ARENA_BYTES, Arena, PagePool};
use std::ptr::NonNull;
use std::sync::Arc;

/// The largest block: a string of one chunk under a key of 3 KB.
pub(crate) const LARGEST_PIECE: usize = 68 * 1024;
const HEAD_BYTES: usize = 8;
const HEADER_BYTES: usize = size_of::<Header>();
/// The shortest remainder that is split off a longer hole.
const SMALLEST_REST: usize = 64;
/// Shorter holes are not listed until they merge with another.
const SMALLEST_LISTED: usize = 1 << SMALLEST_LOG;
const SMALLEST_LOG: u32 = 9;
/// How many holes of the exact bin are examined before one of a larger bin is used.
const HOLES_EXAMINED: usize = 8;
/// How many arenas are compared to choose the emptiest to close.
const CANDIDATES: usize = 16;
/// How many bytes of holes a table may have in addition to an eighth of its arenas.
const TOLERATED_BYTES: usize = 32 * 1024;
/// The number of bins: eight for every doubling of the length.
const BINS: usize = 64;

const HOLE: u32 = 1 << 0;
const LISTED: u32 = 1 << 1;

/// One table's arenas.
#[derive(Debug)]
pub(crate) struct Arenas {
    pool: Arc<PagePool>,
    all: Vec<Arena>,
    /// The arena at whose end pieces are appended if they fit in no hole.
    open: Option<Arena>,
    /// The arena that is being emptied; its holes are not listed.
    closing: Option<Arena>,
    /// The first hole of each bin.
    bins: [Option<Piece>; BINS],
    /// A set bit marks a bin that has a hole.
    filled: u64,
    live_bytes: usize,
    /// The sum of the arenas' ends.
    spread_bytes: usize,
    /// The sum of the bytes of the arenas that have memory.
    touched_bytes: usize,
    /// Where the search for an arena to close continues.
    candidate: usize,
}

/// The header at the start of an arena.
#[derive(Debug)]
#[repr(C)]
struct Header {
    /// The bytes of pieces in use, including their heads.
    live_bytes: u32,
    /// The end of the pieces.
    end: u32,
    /// The length of the last piece.
    last: u32,
    /// The end of the memory that is provided, or soon will be, in whole pages.
    touched: u32,
    /// The arena's index among the table's arenas.
    place: u32,
    padding: u32,
}

/// A piece, by the address of its head. It is valid under its table's latch until it is merged with
/// another or its arena is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece(NonNull<u8>);

/// The links in a listed hole, after its head.
#[derive(Clone, Copy, Debug)]
struct Links {
    next: Option<Piece>,
    previous: Option<Piece>,
}

/// Returns the length of the piece for a block of `bytes`.
pub(crate) fn piece_bytes(bytes: usize) -> usize {
    let len = bytes + HEAD_BYTES;
    len.next_multiple_of((1 << len.max(SMALLEST_LISTED).ilog2()) / 32)
}

/// Returns the bin of a listed hole.
fn bin_of(len: usize) -> usize {
    let log = len.max(SMALLEST_LISTED).ilog2();
    ((log - SMALLEST_LOG) as usize * 8 + (len >> (log - 3) & 7)).min(BINS - 1)
}

impl Arenas {
    pub(crate) fn new(pool: Arc<PagePool>) -> Self {
        Arenas {
            pool,
            all: Vec::new(),
            open: None,
            closing: None,
            bins: [None; BINS],
            filled: 0,
            live_bytes: 0,
            spread_bytes: 0,
            touched_bytes: 0,
            candidate: 0,
        }
    }

    /// Whether there is no arena.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Allocates `bytes`, at most [`LARGEST_PIECE`], aligned to 8. The contents are undefined.
    pub(crate) fn take(&mut self, bytes: usize) -> NonNull<u8> {
        let len = piece_bytes(bytes);
        let piece = match self.hole(len) {
            Some(hole) => {
                self.cut(hole, len);
                hole
            }
            None => self.append(len),
        };
        // SAFETY: the piece is in an arena of this table.
        unsafe { header_of(piece.arena()) }.live_bytes += piece.len() as u32;
        self.live_bytes += piece.len();
        self.pool.add_idle_bytes(-(piece.len().cast_signed()));
        piece.memory()
    }

    /// Frees a block that [`Arenas::take`] returned.
    ///
    /// # Safety
    /// The block came from these arenas, and is no longer referenced.
    pub(crate) unsafe fn free(&mut self, memory: NonNull<u8>) {
        // SAFETY: a block follows its piece's head.
        let piece = Piece(unsafe { memory.sub(HEAD_BYTES) });
        let arena = piece.arena();
        self.live_bytes -= piece.len();
        self.pool.add_idle_bytes(piece.len().cast_signed());
        // SAFETY: the piece is in an arena of this table.
        let header = unsafe { header_of(arena) };
        header.live_bytes -= piece.len() as u32;
        let is_empty = header.live_bytes == 0;
        let hole = self.unite(piece);
        if is_empty {
            // SAFETY: no piece of it is in use.
            unsafe { self.release(arena) };
        } else if self.closing != Some(arena) {
            self.list(hole);
        }
    }

    /// Returns a block to be moved, if there are enough holes for its arena to be emptied; in a
    /// small store, also if enough of the arena's memory is unused.
    pub(crate) fn relocation(&mut self) -> Option<NonNull<u8>> {
        let arena = match self.closing {
            Some(arena) => arena,
            None => self.close()?,
        };
        // SAFETY: it is an arena of this table, which is not empty.
        unsafe { pieces(arena) }.find(|piece| !piece.is_hole()).map(Piece::memory)
    }

    /// Chooses an arena to be emptied, if there are enough holes, or enough memory that has not
    /// been written since the arena was opened.
    fn close(&mut self) -> Option<Arena> {
        let is_sparse = |bytes: usize| bytes - self.live_bytes > bytes / 8 + TOLERATED_BYTES;
        let has_holes = is_sparse(self.spread_bytes);
        if !(has_holes || is_sparse(self.touched_bytes) && self.pool.is_small()) {
            return None;
        }
        let count = self.all.len().min(CANDIDATES);
        let candidates = (self.candidate..self.candidate + count)
            .filter_map(|index| self.all.get(index % self.all.len()).copied());
        let arena = candidates.max_by_key(|arena| {
            // SAFETY: it is an arena of this table.
            let header = unsafe { header_of(*arena) };
            let taken = if has_holes { header.end } else { header.touched };
            taken - header.live_bytes
        })?;
        self.candidate = (self.candidate + count) % self.all.len();
        // SAFETY: as above; an empty arena has been freed.
        for piece in unsafe { pieces(arena) } {
            self.unlist(piece);
        }
        self.open = self.open.filter(|open| *open != arena);
        self.closing = Some(arena);
        Some(arena)
    }

    /// Returns a hole of at least `len`.
    fn hole(&self, len: usize) -> Option<Piece> {
        let bin = bin_of(len);
        let first = self.bins.get(bin).copied().flatten();
        // SAFETY: holes in a bin are listed.
        let alike = std::iter::successors(first, |hole| unsafe { hole.links() }.next);
        let fitting = { alike }.take(HOLES_EXAMINED).find(|hole| hole.len() >= len);
        fitting.or_else(|| {
            let longer = self.filled & u64::MAX.checked_shl(bin as u32 + 1).unwrap_or(0);
            self.bins.get(longer.trailing_zeros() as usize).copied().flatten()
        })
    }

    /// Turns a listed hole into a piece in use of about `len`; the remainder stays a hole.
    fn cut(&mut self, hole: Piece, len: usize) {
        self.unlist(hole);
        let (whole, before) = (hole.len(), hole.previous_len());
        if whole - len < SMALLEST_REST {
            return hole.write(whole, 0, before);
        }
        hole.write(len, 0, before);
        // SAFETY: the remainder of the hole follows.
        let rest = unsafe { hole.next() };
        rest.write(whole - len, HOLE, len);
        rest.reach_step();
        self.list(rest);
    }

    /// Appends a piece to an arena.
    fn append(&mut self, len: usize) -> Piece {
        // SAFETY: it is an arena of this table.
        let end = |arena: &Arena| unsafe { header_of(*arena) }.end as usize;
        let has_room = |arena: &Arena| end(arena) + len <= ARENA_BYTES;
        let arena = self.open.filter(has_room).unwrap_or_else(|| self.open_another());
        // SAFETY: as above.
        let header = unsafe { header_of(arena) };
        let at = header.end as usize;
        // SAFETY: the arena has room for the piece.
        let piece = Piece(unsafe { arena.add(at) });
        piece.write(len, 0, header.last as usize);
        header.last = len as u32;
        header.end = (at + len) as u32;
        if header.end > header.touched {
            let touched = header.touched as usize;
            // SAFETY: the arena came from this pool.
            header.touched = unsafe { self.pool.touch(arena, touched, at + len) } as u32;
            self.touched_bytes += header.touched as usize - touched;
        }
        self.spread_bytes += len;
        piece
    }

    fn open_another(&mut self) -> Arena {
        // SAFETY: it is an arena of this table, to which nothing is appended any more.
        self.open.take().into_iter().for_each(|full| unsafe { self.seal(full) });
        let (arena, touched) = self.pool.take_arena();
        let place = self.all.len() as u32;
        let (end, touched) = (HEADER_BYTES as u32, touched as u32);
        let header = Header { live_bytes: 0, end, last: 0, touched, place, padding: 0 };
        // SAFETY: the arena was just allocated.
        unsafe { arena.cast::<Header>().write(header) };
        self.spread_bytes += HEADER_BYTES;
        self.touched_bytes += touched as usize;
        self.all.push(arena);
        self.open = Some(arena);
        arena
    }

    /// Turns the memory after the last piece of an arena into a hole, once no more pieces are
    /// appended to the arena.
    ///
    /// # Safety
    /// The arena belongs to this table and is not the open one.
    unsafe fn seal(&mut self, arena: Arena) {
        // SAFETY: the caller guarantees it.
        let header = unsafe { header_of(arena) };
        let (end, before) = (header.end as usize, header.last as usize);
        let rest = (header.touched as usize).saturating_sub(end);
        if rest < SMALLEST_REST {
            return;
        }
        header.end = header.touched;
        self.spread_bytes += rest;
        // SAFETY: the rest is within the arena.
        let piece = Piece(unsafe { arena.add(end) });
        piece.write(rest, HOLE, before);
        let hole = self.unite(piece);
        self.list(hole);
    }

    /// Frees an empty arena.
    ///
    /// # Safety
    /// The arena belongs to this table and is a single hole, which is not listed.
    unsafe fn release(&mut self, arena: Arena) {
        // SAFETY: the caller guarantees it.
        let header = unsafe { header_of(arena) };
        let (place, touched) = (header.place as usize, header.touched as usize);
        self.spread_bytes -= header.end as usize;
        self.touched_bytes -= touched;
        self.all.swap_remove(place);
        if let Some(moved) = self.all.get(place) {
            // SAFETY: it is another arena of this table.
            unsafe { header_of(*moved) }.place = place as u32;
        }
        self.open = self.open.filter(|open| *open != arena);
        self.closing = self.closing.filter(|closing| *closing != arena);
        // SAFETY: the arena came from this pool, and is not referenced any more.
        unsafe { self.pool.free_arena(arena, touched) };
    }

    /// Turns a piece into a hole, merged with adjacent ones.
    fn unite(&mut self, piece: Piece) -> Piece {
        let (mut first, mut len) = (piece, piece.len());
        if let Some(next) = piece.neighbour().filter(|next| next.is_hole()) {
            self.unlist(next);
            len += next.len();
        }
        if let Some(before) = piece.before().filter(|before| before.is_hole()) {
            self.unlist(before);
            len += before.len();
            first = before;
        }
        first.write(len, HOLE, first.previous_len());
        first.reach_step();
        first
    }

    fn list(&mut self, hole: Piece) {
        let bin = bin_of(hole.len());
        let Some(first) = self.bins.get_mut(bin).filter(|_| hole.len() >= SMALLEST_LISTED) else {
            return;
        };
        hole.set_flags(HOLE | LISTED);
        let next = first.replace(hole);
        // SAFETY: both are listed, and long enough for links.
        unsafe {
            hole.link(Links { next, previous: None });
            if let Some(next) = next {
                next.link(Links { previous: Some(hole), ..next.links() });
            }
        }
        self.filled |= 1 << bin;
    }

    fn unlist(&mut self, hole: Piece) {
        if !hole.is_listed() {
            return;
        }
        // SAFETY: the hole is listed.
        let Links { next, previous } = unsafe { hole.links() };
        if let Some(next) = next {
            // SAFETY: the holes that it links to are listed as well.
            unsafe { next.link(Links { previous, ..next.links() }) };
        }
        let bin = bin_of(hole.len());
        match (previous, self.bins.get_mut(bin)) {
            // SAFETY: as above.
            (Some(previous), _) => unsafe { previous.link(Links { next, ..previous.links() }) },
            (None, Some(first)) => *first = next,
            (None, None) => {}
        }
        if self.bins.get(bin).is_some_and(Option::is_none) {
            self.filled &= !(1 << bin);
        }
        hole.set_flags(HOLE);
    }
}

/// Returns the header of an arena.
///
/// # Safety
/// The arena belongs to a table whose latch is held while the header is borrowed, and there is no
/// other borrow of the header.
unsafe fn header_of<'a>(arena: Arena) -> &'a mut Header {
    // SAFETY: the caller guarantees it; the header was written when the arena was allocated.
    unsafe { arena.cast::<Header>().as_mut() }
}

/// Iterates over all pieces of an arena, in order.
///
/// # Safety
/// The arena belongs to a table whose latch is held, and has at least one piece.
unsafe fn pieces(arena: Arena) -> impl Iterator<Item = Piece> {
    // SAFETY: the first piece follows the header.
    let first = Piece(unsafe { arena.add(HEADER_BYTES) });
    std::iter::successors(Some(first), |piece| piece.neighbour())
}

impl Piece {
    fn head(self) -> (u32, u32) {
        // SAFETY: a piece begins with its head, and heads are aligned to 8.
        unsafe { self.0.cast::<(u32, u32)>().read() }
    }

    fn write(self, len: usize, flags: u32, previous_len: usize) {
        // SAFETY: as in `head`; only the latch's holder writes.
        unsafe { self.0.cast::<(u32, u32)>().write((len as u32 | flags, previous_len as u32)) };
    }

    fn set_flags(self, flags: u32) {
        self.write(self.len(), flags, self.previous_len());
    }

    /// Returns its length in bytes, including the head.
    fn len(self) -> usize {
        (self.head().0 & !(HOLE | LISTED)) as usize
    }

    fn previous_len(self) -> usize {
        self.head().1 as usize
    }

    fn flags(self) -> u32 {
        self.head().0 & (HOLE | LISTED)
    }

    fn is_hole(self) -> bool {
        self.flags() & HOLE != 0
    }

    fn is_listed(self) -> bool {
        self.flags() & LISTED != 0
    }

    fn memory(self) -> NonNull<u8> {
        // SAFETY: a piece is longer than its head.
        unsafe { self.0.add(HEAD_BYTES) }
    }

    fn arena(self) -> Arena {
        // SAFETY: arenas are aligned to their size, so this one begins `offset` bytes before the
        // piece.
        unsafe { self.0.sub(self.offset()) }
    }

    fn offset(self) -> usize {
        self.0.addr().get() % ARENA_BYTES
    }

    /// Returns the next piece.
    ///
    /// # Safety
    /// It is not the last piece of its arena.
    unsafe fn next(self) -> Piece {
        // SAFETY: the pieces of an arena are contiguous.
        Piece(unsafe { self.0.add(self.len()) })
    }

    fn neighbour(self) -> Option<Piece> {
        // SAFETY: the piece is in an arena of a table.
        let end = unsafe { header_of(self.arena()) }.end as usize;
        // SAFETY: there is one after it.
        (self.offset() + self.len() < end).then(|| unsafe { self.next() })
    }

    fn before(self) -> Option<Piece> {
        // SAFETY: as in `next`; the first piece has no length before it.
        (self.previous_len() > 0).then(|| Piece(unsafe { self.0.sub(self.previous_len()) }))
    }

    /// Records this piece's new length in the header of the next.
    fn reach_step(self) {
        match self.neighbour() {
            Some(next) => next.write(next.len(), next.flags(), self.len()),
            // SAFETY: the piece is in an arena of a table.
            None => unsafe { header_of(self.arena()) }.last = self.len() as u32,
        }
    }

    /// # Safety
    /// It is a listed hole.
    unsafe fn links(self) -> Links {
        // SAFETY: listed holes have their links after the head.
        unsafe { self.memory().cast::<Links>().read() }
    }

    /// # Safety
    /// It is a listed hole.
    unsafe fn link(self, links: Links) {
        // SAFETY: a listed hole has room for its links.
        unsafe { self.memory().cast::<Links>().write(links) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Blocks of different sizes, each filled with its own byte.
    struct Blocks {
        pool: Arc<PagePool>,
        arenas: Arenas,
        live: Vec<(NonNull<u8>, usize, u8)>,
        taken: u8,
    }

    impl Blocks {
        fn new() -> Self {
            let pool = Arc::new(PagePool::default());
            let arenas = Arenas::new(Arc::clone(&pool));
            Blocks { pool, arenas, live: Vec::new(), taken: 0 }
        }

        fn take(&mut self, bytes: usize) {
            self.taken = self.taken.wrapping_add(1);
            let memory = self.arenas.take(bytes);
            assert!(memory.cast::<u64>().is_aligned());
            // SAFETY: the block was just allocated with this size.
            unsafe { memory.write_bytes(self.taken, bytes) };
            self.live.push((memory, bytes, self.taken));
        }

        fn free(&mut self, index: usize) {
            let (memory, bytes, fill) = self.live.swap_remove(index);
            // SAFETY: it was written when it was allocated, and is freed once.
            unsafe {
                let contents = std::slice::from_raw_parts(memory.as_ptr(), bytes);
                assert!(contents.iter().all(|byte| *byte == fill));
                self.arenas.free(memory);
            }
        }

        /// Moves a block if necessary, as a table does after it has freed one.
        fn relocate(&mut self) -> bool {
            let Some(from) = self.arenas.relocation() else { return false };
            let at = self.live.iter().position(|(memory, ..)| *memory == from).unwrap();
            let (old, bytes, fill) = self.live[at];
            let new = self.arenas.take(bytes);
            // SAFETY: both are allocated, distinct and of this size.
            unsafe {
                new.copy_from_nonoverlapping(old, bytes);
                self.arenas.free(old);
            }
            self.live[at] = (new, bytes, fill);
            true
        }

        /// Checks every arena against its metadata.
        fn check(&self) {
            let (mut live_bytes, mut spread_bytes, mut touched_bytes, mut listed) = (0, 0, 0, 0);
            for arena in &self.arenas.all {
                let (mut before, mut used, mut end) = (0, 0, HEADER_BYTES);
                let mut after_hole = false;
                // SAFETY: it is an arena of these, and not empty.
                for piece in unsafe { pieces(*arena) } {
                    assert_eq!((piece.previous_len(), piece.offset()), (before, end));
                    assert!(!(after_hole && piece.is_hole()), "two holes side by side");
                    after_hole = piece.is_hole();
                    before = piece.len();
                    end += piece.len();
                    used += if piece.is_hole() { 0 } else { piece.len() };
                    listed += usize::from(piece.is_listed());
                }
                // SAFETY: as above.
                let header = unsafe { header_of(*arena) };
                let known = (header.live_bytes, header.end, header.last);
                assert_eq!(known, (used as u32, end as u32, before as u32));
                assert!(end <= header.touched as usize && header.touched as usize <= ARENA_BYTES);
                live_bytes += used;
                spread_bytes += end;
                touched_bytes += header.touched as usize;
            }
            let known = &self.arenas;
            let known = (known.live_bytes, known.spread_bytes, known.touched_bytes);
            assert_eq!(known, (live_bytes, spread_bytes, touched_bytes));
            let known = (self.pool.used_bytes(), self.pool.idle_bytes());
            assert_eq!(known, (touched_bytes, touched_bytes - live_bytes));
            let holes = |first: &Option<Piece>| {
                // SAFETY: holes in a bin are listed.
                std::iter::successors(*first, |hole| unsafe { hole.links() }.next).count()
            };
            assert_eq!(self.arenas.bins.iter().map(holes).sum::<usize>(), listed);
        }
    }

    /// Returns a pseudorandom number below `bound`, always the same for the same `number`.
    fn scattered(number: usize, bound: usize) -> usize {
        let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 33) as usize % bound
    }

    #[test]
    fn a_piece_is_at_most_a_32nd_part_and_two_words_longer_than_its_block() {
        for bytes in 513..=LARGEST_PIECE {
            let slack = piece_bytes(bytes) - bytes;
            assert!((HEAD_BYTES..HEAD_BYTES + 16 + bytes / 32).contains(&slack), "{bytes}");
            assert!(piece_bytes(bytes) + HEADER_BYTES <= ARENA_BYTES);
        }
    }

    #[test]
    fn holes_stay_few_with_all_sizes_and_no_memory_is_left_at_the_end() {
        let rounds = if cfg!(miri) { 300 } else { 30_000 };
        let mut blocks = Blocks::new();
        let (mut worst, mut moves, mut gives) = (0.0_f64, 0, 0);
        for round in 0..rounds {
            // Equally many sizes of each magnitude.
            blocks.take(513 << scattered(round, 7) | scattered(round * 3, 512));
            while blocks.arenas.live_bytes > 2 << 20 {
                blocks.free(scattered(round * 7, blocks.live.len()));
                for _ in 0..4 {
                    moves += usize::from(blocks.relocate());
                }
                gives += 1;
            }
            if round > rounds / 2 {
                worst =
                    worst.max(blocks.pool.used_bytes() as f64 / blocks.arenas.live_bytes as f64);
            }
        }
        blocks.check();
        assert!(worst < 1.25, "{worst}");
        assert!(moves < gives / 10, "{moves} of {gives}");
        while !blocks.live.is_empty() {
            blocks.free(0);
        }
        assert_eq!((blocks.pool.used_bytes(), blocks.pool.idle_bytes()), (0, 0));
    }

    #[test]
    fn memory_follows_the_data_when_most_of_it_is_freed() {
        let mut blocks = Blocks::new();
        (0..2000).for_each(|_| blocks.take(4120));
        let full = blocks.pool.used_bytes();
        assert!(full < 2000 * 4300, "{full}");
        for round in 0..1900 {
            blocks.free(scattered(round, blocks.live.len()));
            blocks.relocate();
        }
        blocks.check();
        assert!(blocks.pool.used_bytes() < full / 10, "{}", blocks.pool.used_bytes());
    }

    proptest! {
        #[test]
        fn blocks_are_disjoint_and_every_hole_is_recorded(
            steps in proptest::collection::vec(
                (any::<u16>(), 513..=LARGEST_PIECE, 0..9_u8),
                1..400,
            ),
        ) {
            let mut blocks = Blocks::new();
            for (choice, bytes, kind) in steps {
                match kind {
                    0..3 => blocks.take(513 + bytes % 5000),
                    3 => blocks.take(bytes),
                    4..8 if !blocks.live.is_empty() => {
                        blocks.free(usize::from(choice) % blocks.live.len());
                    }
                    _ => drop(blocks.relocate()),
                }
            }
            blocks.check();
            while !blocks.live.is_empty() {
                blocks.free(blocks.live.len() / 2);
            }
            prop_assert_eq!((blocks.pool.used_bytes(), blocks.pool.idle_bytes()), (0, 0));
        }
    }
}
