//! `cargo xtask conformance memcached`: libmemcached's memccapable against nagi, then random
//! requests of the text, meta and binary protocols whose replies are compared with memcached's.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::{self, cargo};
use crate::{process, setup};

/// The amount to compare.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Random requests in each protocol
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    count: u64,
}

/// The test for each protocol. The meta commands need memcached 1.6.45 in `.peers`.
const PROTOCOLS: [(&str, &str); 3] = [
    ("text", "differential::memcached::"),
    ("meta", "differential::memcached_meta::"),
    ("binary", "differential::memcached_binary::"),
];

/// Runs all tests, and prints a summary line.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    setup::run()?;
    let (mut passed, mut failed) = capable()?;
    let mut skipped = 0;
    for (number, (protocol, test)) in PROTOCOLS.into_iter().enumerate() {
        println!("{} of {}: {protocol}", number + 1, PROTOCOLS.len());
        let newest = workspace::root().join(".peers/sid/usr/bin/memcached");
        if protocol == "meta" && !newest.is_file() {
            println!("{protocol}: skipped, there is no memcached 1.6.45 in .peers");
            skipped += 1;
            continue;
        }
        let mut command = cargo(&["test", "--package", "nagi-tests", test]);
        command
            .args(["--", "--nocapture", "--include-ignored"])
            .env("NAGI_DIFFERENTIAL_COUNT", arguments.count.to_string());
        match process::run(&mut command) {
            Ok(()) => {
                println!("{protocol}: {} random requests, every reply the same", arguments.count);
                passed += 1;
            }
            Err(error) => {
                println!("{protocol}: {error}");
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 {
        bail!("{failed} failed");
    }
    Ok(())
}

/// Runs memccapable against a separate nagi. Returns the numbers of passed and failed tests.
fn capable() -> Result<(usize, usize)> {
    let binary = workspace::build_nagi("dev")?;
    let folder = std::env::temp_dir().join(format!("nagi-capable-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let ports_file = folder.join("ports");
    let mut server = Command::new(binary)
        .args(["serve", "--port", "any", "--memcached-port", "any", "--ports-file"])
        .arg(&ports_file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("cannot start nagi")?;
    let printed = port_in(&ports_file).and_then(|port| {
        let tool = workspace::setup_folder().join("bin/memccapable");
        let output = Command::new(tool).args(["-h", "127.0.0.1", "-p", &port]).output();
        Ok(String::from_utf8_lossy(&output.context("cannot start memccapable")?.stdout)
            .into_owned())
    });
    // The server may have exited already, so errors are ignored.
    let _ = server.kill();
    let _ = server.wait();
    let _ = std::fs::remove_dir_all(&folder);
    let printed = printed?;
    let count = |result: &str| printed.matches(result).count();
    for line in printed.lines().filter(|line| line.contains("[FAIL]")) {
        println!("memccapable: {line}");
    }
    println!("memccapable: {} passed, {} failed", count("[pass]"), count("[FAIL]"));
    Ok((count("[pass]"), count("[FAIL]")))
}

/// Returns the port of memcached's protocols, once the server has written it to the file.
fn port_in(ports_file: &std::path::Path) -> Result<String> {
    for _ in 0..1000 {
        let ports = std::fs::read_to_string(ports_file).unwrap_or_default();
        let port = ports.lines().find_map(|line| line.strip_prefix("memcached 127.0.0.1:"));
        if let Some(port) = port {
            return Ok(port.to_owned());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    bail!("nagi does not start")
}
