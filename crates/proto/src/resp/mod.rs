//! RESP2 and RESP3, the protocols of Redis: <https://redis.io/docs/latest/develop/reference/protocol-spec/>.

mod inline;
mod number;
mod parse;
mod reply;
mod write;

pub use inline::words;
pub use parse::{Limits, Parser, ProtocolError};
pub use reply::{Reply, ReplyParser};
pub use write::{Version, Writer};
