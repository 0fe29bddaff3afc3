//! Clients for programs on tokio, with the feature `tokio`. They differ from
//! [`cache`](crate::cache) and [`Client`](crate::Client) only in how they wait.

mod batches;
mod cache;
mod client;
mod pool;
mod socket;

pub use cache::Cache;
pub use client::Client;
pub use pool::{Lent, Pool};
