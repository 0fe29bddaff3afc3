//! Lua 5.1.5 for scripts: the original sources in `c`, with vulnerabilities fixed and without
//! functions that scripts must not reach. The README lists the changes.
//!
//! `mlua` declares Lua's functions, and this crate provides them. The functions here report how
//! much memory Lua uses.

// SAFETY: they are defined with these types in `c/lmem.c`, and only read a thread-local variable.
unsafe extern "C" {
    safe fn lua_blockbytes(size: usize) -> usize;
    safe fn lua_generalbytes() -> usize;
    safe fn lua_mappedbytes() -> usize;
}

/// Returns the memory that a block of this size takes in the process's allocator.
#[must_use]
pub fn block_bytes(size: usize) -> usize {
    lua_blockbytes(size)
}

/// Returns the bytes allocated by the Lua states of this thread: in small blocks, and in blocks of
/// a megabyte and more.
#[must_use]
pub fn taken_bytes() -> (usize, usize) {
    (lua_generalbytes(), lua_mappedbytes())
}
