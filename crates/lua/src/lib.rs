//! Lua 5.1.5 for scripts: the original sources in `c`, with vulnerabilities fixed and without
//! functions that scripts must not reach. The README lists the changes.
//!
//! `mlua` declares Lua's functions, and this crate provides them. What is to be called here tells
//! how much memory Lua takes.

// SAFETY: they are defined so in `c/lmem.c`, and read a variable of the thread at most.
unsafe extern "C" {
    safe fn lua_blockbytes(size: usize) -> usize;
    safe fn lua_generalbytes() -> usize;
    safe fn lua_mappedbytes() -> usize;
}

/// What a block of so many bytes takes of the process's allocator.
#[must_use]
pub fn block_bytes(size: usize) -> usize {
    lua_blockbytes(size)
}

/// What the Lua states of this thread have taken: bytes of small blocks, and of blocks of a
/// megabyte and more.
#[must_use]
pub fn taken_bytes() -> (usize, usize) {
    (lua_generalbytes(), lua_mappedbytes())
}
