//! Bytes to requests, and replies to bytes, for each protocol that nagi speaks.
//!
//! Nothing here does I/O, knows a command or touches the keyspace: a parser is handed the bytes
//! that have arrived and says where the arguments of the next request lie in them; a writer is
//! handed values and appends their encoding to an [`Output`]. Both allocate nothing once their
//! buffers have grown.

mod args;
mod line;
mod malformed;
pub mod memcached;
mod output;
pub mod resp;
#[cfg(test)]
mod testing;

pub use args::{Args, Awaited, LONG_BYTES, LargeArgument, SharedBytes, Span};
pub use malformed::MalformedReply;
pub use output::{Chunk, Chunks, Output};
