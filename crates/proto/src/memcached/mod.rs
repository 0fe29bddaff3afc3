//! memcached's protocols: the classic text protocol and the meta commands, according to the
//! `doc/protocol.txt` of 1.6.45, and the binary protocol of its `protocol_binary.h`.

pub mod base64;
pub mod binary;
mod parse;
mod reply;
mod write;

pub use parse::{BAD_BLOCK, LONG_LOGIN, Limits, Parsed, Parser, TOO_LARGE};
pub use reply::ReplyParser;
pub use write::Writer;
