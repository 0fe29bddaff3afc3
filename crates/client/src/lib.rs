//! Talking to a cache server.
//!
//! A [`Connection`] has many requests in flight and is driven by its owner's event loop, as the
//! load tool does by the hundred; a [`Client`] waits for each reply. A [`ring::Ring`] says which of
//! several servers has a key, and a [`cache::Cache`] asks it. With the feature `tokio` both clients
//! are also there for tasks, in the module `asynchronous`.

mod address;
#[cfg(feature = "tokio")]
pub mod asynchronous;
pub mod cache;
mod client;
mod connection;
mod error;
mod http;
mod outcome;
pub mod ring;
pub mod values;
pub mod wire;

pub use address::Address;
pub use client::{Client, encode_command};
pub use connection::Connection;
pub use error::Error;
pub use nagi_proto::resp::Reply;
pub use outcome::{Framing, Outcome, Protocol};
