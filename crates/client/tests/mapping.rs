//! Keys must be placed as by the libraries themselves: libmemcached, twemproxy, dalli, pymemcache.
#![expect(clippy::unwrap_used, reason = "a test stops where it finds something wrong")]
#![expect(clippy::indexing_slicing, reason = "a test stops where it finds something wrong")]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use nagi_client::ring::{
    Behavior, Configuration, Dalli, Distribution, Hash, Libmemcached, Library, Rendezvous, Server,
};

mod libraries;
mod nutcracker;
mod ports;
mod proxy;

use libraries::{compile, setup};

const COUNTS: [usize; 5] = [1, 2, 3, 10, 50];

/// Returns a program from `cargo xtask setup` or, if it is not there, from the machine.
fn tool(name: &str) -> Command {
    let script = setup().join("bin").join(name);
    if script.is_file() { Command::new(script) } else { Command::new(name) }
}

/// Creates `count` realistic keys, some beyond ASCII. Returns them and the file that contains them.
fn keys(count: usize, name: &str) -> (Vec<Vec<u8>>, PathBuf) {
    let mut random = fastrand::Rng::with_seed(20);
    let keys: Vec<String> = (0..count)
        .map(|number| match number % 5 {
            0 => format!("user:{number}"),
            1 => format!("{:x}", random.u64(..)),
            2 => format!("sess/{}/{number}", "x".repeat(number % 97)),
            3 => format!("鍵-{number}-é"),
            _ => number.to_string(),
        })
        .collect();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, keys.join("\n") + "\n").unwrap();
    (keys.into_iter().map(String::into_bytes).collect(), path)
}

/// Servers with memcached's port and weight 1 or, if `is_odd`, with unusual ports and weights.
fn servers(count: usize, is_odd: bool) -> Vec<Server> {
    (1..=count as u16)
        .map(|number| match is_odd {
            false => Server::new(format!("cache-{number}.example.net"), 11211),
            true => Server::new(format!("10.0.{}.{number}", number % 3), 11200 + number * 11 % 40)
                .with_weight(u32::from(number * 7 % 5) + u32::from(number == 3)),
        })
        .collect()
}

/// A sequence of calls, as text for the program that uses libmemcached, and applied to
/// [`Libmemcached`].
#[derive(Default)]
struct Calls {
    text: String,
    ours: Libmemcached,
}

impl Calls {
    fn set(&mut self, behavior: Behavior) {
        // The values of libmemcached's enumerations; the C program expects numbers.
        let hash = |hash: Hash| [0, 1, 2, 3, 4, 5, 6, 8, 9, 10][index_of(hash)];
        let (number, value) = match behavior {
            Behavior::Hash(of) => (2, hash(of)),
            Behavior::Ketama(on) => (3, u32::from(on)),
            Behavior::Distribution(distribution) => (
                9,
                match distribution {
                    Distribution::Modula => 0,
                    Distribution::Consistent => 1 + self.text.len() as u32 % 2,
                    Distribution::KetamaSpy => 4,
                    Distribution::Weighted => 5,
                },
            ),
            Behavior::SortHosts(on) => (12, u32::from(on)),
            Behavior::KetamaWeighted(on) => (16, u32::from(on)),
            Behavior::HashWithPrefixKey(on) => (25, u32::from(on)),
        };
        writeln!(self.text, "set {number} {value}").unwrap();
        self.ours.set(behavior);
    }

    fn add(&mut self, servers: &[Server]) {
        for server in servers {
            writeln!(self.text, "add {} {} {}", server.host, server.port, server.weight).unwrap();
            self.ours.add(server.clone());
        }
    }

    fn push(&mut self, servers: &[Server]) {
        for server in servers {
            writeln!(self.text, "stage {} {} {}", server.host, server.port, server.weight).unwrap();
        }
        self.text.push_str("push\n");
        self.ours.push(servers);
    }

    fn eject(&mut self, places: &[usize]) {
        let mut out = vec![false; self.ours.servers().len()];
        for &place in places {
            writeln!(self.text, "eject {place}").unwrap();
            out[place] = true;
        }
        self.ours.eject(&out);
    }

    fn prefix(&mut self, prefix: &str) {
        writeln!(self.text, "prefix {prefix}").unwrap();
        self.ours.set_prefix(prefix);
    }
}

fn index_of(hash: Hash) -> usize {
    Hash::ALL.into_iter().position(|one| one == hash).unwrap()
}

