//! A cache over real servers: memcached in each of its protocols, and Redis.
#![expect(clippy::unwrap_used, reason = "a test stops where it finds something wrong")]
#![expect(clippy::indexing_slicing, reason = "a test stops where it finds something wrong")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nagi_client::cache::{Cache, Item, Reason, Settings, Stored};
use nagi_client::ring::{Configuration, Library, Server};
use nagi_client::wire::Dialect;

mod cluster;
mod ejection;
mod libraries;
mod logins;
mod nutcracker;
mod peer;
mod ports;
mod replicas;
mod values;

use peer::Peer;

const MEMCACHED: [Dialect; 3] = [Dialect::Text, Dialect::Meta, Dialect::Binary];

fn signal(peer: &Peer, name: &str) {
    let mut kill = Command::new("kill");
    assert!(kill.args([name, &peer.child.id().to_string()]).status().unwrap().success());
}

/// Stops the server and waits until each of its threads is stopped. The call that sends the signal
/// returns earlier, and a thread on another core may still answer then.
fn stop(peer: &Peer) {
    signal(peer, "-STOP");
    let tasks = format!("/proc/{}/task", peer.child.id());
    let is_stopped = |task: std::io::Result<std::fs::DirEntry>| {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        status.contains("State:\tT")
    };
    while !std::fs::read_dir(&tasks).unwrap().all(is_stopped) {
        thread::yield_now();
    }
}

fn cache(ports: impl IntoIterator<Item = u16>, settings: Settings) -> Cache {
    let servers = ports.into_iter().map(|port| Server::new("127.0.0.1", port)).collect();
    Cache::new(Configuration::from(Library::PhpKetama).ring(servers), settings)
}

fn settings_for(dialect: Dialect) -> Settings {
    Settings { dialect, timeout: Duration::from_secs(10), ..Settings::default() }
}

