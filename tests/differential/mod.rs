//! The same random commands for nagi and for the server that it replaces: all replies must be
//! equal. `cargo xtask differential --count N` sends more of them than a test should.

mod memcached;
mod memcached_binary;
mod memcached_meta;
mod redis;

/// Commands sent in each protocol.
fn count() -> u64 {
    let given = std::env::var("NAGI_DIFFERENTIAL_COUNT").ok();
    given.and_then(|count| count.parse().ok()).unwrap_or(20_000)
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
