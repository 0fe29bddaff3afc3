//! Load on a cache server, and an honest account of how it bore it.
//!
//! [`bench`] is `nagi bench`; [`responder`] is the server that shows what the kernel and the load
//! itself cost.

pub mod bench;
mod clock;
mod keys;
mod options;
mod pace;
mod report;
mod requests;
pub mod responder;
mod run;
mod save;
mod tally;
mod text;
mod timeline;
mod worker;