/// Operations that every protocol supports.
fn common_operations(cache: &mut Cache) {
    assert_eq!(cache.get(b"none"), Ok(None));
    assert_eq!(cache.set(b"a", &Item::new(b"one\r\ntwo")), Ok(Stored::Yes));
    assert_eq!(cache.get(b"a").unwrap().unwrap().bytes, b"one\r\ntwo");
    assert_eq!(cache.add(b"a", &Item::new(b"x")), Ok(Stored::Condition));
    assert_eq!(cache.replace(b"none", &Item::new(b"x")), Ok(Stored::Condition));
    assert_eq!(cache.replace(b"a", &Item::new(b"1")), Ok(Stored::Yes));
    assert_eq!(cache.append(b"a", &Item::new(b"0")), Ok(Stored::Yes));
    assert_eq!(cache.increment(b"a", 5), Ok(Some(15)));
    assert_eq!(cache.decrement(b"a", 6), Ok(Some(9)));
    assert_eq!(cache.touch(b"a", 1000), Ok(true));
    assert_eq!(cache.touch(b"none", 1000), Ok(false));
    let touched = cache.get_and_touch(b"a", 0).unwrap().unwrap();
    assert_eq!(touched.bytes.trim_ascii(), b"9");
    assert_eq!(cache.get_and_touch(b"none", 5), Ok(None));
    assert_eq!(cache.delete(b"a"), Ok(true));
    assert_eq!(cache.delete(b"a"), Ok(false));
    let large = vec![b'x'; 900_000];
    assert_eq!(cache.set(b"large", &Item::new(&large)), Ok(Stored::Yes));
    assert_eq!(cache.get(b"large").unwrap().unwrap().bytes, large);

    let keys: Vec<String> = (0..500).map(|number| format!("key-{number}")).collect();
    let items: Vec<(&[u8], Item<'_>)> =
        keys.iter().map(|key| (key.as_bytes(), Item::new(key.as_bytes()))).collect();
    assert!(cache.set_many(&items[..499]).iter().all(|stored| *stored == Ok(Stored::Yes)));
    let names: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    for (key, value) in names.iter().zip(cache.get_many(&names)) {
        let value = value.unwrap().map(|value| value.bytes);
        assert_eq!(value.as_deref(), (*key != b"key-499").then_some(*key));
    }
    cache.set_by_key(b"user:1", b"mail", &Item::new(b"m")).unwrap();
    let related = cache.get_many_by_key(b"user:1", &[b"mail", b"name"]);
    assert_eq!(related[0].clone().unwrap().unwrap().bytes, b"m");
    assert_eq!(related[1], Ok(None));
    let items = [(&b"mail"[..], Item::new(b"n")), (b"name", Item::new(b"Ume"))];
    for master in [b"user:1", b"user:2", b"user:3"] {
        let stored = cache.set_many_by_key(master, &items);
        assert_eq!(stored, [Ok(Stored::Yes), Ok(Stored::Yes)]);
        let found = cache.get_many_by_key(master, &[b"mail", b"name"]);
        let found = found.into_iter().map(|found| found.unwrap().unwrap().bytes);
        assert_eq!(found.collect::<Vec<_>>(), [&b"n"[..], b"Ume"]);
        assert_eq!(cache.delete_many_quietly_by_key(master, &[b"mail", b"name"]), []);
        assert_eq!(cache.get_by_key(master, b"name"), Ok(None));
        assert_eq!(cache.set_many_quietly_by_key(master, &items), []);
        assert_eq!(cache.get_by_key(master, b"name").unwrap().unwrap().bytes, b"Ume");
    }
    assert!(cache.stats().into_iter().all(|found| found.unwrap().1.len() > 10));
    assert!(cache.flush().iter().all(Result::is_ok));
    assert_eq!(cache.get(b"large"), Ok(None));
}

#[test]
fn every_operation_works_in_each_protocol_of_memcached() {
    let peers = [Peer::fresh("memcached"), Peer::fresh("memcached"), Peer::fresh("memcached")];
    for dialect in MEMCACHED {
        let mut cache = cache(peers.iter().map(|peer| peer.port), settings_for(dialect));
        common_operations(&mut cache);
        let item = Item::new(b"flagged").flagged(0xfeed);
        assert_eq!(cache.set(b"f", &item), Ok(Stored::Yes));
        assert_eq!(cache.prepend(b"f", &Item::new(b"un")), Ok(Stored::Yes));
        let value = cache.get(b"f").unwrap().unwrap();
        assert_eq!((value.bytes.as_slice(), value.flags), (&b"unflagged"[..], 0xfeed));
        let cas = value.cas.unwrap();
        assert_eq!(cache.compare_and_store(b"f", cas, &item), Ok(Stored::Yes));
        assert_eq!(cache.compare_and_store(b"f", cas, &item), Ok(Stored::Changed));
        assert_eq!(cache.compare_and_store(b"none", cas, &item), Ok(Stored::Missing));
        let refused = cache.set(b"huge", &Item::new(&vec![b'x'; 2 << 20])).unwrap_err();
        assert!(matches!(refused.reason, Reason::Refused(_)), "{dialect:?} {refused}");
        assert_eq!(cache.get(b"f").unwrap().unwrap().bytes, b"flagged", "after a refusal");
    }
}

#[test]
fn every_operation_that_redis_has_works_in_resp() {
    let peers = [Peer::fresh("redis-server"), Peer::fresh("redis-server")];
    let mut cache = cache(peers.iter().map(|peer| peer.port), settings_for(Dialect::Resp));
    common_operations(&mut cache);
    let flagged = cache.set(b"f", &Item::new(b"x").flagged(1)).unwrap_err();
    assert!(matches!(flagged.reason, Reason::Request(_)));
}

#[test]
fn prefixes_keep_applications_apart() {
    let peer = Peer::fresh("memcached");
    let prefixed = Settings { prefix: b"app:".to_vec(), ..settings_for(Dialect::Text) };
    let mut app = cache([peer.port], prefixed);
    app.set(b"key", &Item::new(b"1")).unwrap();
    assert_eq!(app.get_many(&[b"key"])[0].clone().unwrap().unwrap().bytes, b"1");
    let mut plain = cache([peer.port], settings_for(Dialect::Text));
    assert_eq!(plain.get(b"key"), Ok(None));
    assert_eq!(plain.get(b"app:key").unwrap().unwrap().bytes, b"1");
}

#[test]
fn a_stopped_server_costs_one_timeout() {
    let peer = Peer::fresh("memcached");
    let timeout = Duration::from_millis(300);
    let settings =
        Settings { timeout, retry_after: Duration::from_secs(60), ..Settings::default() };
    let mut cache = cache([peer.port], settings);
    cache.set(b"key", &Item::new(b"1")).unwrap();
    stop(&peer);
    let start = Instant::now();
    let lost = cache.set(b"key", &Item::new(b"2")).unwrap_err();
    assert!(start.elapsed() >= timeout);
    assert!(matches!(lost.reason, Reason::Unknown(_)), "{lost}");
    assert_eq!(lost.server, format!("127.0.0.1:{}", peer.port));
    let start = Instant::now();
    for _ in 0..1000 {
        assert_eq!(cache.get(b"key").unwrap_err().reason, Reason::Dead);
    }
    assert!(start.elapsed() < timeout, "{:?}", start.elapsed());
    signal(&peer, "-CONT");
}

#[test]
fn a_restarted_server_is_connected_to_again() {
    let mut peer = Peer::fresh("memcached");
    let mut cache = cache([peer.port], settings_for(Dialect::Text));
    cache.set(b"key", &Item::new(b"1")).unwrap();
    let port = peer.port;
    drop(std::mem::replace(&mut peer, Peer::fresh("memcached")));
    let _again = Peer::start("memcached", port, &[]);
    assert_eq!(cache.set(b"other", &Item::new(b"2")), Ok(Stored::Yes));
    assert_eq!(cache.get(b"key"), Ok(None));
}

#[test]
fn reads_are_repeated_and_lost_writes_are_reported_as_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = thread::spawn(move || {
        let mut requests = Vec::new();
        // The first connection ends at once, the second after one answer and another request.
        for replies in [&[""][..], &["END\r\n", ""]] {
            let (mut stream, _) = listener.accept().unwrap();
            for reply in replies {
                let mut bytes = [0; 1000];
                let len = stream.read(&mut bytes).unwrap();
                requests.push(String::from_utf8(bytes[..len].to_vec()).unwrap());
                stream.write_all(reply.as_bytes()).unwrap();
            }
        }
        requests
    });
    let mut cache = cache([port], settings_for(Dialect::Text));
    assert_eq!(cache.get(b"a"), Ok(None));
    let lost = cache.delete(b"a").unwrap_err();
    assert!(matches!(lost.reason, Reason::Unknown(_)), "{lost}");
    assert_eq!(server.join().unwrap(), ["gets a\r\n", "gets a\r\n", "delete a\r\n"]);
}

