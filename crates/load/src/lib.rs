//! Generates load on cache servers, and reports latency and throughput.
//!
//! [`bench`] is `nagi bench`, [`calm`] `nagi calm` and [`storm`] `nagi storm`; [`responder`] is a
//! server that shows the cost of the kernel and of the load itself. Modules that other tools need
//! are public: [`target`] parses URLs, [`wire`] is a connection, [`interrupt`] handles Ctrl-C,
//! [`login`] passwords, [`text`] formats pages, [`output`] is files of results, [`figures`] reads
//! the statistics of servers.

pub mod bench;
pub mod calm;
pub mod clock;
pub mod figures;
pub mod interrupt;
pub mod login;
mod machine;
pub mod output;
mod pace;
pub mod responder;
pub mod storm;
mod tally;
pub mod target;
pub mod text;
pub mod wire;
