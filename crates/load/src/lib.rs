//! Load on a cache server, and reports of its latency and throughput.
//!
//! [`bench`] is `nagi bench`, [`calm`] `nagi calm` and [`storm`] `nagi storm`; [`responder`] is
//! the server that shows what the kernel and the load itself cost. What other tools need as well
//! is public: [`target`] reads URLs, [`wire`] is a connection, [`interrupt`] is Ctrl-C, [`login`]
//! passwords, [`text`] is for pages, [`figures`] is what servers say of themselves.

pub mod bench;
pub mod calm;
pub mod clock;
pub mod figures;
pub mod interrupt;
pub mod login;
mod machine;
mod pace;
pub mod responder;
pub mod storm;
mod tally;
pub mod target;
pub mod text;
pub mod wire;
