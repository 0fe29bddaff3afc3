//! Helpers for the jobs: the server's address, and waiting for a condition.

use std::thread;
use std::time::{Duration, Instant};

use redis::Client;

/// The time limit for everything that a job waits for.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Returns a client for the server that speaks the given version of RESP.
pub fn client(protocol: u8) -> Client {
    let setting = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("{name} is set"));
    let (host, port) = (setting("NAGI_HOST"), setting("NAGI_PORT"));
    Client::open(format!("redis://{host}:{port}/?protocol=resp{protocol}")).expect("an address")
}

/// Repeats `condition` until it is true.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::park_timeout(Duration::from_millis(5));
    }
}
