//! Measures the gain from a master key: reading 100 related items from ten servers, and from the
//! one server of the master key. Run with `cargo bench -p nagi-client`; it needs memcached from
//! `cargo xtask setup`.

use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nagi_client::cache::{Cache, Item, Settings};
use nagi_client::ring::{Configuration, Library, Server};

const SERVERS: usize = 10;
const ITEMS: usize = 100;
const VALUE_BYTES: usize = 100;
const ROUNDS: usize = 200;
const REPEATS: usize = 9;

struct Servers(Vec<Child>);

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

fn start() -> Result<(Servers, Vec<Server>), Box<dyn Error>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.setup/bin/memcached");
    let (mut children, mut names) = (Servers(Vec::new()), Vec::new());
    for _ in 0..SERVERS {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(&script);
        command.args(["-u", "root", "-l", "127.0.0.1", "-U", "0", "-t", "1", "-p"]);
        children.0.push(command.arg(port.to_string()).stderr(Stdio::null()).spawn()?);
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if Instant::now() > deadline {
                return Err("memcached does not listen".into());
            }
            thread::yield_now();
        }
        names.push(Server::new("127.0.0.1", port));
    }
    Ok((children, names))
}

/// Sums a statistic over all servers.
fn sum(cache: &mut Cache, name: &str) -> u64 {
    let all = cache.stats().into_iter().flatten().flat_map(|(_, pairs)| pairs);
    all.filter(|(of, _)| of == name).filter_map(|(_, value)| value.parse::<u64>().ok()).sum()
}

/// Returns the number of TCP packets that this machine has sent.
fn packets() -> u64 {
    let text = std::fs::read_to_string("/proc/net/snmp").unwrap_or_default();
    let mut rows = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (rows.next().unwrap_or_default(), rows.next().unwrap_or_default());
    let mut columns = names.split(' ').zip(values.split(' '));
    columns
        .find(|(name, _)| *name == "OutSegs")
        .and_then(|(_, count)| count.parse().ok())
        .unwrap_or(0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (_children, servers) = start()?;
    let ring = Configuration::from(Library::PhpKetama).ring(servers);
    let mut cache = Cache::new(ring, Settings::default());
    let keys: Vec<String> = (0..ITEMS).map(|number| format!("user:1:item:{number}")).collect();
    let names: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let value = [b'x'; VALUE_BYTES];
    for name in &names {
        cache.set(name, &Item::new(&value))?;
        cache.set_by_key(b"user:1", name, &Item::new(&value))?;
    }
    println!("{ITEMS} items of {VALUE_BYTES} B on {SERVERS} servers, for each get of all of them:");
    println!("{:<16}{:>10}{:>12}{:>10}{:>22}", "", "bytes", "packets", "us", "us, of 9 runs");
    for by_key in [false, true] {
        let bytes = |cache: &mut Cache| sum(cache, "bytes_read") + sum(cache, "bytes_written");
        let idle = bytes(&mut cache);
        let overhead = bytes(&mut cache) - idle;
        let before = bytes(&mut cache);
        let (mut times, mut sent) = (Vec::new(), Vec::new());
        for _ in 0..REPEATS {
            let (start, sent_before) = (Instant::now(), packets());
            for _ in 0..ROUNDS {
                let values = match by_key {
                    true => cache.get_many_by_key(b"user:1", &names),
                    false => cache.get_many(&names),
                };
                if !values.iter().all(|value| matches!(value, Ok(Some(_)))) {
                    return Err("an item is missing".into());
                }
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64);
            // Other programs send packets as well: the minimum is the best estimate.
            sent.push((packets() - sent_before) as f64 / ROUNDS as f64);
        }
        let bytes = (bytes(&mut cache) - before - overhead) / (REPEATS * ROUNDS) as u64;
        times.sort_by(f64::total_cmp);
        sent.sort_by(f64::total_cmp);
        println!(
            "{:<16}{bytes:>10}{:>12.1}{:>10.1}{:>12.1} to {:.1}",
            if by_key { "by_key" } else { "each by its key" },
            sent.first().copied().unwrap_or_default(),
            times.get(REPEATS / 2).copied().unwrap_or_default(),
            times.first().copied().unwrap_or_default(),
            times.last().copied().unwrap_or_default(),
        );
    }
    Ok(())
}
