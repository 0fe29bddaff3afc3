//! Pages about a server, and its commands, over HTTP, for which nothing else in the process ever
//! waits.
//!
//! A [`Site`] has the pages and opens connections to the workers; everything in front of them is
//! here: sockets, limits, whose requests are refused, and the forms of commands and replies. One
//! thread of low priority serves all clients. There is no HTTP/2.

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
pub use nagi_pipe::{ClientEnd, HasLeft, Notifier, Taken, Wakes, WorkerEnd, pipe};
pub use site::{Answer, Ask, GatewaySettings, HttpClient, Rule, Site};
