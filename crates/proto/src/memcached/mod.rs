//! memcached's protocols; today the classic text protocol, as 1.6.45's `doc/protocol.txt` has it.

mod text;

pub use text::{Limits, Parser, Step, Writer};
