//! Copies on the next servers in the list, at the same places as with libmemcached.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nagi_client::cache::{Cache, Item, OnFailure, Reason, Replicas, Settings, Stored};
use nagi_client::ring::{Configuration, Server};
use nagi_client::wire::Dialect;

use crate::libraries::compile;
use crate::peer::Peer;
use crate::{settings_for, signal, stop};

/// A cache with copies on `count` further servers.
fn replicated(peers: &[Peer], dialect: Dialect, count: usize, random_reads: bool) -> Cache {
    let on_failure = OnFailure::Replicate(Replicas { count, random_reads });
    cache(peers, Settings { on_failure, ..settings_for(dialect) })
}

fn cache(peers: &[Peer], settings: Settings) -> Cache {
    let servers = peers.iter().map(|peer| Server::new("127.0.0.1", peer.port)).collect();
    Cache::new("php-ketama".parse::<Configuration>().unwrap().ring(servers), settings)
}

/// Returns the value of a key on each server.
fn copies(peers: &[Peer], dialect: Dialect, key: &str) -> Vec<Option<String>> {
    let value = |peer| {
        let mut cache = cache(std::slice::from_ref(peer), settings_for(dialect));
        let value = cache.get(key.as_bytes()).unwrap();
        value.map(|value| String::from_utf8(value.bytes).unwrap())
    };
    peers.iter().map(value).collect()
}

fn names(count: u32) -> Vec<String> {
    (0..count).map(|number| format!("key-{number}")).collect()
}

#[test]
fn libmemcached_and_this_client_have_the_same_copies() {
    let peers = [(); 4].map(|()| Peer::fresh("memcached"));
    let keys = names(100);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("keys-of-replicas");
    fs::write(&path, keys.join("\n") + "\n").unwrap();
    let mut program = Command::new(compile())
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // KETAMA_WEIGHTED (16), which PHP sets.
    let mut calls = "set 16 1\n".to_owned();
    calls.extend(peers.iter().map(|peer| format!("add 127.0.0.1 {} 1\n", peer.port)));
    calls.push_str("replicate 2\n");
    program.stdin.take().unwrap().write_all(calls.as_bytes()).unwrap();
    assert!(program.wait().unwrap().success());

    // libmemcached does not wait for the answers of the copies' servers.
    let deadline = Instant::now() + Duration::from_secs(20);
    let all = || keys.iter().map(|key| copies(&peers, Dialect::Binary, key)).collect();
    let mut theirs: Vec<Vec<Option<String>>> = all();
    while theirs.iter().any(|copies| copies.iter().flatten().count() < 3) {
        assert!(Instant::now() < deadline, "{theirs:?}");
        theirs = all();
    }
    let mut ours = replicated(&peers, Dialect::Binary, 2, false);
    for key in &keys {
        assert_eq!(ours.get(key.as_bytes()).unwrap().unwrap().bytes, key.as_bytes());
    }
    assert!(ours.flush().iter().all(Result::is_ok));
    for dialect in [Dialect::Text, Dialect::Meta, Dialect::Binary] {
        let mut ours = replicated(&peers, dialect, 2, false);
        for (key, theirs) in keys.iter().zip(&theirs) {
            assert_eq!(ours.set(key.as_bytes(), &Item::new(key.as_bytes())), Ok(Stored::Yes));
            assert_eq!(copies(&peers, dialect, key), *theirs, "{dialect:?} {key}");
        }
        assert!(ours.flush().iter().all(Result::is_ok));
    }
}

#[test]
fn copies_are_written_and_never_left_old() {
    let peers = [(); 3].map(|()| Peer::fresh("memcached"));
    let dialect = Dialect::Text;
    let mut cache = replicated(&peers, dialect, 1, false);
    let home = cache.ring().locate(b"k").unwrap();
    let check = |expected: [Option<&str>; 2]| {
        let mut all = vec![None; 3];
        all[home] = expected[0].map(str::to_owned);
        all[(home + 1) % 3] = expected[1].map(str::to_owned);
        assert_eq!(copies(&peers, dialect, "k"), all);
    };
    let item = |value: &'static str| Item::new(value.as_bytes());
    cache.set(b"k", &item("1")).unwrap();
    check([Some("1"), Some("1")]);
    assert_eq!(cache.add(b"k", &item("no")), Ok(Stored::Condition));
    check([Some("1"), Some("1")]);
    assert_eq!(cache.increment(b"k", 4), Ok(Some(5)));
    check([Some("5"), None]);
    cache.replace(b"k", &item("6")).unwrap();
    check([Some("6"), Some("6")]);
    cache.append(b"k", &item("7")).unwrap();
    check([Some("67"), None]);
    let cas = cache.get(b"k").unwrap().unwrap().cas.unwrap();
    assert_eq!(cache.compare_and_store(b"k", cas + 1, &item("no")), Ok(Stored::Changed));
    check([Some("67"), None]);
    assert_eq!(cache.compare_and_store(b"k", cas, &item("8")), Ok(Stored::Yes));
    check([Some("8"), Some("8")]);
    assert_eq!(cache.delete(b"k"), Ok(true));
    check([None, None]);
    assert_eq!(cache.add(b"k", &item("9")), Ok(Stored::Yes));
    check([Some("9"), Some("9")]);
    assert_eq!(cache.take_replica_failures(), []);
}

