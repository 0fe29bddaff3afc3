//! Synchronization between threads that share the store: latches, fences, clocks and counters, with
//! hooks for tests.

pub(crate) mod barrier;
pub(crate) mod cache_line;
pub(crate) mod clock;
pub(crate) mod counters;
pub mod cpu_time;
pub(crate) mod futex;
pub mod holds;
pub(crate) mod latch;
pub mod pace;
pub mod primitives;
pub(crate) mod quiescence;
pub(crate) mod shared_thread;
pub(crate) mod steps;
pub mod ticks;
