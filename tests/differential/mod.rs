//! The same random commands for nagi and for the server that it replaces: all replies must be
//! equal. `cargo xtask differential --count N` sends more of them than a test should.

mod memcached;
mod memcached_binary;
mod memcached_meta;
mod redis;

/// If set to a number, so many commands are sent in each protocol.
const COUNT_VARIABLE: &str = "NAGI_DIFFERENTIAL_COUNT";

/// Commands sent in each protocol.
fn count() -> u64 {
    let given = std::env::var(COUNT_VARIABLE).ok();
    given.and_then(|count| count.parse().ok()).unwrap_or(20_000)
}

/// What chooses the commands: in a long run they are new ones; a short run, which every change must
/// pass, has the same ones each time.
fn random() -> harness::Random {
    /// Any number.
    const SHORT_RUN: u64 = 4;
    match std::env::var_os(COUNT_VARIABLE) {
        Some(_) => harness::Random::announced(),
        None => harness::Random::repeated(SHORT_RUN),
    }
}

/// The newest memcached that is unpacked here, as `cargo xtask bench` finds it; the one that setup
/// installs is too old for comparisons of the meta commands.
pub(crate) fn newest_memcached() -> Option<harness::Server> {
    newest_memcached_with(&[])
}

/// The same, with further arguments.
pub(crate) fn newest_memcached_with(arguments: &[&str]) -> Option<harness::Server> {
    let tree = harness::root().join(".peers/sid");
    if !tree.join("usr/bin/memcached").is_file() {
        return None;
    }
    let mut command = std::process::Command::new("chroot");
    command.arg(tree).arg("memcached").args(arguments);
    harness::Server::start_memcached(command).ok()
}