#[test]
fn one_dead_server_fails_only_its_own_keys() {
    let peer = Peer::fresh("memcached");
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut cache = cache([peer.port, closed], settings_for(Dialect::Meta));
    let keys: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let names: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let values = cache.get_many(&names);
    for (key, value) in names.iter().zip(&values) {
        let expected = cache.ring().server_of(key).unwrap();
        match value {
            Ok(found) => assert_eq!((found, expected.port), (&None, peer.port)),
            Err(failure) => assert_eq!(failure.server, format!("127.0.0.1:{closed}")),
        }
    }
    assert!(values.iter().any(Result::is_ok) && values.iter().any(Result::is_err));
}

#[test]
fn a_reply_of_another_protocol_is_a_protocol_error() {
    let peer = Peer::fresh("redis-server");
    let failure = cache([peer.port], settings_for(Dialect::Text)).get(b"a").unwrap_err();
    assert!(matches!(failure.reason, Reason::Protocol(_)), "{failure}");
}

#[test]
fn a_reply_that_is_too_long_fails_alone() {
    let memcached = [Dialect::Text, Dialect::Meta, Dialect::Binary];
    let redis = [Dialect::Resp];
    for (name, dialects) in [("memcached", &memcached[..]), ("redis-server", &redis)] {
        let peer = Peer::fresh(name);
        for &dialect in dialects {
            let limit_bytes = 300_000;
            let settings = Settings { reply_limit_bytes: limit_bytes, ..settings_for(dialect) };
            let mut cache = cache([peer.port], settings);
            for (key, len) in [(&b"a"[..], 10), (b"large", 400_000), (b"z", 20)] {
                assert_eq!(cache.set(key, &Item::new(&vec![b'x'; len])), Ok(Stored::Yes));
            }
            let too_long = Reason::TooLong { limit_bytes };
            assert_eq!(cache.get(b"large").unwrap_err().reason, too_long, "{dialect:?}");
            let values = cache.get_each(&[b"a", b"large", b"z"]);
            let lens =
                values.into_iter().map(|value| value.map(|value| value.unwrap().bytes.len()));
            let lens: Vec<_> = lens.map(|len| len.map_err(|failure| failure.reason)).collect();
            assert_eq!(lens, [Ok(10), Err(too_long), Ok(20)], "{dialect:?}");
        }
    }
}

