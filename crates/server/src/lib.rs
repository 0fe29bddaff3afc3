//! The server: threads and sockets around the commands.
//!
//! A [`worker`] is a thread with an event loop that owns its connections; each command runs on the
//! worker of its connection. A [`session`](session::conversation) handles a client's requests
//! without the socket; a [`driver`](net::driver) moves the bytes.
//!
//! Modules use only those below them:
//!
//! ```text
//! process             start, stop, signals, the housekeeper, the sampler
//! worker              the event loop, limits of connections, moves between workers
//! session             batches, slices and times of one client
//! protocols           reading and executing requests      persistence   saving, loading
//! state               state shared by all threads, and mailboxes
//! net                 sockets, listeners, drivers
//! ```

mod net;
mod persistence;
mod process;
mod protocols;
mod session;
mod state;
mod worker;

pub use nagi_commands::memcached::memcached_version;
pub use nagi_commands::{REDIS_VERSION, config};
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
