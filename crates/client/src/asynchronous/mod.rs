//! The same clients for programs on tokio, with the feature `tokio`. Only the waiting differs from
//! [`cache`](crate::cache) and [`Client`](crate::Client).

mod batches;
mod cache;
mod client;
mod pool;
mod socket;

pub use cache::Cache;
pub use client::Client;
pub use pool::{Lent, Pool};
