//! Tests that parsing allocates nothing for requests that arrive completely, and never more than is
//! proportional to the bytes that have arrived.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use nagi_proto::{Span, memcached, resp};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static ALLOCATED_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, with counters for each thread.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        ALLOCATED_BYTES.set(ALLOCATED_BYTES.get() + layout.size());
        // SAFETY: the caller observes `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller observes `dealloc`'s contract, and `pointer` came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Returns the number of allocations, and their bytes, while `work` runs.
fn allocated(work: impl FnOnce()) -> (usize, usize) {
    let before = (ALLOCATIONS.get(), ALLOCATED_BYTES.get());
    work();
    (ALLOCATIONS.get() - before.0, ALLOCATED_BYTES.get() - before.1)
}

const RESP: resp::Limits = resp::Limits { bulk_bytes: 512 << 20, authenticated: true };
const MEMCACHED: memcached::Limits = memcached::Limits { item_bytes: 1 << 30, login_only: false };

#[test]
fn complete_requests_allocate_nothing() {
    let mut input = b"*2\r\n$3\r\nGET\r\n$1\r\na\r\nECHO \"a \\x41\" 'b'\r\n".repeat(20);
    let lines = b"get a b c\r\nset a 0 0 3 noreply\r\nabc\r\nincr a 1\r\n".repeat(20);
    let mut spans = Vec::with_capacity(16);
    let (mut found, mut taken) = (0, 0);
    let counts = allocated(|| {
        let mut parser = resp::Parser::default();
        while let Ok(Some(bytes)) = parser.parse(&mut input[taken..], &RESP, &mut spans) {
            spans.clear();
            taken += bytes;
            found += 1;
        }
        let mut parser = memcached::Parser::default();
        let mut rest = &lines[..];
        while let memcached::Parsed::Request { consumed, .. } =
            parser.parse(rest, &MEMCACHED, &mut spans)
        {
            spans.clear();
            rest = &rest[consumed..];
            found += 1;
        }
    });
    assert_eq!((found, counts), (100, (0, 0)));
}

#[test]
fn replies_allocate_nothing_in_any_pieces() {
    let nested = b"%1\r\n$3\r\nabc\r\n*2\r\n:1\r\n+a longer line than most\r\n";
    let value = b"VALUE a 0 3\r\nabc\r\nEND\r\n";
    let mut resp = resp::ReplyParser::default();
    let mut memcached = memcached::ReplyParser::default();
    let counts = allocated(|| {
        for end in 0..=nested.len() {
            let found = resp.next(&nested[..end]);
            assert_eq!(found, Ok((end == nested.len()).then_some(end)));
        }
        for end in 0..=value.len() {
            let found = memcached.next(&value[..end]);
            assert_eq!(found, Ok((end == value.len()).then_some(end)));
        }
    });
    assert_eq!(counts, (0, 0));
}

#[test]
fn announced_sizes_allocate_nothing() {
    for input in ["*2147483647\r\n", "*1000000\r\n$3\r\nSET\r\n$536870912\r\n"] {
        let mut input = input.as_bytes().to_vec();
        let mut spans: Vec<Span> = Vec::with_capacity(16);
        let counts = allocated(|| {
            let found = resp::Parser::default().parse(&mut input, &RESP, &mut spans);
            assert_eq!(found, Ok(None));
        });
        assert_eq!(counts, (0, 0));
    }
    let counts = allocated(|| {
        let line = b"set a 0 0 1000000000\r\n";
        let step = memcached::Parser::default().parse(line, &MEMCACHED, &mut Vec::new());
        assert_eq!(step, memcached::Parsed::Incomplete);
    });
    // The spans of the five words of the line.
    assert!(counts.1 <= 16 * size_of::<Span>(), "{counts:?}");
}

#[test]
fn a_long_request_in_small_pieces_allocates_in_proportion_to_its_bytes() {
    let mut bulks = b"*100000\r\n".to_vec();
    bulks.extend(b"$0\r\n\r\n".repeat(100_000));
    let keys = [&b"get"[..], &b" k".repeat(100_000), b"\r\n"].concat();
    let (mut from_resp, mut from_memcached) = (Vec::new(), Vec::new());
    let len = bulks.len();
    let resp = allocated(|| {
        let mut parser = resp::Parser::default();
        for end in (0..len).step_by(100) {
            assert_eq!(parser.parse(&mut bulks[..end], &RESP, &mut from_resp), Ok(None));
        }
        assert_eq!(parser.parse(&mut bulks, &RESP, &mut from_resp), Ok(Some(len)));
    });
    let memcached = allocated(|| {
        let mut parser = memcached::Parser::default();
        for end in (0..keys.len()).step_by(100) {
            let step = parser.parse(&keys[..end], &MEMCACHED, &mut from_memcached);
            assert_eq!(step, memcached::Parsed::Incomplete);
        }
        parser.parse(&keys, &MEMCACHED, &mut from_memcached);
    });
    assert_eq!((from_resp.len(), from_memcached.len()), (100_000, 100_001));
    for (counts, bytes) in [(resp, len), (memcached, keys.len())] {
        assert!(counts.0 < 100, "{counts:?}: a call must not copy what earlier ones found");
        // A span takes 8 bytes and a word at least 2; both vectors double as they grow.
        assert!(counts.1 < 32 * bytes, "{counts:?} for {bytes} bytes");
    }
}
