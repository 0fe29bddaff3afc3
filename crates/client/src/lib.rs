//! Talking to a cache server: a connection that many requests are in flight on, which the load
//! tool drives by the hundred, and a client that waits for each reply, which tests read well with.

mod address;
mod connection;
mod error;
mod outcome;

pub use address::Address;
pub use connection::Connection;
pub use error::Error;
pub use outcome::{Outcome, Protocol};
