//! Load on a cache server, and an honest account of how it bore it.
//!
//! [`bench`] is `nagi bench`, [`calm`] `nagi calm` and [`storm`] `nagi storm`; [`responder`] is
//! the server that shows what the kernel and the load itself cost.

pub mod bench;
pub mod calm;
mod clock;
mod keys;
mod options;
mod pace;
mod report;
mod requests;
pub mod responder;
mod run;
mod save;
pub mod storm;
mod tally;
mod text;
mod timeline;
mod worker;
