//! Servers that fail under load and return: no stale value is read, and a dead server costs no more
//! than its time-outs.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nagi_client::cache::{Cache, Ejection, Item, OnFailure, Reason, Settings};
use nagi_client::ring::{Configuration, Server};
use nagi_client::wire::Dialect;

use crate::nutcracker::Proxy;
use crate::peer::{NEWEST, Peer};
use crate::ports;
use crate::{signal, stop};

const FAILURES: u32 = 2;

fn ejecting(dialect: Dialect) -> Settings {
    let on_failure = OnFailure::Eject(Ejection {
        failures: FAILURES,
        duration: Duration::from_secs(1),
        settling: Duration::from_millis(300),
        keys: 1000,
    });
    let timeout = Duration::from_secs(1);
    Settings { dialect, timeout, retry_after: Duration::ZERO, on_failure, ..Settings::default() }
}

/// The program installed by `cargo xtask setup`, and the newest version of it if that is installed.
fn versions(name: &'static str, newest: &'static str) -> Vec<&'static str> {
    let program = newest.strip_prefix(NEWEST).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.peers/sid/usr/bin").join(program);
    if !path.is_file() {
        println!("SKIPPED: {program} of Debian sid is not in .peers/sid");
        return vec![name];
    }
    vec![name, newest]
}

fn memcached() -> Vec<&'static str> {
    versions("memcached", "newest memcached")
}

/// A cache over three servers of unequal weights, so that an ejection also moves keys between
/// servers that did not fail.
fn cache(peers: &[Peer], settings: Settings) -> Cache {
    let servers = peers.iter().zip([1, 1, 2]);
    let servers = servers
        .map(|(peer, weight)| Server::new("127.0.0.1", peer.port).with_weight(weight))
        .collect();
    let configuration: Configuration = "php-ketama".parse().unwrap();
    Cache::new(configuration.ring(servers), settings)
}

/// A client that writes increasing versions of its keys and reads them.
struct Load {
    cache: Cache,
    random: fastrand::Rng,
    version: u64,
    /// The newest confirmed version of each key; a lower version is stale.
    certain: HashMap<u32, u64>,
    hits: u32,
    /// The number of requests of each server that failed, except those that failed immediately.
    failed: HashMap<String, u32>,
    not_sent: u32,
    /// Requests that a proxy answered with an error, if there is one.
    refused: u32,
    may_be_refused: bool,
    slowest: Duration,
}

impl Load {
    fn new(cache: Cache) -> Self {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        Load {
            cache,
            random: fastrand::Rng::with_seed(seed),
            version: 0,
            certain: HashMap::new(),
            hits: 0,
            failed: HashMap::new(),
            not_sent: 0,
            refused: 0,
            may_be_refused: false,
            slowest: Duration::ZERO,
        }
    }

    /// Sends one random request and checks the result.
    fn step(&mut self) {
        let number = self.random.u32(..200);
        let key = format!("key-{number}");
        let (key, start) = (key.as_bytes(), Instant::now());
        self.version += 1;
        let failed = match self.random.u32(..10) {
            0..4 => {
                let value = self.version.to_string();
                let stored = self.cache.set(key, &Item::new(value.as_bytes()));
                stored.map(|_| self.certain.insert(number, self.version)).err()
            }
            4 => {
                let deleted = self.cache.delete(key);
                deleted.map(|_| self.certain.insert(number, self.version)).err()
            }
            5 => {
                let values = self.cache.get_many(&[key]);
                values.into_iter().find_map(|value| self.check(number, value).err())
            }
            _ => {
                let value = self.cache.get(key);
                self.check(number, value).err()
            }
        };
        self.slowest = self.slowest.max(start.elapsed());
        let Some(failure) = failed else { return };
        match failure.reason {
            Reason::Dead => self.not_sent += 1,
            Reason::Refused(_) if self.may_be_refused => self.refused += 1,
            refused @ (Reason::Request(_) | Reason::Refused(_)) => {
                assert_eq!(refused, Reason::Dead, "{}", failure.server);
            }
            _ => *self.failed.entry(failure.server).or_default() += 1,
        }
    }

    fn check<E>(
        &mut self,
        number: u32,
        value: Result<Option<nagi_client::wire::Value>, E>,
    ) -> Result<(), E> {
        let Some(value) = value? else { return Ok(()) };
        self.hits += 1;
        let version: u64 = std::str::from_utf8(&value.bytes).unwrap().parse().unwrap();
        let certain = self.certain.entry(number).or_default();
        assert!(version >= *certain, "key-{number} is old: version {version}, not {certain}");
        *certain = version;
        Ok(())
    }

