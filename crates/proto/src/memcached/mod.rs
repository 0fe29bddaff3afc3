//! memcached's protocols; today the classic text protocol, as 1.6.45's `doc/protocol.txt` has it.

mod parse;
mod reply;
mod write;

pub use parse::{Limits, Parser, Step};
pub use reply::ReplyParser;
pub use write::Writer;
