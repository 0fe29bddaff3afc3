//! Tests that the pool provides, returns and keeps the right memory.

use super::*;

/// Returns the number of provided pages that have never been allocated.
fn provided(pool: &PagePool) -> usize {
    pool.pages.lock().regions.provided_pages()
}

#[test]
fn next_pages_are_provided_before_they_are_needed() {
    let pool = PagePool::default();
    pool.prepare();
    for _ in 0..3 * REGION_PAGES {
        let provided = provided(&pool);
        assert!((1..=MIN_AHEAD_PAGES + STEP_PAGES).contains(&provided), "{provided}");
        pool.take();
        pool.maintain();
    }
    for _ in 0..3 * REGION_BYTES / ARENA_BYTES {
        assert!(pool.arenas.lock().regions.left() > 0);
        pool.take_arena();
        pool.maintain();
    }
}

#[cfg(not(miri))]
fn faults() -> u64 {
    crate::tests::holds::faults().faults
}

#[test]
#[cfg(not(miri))]
fn arenas_are_provided_before_use_if_much_data_is_expected() {
    let faults_of = |expected| {
        let pool = PagePool::default();
        pool.expect(expected);
        pool.provide();
        let (arena, _) = pool.take_arena();
        let before = faults();
        // SAFETY: the arena is allocated.
        unsafe { arena.write_bytes(1, ARENA_BYTES) };
        faults() - before
    };
    let pages = (ARENA_BYTES / PAGE_BYTES) as u64;
    // A sanitizer's shadow memory of the arena has to be provided as well.
    let provided = faults_of(MANY_BYTES);
    assert!(provided < pages / 2, "{provided}");
    assert!(faults_of(MANY_BYTES - 1) >= pages / 2, "a small store has what it uses");
}

/// Returns the page faults of writing to all of an arena as its owner does, 4 KiB at a time.
#[cfg(not(miri))]
fn faults_of_filling(pool: &PagePool, arena: Arena, mut touched: usize) -> u64 {
    let mut met = 0;
    for end in (PAGE_BYTES..=ARENA_BYTES).step_by(PAGE_BYTES) {
        if end > touched {
            // SAFETY: it is an arena of this pool.
            touched = unsafe { pool.touch(arena, touched, end) };
        }
        let before = faults();
        // SAFETY: the arena is allocated.
        unsafe { arena.add(end - PAGE_BYTES).write_bytes(1, PAGE_BYTES) };
        met += faults() - before;
        // The preparer may run between the writes of a worker.
        pool.provide();
    }
    assert_eq!(touched, ARENA_BYTES);
    met
}

#[test]
#[cfg(not(miri))]
fn large_store_provides_whole_arenas_unless_much_is_free() {
    let pool = PagePool::default();
    let (arena, touched) = pool.take_arena();
    // SAFETY: it is an arena of this pool.
    let touched = unsafe { pool.touch(arena, touched, 1) };
    assert_eq!((touched, pool.idle_bytes()), (PAGE_BYTES, PAGE_BYTES), "a small one has not");
    (0..LARGE_BYTES / PAGE_BYTES).for_each(|_| _ = pool.take());
    // A sanitizer's shadow memory of an arena takes a few pages as well.
    let few = (ARENA_BYTES / PAGE_BYTES) as u64 / 4;
    assert!(faults_of_filling(&pool, arena, touched) < few, "what it has begun is completed");
    for _ in 0..2 * READY_BYTES / ARENA_BYTES {
        pool.provide();
        let (arena, touched) = pool.take_arena();
        assert_eq!(touched, ARENA_BYTES);
        assert!(faults_of_filling(&pool, arena, touched) < few);
    }
    pool.add_idle_bytes((pool.used_bytes() / MAX_IDLE_PART).cast_signed());
    while pool.take_arena().1 > 0 {}
    pool.provide();
    assert_eq!(pool.take_arena().1, 0, "with as much free as this nothing is provided");
}

/// Simulates a store whose entries change from pages to arenas and back.
#[test]
#[cfg(not(miri))]
fn memory_just_provided_is_not_returned_and_vice_versa() {
    const MOVED: usize = LARGE_BYTES / 2;
    let pool = PagePool::default();
    let mut pages: Vec<Page> = (0..2 * LARGE_BYTES / PAGE_BYTES).map(|_| pool.take()).collect();
    let mut arenas = Vec::new();
    let run_preparer = || {
        pool.provide();
        pool.check();
        pool.rest();
    };
    // The reserve of new pages, which does not change below.
    pool.provide();
    // Returns the bytes provided and returned.
    let asked = |work: &mut dyn FnMut()| {
        let before = region::asked();
        work();
        let now = region::asked();
        (now.0 - before.0, now.1 - before.1)
    };
    for _ in 0..2 {
        let to_arenas = asked(&mut || {
            for _ in 0..MOVED / ARENA_BYTES {
                let given = pages.drain(pages.len() - ARENA_BYTES / PAGE_BYTES..);
                // SAFETY: each came from the pool and is not in use.
                given.for_each(|page| unsafe { pool.free(page) });
                arenas.push(pool.take_arena());
                run_preparer();
            }
        });
        let at_work = asked(&mut || {
            for _ in 0..1000 {
                let given = arenas.drain(arenas.len() - 8..);
                // SAFETY: as above.
                given.for_each(|it| unsafe { pool.free_arena(it.0, it.1) });
                // SAFETY: as above.
                pages.drain(pages.len() - 256..).for_each(|page| unsafe { pool.free(page) });
                arenas.extend((0..8).map(|_| pool.take_arena()));
                pages.extend((0..256).map(|_| pool.take()));
                run_preparer();
            }
        });
        let to_pages = asked(&mut || {
            for (arena, touched) in arenas.drain(..) {
                // SAFETY: as above.
                unsafe { pool.free_arena(arena, touched) };
                pages.extend((0..ARENA_BYTES / PAGE_BYTES).map(|_| pool.take()));
                run_preparer();
            }
        });
        for (provided, given_back) in [to_arenas, to_pages] {
            assert!(provided <= MOVED + WARM_BYTES, "{provided}");
            assert!(given_back <= MOVED + WARM_BYTES, "{given_back}");
        }
        assert!(at_work.0 + at_work.1 <= WARM_BYTES, "{at_work:?}");
    }
    (0..u8::MAX).for_each(|_| run_preparer());
    assert_eq!(pool.warm_bytes(), 0, "no more requests");
    assert_eq!(asked(&mut || (0..u8::MAX).for_each(|_| run_preparer())), (0, 0));
}

