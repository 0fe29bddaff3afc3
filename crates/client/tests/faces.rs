//! Blocking and tokio clients must send the same requests and return the same results.
#![expect(clippy::unwrap_used, reason = "a test stops where it finds something wrong")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nagi_client::cache::{Cache, Ejection, Item, OnFailure, Reason, Replicas, Settings};
use nagi_client::ring::{Configuration, Ring, Server};
use nagi_client::wire::Dialect;
use nagi_client::{Address, Client, Error, Reply, asynchronous};

mod peer;
mod ports;

use peer::Peer;

/// A call of a client.
#[derive(Clone, Copy, Debug)]
enum Call {
    Get(&'static str),
    GetByKey(&'static str, &'static str),
    GetMany(&'static [&'static str]),
    GetEach(&'static [&'static str]),
    GetManyByKey(&'static str, &'static [&'static str]),
    GetAndTouch(&'static str, u32),
    Set(&'static str, &'static str),
    SetByKey(&'static str, &'static str, &'static str),
    SetMany(&'static [(&'static str, &'static str)]),
    Add(&'static str, &'static str),
    Replace(&'static str, &'static str),
    Append(&'static str, &'static str),
    Prepend(&'static str, &'static str),
    /// A CAS with the CAS number from a get plus the given difference.
    Compare(&'static str, u64, &'static str),
    Delete(&'static str),
    Touch(&'static str, u32),
    Increment(&'static str, u64),
    Decrement(&'static str, u64),
    SetQuietly(&'static [(&'static str, &'static str)]),
    DeleteQuietly(&'static [&'static str]),
    SetManyByKey(&'static str, &'static [(&'static str, &'static str)]),
    SetQuietlyByKey(&'static str, &'static [(&'static str, &'static str)]),
    DeleteQuietlyByKey(&'static str, &'static [&'static str]),
    Flush,
}

use Call::*;

fn item(value: &str) -> Item<'_> {
    Item::new(value.as_bytes())
}

fn bytes<'a>(keys: &[&'a str]) -> Vec<&'a [u8]> {
    keys.iter().map(|key| key.as_bytes()).collect()
}

/// Performs a call on a client of either kind: an async client awaits where the other blocks. CAS
/// numbers differ between servers, so they are not shown.
macro_rules! call {
    ($cache:expr, $call:expr $(, $wait:tt)?) => {{
        let cache = $cache;
        let shown = match $call {
            Get(key) => format!("{:?}", cache.get(key.as_bytes())$(.$wait)?),
            GetByKey(master, key) => {
                format!("{:?}", cache.get_by_key(master.as_bytes(), key.as_bytes())$(.$wait)?)
            }
            GetMany(keys) => format!("{:?}", cache.get_many(&bytes(keys))$(.$wait)?),
            GetEach(keys) => format!("{:?}", cache.get_each(&bytes(keys))$(.$wait)?),
            GetManyByKey(master, keys) => {
                let (master, keys) = (master.as_bytes(), bytes(keys));
                format!("{:?}", cache.get_many_by_key(master, &keys)$(.$wait)?)
            }
            GetAndTouch(key, expiry) => {
                format!("{:?}", cache.get_and_touch(key.as_bytes(), expiry)$(.$wait)?)
            }
            Set(key, value) => format!("{:?}", cache.set(key.as_bytes(), &item(value))$(.$wait)?),
            SetByKey(master, key, value) => {
                let (master, key) = (master.as_bytes(), key.as_bytes());
                format!("{:?}", cache.set_by_key(master, key, &item(value))$(.$wait)?)
            }
            SetMany(items) => {
                let items = items.iter().map(|(key, value)| (key.as_bytes(), item(value)));
                format!("{:?}", cache.set_many(&Vec::from_iter(items))$(.$wait)?)
            }
            Add(key, value) => format!("{:?}", cache.add(key.as_bytes(), &item(value))$(.$wait)?),
            Replace(key, value) => {
                format!("{:?}", cache.replace(key.as_bytes(), &item(value))$(.$wait)?)
            }
            Append(key, value) => {
                format!("{:?}", cache.append(key.as_bytes(), &item(value))$(.$wait)?)
            }
            Prepend(key, value) => {
                format!("{:?}", cache.prepend(key.as_bytes(), &item(value))$(.$wait)?)
            }
            Compare(key, more, value) => {
                let found = cache.get(key.as_bytes())$(.$wait)?;
                let cas = found.ok().flatten().and_then(|value| value.cas).unwrap_or(7);
                let (key, item) = (key.as_bytes(), item(value));
                format!("{:?}", cache.compare_and_store(key, cas + more, &item)$(.$wait)?)
            }
            Delete(key) => format!("{:?}", cache.delete(key.as_bytes())$(.$wait)?),
            Touch(key, expiry) => format!("{:?}", cache.touch(key.as_bytes(), expiry)$(.$wait)?),
            Increment(key, by) => format!("{:?}", cache.increment(key.as_bytes(), by)$(.$wait)?),
            Decrement(key, by) => format!("{:?}", cache.decrement(key.as_bytes(), by)$(.$wait)?),
            SetQuietly(items) => {
                let items = items.iter().map(|(key, value)| (key.as_bytes(), item(value)));
                format!("{:?}", cache.set_many_quietly(&Vec::from_iter(items))$(.$wait)?)
            }
            DeleteQuietly(keys) => {
                format!("{:?}", cache.delete_many_quietly(&bytes(keys))$(.$wait)?)
            }
            SetManyByKey(master, items) => {
                let items = items.iter().map(|(key, value)| (key.as_bytes(), item(value)));
                let items = Vec::from_iter(items);
                format!("{:?}", cache.set_many_by_key(master.as_bytes(), &items)$(.$wait)?)
            }
            SetQuietlyByKey(master, items) => {
                let items = items.iter().map(|(key, value)| (key.as_bytes(), item(value)));
                let items = Vec::from_iter(items);
                format!("{:?}", cache.set_many_quietly_by_key(master.as_bytes(), &items)$(.$wait)?)
            }
            DeleteQuietlyByKey(master, keys) => {
                let (master, keys) = (master.as_bytes(), bytes(keys));
                format!("{:?}", cache.delete_many_quietly_by_key(master, &keys)$(.$wait)?)
            }
            Flush => format!("{:?}", cache.flush()$(.$wait)?),
        };
        without_numbers(&shown)
    }};
}

fn without_numbers(shown: &str) -> String {
    let mut parts = shown.split("cas: Some(");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| text + "cas: Some(_" + part.trim_start_matches(char::is_numeric))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn blocking(ring: Ring, settings: Settings, calls: &[Call]) -> Vec<String> {
    let mut cache = Cache::new(ring, settings);
    calls.iter().map(|&one| call!(&mut cache, one)).collect()
}

fn waiting(ring: Ring, settings: Settings, calls: &[Call]) -> Vec<String> {
    runtime().block_on(async {
        let mut cache = asynchronous::Cache::new(ring, settings);
        let mut results = Vec::new();
        for &one in calls {
            results.push(call!(&mut cache, one, await));
        }
        results
    })
}

type Face = fn(Ring, Settings, &[Call]) -> Vec<String>;
const FACES: [Face; 2] = [blocking, waiting];

/// The reaction of a server to a request.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Reply(&'static str),
    /// Sends the answer in two pieces.
    Pieces(&'static str, &'static str),
    Close,
    Silence,
}

use Turn::{Close, Pieces, Silence};

/// A request, byte for byte, and the server's reaction.
type Exchange = (&'static str, Turn);

struct Conversation {
    dialect: Dialect,
    call: Call,
    /// The exchanges of each connection, in order.
    connections: &'static [&'static [Exchange]],
    result: &'static str,
}

/// Acts as the server.
fn play(listener: &TcpListener, connections: &[&[Exchange]]) {
    for exchanges in connections {
        let (mut peer, _) = listener.accept().unwrap();
        for (request, turn) in *exchanges {
            let mut received = vec![0; request.len()];
            peer.read_exact(&mut received).unwrap();
            assert_eq!(String::from_utf8_lossy(&received), *request);
            match turn {
                Turn::Reply(reply) => peer.write_all(reply.as_bytes()).unwrap(),
                Pieces(one, other) => {
                    peer.write_all(one.as_bytes()).unwrap();
                    thread::yield_now();
                    peer.write_all(other.as_bytes()).unwrap();
                }
                Close => break,
                // Stays silent until the client closes the connection.
                Silence => {
                    assert_eq!(peer.read(&mut [0; 1]).unwrap_or(0), 0);
                    break;
                }
            }
        }
    }
}

use Turn::Reply as Says;

const CONVERSATIONS: &[Conversation] = &[
    Conversation {
        dialect: Dialect::Text,
        call: Get("k"),
        connections: &[&[("gets k\r\n", Pieces("VALUE k 3 2", " 9\r\nhi\r\nEND\r\n"))]],
        result: "Ok(Some(Value { bytes: [104, 105], flags: 3, cas: Some(_) }))",
    },
    Conversation {
        dialect: Dialect::Meta,
        call: Get("k"),
        connections: &[&[("mg k f c v k q\r\nmn\r\n", Says("MN\r\n"))]],
        result: "Ok(None)",
    },
    Conversation {
        dialect: Dialect::Resp,
        call: GetEach(&["a", "b"]),
        connections: &[&[(
            "*2\r\n$3\r\nGET\r\n$1\r\na\r\n*2\r\n$3\r\nGET\r\n$1\r\nb\r\n",
            Says("$-1\r\n-ERR no\r\n"),
        )]],
        result: "[Ok(None), Err(Failure { server: \"SERVER\", reason: Refused(\"ERR no\") })]",
    },
    // A read on a broken connection is repeated once; then it fails.
    Conversation {
        dialect: Dialect::Text,
        call: Get("k"),
        connections: &[&[("gets k\r\n", Close)], &[("gets k\r\n", Says("END\r\n"))]],
        result: "Ok(None)",
    },
    Conversation {
        dialect: Dialect::Text,
        call: Get("k"),
        connections: &[&[("gets k\r\n", Close)], &[("gets k\r\n", Close)]],
        result: "Err(Failure { server: \"SERVER\", reason: Broken(\"closed by the server\") })",
    },
    // A write is not repeated.
    Conversation {
        dialect: Dialect::Text,
        call: Set("k", "v"),
        connections: &[&[("set k 0 0 1\r\nv\r\n", Close)]],
        result: "Err(Failure { server: \"SERVER\", reason: Unknown(\"closed by the server\") })",
    },
    Conversation {
        dialect: Dialect::Text,
        call: Get("k"),
        connections: &[&[("gets k\r\n", Silence)]],
        result: "Err(Failure { server: \"SERVER\", reason: TimedOut })",
    },
    Conversation {
        dialect: Dialect::Meta,
        call: Increment("n", 5),
        connections: &[&[("ma n v MI D5\r\n", Silence)]],
        result: "Err(Failure { server: \"SERVER\", reason: Unknown(\"no answer in time\") })",
    },
    Conversation {
        dialect: Dialect::Text,
        call: Get("k"),
        connections: &[&[("gets k\r\n", Says("HTTP/1.1 400\r\n"))]],
        result: "Err(Failure { server: \"SERVER\", reason: Protocol(\"HTTP/1.1 400\\\\r\\\\n\") })",
    },
    Conversation {
        dialect: Dialect::Text,
        call: Get("k"),
        connections: &[&[(
            "gets k\r\n",
            Says("VALUE k 0 9999\r\n0123456789012345678901234567890123"),
        )]],
        result: "Err(Failure { server: \"SERVER\", reason: TooLong { limit_bytes: 40 } })",
    },
    Conversation {
        dialect: Dialect::Text,
        call: Get("a b"),
        connections: &[],
        result: "Err(Failure { server: \"SERVER\", reason: \
                 Request(\"the key \\\"a b\\\" has a blank or control character\") })",
    },
    Conversation {
        dialect: Dialect::Text,
        call: GetManyByKey("m", &["a", "b"]),
        connections: &[&[("gets a b\r\n", Says("VALUE b 0 1 2\r\nx\r\nEND\r\n"))]],
        result: "[Ok(None), Ok(Some(Value { bytes: [120], flags: 0, cas: Some(_) }))]",
    },
];

#[test]
fn both_send_and_receive_the_same() {
    for Conversation { dialect, call, connections, result } in CONVERSATIONS {
        for (number, face) in FACES.into_iter().enumerate() {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let settings = Settings {
                dialect: *dialect,
                // Only conversations in which the server is silent wait for a time-out.
                timeout: match connections {
                    [[(_, Silence)]] => Duration::from_millis(100),
                    _ => Duration::from_secs(20),
                },
                reply_limit_bytes: 40,
                ..Settings::default()
            };
            let ring = ring(&[address.port()]);
            let server = thread::spawn(move || play(&listener, connections));
            let results = face(ring, settings, &[*call]);
            let shown = results[0].replace(&address.to_string(), "SERVER");
            assert_eq!(shown, *result, "face {number}, {dialect:?} {call:?}");
            server.join().unwrap();
        }
    }
}

fn ring(ports: &[u16]) -> Ring {
    let servers = ports.iter().map(|port| Server::new("127.0.0.1", *port)).collect();
    "php-ketama".parse::<Configuration>().unwrap().ring(servers)
}

/// Calls of every kind, some refused.
const CALLS: &[Call] = &[
    Flush,
    Get("a"),
    Set("a", "1"),
    SetByKey("m", "of-m", "x"),
    GetByKey("m", "of-m"),
    SetMany(&[("b", "2"), ("c", "3"), ("bad key", "x"), ("d", "4")]),
    GetMany(&["a", "b", "none", "c", "d", "a"]),
    GetEach(&["d", "none", "b"]),
    GetManyByKey("m", &["of-m", "none"]),
    GetAndTouch("a", 1000),
    GetAndTouch("none", 1000),
    Add("a", "x"),
    Add("e", "5"),
    Replace("none", "x"),
    Replace("e", "6"),
    Append("e", "7"),
    Prepend("e", "8"),
    Get("e"),
    Compare("e", 0, "9"),
    Compare("e", 1, "x"),
    Compare("none", 0, "x"),
    Touch("e", 0),
    Touch("none", 0),
    Increment("a", 41),
    Decrement("a", 2),
    Increment("none", 1),
    Increment("of-m", 1),
    Delete("a"),
    Delete("a"),
    Get("a"),
    SetQuietly(&[("f", "1"), ("bad key", "2"), ("g", "3")]),
    DeleteQuietly(&["e", "none"]),
    GetMany(&["e", "f", "g"]),
    SetManyByKey("m", &[("h", "1"), ("bad key", "2"), ("i", "3")]),
    SetQuietlyByKey("m", &[("j", "4"), ("bad key", "5")]),
    DeleteQuietlyByKey("m", &["h", "none"]),
    GetManyByKey("m", &["h", "i", "j"]),
    Flush,
    Get("e"),
];

#[test]
fn both_get_the_same_from_real_servers() {
    let memcached = [Dialect::Text, Dialect::Meta, Dialect::Binary];
    let on_failures = [
        OnFailure::Fail,
        OnFailure::Eject(Ejection::default()),
        OnFailure::Replicate(Replicas { count: 1, random_reads: false }),
    ];
    for (name, dialects) in [("memcached", &memcached[..]), ("redis-server", &[Dialect::Resp])] {
        let peers = [(); 3].map(|()| Peer::fresh(name));
        let ports = peers.each_ref().map(|peer| peer.port);
        for (&dialect, on_failure) in
            dialects.iter().flat_map(|dialect| on_failures.map(|on_failure| (dialect, on_failure)))
        {
            let timeout = Duration::from_secs(20);
            let connections = 2;
            let settings =
                Settings { dialect, timeout, connections, on_failure, ..Settings::default() };
            let [one, other] = FACES.map(|face| face(ring(&ports), settings.clone(), CALLS));
            for ((call, one), other) in CALLS.iter().zip(&one).zip(&other) {
                assert_eq!(one, other, "{dialect:?} {call:?}");
            }
            assert!(one[6].matches("Ok(Some").count() == 5, "{dialect:?} {}", one[6]);
        }
    }
}

#[test]
fn a_cancelled_request_leaves_no_answer_behind() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = std::sync::mpsc::channel();
    let server = thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        first.read_exact(&mut [0; b"gets a\r\n".len()]).unwrap();
        tell.send(()).unwrap();
        // The next request arrives over another connection; only then the old answer is sent.
        let (mut second, _) = listener.accept().unwrap();
        first.write_all(b"VALUE b 0 3\r\nold\r\nEND\r\n").ok();
        second.read_exact(&mut [0; b"gets b\r\n".len()]).unwrap();
        second.write_all(b"VALUE b 0 3\r\nnew\r\nEND\r\n").unwrap();
    });
    runtime().block_on(async {
        let settings = Settings { timeout: Duration::from_secs(20), ..Settings::default() };
        let mut cache = asynchronous::Cache::new(ring(&[port]), settings);
        let asked = async {
            while told.try_recv().is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            result = cache.get(b"a") => panic!("{result:?}"),
            () = asked => {}
        }
        assert_eq!(cache.get(b"b").await.unwrap().unwrap().bytes, b"new");
    });
    server.join().unwrap();
}

#[test]
fn tasks_share_a_pool() {
    let peers = [(); 2].map(|()| Peer::fresh("memcached"));
    let ports = peers.each_ref().map(|peer| peer.port);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let settings = Settings { timeout: Duration::from_secs(20), ..Settings::default() };
        let pool = Arc::new(asynchronous::Pool::new(ring(&ports), settings, 8));
        let tasks = (0..50_u32).map(|number| {
            let pool = Arc::clone(&pool);
            tokio::spawn(async move {
                let key = format!("key-{number}");
                for round in 0..20_u32 {
                    let value = format!("{number}-{round}");
                    let mut cache = pool.client();
                    cache.set(key.as_bytes(), &item(&value)).await.unwrap();
                    let found = cache.get(key.as_bytes()).await.unwrap().unwrap();
                    assert_eq!(found.bytes, value.as_bytes());
                }
            })
        });
        for task in Vec::from_iter(tasks) {
            task.await.unwrap();
        }
        assert_eq!(pool.idle_clients(), 8);
    });
}