/// Runs each sequence of calls with libmemcached, and compares the placement of every key. Returns
/// the number of keys compared.
fn compare(all: &[Calls], keys: &[Vec<u8>], path: &Path) -> usize {
    let mut child = Command::new(compile())
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut faults = Vec::new();
    thread::scope(|scope| {
        scope.spawn(move || {
            for calls in all {
                input.write_all(calls.text.as_bytes()).unwrap();
                input.write_all(b"ask\n").unwrap();
            }
        });
        // All output is read before the comparison, because the program would block on a full pipe.
        for Calls { text, ours } in all {
            let (mut names, mut places) = (String::new(), vec![0; keys.len()]);
            output.read_line(&mut names).unwrap();
            if output.read_exact(&mut places).is_err() {
                faults.push(format!("no answer to:\n{text}"));
                break;
            }
            let expected: String =
                ours.servers().iter().map(|one| format!("{}:{} ", one.host, one.port)).collect();
            if names.trim_end() != expected.trim_end() {
                faults.push(format!("the servers are {names} after:\n{text}"));
            }
            let differs =
                |(key, place): &(&Vec<u8>, &u8)| ours.locate(key) != Some(usize::from(**place));
            let differences = keys.iter().zip(&places).filter(differs).count();
            if differences > 0 {
                faults.push(format!("{differences} keys are elsewhere after:\n{text}"));
            }
        }
    });
    assert!(faults.is_empty(), "{} faults: {}", faults.len(), faults[0]);
    assert!(child.wait().unwrap().success());
    all.len() * keys.len()
}

/// Servers on ports of this machine on which no server listens, so that requests fail at once.
fn closed_servers(count: usize, is_weighted: bool) -> Vec<Server> {
    let weight = |number: u16| if is_weighted { u32::from(number * 7 % 5) + 1 } else { 1 };
    (1..=count as u16)
        .map(|number| Server::new(format!("127.9.0.{number}"), number).with_weight(weight(number)))
        .collect()
}

#[test]
fn ejected_servers_leave_the_ring_that_libmemcached_leaves() {
    let (keys, path) = keys(100_000, "keys-of-ejection");
    let distributions = [Distribution::Consistent, Distribution::Weighted, Distribution::KetamaSpy];
    let mut all = Vec::new();
    for distribution in distributions {
        for (count, places) in
            [(2, &[0][..]), (3, &[2]), (3, &[0, 1]), (10, &[0, 4, 9]), (10, &[7]), (50, &[3, 33])]
        {
            for is_weighted in [false, true] {
                let mut calls = Calls::default();
                calls.set(Behavior::Distribution(distribution));
                calls.push(&closed_servers(count, is_weighted));
                calls.eject(places);
                all.push(calls);
            }
        }
    }
    let compared = compare(&all, &keys, &path);
    assert_eq!(compared, 36 * 100_000);
}

#[test]
fn every_hash_and_distribution_agrees_with_libmemcached() {
    let (keys, path) = keys(100_000, "keys-of-libmemcached");
    let distributions = [
        Distribution::Modula,
        Distribution::Consistent,
        Distribution::Weighted,
        Distribution::KetamaSpy,
    ];
    let mut compared = 0;
    for hash in Hash::ALL {
        let mut all = Vec::new();
        for (distribution, count) in
            distributions.into_iter().flat_map(|one| COUNTS.map(|count| (one, count)))
        {
            for is_odd in [false, true] {
                // The hash set first, and the hash set after the ring is built.
                let mut first = Calls::default();
                first.set(Behavior::Hash(hash));
                first.set(Behavior::Distribution(distribution));
                first.add(&servers(count, is_odd));
                let mut later = Calls::default();
                later.set(Behavior::Distribution(distribution));
                later.add(&servers(count, is_odd));
                later.set(Behavior::Hash(hash));
                all.extend([first, later]);
            }
        }
        compared += compare(&all, &keys, &path);
    }
    assert_eq!(compared, 10 * 4 * 5 * 2 * 2 * 100_000);
}

