//! Threads and sockets around the commands.
//!
//! A [`worker`] is a thread with an event loop that owns its connections for as long as they live;
//! a command runs on the worker whose connection sent it. A [`session`] is a conversation without
//! its socket; a [`driver`] moves the bytes.

mod address;
mod binary;
mod client_memory;
pub mod daemon;
mod driver;
mod epoll;
mod input;
mod io;
mod landing;
mod links;
mod listener;
mod listening;
mod loading;
pub mod log;
mod open;
mod outgoing;
mod paces;
mod pause;
mod reach;
mod refusal;
mod registry;
mod resp;
mod saver;
mod server;
mod session;
mod setup;
#[cfg(test)]
mod shim;
mod signals;
mod sockets;
pub mod supervisor;
mod suspended;
#[cfg(test)]
mod tests;
mod text;
mod timing;
mod urgency;
mod uring;
mod waker;
mod worker;

pub use listener::{Address, Endpoint};
pub use loading::LoadError;
pub use nagi_commands::config;
pub use nagi_store::Policy;
pub use nagi_store::memory::Counting;
pub use open::OpenError;
pub use server::{Options, Running, StartError, Stopper, start};
pub use session::Protocol;
pub use setup::raise_descriptor_limit;
pub use signals::{outlive_file_size_limits, stop_on_signals};
