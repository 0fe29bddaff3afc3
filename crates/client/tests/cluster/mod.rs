//! A Redis Cluster whose slots the client learns from redirections, even while a slot is migrating.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use nagi_client::cache::{Cache, Item, Reason, Settings, Stored};
use nagi_client::ring::{Configuration, Library, Server, slot_of};
use nagi_client::wire::Dialect;
use nagi_client::{Address, Client, Reply};

use crate::peer::Peer;
use crate::ports;

/// A node and a connection to it.
fn node(name: &str) -> (Peer, Client) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    // A node also listens on a second port, 10,000 above the first.
    let port = (0..100).map(|_| ports::free_port()).find(|port| *port < 55_000).unwrap();
    let folder = folder.to_str().unwrap();
    let peer = Peer::start("redis-server", port, &["--cluster-enabled", "yes", "--dir", folder]);
    let client = Client::connect(&Address::tcp("127.0.0.1", port).unwrap()).unwrap();
    (peer, client)
}

fn run(client: &mut Client, command: &str) -> Reply {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    client.command(&words).unwrap()
}

fn ok(client: &mut Client, command: &str) {
    assert_eq!(run(client, command), Reply::Simple("OK".to_owned()), "{command}");
}

fn text(reply: Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
        reply => format!("{reply:?}"),
    }
}

fn until_ok(client: &mut Client) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !text(run(client, "CLUSTER INFO")).contains("cluster_state:ok") {
        assert!(Instant::now() < deadline, "the cluster does not come up");
        thread::yield_now();
    }
}

#[test]
fn redirections_update_the_slots() {
    let ((one, mut first), (other, mut second)) = (node("cluster-1"), node("cluster-2"));
    ok(&mut first, "CLUSTER ADDSLOTSRANGE 0 8191");
    ok(&mut second, "CLUSTER ADDSLOTSRANGE 8192 16383");
    ok(&mut first, &format!("CLUSTER MEET 127.0.0.1 {}", other.port));
    until_ok(&mut first);
    until_ok(&mut second);

    let ring =
        Configuration::from(Library::RedisCluster).ring(vec![Server::new("127.0.0.1", one.port)]);
    let timeout = Duration::from_secs(10);
    let settings = Settings { dialect: Dialect::Resp, timeout, ..Settings::default() };
    let mut cache = Cache::new(ring, settings);
    let keys: Vec<String> = (0..200).map(|number| format!("key-{number}")).collect();
    for key in &keys {
        assert_eq!(cache.set(key.as_bytes(), &Item::new(key.as_bytes())), Ok(Stored::Yes));
        let server = cache.ring().server_of(key.as_bytes()).unwrap();
        let expected = if slot_of(key.as_bytes()) < 8192 { one.port } else { other.port };
        assert_eq!(server.port, expected, "{key}");
    }
    let names: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    for (key, value) in names.iter().zip(cache.get_many(&names)) {
        assert_eq!(value.unwrap().unwrap().bytes, *key);
    }
    assert_eq!(cache.ring().servers().len(), 2);

    // While a slot is migrating, keys that the first node no longer has are requested from the
    // second.
    let slot = slot_of(b"key-1");
    let ((from, to), ports) = match slot < 8192 {
        true => ((&mut first, &mut second), (one.port, other.port)),
        false => ((&mut second, &mut first), (other.port, one.port)),
    };
    let from_id = text(run(from, "CLUSTER MYID"));
    let to_id = text(run(to, "CLUSTER MYID"));
    ok(to, &format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}"));
    ok(from, &format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}"));
    ok(from, &format!("MIGRATE 127.0.0.1 {} key-1 0 5000", ports.1));
    assert_eq!(cache.get(b"key-1").unwrap().unwrap().bytes, b"key-1");
    assert_eq!(cache.increment(b"{key-1}:count", 2), Ok(Some(2)), "counted once");
    assert_eq!(cache.increment(b"{key-1}:count", 2), Ok(Some(4)), "counted once");
    assert_eq!(cache.ring().server_of(b"key-1").unwrap().port, ports.0, "not before it is there");
    ok(to, &format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
    ok(from, &format!("CLUSTER SETSLOT {slot} NODE {to_id}"));
    assert_eq!(cache.get(b"key-1").unwrap().unwrap().bytes, b"key-1");
    assert_eq!(cache.ring().server_of(b"key-1").unwrap().port, ports.1);

    let mixed = cache.get_many_by_key(b"key-1", &[b"key-1", b"key-2"]);
    assert!(matches!(&mixed[0], Err(failure) if matches!(failure.reason, Reason::Refused(_))));
}
