//! Lua 5.1.5 as scripts get it: the sources of its authors in `c`, with holes closed and without
//! what could be reached from a script and must not be. What was changed is in the README beside.
//!
//! There is nothing to call here: `mlua` declares Lua's functions, and this crate provides them.
