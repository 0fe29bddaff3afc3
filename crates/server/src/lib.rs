//! Threads and sockets around the commands.
//!
//! A [`worker`] is a thread with an event loop that owns its connections for as long as they live;
//! a command runs on the worker whose connection sent it. A [`session`](session::conversation) is a
//! conversation without its socket; a [`driver`](net::driver) moves the bytes.

mod net;
mod persistence;
mod process;
mod protocols;
mod session;
mod worker;

pub use nagi_commands::config;
pub use nagi_store::Policy;
pub use nagi_store::accounting::Counting;
pub use net::listener::{Address, Endpoint};
pub use net::open::OpenError;
pub use persistence::loading::LoadError;
pub use process::server::{Options, Running, StartError, Stopper, start};
pub use process::setup::raise_descriptor_limit;
pub use process::signals::{StopSignals, outlive_file_size_limits};
pub use process::{daemon, log, supervisor};
pub use session::conversation::Protocol;
