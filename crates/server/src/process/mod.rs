//! The process: set-up, signals, the log, and starting and stopping the server.

pub mod daemon;
mod governor;
pub(crate) mod housekeeper;
pub mod log;
pub(crate) mod server;
pub(crate) mod signals;
mod status;
pub mod supervisor;
pub mod title_area;
mod titles;
