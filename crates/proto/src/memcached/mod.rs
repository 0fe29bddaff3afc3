//! memcached's protocols; today the classic text protocol, as 1.6.45's `doc/protocol.txt` has it.

mod parse;
mod write;

pub use parse::{Limits, Parser, Step};
pub use write::Writer;
