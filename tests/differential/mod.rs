//! Sends the same random commands to nagi and to the server that it replaces; all replies must be
//! equal. `cargo xtask differential --count N` sends more commands than a test should.

mod memcached;
mod memcached_binary;
mod memcached_meta;
mod redis;

/// The variable that sets the number of commands in each protocol.
const COUNT_VARIABLE: &str = "NAGI_DIFFERENTIAL_COUNT";

/// Returns the number of commands in each protocol.
fn count() -> u64 {
    let given = std::env::var(COUNT_VARIABLE).ok();
    given.and_then(|count| count.parse().ok()).unwrap_or(20_000)
}

/// Returns the generator that chooses the commands. A long run uses new commands; a short run,
/// which every change must pass, uses the same ones each time.
fn random() -> harness::Random {
    /// An arbitrary seed.
    const SHORT_RUN: u64 = 4;
    match std::env::var_os(COUNT_VARIABLE) {
        Some(_) => harness::Random::announced(),
        None => harness::Random::repeated(SHORT_RUN),
    }
}

/// Starts the newest memcached that `cargo xtask bench` has installed. The memcached that setup
/// installs is too old for comparisons of the meta commands.
pub(crate) fn newest_memcached() -> Option<harness::Server> {
    newest_memcached_with(&[])
}

/// Like [`newest_memcached`], with additional arguments.
pub(crate) fn newest_memcached_with(arguments: &[&str]) -> Option<harness::Server> {
    let tree = harness::root().join(".peers/sid");
    if !tree.join("usr/bin/memcached").is_file() {
        harness::skipped("memcached of Debian sid is not in .peers/sid");
        return None;
    }
    let mut command = std::process::Command::new("chroot");
    command.arg(tree).arg("memcached").args(arguments);
    harness::Server::start_memcached(command).map_err(harness::skipped).ok()
}
