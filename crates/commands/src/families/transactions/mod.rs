//! Transactions: requests that are queued, and executed as one.

mod exec;
pub(crate) mod transaction;
