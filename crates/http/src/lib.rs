//! HTTP server for pages about the server and for commands; no other thread of the process ever
//! waits for it.
//!
//! A [`Site`] provides the pages and opens connections to the workers; this crate implements
//! everything before that: sockets, limits, access checks, and the formats of commands and replies.
//! One thread of low priority serves all clients. There is no HTTP/2.

mod bell;
mod connections;
mod forwarded;
mod framing;
mod gateway;
mod guard;
mod listening;
mod response;
mod shared_stream;
mod site;
mod write_timeout;

pub use bell::Bell;
pub use connections::MAX_CONNECTIONS;
#[cfg(any(test, feature = "fuzzing"))]
pub use gateway::fuzzing;
pub use hyper::body::Bytes;
pub use listening::{Running, bind, start};
pub use nagi_pipe::{ClientEnd, Notifier, PipeClosed, Taken, Wakes, WorkerEnd, pipe};
pub use site::{Answer, Ask, GatewaySettings, IdleConnection, Requester, Rule, Site, WorkerClient};
