//! The same random commands for nagi and for the server that it stands in for: every reply has
//! to be the same. `cargo xtask differential --count N` goes on for longer than a test should.

mod grammar;
mod memcached;
mod resp;

/// Commands sent in each protocol.
fn count() -> u64 {
    let given = std::env::var("NAGI_DIFFERENTIAL_COUNT").ok();
    given.and_then(|count| count.parse().ok()).unwrap_or(20_000)
}
