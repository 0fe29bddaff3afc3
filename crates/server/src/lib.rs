//! Threads and sockets around the commands.
//!
//! A [`worker`] is a thread with an event loop that owns its connections for as long as they live;
//! a command runs on the worker whose connection sent it. A [`session`](session::conversation) is a
//! client's conversation without its socket; a [`driver`](net::driver) moves the bytes.
//!
//! Modules use only those below them:
//!
//! ```text
//! process             starting, stopping, signals, the housekeeper
//! worker              the event loop, and the limits of its connections
//! session             batches, slices and times of one client
//! protocols           how requests are read and executed      persistence   saving, loading
//! state               what all threads share, and their mailboxes
//! net                 sockets, listeners, drivers
//! ```

mod net;
mod persistence;
mod process;
mod protocols;
mod session;
mod state;
mod worker;

pub use nagi_commands::config;
pub use nagi_store::Policy;
pub use nagi_store::accounting::Counting;
pub use net::listener::{Address, Endpoint};
pub use net::open::OpenError;
pub use net::protocol::Protocol;
pub use persistence::loading::LoadError;
pub use process::server::{Running, StartError, Stopper, start};
pub use process::signals::{StopSignals, make_file_size_limit_an_error};
pub use process::{daemon, log, supervisor, title_area};
pub use state::descriptors::raise_descriptor_limit;
pub use state::shared::ServerOptions;
