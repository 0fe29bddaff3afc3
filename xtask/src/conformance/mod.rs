//! `cargo xtask conformance`: third-party test suites of the servers that nagi replaces.

mod exclusions;
mod memcached;
mod outcome;
pub(crate) mod redis;
mod source;

use anyhow::Result;

/// The suite to run.
#[derive(clap::Subcommand)]
pub(crate) enum Suite {
    /// Redis 7.0.15's own suite, which speaks to a server that it starts and to one that runs
    Redis(redis::Arguments),
    /// memccapable, then random requests in each of memcached's protocols
    Memcached(memcached::Arguments),
}

/// Runs a suite.
pub(crate) fn run(suite: Suite) -> Result<()> {
    match suite {
        Suite::Redis(arguments) => redis::run(&arguments),
        Suite::Memcached(arguments) => memcached::run(&arguments),
    }
}