#[test]
fn preparer_is_notified_before_a_worker_has_to_prepare() {
    let pool = PagePool::default();
    pool.set_preparer(std::thread::current());
    pool.prepare();
    while provided(&pool) > CRITICAL_PAGES {
        pool.take();
        pool.maintain();
    }
    // Returns at once if it was notified, and waits forever otherwise.
    std::thread::park();
    pool.prepare();
    assert!(provided(&pool) > MIN_AHEAD_PAGES);
}

#[test]
fn preparer_keeps_more_pages_ahead_in_a_large_store() {
    let pool = PagePool::default();
    pool.set_preparer(std::thread::current());
    pool.used_bytes.store(AHEAD_PART * MAX_AHEAD_PAGES * PAGE_BYTES, Ordering::Relaxed);
    pool.provide();
    assert!(provided(&pool) > MAX_AHEAD_PAGES);
    while provided(&pool) >= MAX_AHEAD_PAGES {
        pool.take();
        pool.maintain();
    }
    // Returns at once if it was notified, and waits forever otherwise.
    std::thread::park();
    pool.provide();
    assert!(provided(&pool) > MAX_AHEAD_PAGES);
}

#[test]
fn idle_memory_is_returned_a_slice_at_a_time() {
    let pool = PagePool::default();
    let pages: Vec<Page> = (0..4 * MAX_WARM_BYTES / PAGE_BYTES).map(|_| pool.take()).collect();
    let given = pages.len() * PAGE_BYTES;
    // SAFETY: each came from the pool and is not in use.
    pages.into_iter().for_each(|page| unsafe { pool.free(page) });
    assert_eq!((pool.used_bytes(), pool.warm_bytes()), (0, given));
    assert!(pool.cool());
    assert_eq!(pool.warm_bytes(), given - SLICE_BYTES);
    (0..given / SLICE_BYTES).for_each(|_| pool.maintain());
    assert_eq!(pool.warm_bytes(), MAX_WARM_BYTES);
    pool.take();
    (0..given / SLICE_BYTES).for_each(|_| pool.rest());
    assert_eq!(pool.warm_bytes(), WARM_BYTES, "requested a moment ago");
    (0..u8::MAX).for_each(|_| pool.check());
    (0..given / SLICE_BYTES).for_each(|_| pool.rest());
    assert_eq!(pool.warm_bytes(), 0, "not requested for long");
}

/// Each request to the kernel interrupts all workers.
#[test]
#[cfg(not(miri))]
fn pages_freed_in_random_order_are_returned_many_at_a_time() {
    let pool = PagePool::default();
    pool.set_preparer(std::thread::current());
    let mut pages: Vec<Page> = (0..GATHERED_BYTES / 2 / PAGE_BYTES).map(|_| pool.take()).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut pages);
    for page in &pages {
        // SAFETY: it came from the pool and is not in use.
        unsafe { pool.free(*page) };
        pool.maintain();
    }
    assert_eq!(region::releases(), 0, "a worker leaves it to the preparer");
    pool.provide();
    assert!(pool.warm_bytes() <= MAX_WARM_BYTES);
    let releases = region::releases();
    assert!(releases < pages.len() / 5, "{releases} for {} pages", pages.len());
    (0..u8::MAX).for_each(|_| pool.check());
    pool.checked_at.store(0, Ordering::Relaxed);
    pool.rest();
    pool.provide();
    assert_eq!(pool.warm_bytes(), 0, "not requested for long");
}

#[test]
fn pages_are_distinct_aligned_and_reused() {
    let pool = PagePool::default();
    let mut pages: Vec<Page> = (0..REGION_PAGES * 5).map(|_| pool.take()).collect();
    assert_eq!(pool.used_bytes(), pages.len() * PAGE_BYTES);
    assert!(pages.iter().all(|page| page.addr().get() % PAGE_BYTES == 0));
    pages.sort_unstable();
    pages.dedup();
    assert_eq!(pages.len(), REGION_PAGES * 5);
    for page in &pages {
        // SAFETY: it came from the pool and is not in use.
        unsafe { pool.free(*page) };
    }
    assert_eq!(pool.used_bytes(), 0);
    let mut again: Vec<Page> = (0..REGION_PAGES * 5).map(|_| pool.take()).collect();
    again.sort_unstable();
    for (index, page) in again.iter().enumerate() {
        // SAFETY: the pages are allocated, and so are their notes.
        unsafe { note(page.add(index % PAGE_BYTES)).cast::<usize>().write(index) };
    }
    for (index, page) in again.iter().enumerate() {
        // SAFETY: written above.
        assert_eq!(unsafe { note(*page).cast::<usize>().read() }, index);
    }
    assert_eq!(again, pages, "all pages are used again before a region is added");
}
