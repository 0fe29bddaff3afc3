//! Lua 5.1.5 for scripts: the original sources in `c`, with vulnerabilities fixed and without
//! functions that scripts must not reach. The README lists the changes.
//!
//! There is nothing to call here: `mlua` declares Lua's functions, and this crate provides them.
