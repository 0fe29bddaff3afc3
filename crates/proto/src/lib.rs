//! Parses requests and encodes replies, for each protocol that nagi supports.
//!
//! This crate does no I/O and is independent of commands and of the keyspace. A parser is given the
//! bytes that have arrived and returns the spans of the next request's arguments; a writer is given
//! values and appends their encoding to an [`Output`]. Neither allocates memory once its buffers
//! have grown.

mod args;
pub mod decimal;
mod line;
mod malformed;
pub mod memcached;
mod output;
pub mod resp;
#[cfg(test)]
mod testing;

pub use args::{Args, Awaited, LONG_BYTES, LargeArgument, SharedBytes, Span};
pub use line::split_line;
pub use malformed::MalformedReply;
pub use output::{Chunk, Chunks, Output, OutputMark};
