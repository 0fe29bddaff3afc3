//! Clients for cache servers.
//!
//! A [`Connection`] has many requests in flight and is driven by its owner's event loop, as in the
//! load tool; a [`Client`] waits for each reply. A [`ring::Ring`] selects the server for a key, and
//! a [`cache::Cache`] sends requests to several servers. With the feature `tokio`, the module
//! `asynchronous` provides `Client` and `Cache` for async tasks.

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