#[test]
fn any_order_of_calls_agrees_with_libmemcached() {
    let (keys, path) = keys(2000, "keys-of-orders");
    let seed = std::env::var("NAGI_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("NAGI_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut all = Vec::new();
    for _ in 0..400 {
        let mut calls = Calls::default();
        let mut is_prefixed = false;
        for _ in 0..random.usize(1..12) {
            let on = random.bool();
            match random.u8(..9) {
                0 => calls.set(Behavior::Hash(Hash::ALL[random.usize(..10)])),
                1 => calls.set(Behavior::Ketama(on)),
                2 => calls.set(Behavior::KetamaWeighted(on)),
                3 => calls.set(Behavior::SortHosts(on)),
                4 => calls.set(Behavior::HashWithPrefixKey(on)),
                5 => calls.set(Behavior::Distribution(match random.u8(..4) {
                    0 => Distribution::Modula,
                    1 => Distribution::Consistent,
                    2 => Distribution::Weighted,
                    _ => Distribution::KetamaSpy,
                })),
                6 if !is_prefixed => {
                    is_prefixed = true;
                    calls.prefix(&"p".repeat(random.usize(1..120)));
                }
                7 => calls.add(&servers(random.usize(1..6), on)),
                _ => calls.push(&servers(random.usize(1..6), on)),
            }
        }
        calls.add(&servers(2, true));
        all.push(calls);
    }
    assert_eq!(compare(&all, &keys, &path), 400 * 2000);
}

#[test]
fn weighted_ketama_agrees_with_twemproxy() {
    for count in [1, 3, 10] {
        proxy::check(count);
    }
}

/// Runs a program that prints the placement of keys. Returns its output.
fn places(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

#[test]
fn the_ring_agrees_with_dalli() {
    let (keys, path) = keys(100_000, "keys-of-dalli");
    let debian = setup().join("debian/usr");
    let is_library = |path: &PathBuf| path.is_dir();
    let folders = |folder: PathBuf| {
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path())
    };
    let gems = folders(debian.join("share/rubygems-integration/all/gems"))
        .filter(|path| path.to_string_lossy().contains("/dalli-"))
        .map(|path| path.join("lib"));
    let ruby = folders(debian.join("lib/ruby")).filter(is_library);
    let native = folders(debian.join("lib"))
        .filter(|path| path.to_string_lossy().contains("-linux-gnu"))
        .flat_map(|path| folders(path.join("ruby")).filter(is_library));
    let library = std::env::join_paths(gems.chain(ruby).chain(native)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libraries/dalli.rb");
    for (count, is_odd) in COUNTS.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let servers = servers(count, is_odd);
        let names = servers.iter().map(|one| format!("{}:{}:{}", one.host, one.port, one.weight));
        let mut command = tool("ruby");
        command.arg("--disable-gems").arg(&script).arg(&path).args(names);
        let places = places(command.env("RUBYLIB", &library));
        assert_eq!(places.len(), keys.len());
        let ring = Dalli::new(servers);
        let differs =
            |(key, place): &(&Vec<u8>, &u8)| ring.locate(key) != Some(usize::from(**place));
        assert_eq!(keys.iter().zip(&places).filter(differs).count(), 0, "{count} {is_odd}");
    }
}

#[test]
fn the_ring_agrees_with_pymemcache() {
    // pymemcache's hash is written in Python and slow, so there are fewer keys with many servers.
    for (count, of_keys) in [(1, 100_000), (2, 100_000), (3, 100_000), (10, 10_000), (50, 2000)] {
        let (keys, path) = keys(of_keys, &format!("keys-of-pymemcache-{count}"));
        let servers = servers(count, true);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libraries/rendezvous.py");
        let names = servers.iter().map(|one| format!("{}:{}", one.host, one.port));
        let places = places(tool("python").arg(&script).arg(&path).args(names));
        assert_eq!(places.len(), keys.len());
        let ring = Rendezvous::new(servers);
        let differs =
            |(key, place): &(&Vec<u8>, &u8)| ring.locate(key) != Some(usize::from(**place));
        assert_eq!(keys.iter().zip(&places).filter(differs).count(), 0, "{count}");
    }
}

#[test]
fn settings_apply_in_order_and_invalid_ones_are_refused() {
    let servers = servers(10, false);
    let place = |text: &str| {
        let ring = text.parse::<Configuration>().unwrap().ring(servers.clone());
        (0..200).map(|key| ring.locate(format!("key{key}").as_bytes()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(place("php-ketama"), place("libmemcached,weighted"));
    assert_eq!(place("php"), place("pylibmc"));
    assert_eq!(place("pylibmc-ketama"), place("libmemcached,distribution=consistent"));
    assert_ne!(
        place("libmemcached,hash=crc,ketama"),
        place("libmemcached,ketama,servers,hash=crc")
    );
    for (text, reason) in [
        ("perl", "unknown library perl"),
        ("dalli,ketama", "takes no settings"),
        ("php,hash=hsieh", "without the hash hsieh"),
        ("php,distribution=random", "no get finds it"),
        ("php,distribution=virtual_bucket", "Couchbase"),
        ("php,ketama=1", "unknown setting"),
        ("php,servers,servers", "once"),
    ] {
        let refusal = text.parse::<Configuration>().unwrap_err();
        assert!(refusal.contains(reason), "{text}: {refusal}");
    }
    assert_eq!(Configuration::from(Library::Php).to_string(), "php");
}