#[test]
fn commands_of_redis_are_answered_alike() {
    let peer = Peer::fresh("redis-server");
    let address = Address::tcp("127.0.0.1", peer.port).unwrap();
    let commands: &[&[&[u8]]] = &[
        &[b"HSET", b"h", b"f", b"1", b"g", b"\r\n"],
        &[b"HGETALL", b"h"],
        &[b"LPUSH", b"h", b"x"],
        &[b"EVAL", b"return {1, {'a', false}}", b"0"],
        &[b"NONSENSE"],
        &[b"DEL", b"h"],
    ];
    let mut client = Client::connect(&address).unwrap();
    let one: Vec<Reply> = commands.iter().map(|it| client.command(it).unwrap()).collect();
    let other = runtime().block_on(async {
        let mut client = asynchronous::Client::connect(&address).await.unwrap();
        client.set_timeout(Some(Duration::from_secs(20)));
        let mut replies = Vec::new();
        for command in commands {
            replies.push(client.command(command).await.unwrap());
        }
        replies
    });
    assert_eq!(one, other);
    assert_eq!(one[5], Reply::Integer(1));
}

#[test]
fn a_command_without_a_reply_in_time_ends_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = Address::from(listener.local_addr().unwrap());
    let limit = Some(Duration::from_millis(50));
    let mut client = Client::connect(&address).unwrap();
    client.set_timeout(limit).unwrap();
    assert!(matches!(client.command(&[b"PING"]), Err(Error::Io(_))));
    assert!(matches!(client.command(&[b"PING"]), Err(Error::Closed)));
    runtime().block_on(async {
        let mut client = asynchronous::Client::connect(&address).await.unwrap();
        client.set_timeout(limit);
        assert!(matches!(client.command(&[b"PING"]).await, Err(Error::Io(_))));
        assert!(matches!(client.command(&[b"PING"]).await, Err(Error::Closed)));
        client.set_timeout(None);
        client.set_reply_limit(100);
    });
}

