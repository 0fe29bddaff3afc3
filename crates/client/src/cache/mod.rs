//! A cache over several servers: each key is read from the server that the ring selects, and each
//! error names the server and the reason.

mod batches;
mod ejection;
mod engine;
mod failure;
mod identity;
mod item;
mod link;
mod operations;
mod pool;
mod redirect;
mod replicas;
mod requests;
mod settings;
mod socket;
mod watch;

#[cfg(feature = "tokio")]
pub(crate) use engine::Engine;
pub use failure::{Failure, Reason};
pub use item::{Item, Stored};
pub use operations::Cache;
pub use pool::Pool;
pub use requests::Statistics;
pub use settings::{Ejection, OnFailure, Replicas, RespVersion, Settings};
#[cfg(feature = "tokio")]
pub(crate) use socket::Socket;
