//! Pages about a server over HTTP, for which nothing else in the process ever waits.
//!
//! A [`Site`] has the pages; everything in front of them is here: sockets, limits, and whose
//! requests are refused. One thread of low priority serves all clients. There is no HTTP/2, no
//! request body and one request a connection, so there is little that a broken or malicious client
//! could confuse.

mod guard;
mod listening;
mod site;

pub use hyper::body::Bytes;
pub use listening::{Running, bind, start};
pub use site::{Answer, Ask, Site};