    /// Sends requests until `ejected` servers are ejected, and prints the results.
    fn run(&mut self, phase: &str, ejected: usize) {
        let (start, deadline) = (Instant::now(), Instant::now() + Duration::from_secs(120));
        let mut steps = 0;
        while steps < 2000 || self.cache.ejected().len() != ejected {
            assert!(Instant::now() < deadline, "{phase}: {:?} ejected", self.cache.ejected());
            self.step();
            steps += 1;
        }
        println!(
            "{phase}: {steps} requests in {:.3} s, slowest {:.3} s; {} hits, {} not sent, {} \
             refused, failed {:?}",
            start.elapsed().as_secs_f64(),
            self.slowest.as_secs_f64(),
            self.hits,
            self.not_sent,
            self.refused,
            self.failed
        );
        (self.hits, self.not_sent, self.slowest) = (0, 0, Duration::ZERO);
    }

    /// Returns the number of requests of a server that failed since the last call, except those
    /// that failed immediately.
    fn failures(&mut self, peer: &Peer) -> u32 {
        let failures = self.failed.get(&format!("127.0.0.1:{}", peer.port)).copied();
        self.failed.clear();
        failures.unwrap_or_default()
    }
}

fn statistic(peer: &Peer, name: &str) -> String {
    let settings = Settings { timeout: Duration::from_secs(10), ..Settings::default() };
    let ring = "php".parse::<Configuration>().unwrap();
    let ring = ring.ring(vec![Server::new("127.0.0.1", peer.port)]);
    let (_, pairs) = Cache::new(ring, settings).stats().remove(0).unwrap();
    pairs.into_iter().find(|(key, _)| key == name).unwrap().1
}

/// Pauses and resumes a server twice. Values written to other servers during the first pause must
/// not be read during the second.
fn pause(name: &str, dialect: Dialect) {
    let peers = [Peer::fresh(name), Peer::fresh(name), Peer::fresh(name)];
    let mut load = Load::new(cache(&peers, ejecting(dialect)));
    load.run("all there", 0);
    for peer in [&peers[0], &peers[0], &peers[2]] {
        stop(peer);
        load.run("stopped", 1);
        // Only the time-outs before the ejection fail: of a request, and of the attempts to
        // reconnect.
        assert_eq!(load.failures(peer), FAILURES, "{name} {dialect:?}");
        assert_eq!(load.cache.ejected()[0].port, peer.port);
        signal(peer, "-CONT");
        load.run("back", 0);
        load.failures(peer);
    }
}

#[test]
fn a_server_that_stood_still_is_flushed_before_it_is_back() {
    for name in memcached() {
        for dialect in [Dialect::Text, Dialect::Binary] {
            pause(name, dialect);
        }
    }
    for name in versions("redis-server", "newest valkey-server") {
        pause(name, Dialect::Resp);
    }
}

#[test]
fn a_server_that_was_restarted_is_back_without_a_flush() {
    memcached().into_iter().for_each(restart);
}

fn restart(name: &str) {
    let mut peers = [(); 3].map(|()| Peer::fresh(name));
    let mut load = Load::new(cache(&peers, ejecting(Dialect::Text)));
    load.run("all there", 0);
    for place in [0, 0, 2] {
        let port = peers[place].port;
        let mut killed = std::mem::replace(&mut peers[place], Peer::fresh(name));
        killed.kill();
        load.run("killed", 1);
        // One write fails over the broken connection; the others fail because the connection is
        // refused.
        assert!(load.failures(&killed) <= 1 + FAILURES);
        peers[place] = Peer::start(name, port, &[]);
        load.run("restarted", 0);
        assert_eq!(statistic(&peers[place], "cmd_flush"), "0");
    }
}