#[test]
fn a_refused_connection_fails_alike() {
    let port = ports::free_port();
    let settings = Settings { retry_after: Duration::from_secs(60), ..Settings::default() };
    let calls = [Get("a"), Set("a", "1"), GetMany(&["a", "b"])];
    let [one, other] = FACES.map(|face| face(ring(&[port]), settings.clone(), &calls));
    assert_eq!(one, other);
    assert!(one[0].contains("Connect(") && one[1].contains("Dead"), "{one:?}");
    let nowhere = Address::Unix("/nonexistent/nagi".into());
    let error = runtime().block_on(asynchronous::Client::connect(&nowhere)).unwrap_err();
    assert_eq!(error.to_string(), Client::connect(&nowhere).unwrap_err().to_string());
}

/// The same code handles failed servers for both clients; this test runs it on tokio.
#[test]
fn tasks_go_on_without_a_server_that_is_killed() {
    let mut peers = [(); 3].map(|()| Peer::fresh("memcached"));
    let ports = peers.each_ref().map(|peer| peer.port);
    let ejection = Ejection { failures: 1, duration: Duration::ZERO, ..Ejection::default() };
    let on_failure = OnFailure::Eject(ejection);
    let timeout = Duration::from_secs(20);
    let settings = Settings { timeout, on_failure, ..Settings::default() };
    let runtime = runtime();
    let mut cache = asynchronous::Cache::new(ring(&ports), settings);
    let key = (0..).map(|number| format!("key-{number}"));
    let key = key.into_iter().find(|key| cache.ring().locate(key.as_bytes()) == Some(1)).unwrap();
    runtime.block_on(cache.set(key.as_bytes(), &item("old"))).unwrap();
    peers[1].kill();
    let lost = runtime.block_on(cache.get(key.as_bytes())).unwrap_err();
    assert!(matches!(lost.reason, Reason::Connect(_)), "{lost}");
    runtime.block_on(cache.set(key.as_bytes(), &item("new"))).unwrap();
    assert_eq!(cache.ejected().len(), 1);
    assert_eq!(runtime.block_on(cache.get(key.as_bytes())).unwrap().unwrap().bytes, b"new");
    peers[1] = Peer::start("memcached", ports[1], &[]);
    assert_eq!(runtime.block_on(cache.get(key.as_bytes())), Ok(None), "restarted, and empty");
    assert!(cache.ejected().is_empty());
}