#[test]
fn quiet_writes_are_done_and_refusals_reported() {
    let redis = [Dialect::Resp];
    for (name, dialects) in [("memcached", &MEMCACHED[..]), ("redis-server", &redis)] {
        let peers = [Peer::fresh(name), Peer::fresh(name)];
        for &dialect in dialects {
            let mut cache = cache(peers.iter().map(|peer| peer.port), settings_for(dialect));
            let keys: Vec<String> = (0..1000).map(|number| format!("key-{number}")).collect();
            let names: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
            let items: Vec<_> = names.iter().map(|key| (*key, Item::new(key))).collect();
            assert_eq!(cache.set_many_quietly(&items), [], "{dialect:?}");
            for (key, value) in names.iter().zip(cache.get_many(&names)) {
                assert_eq!(value.unwrap().unwrap().bytes, *key, "{dialect:?}");
            }
            // Half of the keys, and a missing one.
            let deleted: Vec<&[u8]> =
                names.iter().copied().step_by(2).chain([&b"none"[..]]).collect();
            assert_eq!(cache.delete_many_quietly(&deleted), [], "{dialect:?}");
            let left = cache.get_many(&names).into_iter().filter(|value| value != &Ok(None));
            assert_eq!(left.count(), 500, "{dialect:?}");
            if dialect == Dialect::Resp {
                continue;
            }
            let huge = vec![b'x'; 2 << 20];
            let items = [
                (&b"a"[..], Item::new(b"1")),
                (b"huge", Item::new(&huge)),
                (b"", Item::new(b"x")),
                (b"b", Item::new(b"2")),
            ];
            let failures = cache.set_many_quietly(&items);
            assert!(matches!(failures[0].reason, Reason::Request(_)), "{failures:?}");
            // memcached does not report a missing key of a quiet delete in the text protocol.
            assert_eq!(
                failures.len(),
                if dialect == Dialect::Text { 1 } else { 2 },
                "{failures:?}"
            );
            assert_eq!(cache.get(b"huge"), Ok(None));
            assert_eq!(cache.get(b"a").unwrap().unwrap().bytes, b"1", "{dialect:?}");
            assert_eq!(cache.get(b"b").unwrap().unwrap().bytes, b"2", "{dialect:?}");
        }
    }
}