#[test]
fn quiet_writes_reach_the_copies() {
    let peers = [(); 3].map(|()| Peer::fresh("memcached"));
    let keys = names(150);
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    for dialect in [Dialect::Text, Dialect::Meta, Dialect::Binary] {
        let mut cache = replicated(&peers, dialect, 1, false);
        let found = |cache: &Cache| {
            let home = cache.ring().locate(keys[0]).unwrap();
            let all = copies(&peers, dialect, "key-0");
            [0, 1, 2].map(|place| all[(home + place) % 3].clone())
        };
        let items = |value| keys.iter().map(|key| (*key, Item::new(value))).collect::<Vec<_>>();
        assert!(cache.set_many(&items(b"old")).iter().all(Result::is_ok));
        assert_eq!(cache.set_many_quietly(&items(b"new")), []);
        let new = Some("new".to_owned());
        assert_eq!(found(&cache), [new.clone(), new, None], "{dialect:?}");
        assert_eq!(cache.delete_many_quietly(&keys), []);
        assert_eq!(found(&cache), [None, None, None], "{dialect:?}");
        assert_eq!(cache.take_replica_failures(), []);
    }
}

/// Every key can be read while a server is stopped, at the cost of one time-out.
fn read_from_copies(name: &str, dialect: Dialect) {
    let peers = [(); 3].map(|()| Peer::fresh(name));
    let keys = names(100);
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let items: Vec<_> = keys.iter().map(|key| (*key, Item::new(key))).collect();
    let on_failure = OnFailure::Replicate(Replicas { count: 1, random_reads: false });
    let (timeout, retry_after) = (Duration::from_secs(1), Duration::from_secs(60));
    let settings = Settings { dialect, timeout, retry_after, on_failure, ..Settings::default() };
    let mut cache = cache(&peers, settings);
    let stored = cache.set_many(&items);
    assert!(stored.iter().all(|stored| *stored == Ok(Stored::Yes)));
    stop(&peers[1]);
    for _ in 0..3 {
        for (key, value) in keys.iter().zip(cache.get_many(&keys)) {
            let value = value.unwrap().unwrap();
            assert_eq!(value.bytes, *key, "{name} {dialect:?}");
            let is_home = cache.ring().locate(key) != Some(1);
            assert_eq!(value.cas.is_some(), is_home && dialect != Dialect::Resp);
        }
    }
    let stopped = keys.iter().find(|key| cache.ring().locate(key) == Some(1)).unwrap();
    assert_eq!(cache.get(stopped).unwrap().unwrap().bytes, *stopped);
    // A write whose first server is dead fails, but the copy is stored.
    assert_eq!(cache.set(stopped, &Item::new(b"new")).unwrap_err().reason, Reason::Dead);
    assert_eq!(cache.get(stopped).unwrap().unwrap().bytes, b"new");
    let before = keys.iter().find(|key| cache.ring().locate(key) == Some(0)).unwrap();
    assert_eq!(cache.set(before, &Item::new(b"new")), Ok(Stored::Yes));
    let failures = cache.take_replica_failures();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0].server, format!("127.0.0.1:{}", peers[1].port));
    signal(&peers[1], "-CONT");
}

#[test]
fn reads_go_to_a_copy_when_the_first_server_fails() {
    for dialect in [Dialect::Text, Dialect::Meta, Dialect::Binary] {
        read_from_copies("memcached", dialect);
    }
    read_from_copies("redis-server", Dialect::Resp);
}

#[test]
fn reads_begin_anywhere_and_find_what_one_copy_lacks() {
    let peers = [(); 3].map(|()| Peer::fresh("memcached"));
    let mut cache = replicated(&peers, Dialect::Text, 2, true);
    cache.set(b"k", &Item::new(b"v")).unwrap();
    for _ in 0..100 {
        assert_eq!(cache.get(b"k").unwrap().unwrap().bytes, b"v");
    }
    let gets = |peer| {
        let mut cache = self::cache(std::slice::from_ref(peer), settings_for(Dialect::Text));
        let (_, pairs) = cache.stats().remove(0).unwrap();
        let (_, value) = pairs.into_iter().find(|(name, _)| name == "get_hits").unwrap();
        value.parse::<u32>().unwrap()
    };
    let hits: Vec<u32> = peers.iter().map(gets).collect();
    assert!(hits.iter().all(|hits| *hits > 5) && hits.iter().sum::<u32>() == 100, "{hits:?}");
    // Only the first server has the value. Misses on the other servers do not hide it.
    let home = cache.ring().locate(b"k").unwrap();
    for peer in [&peers[(home + 1) % 3], &peers[(home + 2) % 3]] {
        let mut one = self::cache(std::slice::from_ref(peer), settings_for(Dialect::Text));
        assert_eq!(one.delete(b"k"), Ok(true));
    }
    for _ in 0..30 {
        assert_eq!(cache.get(b"k").unwrap().unwrap().bytes, b"v");
        assert_eq!(cache.get(b"none"), Ok(None));
    }
}
