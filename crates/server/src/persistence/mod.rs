//! Dump files: the thread that saves, and loading at the start.

pub(crate) mod dump_file;
pub(crate) mod loading;
pub(crate) mod saver;
pub(crate) mod saver_priority;
pub(crate) mod throttle;