/// The client knows only the proxy, which does not eject the servers behind it.
#[test]
fn behind_twemproxy_a_killed_server_fails_fast_and_returns_without_old_values() {
    for name in memcached() {
        let mut peers = [(); 3].map(|()| Peer::fresh(name));
        let servers = peers.iter().map(|peer| Server::new("127.0.0.1", peer.port));
        let proxy = Proxy::start("ejection", &servers.collect::<Vec<_>>());
        let settings = Settings { on_failure: OnFailure::Fail, ..ejecting(Dialect::Text) };
        let ring = vec![Server::new("127.0.0.1", proxy.port)];
        let ring = "php".parse::<Configuration>().unwrap().ring(ring);
        let mut load = Load::new(Cache::new(ring, settings));
        load.may_be_refused = true;
        load.run("all there", 0);
        assert_eq!((load.refused, load.failed.len()), (0, 0));
        for place in [0, 0, 2] {
            let port = peers[place].port;
            drop(std::mem::replace(&mut peers[place], Peer::fresh(name)));
            load.run("killed", 0);
            // Keys of the other servers are served; for the killed server, the proxy answers with
            // errors.
            assert!((200..1500).contains(&load.refused), "{name}: {} refused", load.refused);
            assert!(load.failed.is_empty(), "{name}: {:?}", load.failed);
            peers[place] = Peer::start(name, port, &[]);
            load.refused = 0;
            load.run("restarted", 0);
            assert!(load.refused <= 1 && load.failed.is_empty(), "{name}: {}", load.refused);
            load.refused = 0;
        }
    }
}

#[test]
fn a_redis_that_loaded_its_dump_is_flushed_before_it_is_back() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ejection-dump");
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    let folder = folder.to_str().unwrap();
    let persistent = Peer::start("redis-server", ports::free_port(), &["--dir", folder]);
    let port = persistent.port;
    let mut peers = [persistent, Peer::fresh("redis-server"), Peer::fresh("redis-server")];
    let mut load = Load::new(cache(&peers, ejecting(Dialect::Resp)));
    load.run("all there", 0);
    let address = nagi_client::Address::tcp("127.0.0.1", port).unwrap();
    let mut admin = nagi_client::Client::connect(&address).unwrap();
    admin.command(&[b"SET", b"left", b"behind"]).unwrap();
    admin.command(&[b"SAVE"]).unwrap();
    drop(std::mem::replace(&mut peers[0], Peer::fresh("redis-server")));
    load.run("killed", 1);
    peers[0] = Peer::start("redis-server", port, &["--dir", folder]);
    let mut admin = nagi_client::Client::connect(&address).unwrap();
    let left = admin.command(&[b"GET", b"left"]).unwrap();
    assert_eq!(left, nagi_client::Reply::Bulk(b"behind".to_vec()), "the dump is loaded");
    load.run("restarted", 0);
    assert_eq!(admin.command(&[b"GET", b"left"]).unwrap(), nagi_client::Reply::Null);
}

#[test]
fn without_ejection_keys_stay_where_they_are() {
    let peers = [(); 3].map(|()| Peer::fresh("memcached"));
    let settings = Settings { on_failure: OnFailure::Fail, ..ejecting(Dialect::Text) };
    let mut cache = cache(&peers, Settings { timeout: Duration::from_millis(100), ..settings });
    stop(&peers[0]);
    let key = (0_u32..).map(u32::to_be_bytes).map(|key| format!("{key:?}").replace(' ', ""));
    let is_there = |key: &String| cache.ring().locate(key.as_bytes()) == Some(0);
    let key = key.into_iter().find(is_there).unwrap();
    for _ in 0..5 {
        assert!(cache.get(key.as_bytes()).is_err());
        assert!(cache.ejected().is_empty());
    }
    signal(&peers[0], "-CONT");
}

#[test]
fn keys_elsewhere_are_bounded() {
    let mut peers = [(); 3].map(|()| Peer::fresh("memcached"));
    let mut settings = ejecting(Dialect::Text);
    let duration = Duration::from_secs(600);
    let ejection = Ejection { failures: 1, duration, keys: 10, ..Ejection::default() };
    settings.on_failure = OnFailure::Eject(ejection);
    let mut cache = cache(&peers, settings);
    let homes = cache.ring().clone();
    drop(std::mem::replace(&mut peers[0], Peer::fresh("memcached")));
    let (mut stored, mut refused) = (0, 0);
    for number in 0..500 {
        let key = format!("key-{number}");
        let result = cache.set(key.as_bytes(), &Item::new(b"x"));
        if homes.locate(key.as_bytes()) != Some(0) || cache.ejected().is_empty() {
            continue;
        }
        match result {
            Ok(_) => stored += 1,
            Err(failure) => {
                assert!(matches!(failure.reason, Reason::Request(_)), "{failure}");
                assert!(failure.to_string().contains("10 keys are on other servers"), "{failure}");
                refused += 1;
            }
        }
    }
    // A key of the ejected server takes one record, a key that moved between two other servers
    // takes two.
    assert!((1..=20).contains(&stored) && refused > 50, "{stored} stored, {refused} refused");
}
