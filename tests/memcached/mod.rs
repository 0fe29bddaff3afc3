//! memcached's protocols, its command-line flags and its commands for administrators.

pub(crate) mod binary;
mod flags;
mod meta;
mod operators;
mod statistics;
mod text;
mod watch;
