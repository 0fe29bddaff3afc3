//! Load on a cache server, and an honest account of how it bore it.
//!
//! [`bench`] is `nagi bench`.

pub mod bench;
mod clock;
mod keys;
mod options;
mod pace;
mod random;
mod report;
mod requests;
mod run;
mod tally;
mod text;
mod timeline;
mod worker;
